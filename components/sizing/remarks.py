"""What deserves a word about a model on an instance type: the guardrails turn some kinds into errors or warnings."""

from __future__ import annotations

from components.sizing.calibration import calibration_of
from components.sizing.fit import DOES_NOT_FIT, FITS
from components.sizing.plan import ModelPlan, OnInstance, Remark

_FEW_GPUS = 2
_PCIE_PARAMETERS = 30e9  # below this a decode step is short on PCIe too


def remarks(plan: ModelPlan, one: OnInstance) -> list[Remark]:
    """Every remark about a plan on one instance type."""
    found: list[Remark] = []
    where = f"on {one.instance_type}"
    reason = one.fit.reasons[0]
    if one.fit.verdict != FITS:
        kind = "does-not-fit" if one.fit.verdict == DOES_NOT_FIT else "borderline"
        found.append(
            Remark(kind, "engine", f"{plan.name} {where}: {one.fit.verdict}: {reason}{_first_fix(one)}")
        )
    if one.speed is None:
        return found
    found += _replica_remarks(plan, one, where)
    if one.speed.regime != "steady":
        found.append(Remark("overload", "objective", f"{plan.name} {where}: {one.speed.notes[0]}"))
    calibration = calibration_of(one.deployment)
    if plan.load is not None and (calibration is None or calibration.confidence == "low"):
        found.append(Remark("low-confidence", "objective", f"{plan.name} {where}: {one.speed.notes[-1]}"))
    if (
        one.deployment.link == "pcie"
        and plan.tp > _FEW_GPUS
        and plan.model.active_parameters >= _PCIE_PARAMETERS
    ):
        found.append(Remark("tensor-parallel-over-pcie", "tensorParallel", _pcie_text(plan, one, where)))
    if one.cold_start and one.cold_start.fastest_loader != plan.loader:
        found.append(Remark("slower-loader", "loader", f"{plan.name} {where}: {one.cold_start.notes[0]}"))
    return found


def _first_fix(one: OnInstance) -> str:
    return f"; nearest fix: {one.fixes[0].change}" if one.fixes else ""


def _replica_remarks(plan: ModelPlan, one: OnInstance, where: str) -> list[Remark]:
    wanted = one.replicas
    if wanted is None or plan.load is None:
        return []
    if wanted.infeasible:
        return [Remark("infeasible-objective", "objective", f"{plan.name} {where}: {wanted.infeasible}")]
    if wanted.likely is None:
        return [
            Remark(
                "objective-missed",
                "objective",
                f"{plan.name} {where}: no number of replicas is expected to meet it",
            )
        ]
    if wanted.likely > plan.max_replicas:
        text = (
            f"{plan.name} {where}: {plan.load.arrivals:g} requests/s need {wanted.likely} replicas ({wanted.binding} binds), "
            f"maxReplicas is {plan.max_replicas}"
        )
        return [Remark("too-few-replicas", "scaling.maxReplicas", text)]
    if wanted.cautious is None or wanted.cautious > plan.max_replicas:
        return [
            Remark(
                "objective-not-sure",
                "objective",
                f"{plan.name} {where}: met by the estimate, not by its upper bound",
            )
        ]
    return []


def _pcie_text(plan: ModelPlan, one: OnInstance, where: str) -> str:
    return (
        f"{plan.name} {where}: {plan.tp} GPUs exchange partial results over PCIe {2 * plan.model.layers} times a token; "
        f"expect {one.speed.itl_ms.likely if one.speed else 0:.0f} ms between tokens"
    )
