"""The bars of the ground truth, and that the shipped parameters are the ones that the fit finds."""

from __future__ import annotations

import pytest

from components.sizing.calibration import CALIBRATIONS, FIRST_TOKEN, STEP
from tests.ground_truth.checks import all_bars, answers
from tests.ground_truth.fitting import (
    FITTED_GPUS,
    fit_first_token,
    fit_points,
    fit_step,
    predicted_step,
    quantile,
    usable,
)
from tests.ground_truth.measured import points, runs


@pytest.fixture(scope="module")
def bars() -> dict[str, object]:
    """Every bar by its name."""
    return {bar.name: bar for bar in all_bars()}


def test_every_bar_is_met(bars: dict[str, object]) -> None:
    """No measured row breaks a bar; the names of those that do would stand here."""
    assert {name: bar.broken for name, bar in bars.items() if not bar.met} == {}


def test_every_row_of_the_ground_truth_has_an_answer() -> None:
    """A1 to A28, some of them with more than one load."""
    names = {answer.point.id.rstrip("bcqs") for answer in answers(list(points().values()))}
    assert names == {f"A{number}" for number in range(1, 29)}


def test_the_shipped_parameters_are_the_fitted_ones() -> None:
    """Fitting again gives what `calibration.py` holds, to four digits."""
    chosen = fit_points()
    assert fit_step(chosen).vector() == pytest.approx(STEP.vector(), rel=2e-3)
    assert fit_first_token(chosen).vector() == pytest.approx(FIRST_TOKEN.vector(), rel=2e-3)


def test_calibration_sets_count_their_points() -> None:
    """195 on Hopper, 11 on A100, as the sets say."""
    counts = {gpu: sum(point.system == gpu for point in fit_points()) for gpu in FITTED_GPUS}
    said = {one.id.split("-")[0]: one.points for one in CALIBRATIONS}
    assert (counts["H100"] + counts["H200"], counts["A100-40"] + counts["A100-80"]) == (
        said["hopper"],
        said["ampere"],
    )


@pytest.mark.parametrize(
    ("ids", "promised"),
    [(("A6", "A25", "A25c"), "gddr-pcie-2026-11")],
)
def test_sets_without_a_fit_of_their_own_keep_their_promise(ids: tuple[str, ...], promised: str) -> None:
    """Consumer cards over PCIe, predicted with the parameters of data-centre cards."""
    errors = [abs(predicted_step(points()[name]) * 1000 / points()[name].itl_ms - 1) for name in ids]
    assert quantile(errors, 0.9) <= next(one.itl_error_p90 for one in CALIBRATIONS if one.id == promised)


def test_mixtures_keep_their_promise() -> None:
    """gpt-oss-120b, predicted with the parameters of dense models."""
    mixtures = [run for run in runs() if run.deployment.model.experts and (run.ttft_ms or 0) <= 5000]
    errors = [
        abs(predicted_step(run) * 1000 / run.itl_ms - 1) for run in mixtures if run.load.concurrency <= 256
    ]
    assert (len(errors), quantile(errors, 0.9) <= 0.35) == (105, True)


def test_the_fit_uses_no_queued_and_no_mixture_run() -> None:
    """What `usable` leaves out is left out by rule, not by name."""
    assert all(usable(point) for point in fit_points())
    assert not any(point.deployment.model.experts for point in fit_points())
