"""What the reports say, beyond the golden files: verdicts, money, and a base to compare with."""

import io
import json
from pathlib import Path

from rich.console import Console

from preview.as_json import as_json
from preview.build import Preview, build
from preview.markdown import as_markdown
from preview.text import print_report
from tests.conftest import ROOT


def _changed(tmp_path: Path, stack: str, old: str, new: str) -> Preview:
    text = (ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / f"Pulumi.{stack}.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    (tmp_path / "__main__.py").write_text(
        (ROOT / "__main__.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    return build(stack, tmp_path)


def test_json_has_sizes(preview_of) -> None:
    """Verdict, interval of KV tokens, and the month from floor to ceiling are in the JSON, which is valid."""
    sizing = json.loads(json.dumps(as_json(preview_of("prod")), allow_nan=False))["sizing"]

    assert [verdict["fits"] for verdict in sizing["verdicts"]] == ["fits", "fits", "fits"]
    assert sizing["verdicts"][0]["instances"][0]["kv_tokens"] == [102272, 131520]
    assert sizing["usdPerMonth"][0] < sizing["usdPerMonth"][1]
    assert (sizing["priceRegion"], sizing["priceDate"]) == ("us-east-1", "2026-07-06")
    on_g5 = sizing["verdicts"][0]["instances"][0]
    assert on_g5["spot_interruption_class"] == 4
    assert on_g5["load"] == {"input_tokens": 1024, "output_tokens": 256, "concurrency": None, "rate": 0.125}


def test_a_model_that_cannot_fit_stops_the_stack(tmp_path: Path) -> None:
    """The guides' flagship, 70B in BF16 on g5.12xlarge: refused with the model's line, and nothing is registered."""
    preview = _changed(
        tmp_path, "prod", "pool: p4d\n        tensorParallel: 8", "pool: g5-12xl\n        tensorParallel: 4"
    )
    errors = [finding for finding in preview.findings if finding.severity == "error"]
    text = (tmp_path / "Pulumi.prod.yaml").read_text(encoding="utf-8").splitlines()

    assert preview.registrations == ()
    assert [(finding.rule, finding.object, finding.file) for finding in errors] == [
        ("model-too-big", "model llama-70b", "Pulumi.prod.yaml")
    ]
    assert errors[0].line is not None
    assert text.index("      - name: llama-70b") < errors[0].line <= text.index("      - name: llama-8b")


def test_an_impossible_objective_stops_the_stack(tmp_path: Path) -> None:
    """One millisecond between tokens is below the physical floor of four A10G."""
    preview = _changed(tmp_path, "prod", "itlP99: 0.15", "itlP99: 0.001")

    assert {finding.rule for finding in preview.findings if finding.severity == "error"} == {
        "objective-infeasible"
    }


def test_the_budget_stops_the_stack(tmp_path: Path) -> None:
    """A ceiling above the budget is an error at the budget's line."""
    preview = _changed(tmp_path, "prod", "usdPerMonth: 80000", "usdPerMonth: 50000")
    (error,) = [finding for finding in preview.findings if finding.severity == "error"]

    assert error.rule == "budget-exceeded"
    assert (
        error.message == "at its ceiling the stack costs $74,584 a month for instances, the budget is $50,000"
    )
    assert error.line == next(
        n
        for n, row in enumerate((ROOT / "Pulumi.prod.yaml").read_text(encoding="utf-8").splitlines(), 1)
        if "usdPerMonth" in row
    )


def test_a_cpu_pool_too_small_stops_the_stack(tmp_path: Path) -> None:
    """Three heads and two ingress pods of 2 CPUs each do not fit into 8."""
    preview = _changed(
        tmp_path, "prod", 'limits: {cpu: "96", memory: 384Gi}', 'limits: {cpu: "8", memory: 32Gi}'
    )
    (error,) = [finding for finding in preview.findings if finding.severity == "error"]

    assert (error.rule, error.message) == (
        "cpu-pool-too-small",
        "heads and ingress pods ask for 10 CPUs, the pool's limit is 8",
    )
    assert error.line is not None


def test_markdown_says_what_a_change_adds(tmp_path: Path, preview_of) -> None:
    """Two p4d more at the ceiling: their price, and the one NodePool that changed."""
    base = as_json(preview_of("prod"))
    wider = (
        (ROOT / "Pulumi.prod.yaml")
        .read_text(encoding="utf-8")
        .replace("limits: {gpus: 16}", "limits: {gpus: 32}", 1)
    )
    wider = wider.replace(
        "scaling: {minReplicas: 1, maxReplicas: 2}", "scaling: {minReplicas: 1, maxReplicas: 4}", 1
    )
    (tmp_path / "Pulumi.prod.yaml").write_text(
        wider.replace("usdPerMonth: 80000", "usdPerMonth: 200000"), encoding="utf-8"
    )
    (tmp_path / "__main__.py").write_text(
        (ROOT / "__main__.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    report = as_markdown(build("prod", tmp_path), base)

    assert "Instances a month: floor +0 USD to $21,005; ceiling +32,058 USD to $106,642." in report
    assert "- ~ karpenter.sh/v1 NodePool `pools-node-pool-p4d`" in report
    assert "### Against the base: 0 added" in report


def _printed(preview: Preview) -> list[str]:
    target = io.StringIO()
    print_report(preview, Console(file=target, highlight=False, markup=False, soft_wrap=True))
    return target.getvalue().splitlines()


def test_the_report_ends_with_its_verdict(tmp_path: Path, preview_of) -> None:
    """Hundreds of resources scroll by; what they come to is the last line."""
    refused = _changed(tmp_path, "prod", "usdPerMonth: 80000", "usdPerMonth: 50000")

    assert _printed(preview_of("prod"))[-1] == "Stack prod can be deployed. Findings: 5 advice."
    assert _printed(refused)[-1].startswith("Stack prod stops `pulumi up`. Findings: 1 error, ")


def test_the_report_says_what_speed_and_price_are_for(preview_of) -> None:
    """The load of a speed, how often spot nodes go, and where prices are from."""
    text = "\n".join(_printed(preview_of("prod")))

    assert "speed of a replica with requests of 1,024 tokens in, 256 out, 0.12 a second: " in text
    assert "speed of a replica with requests of 1,024 tokens in, 256 out, 1 at a time: " in text
    assert "spot interruptions of g5.12xlarge: above 20 % a month in the worst region" in text
    assert "spot interruptions of p4d.24xlarge" not in text  # its pool buys no spot
    assert "prices of us-east-1 on 2026-07-06 where the stack names none" in text
    assert "e+0" not in text


def test_a_config_file_is_looked_for_beside_the_stack(tmp_path: Path) -> None:
    """Not in the working directory; one that is not there, or holds no model, stops the stack with its line."""
    shape = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
             "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072}  # fmt: skip
    change = ("prod", "architecture: llama-3.1-8b", "architecture: own/config.json")

    def errors() -> list[str]:
        found = _changed(tmp_path, *change).findings
        return [f"{finding.rule}: {finding.message}" for finding in found if finding.severity == "error"]

    assert errors() == ["architecture-unreadable: own/config.json: No such file or directory"]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text(json.dumps(shape | {"hidden_size": "many"}))
    assert errors() == ["architecture-unreadable: own/config.json: a size in it is not a number above zero"]
    (tmp_path / "own" / "config.json").write_text(json.dumps(shape))
    assert errors() == []
