"""What was measured and fitted: one set of parameters, and how wrong it is on each class of GPU.

The parameters are those of a roofline with overheads, fitted at once to all runs of vLLM in
`tests/ground_truth/runs.csv` (`python -m tests.ground_truth --fit` prints them again). They are not efficiencies of
anything by themselves; only their sum was measured. Errors are those of leaving one kind of GPU out of the fit and
predicting it, which is what a reader who has another machine than the fit's should expect.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from components.sizing.deployment import Deployment


@dataclass(frozen=True, slots=True)
class StepParameters:
    """Parameters of a decode step. Times in seconds; `weights`, `kv`, `compute` are parts of the peak, 0 to 1.

    `v0_step` and `v0_sequence` are what vLLM before 0.8 adds per step and per running request.
    """

    layer: float
    sequence: float
    weights: float
    kv: float
    compute: float
    v0_step: float
    v0_sequence: float

    def vector(self) -> tuple[float, ...]:
        """The values in order, for a fit."""
        return astuple(self)


@dataclass(frozen=True, slots=True)
class FirstTokenParameters:
    """Parameters of the time to first token.

    Seconds for the server and for a layer, part of the peak, and what one more request at the same time adds, as a
    part of its own prefill.
    """

    server: float
    layer: float
    compute: float
    neighbour: float

    def vector(self) -> tuple[float, ...]:
        """The values in order, for a fit."""
        return astuple(self)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A class of GPUs with what was measured on it: runs, engine versions, error of the inter-token latency (p90)."""

    id: str
    engine: str
    gpus: tuple[str, ...]
    links: tuple[str | None, ...]
    measured_on: str
    points: int
    itl_error_p90: float
    confidence: str


STEP = StepParameters(
    layer=5.696e-05,
    sequence=4.082e-05,
    weights=0.9174,
    kv=0.8402,
    compute=0.7258,
    v0_step=1.848e-03,
    v0_sequence=2.166e-04,
)
FIRST_TOKEN = FirstTokenParameters(server=9.856e-03, layer=3.462e-04, compute=0.5080, neighbour=0.06363)

HIGH_ERRORS = 4
"""An upper bound lies this many p90 errors above the estimate: every run of the ground truth is below it."""

FIRST_TOKEN_HIGH = 2.5
"""Upper bound of the unloaded time to first token over its estimate; the worst run measured 1.86 times its estimate."""

CALIBRATIONS = (
    Calibration(
        id="hopper-sxm-2026-11",
        engine="vLLM 0.7.3 to 0.21, most of it 0.11 and 0.12",
        gpus=("H100", "H200"),
        links=("nvlink",),
        measured_on="H100 and H200",
        points=195,
        itl_error_p90=0.11,
        confidence="good",
    ),
    # 0.18 was measured, on eleven points; with so few, and none newer than 0.7.3, the promise of 0.30 stands instead.
    Calibration(
        id="ampere-sxm-2026-11",
        engine="vLLM 0.6.6 and 0.7.3",
        gpus=("A100-40", "A100-80"),
        links=("nvlink",),
        measured_on="A100 40 GB and 80 GB",
        points=11,
        itl_error_p90=0.30,
        confidence="medium",
    ),
    # 0.10 was measured, on three points of GeForce cards that the fit did not see; nothing of vLLM on g5 or g6.
    Calibration(
        id="gddr-pcie-2026-11",
        engine="vLLM 0.5.3 and 0.7.3",
        gpus=("A10G", "L4", "L40S", "RTX-4090", "RTX-A6000", "RTX-3090Ti"),
        links=("pcie",),
        measured_on="8 RTX 4090 and 4 RTX 3090 Ti",
        points=3,
        itl_error_p90=0.35,
        confidence="low",
    ),
    # 0.25 was measured, with the parameters of dense models; a mixture was not fitted, so the promise is wider.
    Calibration(
        id="moe-hopper-sxm-2026-11",
        engine="vLLM 0.11 to 0.18",
        gpus=("H100", "H200"),
        links=("nvlink",),
        measured_on="gpt-oss-120b on H100 and H200",
        points=105,
        itl_error_p90=0.35,
        confidence="low",
    ),
)


def calibration_of(deployment: Deployment) -> Calibration | None:
    """The set that covers this deployment, or None: then there are bounds only.

    Covered is vLLM with CUDA graphs, without pipeline stages, on a GPU and link of a set. A mixture of experts has
    sets of its own.
    """
    if deployment.engine.name != "vllm" or not deployment.engine.uses_cuda_graphs or deployment.pp > 1:
        return None
    link = deployment.link if deployment.tp > 1 else None
    mixture = deployment.model.experts is not None
    for calibration in CALIBRATIONS:
        covered = deployment.gpu.name in calibration.gpus and (link is None or link in calibration.links)
        if covered and calibration.id.startswith("moe-") == mixture:
            return calibration
    return None
