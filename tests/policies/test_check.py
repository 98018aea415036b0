"""`llmp check` as people use it: files, folders, standard input, formats, exit codes, and input that is no good."""

from __future__ import annotations

import json
import textwrap

import pytest
import typer
from typer.testing import CliRunner

from llmp.check import check
from tests.conftest import ROOT

APP = typer.Typer(pretty_exceptions_enable=False)
APP.command()(check)

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: engine, namespace: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:latest
"""
RAY = """\
# a comment
apiVersion: ray.io/v1
kind: RayService
metadata: {name: chat}
spec:
  serveConfigV2: |
    applications:
    - name: llm
      import_path: app:entry
      deployments:
      - name: chat
        max_concurrent_queries: 100
  rayClusterConfig: {rayVersion: "2.60.0"}
"""


def run(*arguments: str, stdin: str | bytes | None = None):
    return CliRunner().invoke(APP, [*arguments], input=stdin)


def findings(result) -> list[dict]:
    return json.loads(result.stdout)


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def writer(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return writer


def test_names_file_and_line(write):
    """A finding says file, line, object, path, rule, message and remedy."""
    result = run(write("pod.yaml", POD), "--format", "json")

    assert result.exit_code == 1
    assert findings(result) == [
        {
            "rule": "image-floating",
            "severity": "error",
            "object": "Pod llm/engine",
            "path": "spec.containers[0].image",
            "file": "pod.yaml",
            "line": 7,
            "message": "container vllm: tag latest of vllm/vllm-openai names no version, date or content",
            "remedy": "use a version tag or a digest (@sha256:…)",
        }
    ]


def test_finds_the_line_inside_a_serve_document(write):
    """The line of a field in serveConfigV2 is the line of the file, not of the document."""
    result = run(write("ray.yaml", RAY), "--format", "json")

    assert [(item["rule"], item["line"]) for item in findings(result) if item["severity"] == "error"] == [
        ("serve-field-unknown", 12)
    ]


def test_reads_standard_input():
    """What helm template or kustomize writes is checked from a pipe."""
    result = run("-", "--format", "json", stdin=f"---\n# Source: chart/templates/pod.yaml\n{POD}---\n{POD}")

    assert [(item["file"], item["line"]) for item in findings(result)] == [("-", 9), ("-", 17)]


def test_reads_lists_json_and_anchors(write):
    """Lists are opened, JSON has lines too, and anchors are followed."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "x:latest"}]},
    }
    write("list.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}, indent="\t"))
    anchored = POD.replace(
        "metadata: {name: engine, namespace: llm}", "metadata: &m {name: engine}\nx: *m"
    ).replace("\n", "\r\n")
    write("anchors.yaml", b"\xef\xbb\xbf" + anchored.encode())
    result = run("list.json", "anchors.yaml", "--format", "json")

    assert [(item["file"], item["object"], item["line"]) for item in findings(result)] == [
        ("anchors.yaml", "Pod default/engine", 8),
        ("list.json", "Pod default/a", 15),
    ]


def test_unreadable_files_do_not_stop_the_others(write):
    """Exit 2 names file and line of what could not be read; the rest is checked."""
    write("a.yaml", POD)
    write("b.yaml", "apiVersion: v1\nkind: Pod\n\tspec: {}\n")
    write("c.yaml", b"\x00\x01\x02")
    result = run(".", "--format", "json")

    assert result.exit_code == 2
    assert [item["file"] for item in findings(result)] == ["a.yaml"]
    assert result.stderr.splitlines() == [
        "b.yaml:3: is not YAML: found a tab character that violates indentation",
        "c.yaml: is not text in UTF-8",
    ]


def test_says_which_path_is_not_there(tmp_path):
    """A path that does not exist is said, not passed over."""
    missing = str(tmp_path / "missing.yaml")
    result = run(missing)

    assert result.exit_code == 2
    assert result.stderr == f"{missing}: cannot be read: No such file or directory\n"


def test_templates_are_said_to_be_unrendered(write):
    """A Helm chart's templates are no YAML: it says what to do instead, and that is no failure."""
    write("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n")
    write("chart/values.yaml", "image: x:latest\n")
    write("chart/templates/pod.yaml", POD.replace("latest", "{{ .Values.tag }}"))
    result = run("chart")

    assert result.exit_code == 0
    assert (
        result.stderr
        == "chart/templates/pod.yaml: a Helm template, not checked; use helm template CHART | llmp check -\n"
    )


def test_repeated_keys_are_found(write):
    """The second of two equal keys silently wins; that is said."""
    result = run(
        write("pod.yaml", POD.replace("latest", "v0.29.0") + "    image: vllm/vllm-openai:v0.30.0\n"),
        "--format",
        "json",
    )

    assert [(item["rule"], item["line"], item["message"]) for item in findings(result)] == [
        (
            "duplicate-key",
            8,
            "key image is written twice (first on line 7); the last one counts, or the API server refuses it",
        )
    ]


def test_checks_stack_files_with_the_house_rules(write):
    """A stack file of this program: shape problems with their line, and rules about meaning."""
    good = (ROOT / "Pulumi.prod.yaml").read_text(encoding="utf-8")
    assert run(write("Pulumi.prod.yaml", good)).exit_code == 0

    result = run(
        write("Pulumi.prod.yaml", good.replace("tensorParallel: 4", "tensorParallel: 3", 1)),
        "--format",
        "json",
    )
    errors = [item for item in findings(result) if item["severity"] == "error"]
    assert result.exit_code == 1
    assert [(item["rule"], item["file"]) for item in errors] == [("heads-not-divisible", "Pulumi.prod.yaml")]
    assert good.splitlines()[errors[0]["line"] - 1].strip() == "tensorParallel: 4"

    broken = run(write("Pulumi.prod.yaml", good.replace("tensorParallel:", "tensorParalel:", 1)))
    assert broken.exit_code == 2
    assert broken.stderr.startswith("Pulumi.prod.yaml:")


def test_finds_secrets_in_any_stack_config(write):
    """A token in the plain config of some other Pulumi program is found."""
    text = "config:\n  app:hfToken: hf_abcdefghijklmnopqrstuvwxyz123456\n  app:other: {secure: v1:abc}\n"
    result = run(write("Pulumi.dev.yaml", text), "--format", "json")

    assert [(item["rule"], item["line"]) for item in findings(result)] == [("secret-in-plain-text", 2)]


def test_engine_and_environment_are_taken(write):
    """--engine gives the version that no image tells; --env dev softens hygiene."""
    alert = textwrap.dedent("""\
        apiVersion: monitoring.coreos.com/v1
        kind: PrometheusRule
        metadata: {name: a}
        spec: {groups: [{name: g, rules: [{alert: A, expr: 'vllm:gpu_cache_usage_perc > 0.9'}]}]}
        """)
    write("alert.yaml", alert)
    assert findings(run("alert.yaml", "--format", "json", "--engine", "vllm=0.10.2")) == []
    assert [
        item["rule"] for item in findings(run("alert.yaml", "--format", "json", "--engine", "vllm=0.29.0"))
    ] == ["metric-unknown"]
    assert run(write("pod.yaml", POD), "--env", "dev").exit_code == 0
    assert (
        run("pod.yaml", "--engine", "sglang=1").stderr
        == "--engine sglang=1: is not vllm=VERSION or ray=VERSION, as in vllm=0.29.0\n"
    )


def test_variants_are_checked_apart(write):
    """Two folders that define one object are two clusters: the pool of one is not that of the other."""
    pool = """\
        apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {name: gpu}
        spec:
          limits: {nvidia.com/gpu: 8}
          template:
            spec:
              nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
              taints: [{key: TAINT, effect: NoSchedule}]
              requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g5.2xlarge]}]
        """
    engine = (
        POD.replace("latest", "v0.29.0")
        + "    resources: {limits: {nvidia.com/gpu: 1}}\n  tolerations: [{key: TAINT, operator: Exists}]\n"
    )
    for folder, taint in (("dev", "nvidia.com/gpu"), ("prod", "team")):
        write(f"clusters/{folder}/pool.yaml", textwrap.dedent(pool).replace("TAINT", taint))
        write(f"clusters/{folder}/engine.yaml", engine.replace("TAINT", taint))
    result = run("clusters", "--format", "json")

    assert [item["rule"] for item in findings(result) if item["severity"] == "error"] == []


def test_text_counts_what_it_found(write):
    """The text form ends with the counts."""
    result = run(write("pod.yaml", POD))

    assert result.stdout.splitlines() == [
        "pod.yaml:7: error: Pod llm/engine: container vllm: tag latest of vllm/vllm-openai names no version, date or content [image-floating]",
        "    spec.containers[0].image: use a version tag or a digest (@sha256:…)",
        "1 error, 0 warnings, 0 pieces of advice on 1 object in 1 file",
    ]


def test_writes_sarif(write):
    """SARIF has the rule, its level and the place."""
    log = json.loads(run(write("pod.yaml", POD), "--format", "sarif").stdout)
    first = log["runs"][0]["results"][0]

    assert log["version"] == "2.1.0"
    assert (first["ruleId"], first["level"]) == ("image-floating", "error")
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "pod.yaml"},
        "region": {"startLine": 7},
    }
    assert log["runs"][0]["tool"]["driver"]["rules"][0]["shortDescription"]["text"].startswith(
        "An image names a version"
    )


def test_writes_github_commands(write):
    """GitHub's commands are escaped, so that a colon or a line break does not cut them."""
    result = run(write("pod.yaml", POD), "--format", "github")

    assert result.stdout == (
        "::error file=pod.yaml,line=7,title=image-floating::Pod llm/engine: container vllm: tag latest of "
        "vllm/vllm-openai names no version, date or content; use a version tag or a digest (@sha256:…)\n"
    )


@pytest.mark.parametrize("stack", ["prod", "dev", "multinode", "local"])
def test_manifests_of_our_stacks_are_clean(preview_of, tmp_path, stack):
    """What the program itself makes has no finding above advice for anybody who checks it."""
    from preview.files import write_objects  # noqa: PLC0415 - needs the Pulumi SDKs

    write_objects(preview_of(stack), tmp_path)
    result = run(str(tmp_path), "--format", "json")

    assert result.exit_code == 0
    assert [item for item in findings(result) if item["severity"] != "advice"] == []


def test_a_template_of_terraform_is_named(tmp_path):
    """What a tool fills in later is not called broken."""
    file = tmp_path / "pool.yaml"
    file.write_text("%{ for name in names ~}\n---\nkind: NodePool\n%{ endfor ~}\n")

    result = run(str(file))

    assert result.exit_code == 0
    assert "a template that is not rendered, not checked (line 1 is not YAML)" in result.stderr


def test_a_fault_of_a_rule_is_a_sentence(tmp_path, monkeypatch):
    """No verdict, exit code 2, no traceback."""

    def broken(*_arguments, **_options):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("guardrails.checking.check_paths", broken)
    file = tmp_path / "pod.yaml"
    file.write_text(POD)

    result = run(str(file))

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "a rule could not judge these files; please report it: ZeroDivisionError: division by zero\n"
    )


def test_objects_are_named_once(tmp_path):
    """A sentence that begins with the object is not led by it again."""
    file = tmp_path / "pool.yaml"
    file.write_text(
        textwrap.dedent(
            """\
            apiVersion: karpenter.sh/v1
            kind: NodePool
            metadata: {name: cpu}
            spec:
              template:
                spec:
                  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: cpu}
                  requirements: [{key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}]
            """
        )
    )

    result = run(str(file))

    assert f"{file}:4: error: NodePool cpu has no limits [pool-without-limits]" in result.stdout


@pytest.mark.parametrize(
    ("paths", "stdin"),
    [(["folder"], None), (["folder/empty.yaml"], None), (["-"], ""), (["-"], "# none\n---\n")],
)
def test_nothing_to_check_is_no_success(paths, stdin, write):
    """A path that matches nothing would otherwise pass in CI for ever."""
    write("folder/readme.md", "# Nothing for a cluster\n")
    write("folder/empty.yaml", "")

    result = run(*paths, stdin=stdin)

    assert result.exit_code == 2
    assert (
        result.stderr
        == f"{paths[0]}: nothing to check: no YAML or JSON with an object in it was found there\n"
    )
