"""`llmp simulate`: a day of a model on an instance type, with autoscaling, cold starts and spot loss. Simulated."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from components.facts.gpus import GPUS
from components.facts.instance_types import INSTANCE_TYPES
from components.sizing.autoscaling import Scaling
from components.sizing.calibration import calibration_of
from components.sizing.cold_start import cold_start
from components.sizing.deployment import Deployment, Engine, default_batch
from components.sizing.inputs import known_instance, model_named
from components.sizing.node_model import NodeModel
from components.sizing.price import nodes_for
from components.sizing.replica_clock import ReplicaModel
from components.sizing.scenario import (
    Outcome,
    knobs,
    node_price,
    outcome_json,
    replica_model,
    run,
    spot_life_hours,
)
from components.sizing.timeline import timeline_png, timeline_text
from components.sizing.traffic import Day, Requests, all_at_once, read_trace, synthetic
from components.sizing.weights import weight_bytes
from llmp.words import EXIT_BAD_INPUT, complain, put

_MOST_REQUESTS = 20_000_000  # about a minute and a few GB; a longer day says nothing new


def simulate(
    *,
    model: Annotated[str, typer.Option(help="A known model or the path of a config.json.")],
    instance: Annotated[str, typer.Option(help="EC2 instance type.")],
    tp: Annotated[int | None, typer.Option(min=1, help="Tensor parallelism; every GPU if unset.")] = None,
    quantization: Annotated[str, typer.Option(help="none, or one of vLLM's names.")] = "none",
    max_model_len: Annotated[int, typer.Option(min=1)] = 8192,
    max_num_seqs: Annotated[int | None, typer.Option(min=1, help="vLLM's default if unset.")] = None,
    engine: Annotated[str, typer.Option(help="NAME=VERSION.")] = "vllm=0.29.0",
    rate: Annotated[
        float, typer.Option(min=0.001, max=1000.0, help="Mean requests a second of a synthetic day.")
    ] = 6.0,
    peak_over_mean: Annotated[float, typer.Option(min=1.0, max=100.0)] = 2.4,
    burst: Annotated[
        float, typer.Option(min=0.0, max=10.0, help="Variation of the rate from minute to minute.")
    ] = 0.2,
    hours: Annotated[float, typer.Option(min=0.1, max=744.0, help="At most a month.")] = 24.0,
    input_tokens: Annotated[int, typer.Option("--input", min=1, help="Mean.")] = 1155,
    output_tokens: Annotated[int, typer.Option("--output", min=1, help="Mean.")] = 211,
    trace: Annotated[
        Path | None, typer.Option(help="Azure CSV or Mooncake JSONL instead of a synthetic day.")
    ] = None,
    scale: Annotated[float, typer.Option(min=0.001, help="Times the rate of the trace.")] = 1.0,
    crowd: Annotated[
        int | None, typer.Option(min=1, help="So many users in one second, and nobody else.")
    ] = None,
    min_replicas: Annotated[int, typer.Option(min=1)] = 1,
    max_replicas: Annotated[int, typer.Option(min=1)] = 8,
    target: Annotated[float, typer.Option(min=0.1, help="target_ongoing_requests.")] = 40,
    max_ongoing: Annotated[int, typer.Option(min=1, help="max_ongoing_requests of a replica.")] = 80,
    max_queued: Annotated[int, typer.Option(min=0)] = 200,
    policy: Annotated[
        str, typer.Option(help="queue (the platform's) or requests (Ray Serve's own).")
    ] = "queue",
    upscale_delay: Annotated[float, typer.Option(min=0.0)] = 0.0,
    downscale_delay: Annotated[float, typer.Option(min=0.0)] = 600.0,
    hold_largest: Annotated[
        bool,
        typer.Option(
            "--hold-largest/--follow-last",
            help="Down to the largest wish of the delay (the platform's policy), or to the last.",
        ),
    ] = True,
    headroom: Annotated[int, typer.Option(min=0, help="Warm nodes.")] = 0,
    loader: Annotated[
        str, typer.Option(help="streamer, mountpoint, mountpoint-4, nvmeCache or ebs.")
    ] = "mountpoint",
    spot_part: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Part of launches that get spot capacity.")
    ] = 0.0,
    spot_life: Annotated[
        float | None, typer.Option(min=0.1, help="Mean life of a spot node, hours; by class if unset.")
    ] = None,
    ttft: Annotated[float, typer.Option(min=0.001, help="Objective: seconds to the first token.")] = 1.0,
    seed: Annotated[int, typer.Option()] = 0,
    assume: Annotated[
        bool, typer.Option("--assume", help="Take upper bounds where nothing was measured.")
    ] = False,
    vary: Annotated[
        bool, typer.Option("--vary", help="Also run single changes: the knobs that matter.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    picture: Annotated[Path | None, typer.Option(help="Write the time line as a PNG.")] = None,
) -> None:
    """Run a simulated day. The same seed gives the same result.

    Exit code 0: done; 2: not understood, or nothing known to simulate with.
    """
    try:
        known = INSTANCE_TYPES[known_instance(instance)]
        gpu = GPUS[str(known.gpu)]
        tokens, sequences = default_batch(gpu)
        parallel = tp or known.gpus
        deployment = Deployment(
            model_named(model), gpu, tp=parallel, link=known.gpu_link if parallel > 1 else None,
            quantization=quantization, max_model_len=max_model_len, max_num_seqs=max_num_seqs or sequences,
            max_num_batched_tokens=tokens, engine=Engine.parse(engine),
        )  # fmt: skip
        if policy not in ("queue", "requests"):
            raise ValueError(f"policy {policy!r} is not queue or requests")  # noqa: TRY301
        if max_replicas < min_replicas:
            raise ValueError(f"--max-replicas {max_replicas} is below --min-replicas {min_replicas}")  # noqa: TRY301
        if hours * 3600 * rate > _MOST_REQUESTS and not (crowd or trace):
            raise ValueError(f"{rate:g} requests/s for {hours:g} h are more than {_MOST_REQUESTS:,} requests")  # noqa: TRY301
        scaling = Scaling(
            min_replicas, max_replicas, target, max_ongoing, max_queued,
            upscale_delay_s=upscale_delay, downscale_delay_s=downscale_delay, policy=policy,
            hold_largest=hold_largest,
        )  # fmt: skip
        start = cold_start(instance, weight_bytes(deployment)[1] / 1e9, loader=loader)
        life = spot_life or spot_life_hours(known.interruption_class)
        nodes = NodeModel(start, nodes_for(1, parallel, instance), spot_part, life, headroom)
        if crowd:
            requests = all_at_once(crowd, input_tokens, output_tokens, seed)
        elif trace:
            requests = read_trace(trace, scale)
        else:
            day = Day(
                rate,
                peak_over_mean,
                burst_cv=burst,
                mean_input=input_tokens,
                mean_output=output_tokens,
                hours=hours,
            )
            requests = synthetic(day, seed)
        plan = _Plan(
            deployment,
            instance,
            requests,
            scaling,
            nodes,
            seed,
            ttft,
            replica_model(deployment, requests, assume=assume),
        )
        _show(plan, vary=vary, as_json=as_json, picture=picture)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except UnicodeDecodeError:
        complain(f"--trace {trace}: is not text")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except (ValueError, KeyError, ImportError) as error:
        complain(str(error.args[0]) if error.args else str(error))
        raise typer.Exit(EXIT_BAD_INPUT) from None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is run, once or with a change."""

    deployment: Deployment
    instance: str
    requests: Requests
    scaling: Scaling
    nodes: NodeModel
    seed: int
    ttft: float
    model: ReplicaModel

    def run(self, scaling: Scaling, nodes: NodeModel) -> Outcome:
        """One run of this plan with a scaling and nodes of its own or changed ones."""
        savings = INSTANCE_TYPES[self.instance].spot_saving_percent
        price = node_price(self.instance, {}, savings[0] if savings else None)
        return run(self.requests, self.model, scaling, nodes, price, seed=self.seed, ttft_s=self.ttft)


def _show(plan: _Plan, *, vary: bool, as_json: bool, picture: Path | None) -> None:
    outcome = plan.run(plan.scaling, plan.nodes)
    changes = {name: plan.run(*one) for name, one in knobs(plan.scaling, plan.nodes).items()} if vary else {}
    title = f"{plan.deployment.model.name} on {plan.instance}"
    if picture:
        timeline_png(outcome, picture, title)
    calibration = calibration_of(plan.deployment)
    basis = f"{calibration.id} ({calibration.engine})" if calibration else "upper bounds (--assume)"
    if as_json:
        data: dict[str, Any] = {**outcome_json(outcome), "seed": plan.seed, "calibration": basis}
        data["knobs"] = {name: _short(one) for name, one in changes.items()}
        put(json.dumps(data, indent=1) + "\n", Path("-"))
        return
    lines = [
        f"SIMULATED: {title}, seed {plan.seed}, calibration {basis}",
        *_lines(outcome, plan.ttft),
        *timeline_text(outcome),
    ]
    for name, one in {"as planned": outcome, **changes}.items() if changes else ():
        short = _short(one)
        lines.append(
            f"  {name:<40} in time {short['attained']:.3%}  p99 {short['ttft_p99_s']:8.2f} s  ${short['usd']:,.0f}"
        )
    put("\n".join(lines) + "\n", Path("-"))


def _short(outcome: Outcome) -> dict[str, float]:
    return {"attained": outcome.attained, "ttft_p99_s": outcome.ttft["p99"], "usd": outcome.usd.low,
            "lost": float(sum(outcome.lost.values()))}  # fmt: skip


def _lines(outcome: Outcome, ttft: float) -> list[str]:
    """Five lines."""
    lost = ", ".join(f"{count} {why}" for why, count in outcome.lost.items()) or "none"
    why = ", ".join(
        f"{count} {reason}" for reason, count in sorted(outcome.late_why.items(), key=lambda one: -one[1])
    )
    hour, part = outcome.worst_hour
    saved = 1 - outcome.usd.low / outcome.usd_always_on if outcome.usd_always_on else 0.0
    kinds = ", ".join(f"{hours:.1f} {kind}" for kind, hours in outcome.node_hours.items())
    between = f"between tokens p50 {outcome.itl['p50'] * 1000:.0f}, p99 {outcome.itl['p99'] * 1000:.0f} ms"
    first = "first token p50 {p50:.2f}, p99 {p99:.2f}, p99.9 {p999:.2f} s".format(**outcome.ttft)
    always = f"always on at the peak ${outcome.usd_always_on:,.0f} ({saved:.0%} saved)"
    return [
        f"{outcome.requests:,} requests: {outcome.completed:,} answered, lost: {lost}, {outcome.retried} retried",
        f"first token within {ttft:g} s: {outcome.attained:.3%} (worst hour {hour}: {part:.1%}); late because: {why or 'the batch'}",
        f"{first}; {between}",
        f"{outcome.replica_hours:.1f} replica-hours, at most {outcome.peak_replicas} replicas; node-hours: {kinds}",
        f"${outcome.usd.low:,.0f} to ${outcome.usd.high:,.0f}; {always}",
    ]
