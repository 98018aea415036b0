"""Volumes, the node's cache and the download job."""

import json
from typing import Any

import pytest

from components.manifests import storage, weights
from tests.unit.manifests.stacks import COMMIT, from_hub, gpu_pool, model, platform, the_model

CACHED = {"loader": "nvmeCache"}


def _volume(
    pools: list[dict[str, Any]] | None = None, **changes: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    stack = platform(models=[model(**changes)], pools=pools)
    persistent, claim = storage.volume(stack.models[0], stack, "weights-bucket")
    return persistent, claim


def _filler(*models: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    stack = platform(models=list(models) or [model(**CACHED)])
    code, _, daemon_set = storage.cache_filler(stack.gpu_pools[0], stack.models, stack)
    return code, daemon_set


def _job(**changes: Any) -> dict[str, Any]:
    stack = platform(models=[model(**{"source": from_hub(), **changes})])
    return storage.download_job(stack.models[0], stack, "weights-bucket")[2]


def _env(pod: dict[str, Any]) -> dict[str, Any]:
    return {
        entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in pod["containers"][0]["env"]
    }


def test_a_volume_is_read_only_for_everybody() -> None:
    """Read by many pods at once, also as a user other than root, and written by none."""
    persistent, claim = _volume()

    assert persistent["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert {"read-only", "allow-other"} <= set(persistent["spec"]["mountOptions"])


def test_a_volume_says_region_and_speed() -> None:
    """Mountpoint can ask nobody: without these it takes 10 Gbit/s and another region."""
    options = _volume()[0]["spec"]["mountOptions"]

    assert "region us-west-2" in options
    assert "maximum-throughput-gbps 40" in options


def test_speed_is_a_whole_number() -> None:
    """Mountpoint takes no fraction; a g5.xlarge has 2.5 Gbit/s."""
    options = _volume([gpu_pool(instanceTypes=["g5.xlarge"])])[0]["spec"]["mountOptions"]

    assert "maximum-throughput-gbps 3" in options


def test_a_volume_shows_all_revisions_of_a_model() -> None:
    """Another revision is then a change of the Serve document and of no pod."""
    assert "prefix llama-8b/" in _volume()[0]["spec"]["mountOptions"]


def test_volume_and_claim_name_each_other() -> None:
    """Static: neither is bound to anything else, and no class makes a volume."""
    persistent, claim = _volume()

    assert persistent["spec"]["claimRef"] == {"namespace": "llm-serving", "name": "llama-weights"}
    assert claim["spec"]["volumeName"] == persistent["metadata"]["name"] == "llm-serving-llama-weights"
    assert persistent["spec"]["storageClassName"] == claim["spec"]["storageClassName"] == ""


def test_each_model_has_a_handle_of_its_own() -> None:
    """Two volumes of one handle break each other without a word."""
    stack = platform(models=[model(), model(name="other")])
    handles = {storage.volume(one, stack, "b")[0]["spec"]["csi"]["volumeHandle"] for one in stack.models}

    assert handles == {"llm-serving-llama-weights", "llm-serving-other-weights"}


def test_a_model_may_lie_in_another_bucket() -> None:
    """A bucket of the model's own wins over the stack's."""
    source = {"kind": "s3", "prefix": "llama-8b", "revision": "v1", "bucket": "other-bucket"}

    assert _volume()[0]["spec"]["csi"]["volumeAttributes"]["bucketName"] == "weights-bucket"
    assert _volume(source=source)[0]["spec"]["csi"]["volumeAttributes"]["bucketName"] == "other-bucket"


def test_mountpoint_caches_on_half_of_the_disks() -> None:
    """The disks also hold images: a cache without a limit would get pods evicted."""
    attributes = _volume()[0]["spec"]["csi"]["volumeAttributes"]

    assert attributes["cache"] == "emptyDir"
    assert attributes["cacheEmptyDirSizeLimit"] == "1769Gi"


@pytest.mark.parametrize(
    ("pools", "changes"), [([gpu_pool(localNvme=False)], {}), (None, CACHED), (None, {"pool": None})]
)
def test_mountpoint_caches_nowhere_else(pools: Any, changes: dict[str, Any]) -> None:
    """Not on an EBS volume, not beside the node's own cache, not on CPU nodes."""
    assert "cache" not in _volume(pools, **changes)[0]["spec"]["csi"]["volumeAttributes"]


@pytest.mark.parametrize(
    "changes", [{"loader": "streamer"}, {"loader": "local", "source": {"kind": "path", "path": "/opt/model"}}]
)
def test_no_volume_where_none_is_mounted(changes: dict[str, Any]) -> None:
    """Streamed weights and those in the image need none."""
    stack = platform(models=[model(**changes)])

    assert storage.volume(stack.models[0], stack, "b") == []


def test_the_engine_reads_a_revisions_folder() -> None:
    """The path depends on how the weights reach the pod."""
    assert weights.local_path(the_model()) == "/models/v1"
    assert weights.local_path(the_model(**CACHED)) == "/nvme/v1"
    assert weights.local_path(the_model(loader="streamer")) is None
    assert (
        weights.local_path(the_model(loader="local", source={"kind": "path", "path": "/opt/m"})) == "/opt/m"
    )


def test_a_hub_model_lies_below_its_repository() -> None:
    """Without a prefix of its own the folder is the repository's name."""
    source = {"kind": "huggingFace", "repository": "acme/llama", "revision": COMMIT}

    assert weights.weights_prefix(the_model(source=source)) == f"acme/llama/{COMMIT}/"


def test_a_path_has_no_folder_in_a_bucket() -> None:
    """Asking for it says what is wrong."""
    local = the_model(loader="local", source={"kind": "path", "path": "/opt/m"})

    with pytest.raises(ValueError, match="llama: a source of kind path has no folder in a bucket"):
        weights.weights_prefix(local)


def test_the_filler_runs_on_the_nodes_of_its_pool() -> None:
    """Selected and tolerated like the workers."""
    pod = _filler()[1]["spec"]["template"]["spec"]

    assert pod["nodeSelector"]["llm-platform.dev/pool"] == "g5"
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_the_filler_copies_only_the_models_cached_in_its_pool() -> None:
    """Each with its revision, and whether a download job marks it whole."""
    cached = model(name="cached", source=from_hub(), **CACHED)
    pod = _filler(model(), cached)[1]["spec"]["template"]["spec"]
    expected = [{"model": "cached", "revision": COMMIT, "marked": True}]

    assert expected == json.loads(_env(pod)["WANTED"])
    assert [volume["name"] for volume in pod["volumes"]] == ["code", "cache", "tmp", "model-cached"]


def test_no_filler_where_nothing_is_cached() -> None:
    """A pool of mounted models has none."""
    stack = platform()

    assert storage.cache_filler(stack.gpu_pools[0], stack.models, stack) == []


def test_all_nodes_are_filled_at_once() -> None:
    """A new revision is awaited on all nodes; one after the other would take hours."""
    assert _filler()[1]["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "100%"}


def test_the_filler_restarts_with_its_code() -> None:
    """The hash of the ConfigMap stands on the pod: a changed ConfigMap alone restarts nothing."""
    code, daemon_set = _filler()
    annotation = daemon_set["spec"]["template"]["metadata"]["annotations"]["llm-platform.dev/code-sha256"]

    assert "def fill(" in code["data"]["cache_filler.py"]
    assert len(annotation) == 16


def test_the_filler_has_root_and_nothing_more() -> None:
    """The node's folder belongs to root; no capability, no privilege, no writable image."""
    container = _filler()[1]["spec"]["template"]["spec"]["containers"][0]
    expected = {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip

    assert expected == container["securityContext"]


def test_a_job_is_named_after_what_it_brings() -> None:
    """A Job cannot be changed: another commit is another Job, the same commit the same."""
    names = {_job()["metadata"]["name"], _job()["metadata"]["name"]}
    other = _job(source=from_hub(repository="acme/other"))["metadata"]["name"]

    assert len(names) == 1
    assert other not in names
    assert other.startswith("llama-download-")


def test_a_job_name_fits_a_label() -> None:
    """Kubernetes puts the name on pods; the longest model name that KubeRay takes has 47 letters."""
    assert len(_job(name="m" * 47)["metadata"]["name"]) <= 63


def test_a_job_writes_to_the_folder_that_is_read() -> None:
    """Bucket, folder and commit are the volume's."""
    env = _env(_job()["spec"]["template"]["spec"])

    assert env["BUCKET"] == "weights-bucket"
    assert env["PREFIX"] == f"llama-8b/{COMMIT}/"
    assert (env["REPOSITORY"], env["REVISION"]) == ("acme/llama", COMMIT)


def test_only_gated_models_get_the_token() -> None:
    """From the stack's secret, never as a value."""
    expected = {"secretKeyRef": {"name": "hugging-face-token", "key": "token"}}

    assert _env(_job(source=from_hub(gated=True))["spec"]["template"]["spec"])["HF_TOKEN"] == expected
    assert "HF_TOKEN" not in _env(_job()["spec"]["template"]["spec"])


def test_refused_models_are_not_tried_again() -> None:
    """Exit code 2 ends the job; a node that goes away does not count as a failure."""
    rules = _job()["spec"]["podFailurePolicy"]["rules"]

    assert [rule["action"] for rule in rules] == ["FailJob", "Ignore"]
    assert rules[0]["onExitCodes"] == {"containerName": "download", "operator": "In", "values": [2]}


def test_the_job_runs_as_nobody_in_particular() -> None:
    """Not root, on the CPU pool, with the identity that may write to the bucket."""
    pod = _job()["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["nodeSelector"] == {"llm-platform.dev/workload": "serving-cpu"}
    assert pod["serviceAccountName"] == "model-download"


def test_the_models_network_policies_do_not_reach_the_job() -> None:
    """They select by the model's name and close the internet, where the job gets the weights from."""
    labels = _job()["spec"]["template"]["metadata"]["labels"]

    assert labels["app.kubernetes.io/instance"] == "llama-download"


def test_code_comes_only_with_leave() -> None:
    """Python files of a repository are taken where trustRemoteCode is on."""
    trusting = {"maxModelLen": 8192, "trustRemoteCode": True}

    assert _env(_job()["spec"]["template"]["spec"])["ALLOW_CODE"] == "0"
    assert _env(_job(engine=trusting)["spec"]["template"]["spec"])["ALLOW_CODE"] == "1"


def test_no_job_for_weights_that_are_there() -> None:
    """A model without downloadFrom is expected in the bucket."""
    stack = platform()

    assert storage.download_job(stack.models[0], stack, "b") == []


def test_the_filler_talks_to_nobody() -> None:
    """It copies from one mount to another; the policy has its pods' labels and opens nothing."""
    stack = platform(models=[model(**CACHED)])
    _, policy, daemon_set = storage.cache_filler(stack.gpu_pools[0], stack.models, stack)

    assert policy["spec"] == {
        "podSelector": {"matchLabels": daemon_set["spec"]["template"]["metadata"]["labels"]},
        "policyTypes": ["Ingress", "Egress"],
    }


def test_the_job_reaches_what_it_copies_between() -> None:
    """Names, HTTPS and the agent of Pod Identity; nobody reaches the job."""
    stack = platform(models=[model(source=from_hub())])
    _, policy, job = storage.download_job(stack.models[0], stack, "b")
    spec = policy["spec"]

    assert spec["podSelector"]["matchLabels"] == job["spec"]["template"]["metadata"]["labels"]
    assert (spec["policyTypes"], "ingress" in spec) == (["Ingress", "Egress"], False)
    assert [[port["port"] for port in rule["ports"]] for rule in spec["egress"]] == [[53, 53], [443], [80]]
    assert spec["egress"][2]["to"] == [{"ipBlock": {"cidr": "169.254.170.23/32"}}]
