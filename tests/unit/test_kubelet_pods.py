"""The parts of the kubelet that need no process: which pods it takes, names, probes, restarts and status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rehearsal.kubelet import container, images, names, probes, status, volumes
from rehearsal.kubelet.container import Container
from rehearsal.kubelet.environment import NotStartableError
from rehearsal.kubelet.probes import Counter, Probe
from rehearsal.kubelet.status import ContainerStatus

RAY = {"ray.io/node-type": "worker"}


def pod(image: str, labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    """A pod of one container."""
    metadata = {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "labels": labels or {},
        "annotations": annotations,
    }
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": image}]}}


@pytest.mark.parametrize(
    ("image", "labels", "expected"),
    [
        ("rayproject/ray-llm:2.60.0-py312-cu130", RAY, True),
        ("docker.io/rayproject/ray-llm@sha256:" + "0" * 64, RAY, True),
        ("111122223333.dkr.ecr.us-west-2.amazonaws.com/docker-hub/rayproject/ray-llm:2.60.0", RAY, True),
        ("localhost:5000/rayproject/ray-llm", RAY, True),
        ("public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.0.0", RAY, True),
        ("rayproject/ray-llm:2.60.0", {}, False),  # the download Job has no internet here
        ("notrayproject/ray-llm:1", RAY, False),
        ("rayproject/ray:2.60.0", RAY, False),
        ("registry.k8s.io/pause:3.10.1", {}, False),
    ],
)
def test_which_pods_run_as_processes(image: str, labels: dict[str, str], *, expected: bool) -> None:
    """Those of KubeRay with an image that has an environment, through whatever registry it comes."""
    assert images.runs_here(pod(image, labels)) is expected


def test_a_pod_may_be_simulated_on_purpose() -> None:
    """The annotation leaves a pod to the simulated nodes, so that one set of Ray pods at a time is enough."""
    assert not images.runs_here(pod("rayproject/ray-llm:1", RAY, **{images.SIMULATED_ANNOTATION: "true"}))


def slice_of(service: str, namespace: str, *rows: tuple[str, bool | None]) -> dict[str, Any]:
    """An EndpointSlice with addresses and whether each is ready."""
    return {
        "metadata": {"name": "s", "namespace": namespace, "labels": {names.SERVICE_LABEL: service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": {"ready": ready}} for ip, ready in rows],
    }


def test_the_hosts_file_leads_to_ready_endpoints() -> None:
    """Every form of a Service's name leads to its ready endpoints; the bare name only in its own namespace."""
    slices = [
        slice_of("head", "ns", ("10.244.1.2", True), ("10.244.1.3", False)),
        slice_of("other", "far", ("10.244.1.4", None)),
        slice_of("kubernetes", "default", ("10.0.0.9", True)),
    ]

    text = names.hosts(slices, namespace="ns", host="me", address="10.244.1.9", api_address="10.244.0.1")

    assert text.splitlines() == [
        "127.0.0.1\tlocalhost",
        "10.244.1.9\tme",
        "10.244.0.1\tkubernetes.default.svc.cluster.local kubernetes.default.svc kubernetes.default",
        "10.244.1.4\tother.far.svc.cluster.local other.far.svc other.far",
        "10.244.1.2\thead.ns.svc.cluster.local head.ns.svc head.ns head",
    ]


def test_a_host_name_fits_the_kernel() -> None:
    """64 characters are too many; the pod's own wish comes before its name."""
    long = pod("i")
    long["metadata"]["name"] = "a" * 62 + "-bcd"

    assert names.host_name(long) == "a" * 62
    long["spec"]["hostname"] = "mine"
    assert names.host_name(long) == "mine"


def test_a_probe_has_the_defaults_of_kubernetes() -> None:
    """What a probe leaves out is filled in, and a container without one has none."""
    made = Probe.of({"livenessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 30}}, "liveness")

    assert made == Probe("liveness", {"exec": {"command": ["true"]}}, 30.0, 10.0, 1.0, 1, 3)
    assert Probe.of({}, "readiness") is None


@pytest.mark.parametrize(
    ("answers", "verdicts"),
    [
        ([False, False, False], [None, None, False]),
        ([False, False, True, True, False], [None, None, None, True, None]),
        ([True, False, True, True], [None, None, None, True]),
    ],
)
def test_a_verdict_needs_equal_answers_in_a_row(answers: list[bool], verdicts: list[bool | None]) -> None:
    """Two good ones and three bad ones here; one of the other kind begins the count anew."""
    counter = Counter(Probe("readiness", {}, 0, 1, 1, successes=2, failures=3))

    assert [counter.take(answer) for answer in answers] == verdicts


def test_exec_probes_and_their_time() -> None:
    """An exit code of 0 is good; another, or none in time, is bad and says why."""
    probe = Probe("liveness", {"exec": {"command": ["x"]}}, 0, 1, 2.0, 1, 1)
    asked = []

    def run(code: int | None) -> probes.Run:
        return lambda command, seconds: (asked.append((command, seconds)), (code, "out\n"))[1]

    assert probes.ask(probe, {}, "", run(0)) == (True, "exit code 0: out")
    assert probes.ask(probe, {}, "", run(1)) == (False, "exit code 1: out")
    assert probes.ask(probe, {}, "", run(None)) == (False, "command timed out after 2s")
    assert asked == [(["x"], 2.0)] * 3


def test_named_ports() -> None:
    """A probe's port may be the name of a port of the container; a wrong name is a bad answer, not an error."""
    ports = {"name": "c", "ports": [{"name": "serve", "containerPort": 8000}]}
    probe = Probe("readiness", {"httpGet": {"port": "nope"}}, 0, 1, 1, 1, 1)

    assert probes.port_number(ports, "serve") == 8000
    assert probes.ask(probe, ports, "127.0.0.1", lambda *_: (0, "")) == (
        False,
        "container c has no port named nope",
    )


def test_restarts_wait_longer_each_time() -> None:
    """The first restart comes at once, then 1, 2, 4, 8 and at most 10 s."""
    assert [container.back_off(ends) for ends in range(1, 8)] == [0.0, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def made(policy: str, *, init: bool = False, **spec: Any) -> Container:
    """A container of a pod with a restart policy."""
    of = pod("llm-platform/machine")
    of["spec"] |= {"restartPolicy": policy}
    row = {"name": "main", "image": "i", **spec}
    return Container(row, of, init, lambda *_: None, ContainerStatus("main", "i"))


@pytest.mark.parametrize(
    ("policy", "init", "spec", "code", "again"),
    [
        ("Always", False, {}, 0, True),
        ("OnFailure", False, {}, 0, False),
        ("OnFailure", False, {}, 3, True),
        ("Never", False, {}, 3, False),
        ("Always", True, {}, 0, False),
        ("Always", True, {}, 1, True),
        ("Never", True, {}, 1, False),
        ("Never", True, {"restartPolicy": "Always"}, 0, True),
    ],
)
def test_who_is_started_again(
    policy: str, spec: dict[str, str], code: int, *, init: bool, again: bool
) -> None:
    """By the pod's policy; an init container only until it has succeeded; a sidecar always."""
    one = made(policy, init=init, **spec)

    one.ended(code, policy)

    assert one.wants_start() is again


def test_a_second_failure_shows_as_crash_loop() -> None:
    """A container that fails again waits, and its last end is kept with its exit code."""
    one = made("Always")
    one.ended(7, "Always")
    one.due = 0.0
    one.ended(7, "Always")

    assert one.status.state["waiting"]["reason"] == "CrashLoopBackOff"
    assert one.status.last_state["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(
    ("policy", "codes", "expected"),
    [
        ("Always", [None, None], "Pending"),
        ("Never", [0, 0], "Succeeded"),
        ("Never", [0, 2], "Failed"),
        ("OnFailure", [0, 2], "Running"),
        ("Never", [0, None], "Running"),
    ],
)
def test_phases(policy: str, codes: list[int | None], expected: str) -> None:
    """The phase of a pod follows from the ends of its containers."""
    states = [ContainerStatus(str(i), "i") for i, _ in enumerate(codes)]
    for state, code in zip(states, codes, strict=True):
        if code is not None:
            state.state = status.terminated(code, status.now(), "")

    assert status.phase(states, policy, initialized=True, init_failed=False) == expected
    assert status.phase(states, policy, initialized=False, init_failed=False) == "Pending"
    assert status.phase(states, policy, initialized=False, init_failed=True) == "Failed"


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    """Only a change of the value sets the time anew."""
    old = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}

    kept, changed = (
        status.conditions({"Ready": (value, "", "")}, [old])[0]["lastTransitionTime"]
        for value in (True, False)
    )

    assert kept == "2020-01-01T00:00:00Z"
    assert changed > kept


def test_a_pod_is_ready_when_its_gates_are_open() -> None:
    """A readiness gate holds a pod whose containers are all ready, until its condition is True."""
    item = pod("i")
    item["spec"]["readinessGates"] = [{"conditionType": "lb/ready"}]
    good = ContainerStatus("main", "i", ready=True)

    def ready() -> str:
        rows = status.pod_conditions(item, [good], initialized=True, ended=False, known=[])
        return next(row["status"] for row in rows if row["type"] == "Ready")

    assert ready() == "False"
    item["status"] = {"conditions": [{"type": "lb/ready", "status": "True"}]}
    assert ready() == "True"


def test_containers_of_an_earlier_kubelet_are_reported_as_lost() -> None:
    """What it left as running ended with it: exit code 137, and one restart more when it starts again."""
    item = pod("llm-platform/machine")
    running = {"running": {"startedAt": "2020-01-01T00:00:00Z"}}
    item["status"] = {
        "containerStatuses": [
            {"name": "main", "containerID": "process://u/main/2", "restartCount": 2, "state": running}
        ]
    }

    (one,) = container.of_pod(item, lambda *_: None)
    one.restarting()

    assert one.wants_start()
    assert one.status.restarts == 3
    assert one.status.last_state["terminated"]["exitCode"] == 137
    item["spec"]["restartPolicy"] = "Never"
    (one,) = container.of_pod(item, lambda *_: None)
    assert not one.wants_start()
    assert one.status.exit_code == 137


@pytest.mark.parametrize(
    ("of_pod", "of_account", "expected"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_who_gets_a_token(*, of_pod: bool | None, of_account: bool | None, expected: bool) -> None:
    """The pod's word counts, then its service account's, then it gets one."""
    item = pod("i")
    item["spec"]["automountServiceAccountToken"] = of_pod

    assert volumes.wants_token(item, {"automountServiceAccountToken": of_account}) is expected


def test_chosen_keys_of_a_volume() -> None:
    """`items` choose keys and name their files; a missing key is a reason to wait unless it is optional."""
    content = {"a": b"1", "b": b"2"}

    assert volumes.chosen({}, content, "it") == content
    assert volumes.chosen({"items": [{"key": "a", "path": "x/y"}]}, content, "it") == {"x/y": b"1"}
    with pytest.raises(NotStartableError, match="it has no key c"):
        volumes.chosen({"items": [{"key": "c", "path": "c"}]}, content, "it")


def test_files_of_a_volume_follow_their_source(tmp_path: Path) -> None:
    """A changed key is written again, a file that is the same stays as it is, and what is gone goes."""
    volumes.write_files(tmp_path, {"a": b"1", "d/b": b"2", "c": b"3"})
    before = (tmp_path / "a").stat().st_mtime_ns

    volumes.write_files(tmp_path, {"a": b"1", "d/b": b"new"})

    assert (tmp_path / "a").stat().st_mtime_ns == before
    assert (tmp_path / "d/b").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a", "b"]
