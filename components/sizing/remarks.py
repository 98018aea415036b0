"""What deserves a word about a model on an instance type: the guardrails turn some kinds into errors or warnings."""

from __future__ import annotations

from components.sizing.calibration import calibration_of
from components.sizing.cold_start import cold_start
from components.sizing.fit import DOES_NOT_FIT, FITS
from components.sizing.plan import ModelPlan, OnInstance, Remark
from components.sizing.weights import weight_bytes

_FEW_GPUS = 2
_CLEARLY = 0.9  # of the time: less is within what nobody measured
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
    return found + _loader_remarks(plan, one, where)


def _loader_remarks(plan: ModelPlan, one: OnInstance, where: str) -> list[Remark]:
    """A loader that starts a new replica clearly sooner, its first copy to a new node counted."""
    now = one.cold_start
    if now is None or plan.loader in {now.fastest_loader, "ebs"}:
        return []
    gigabytes = weight_bytes(one.deployment)[1] / plan.pp / 1e9
    then = cold_start(
        one.instance_type,
        gigabytes,
        loader=now.fastest_loader,
        image=plan.image,
        volume_mib_per_s=plan.volume_mib_per_s,
    )
    if then.total.likely > _CLEARLY * now.total.likely:
        return []
    text = (
        f"{plan.name} {where}: by {now.fastest_loader} a new replica starts in about {then.total.likely:.0f} s "
        f"instead of {now.total.likely:.0f} s"
    )
    return [Remark("slower-loader", "loader", text)]


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
        f"expect {_between_tokens(one)} between tokens"
    )


def _between_tokens(one: OnInstance) -> str:
    """The estimate, or its upper bound called so."""
    if one.speed is None:
        return "an unknown time"
    time = one.speed.itl_ms
    return f"{time.estimate:.0f} ms" if time.estimate is not None else f"at most {time.high:.0f} ms"
