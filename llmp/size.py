"""`llmp size`: does a model fit, how fast, at what price, how long to start; on one system, or ranked over all."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from components.facts.gpus import GPUS
from components.facts.instance_types import INSTANCE_TYPES
from components.sizing.cross_check import second_opinion
from components.sizing.deployment import Deployment, Engine, Load, default_batch
from components.sizing.inputs import known_gpu, known_instance, model_named, parse_objective
from components.sizing.picture import png_chart, text_chart
from components.sizing.plan import ModelPlan, OnInstance
from components.sizing.ranking import Option, curve, rank
from components.sizing.replicas import Objective
from components.sizing.report import instance_json, option_json
from components.sizing.verdict import on_gpus, on_instance
from llmp.words import EXIT_BAD_INPUT, complain, put

_DRAWN = 6  # options in one picture; more cannot be told apart


def size(
    *,
    model: Annotated[str, typer.Option(help="A known model (llama-3.1-70b) or the path of a config.json.")],
    instance: Annotated[
        str | None, typer.Option(help="EC2 instance type. Without it and --gpu: rank all.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="GPU of a system that is no EC2 instance, for example A100-40.")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of that system.")] = 1,
    link: Annotated[str, typer.Option(help="How they are joined: nvlink, pcie or none.")] = "none",
    tp: Annotated[
        int | None, typer.Option(min=1, help="Tensor parallelism; every GPU of the system if unset.")
    ] = None,
    pp: Annotated[int, typer.Option(min=1, max=64, help="Pipeline stages, one node each.")] = 1,
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float16 or float32.")] = "auto",
    quantization: Annotated[
        str, typer.Option(help="none, or one of vLLM's names: awq, gptq, fp8, …")
    ] = "none",
    kv_dtype: Annotated[str, typer.Option(help="auto or fp8.")] = "auto",
    max_model_len: Annotated[int, typer.Option(min=1, help="Context length in tokens.")] = 8192,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="Requests at a time; vLLM's default if unset.")
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens a step; vLLM's default if unset.")
    ] = None,
    engine: Annotated[str, typer.Option(help="NAME=VERSION.")] = "vllm=0.29.0",
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help="Without CUDA graphs.")] = False,
    gpu_memory_utilization: Annotated[float, typer.Option(min=0.01, max=1.0)] = 0.92,
    concurrency: Annotated[
        float | None, typer.Option(min=1, max=1e6, help="Requests at a time, each followed by the next.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, max=1e6, help="Requests a second, at random, to all replicas.")
    ] = None,
    input_tokens: Annotated[int, typer.Option("--input", min=1, max=10_000_000)] = 1024,
    output_tokens: Annotated[int, typer.Option("--output", min=1, max=10_000_000)] = 256,
    prefix_hit_rate: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Part of the input found in the prefix cache.")
    ] = 0.0,
    objective: Annotated[str | None, typer.Option(help="99th percentiles: itl=40ms,ttft_p99=1s.")] = None,
    loader: Annotated[
        str, typer.Option(help="streamer, mountpoint, mountpoint-4, nvmeCache or ebs.")
    ] = "mountpoint",
    image: Annotated[str, typer.Option(help="How the image comes: plain, soci or snapshot.")] = "soci",
    spot: Annotated[bool, typer.Option("--spot", help="Count spot prices as possible.")] = False,
    cross_check: Annotated[
        bool,
        typer.Option("--cross-check", help="Ask aiconfigurator too, where it is installed and has data."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Plain data on standard output.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Ranked only: draw price against latency into this PNG.")
    ] = None,
) -> None:
    """Size one model.

    Exit code 0: answered, whatever the verdict; 2: not understood.
    """
    try:
        load = _load(concurrency, rate, input_tokens, output_tokens, prefix_hit_rate)
        plan = ModelPlan(
            name=model, model=model_named(model), instance_types=(), tp=tp or 1, pp=pp, dtype=dtype,
            quantization=quantization, kv_dtype=kv_dtype, max_model_len=max_model_len,
            max_num_seqs=max_num_seqs or 0, max_num_batched_tokens=max_num_batched_tokens or 0,
            gpu_memory_utilization=gpu_memory_utilization,
            engine=replace(Engine.parse(engine), eager=enforce_eager), loader=loader, image=image,
            max_replicas=10**6, spot=spot, load=load, objective=parse_objective(objective) if objective else None,
        )  # fmt: skip
        if (instance or gpu) and picture:
            raise ValueError("--picture draws the ranking; leave out --instance and --gpu")  # noqa: TRY301
        if instance or gpu:
            _show(
                _one(plan, instance=instance, gpu=gpu, gpus=gpus, link=link, tp=tp),
                as_json=as_json,
                cross_check=cross_check,
            )
        else:
            _show_ranking(plan, load, as_json=as_json, picture=picture)
    except (ValueError, KeyError, ImportError) as error:
        complain(str(error.args[0]) if error.args else str(error))
        raise typer.Exit(EXIT_BAD_INPUT) from None


def _load(concurrency: float | None, rate: float | None, given: int, wanted: int, hits: float) -> Load:
    if concurrency is not None and rate is not None:
        raise ValueError("give --concurrency or --rate, not both")
    if rate is None:
        concurrency = concurrency or 1.0
    return Load(given, wanted, concurrency=concurrency, rate=rate, prefix_hit_rate=hits)


def _one(
    plan: ModelPlan, *, instance: str | None, gpu: str | None, gpus: int, link: str, tp: int | None
) -> OnInstance:  # fmt: skip
    if instance and gpu:
        raise ValueError("give --instance or --gpu, not both")
    if instance:
        known = INSTANCE_TYPES[known_instance(instance)]
        return on_instance(_with_batch(replace(plan, tp=tp or known.gpus), str(known.gpu)), instance)
    if link not in ("nvlink", "pcie", "none"):
        raise ValueError(f"link {link!r} is not nvlink, pcie or none")
    name = known_gpu(gpu or "")
    plan = _with_batch(replace(plan, tp=tp or gpus), name)
    return on_gpus(plan, _deployment(plan, name, None if link == "none" else link))


def _with_batch(plan: ModelPlan, gpu: str) -> ModelPlan:
    """Batch limits that were not given become the engine's own defaults for the GPU."""
    tokens, sequences = default_batch(GPUS[gpu])
    return replace(
        plan,
        max_num_batched_tokens=plan.max_num_batched_tokens or tokens,
        max_num_seqs=plan.max_num_seqs or sequences,
    )


def _deployment(plan: ModelPlan, gpu: str, link: str | None) -> Deployment:
    return Deployment(
        model=plan.model, gpu=GPUS[gpu], tp=plan.tp, pp=plan.pp, link=link if plan.tp > 1 else None, dtype=plan.dtype,
        quantization=plan.quantization, kv_dtype=plan.kv_dtype, max_model_len=plan.max_model_len,
        max_num_seqs=plan.max_num_seqs, max_num_batched_tokens=plan.max_num_batched_tokens,
        gpu_memory_utilization=plan.gpu_memory_utilization, engine=plan.engine,
    )  # fmt: skip


def _show(one: OnInstance, *, as_json: bool, cross_check: bool) -> None:
    data = instance_json(one)
    if cross_check:
        other = second_opinion(one.deployment, one.load)
        data["cross_check"] = None if other is None else asdict(other)
    if as_json:
        put(json.dumps(data, indent=1) + "\n", Path("-"))
        return
    tp, model = one.deployment.tp, one.deployment.model.name
    head = f"{model} on {one.instance_type}, tensor parallel {tp}: {one.fit.verdict}"
    put("\n".join([head, *(f"  {line}" for line in _lines(data))]) + "\n", Path("-"))


def _lines(data: dict[str, Any]) -> list[str]:
    """The answer in words, one line per subject."""
    lines = [*data["reasons"]]
    for name, unit in (("ttft_ms", "ms to first token"), ("itl_ms", "ms between tokens"),
                       ("output_tokens_per_s", "output tokens/s")):  # fmt: skip
        if data[name]:
            low, likely, high = data[name]
            said = "no estimate" if likely is None else f"about {likely:,.0f}"
            lines.append(f"{unit}: {said} ({low:,.0f} to {'unbounded' if high is None else f'{high:,.0f}'})")
    if data["replicas"]:
        wanted = data["replicas"]
        lines.append(
            wanted["infeasible"]
            or f"replicas: {wanted['likely']} likely, {wanted['cautious']} to be sure ({wanted['binding']} binds)"
        )
    if data["cold_start_s"]:
        terms = ", ".join(f"{name} {seconds:.0f}" for name, seconds in data["cold_start_s"].items())
        lines.append(f"cold start in seconds: {terms}")
    if data["price_per_million_output_tokens"]:
        low, likely, high = data["price_per_million_output_tokens"]
        lines.append(f"$ per million output tokens when full: {likely} ({low} to {high})")
    calibration = data["calibration"]
    if calibration:
        lines.append(
            f"calibration {calibration['id']}: {calibration['points']} points of {calibration['engine']}, "
            f"error of the time between tokens {calibration['itl_error_p90']:.0%} (p90)"
        )
    lines += data["notes"]
    if "cross_check" in data:
        lines.append(_opinion(data["cross_check"]))
    return lines + [f"fix: {fix['change']} ({fix['usd_per_hour_more']:+.2f} $/h)" for fix in data["fixes"]]


def _opinion(other: dict[str, Any] | None) -> str:
    if other is None:
        return "no second opinion: aiconfigurator is not installed or has no data for this"
    return f"{other['source']} says {other['ttft_ms']:.0f} ms to first token and {other['itl_ms']:.1f} ms between tokens"


def _show_ranking(plan: ModelPlan, load: Load, *, as_json: bool, picture: Path | None) -> None:
    if load.rate is None:
        raise ValueError("ranking needs --rate, or give --instance or --gpu")
    # The largest GPU's defaults; each candidate takes the smaller of these and its own.
    asked = _with_batch(plan, "B200")
    options = rank(_deployment(asked, "B200", "nvlink"), load, plan.objective or Objective(), plan.prices)
    drawn = [(option, curve(option, load, plan.prices)) for option in options[:_DRAWN]]
    if picture:
        png_chart(drawn, picture, f"{plan.name}, {load.input_tokens} in, {load.output_tokens} out")
    if as_json:
        put(json.dumps({"options": [option_json(option) for option in options]}, indent=1) + "\n", Path("-"))
        return
    put("\n".join([*_ranking_lines(options), "", text_chart(drawn)]) + "\n", Path("-"))


def _ranking_lines(options: list[Option]) -> list[str]:
    """One line per option; plain text, so that a narrow terminal does not fold columns."""
    head = f"{'instance':<17}{'TP':>3}{'replicas':>9}{'(sure)':>8}{'nodes':>6}{'$/month':>10}{'ms/token':>9}  binds, confidence"
    lines = [head]
    for option in options:
        wanted = option.replicas
        lines.append(
            f"{option.instance_type:<17}{option.deployment.tp:>3}{wanted.likely!s:>9}{wanted.cautious or '-'!s:>8}"
            f"{option.nodes:>6}{option.usd_per_month:>10,.0f}{option.speed.itl_ms.likely:>9.0f}  "
            f"{wanted.binding}, {option.confidence}"
        )
    return lines
