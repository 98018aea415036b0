"""Each kind of mistake has its own words: the value, what is allowed, what to do. One whole sentence for each kind."""

import pytest

from components.settings.sentences import shown
from tests.unit.settings.stackfile import said

REGION, TP, NODES = "region: us-west-2", "tensorParallel: 1", 'nodes: "1"'
ENGINE = "maxModelLen: 8192"
MODEL_KEYS = (
    "name, source, architecture, servedName, pool, cpuWorker, tensorParallel, pipelineParallel, shm, engine, loader, "
    "serving, application, scaling, routing, timeouts, drain, objective, upgrade, maxSurgePercent, head, ingress, redis, "
    "rayToken, debug, identityRoleArn"
)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        # A key that is no setting: the one that was meant, the block it belongs to, or all there are.
        (TP, "tensorParralel: 1", "28: models.0.tensorParralel: is not a setting; did you mean tensorParallel?"),
        (TP, "tensor_parallel: 1", "28: models.0.tensor_parallel: is not a setting; did you mean tensorParallel?"),
        (TP, "maxNumSeqs: 1", "28: models.0.maxNumSeqs: is not a setting here; it belongs below engine"),
        (TP, "gpus: 1", "28: models.0.gpus: is not a setting here; it belongs below gpuPools.limits"),
        (TP, "accountId: 1", "28: models.0.accountId: is not a setting here; it belongs directly below llm-platform:platform"),
        (TP, "frobnicate: 1", f"28: models.0.frobnicate: is not a setting; allowed here: {MODEL_KEYS}"),
        # A value of another kind.
        (TP, 'tensorParallel: "1"', '28: models.0.tensorParallel: "1" is not a whole number; write 1 without quotes'),
        (TP, "tensorParallel: one", '28: models.0.tensorParallel: "one" is not a whole number'),
        (TP, "tensorParallel: 1.5", "28: models.0.tensorParallel: 1.5 is not a whole number"),
        (TP, "tensorParallel: true", "28: models.0.tensorParallel: true is not a whole number"),
        (TP, "tensorParallel: 1e400", '28: models.0.tensorParallel: "1e400" is not a whole number'),
        (TP, "debug: yes", '28: models.0.debug: "yes" is not true or false'),
        (TP, 'debug: "true"', '28: models.0.debug: "true" is not true or false; write true without quotes'),
        (ENGINE, 'gpuMemoryUtilization: "0.9"\n          maxModelLen: 1', '30: models.0.engine.gpuMemoryUtilization: "0.9" is not a number; write 0.9 without quotes'),
        (
            'kubernetesVersion: "1.36"',
            "kubernetesVersion: 1.30",
            '12: cluster.create.kubernetesVersion: 1.30 is not text; write it in quotes: "1.30"',
        ),
        (
            "[us-west-2a, us-west-2b]",
            "us-west-2a",
            '8: network.zones: "us-west-2a" is not a list; for one item write [us-west-2a]',
        ),
        ("[us-west-2a, us-west-2b]", "{a: b}", '8: network.zones: {"a": "b"} is not a list'),
        ("limits: {gpus: 4}", "limits: 4", "16: gpuPools.0.limits: 4 is not a mapping; it has the keys gpus, cpu, memory"),
        (REGION, "region: us-west-2\n    tags: [a]", '5: tags: ["a"] is not a mapping'),
        # A value of several kinds gets one sentence, not one for each kind.
        (
            ENGINE,
            "maxModelLen: 1\n          arguments: {seed: [1]}",
            "31: models.0.engine.arguments.seed: [1] is not text, a whole number, a number, true or false, a list or a mapping",
        ),
        # Nothing at all.
        (
            TP,
            "tensorParallel:",
            "28: models.0.tensorParallel: is empty; it needs a whole number; or remove the key for the default",
        ),
        (
            "limits: {gpus: 4}",
            "limits:",
            "16: gpuPools.0.limits: is empty; it needs a mapping; it has the keys gpus, cpu, memory",
        ),
        # Numbers outside their limits.
        (TP, "tensorParallel: 0", "28: models.0.tensorParallel: 0 is below 1, the least allowed"),
        (TP, "tensorParallel: 9999999999", "28: models.0.tensorParallel: 9999999999 is above 2147483647, the most allowed"),
        (TP, "objective: {ttftP99: 0}", "28: models.0.objective.ttftP99: 0 is too small; it must be above 0"),
        (ENGINE, "maxModelLen: 1\n          gpuMemoryUtilization: 0.99", "31: models.0.engine.gpuMemoryUtilization: 0.99 is above 0.98, the most allowed"),
        # Words outside their list.
        (TP, "loader: mount", '28: models.0.loader: "mount" is not one of mountpoint, nvmeCache, streamer, local'),
        (TP, "loader: nvme-cache", '28: models.0.loader: "nvme-cache" is not one of mountpoint, nvmeCache, streamer, local; did you mean nvmeCache?'),
        (TP, "loader: 1", "28: models.0.loader: 1 is not one of mountpoint, nvmeCache, streamer, local"),
        (REGION, "region: us-west-2\n    policy: {environment: staging}", '5: policy.environment: "staging" is not one of dev, prod'),
        # Which of several blocks.
        ("kind: s3", "kind: gcs", '23: models.0.source.kind: "gcs" is not one of s3, huggingFace, path'),
        ("kind: s3", "kidn: s3", "23: models.0.source.kidn: is not a setting; did you mean kind?"),
        (
            "          kind: s3\n",
            "",
            "22: models.0.source.kind: is missing; it says which of s3, huggingFace, path the block is",
        ),
        # Lists that are too short or too long.
        ("[us-west-2a, us-west-2b]", "[]", "8: network.zones: is an empty list; at least 2 must be given"),
        ("[us-west-2a, us-west-2b]", "[us-west-2a]", "8: network.zones: has 1 item; at least 2 must be given"),
        (
            "[us-west-2a, us-west-2b]",
            "[us-west-2a, us-west-2b, us-west-2c, us-west-2d, us-west-2e, us-west-2f, us-west-2g]",
            "8: network.zones: has 7 items; at most 6 are allowed",
        ),
        # Text that is too short or too long.
        (
            REGION,
            'region: us-west-2\n    policy: {waivers: [{rule: r, object: "*", reason: why, expires: "2027-01-31"}]}',
            '5: policy.waivers.0.reason: "why" is too short; at least 10 characters are needed',
        ),
        ("name: llm-test", f"name: {'x' * 64}", f'11: cluster.create.name: "{"x" * 56}… has 64 characters; at most 63 are allowed'),
        # Days.
        (
            REGION,
            'region: us-west-2\n    policy: {waivers: [{rule: r, object: "*", reason: because of x, expires: soon}]}',
            '5: policy.waivers.0.expires: "soon" is not a date in quotes like "2027-01-31"',
        ),
        (
            REGION,
            'region: us-west-2\n    policy: {waivers: [{rule: r, object: "*", reason: because of x, expires: "2027-02-30"}]}',
            '5: policy.waivers.0.expires: "2027-02-30" is not a date in quotes like "2027-01-31"',
        ),
        (
            REGION,
            'region: us-west-2\n    policy: {waivers: [{rule: r, object: "*", reason: because of x, expires: "2027-01-31T10:00:00"}]}',
            '5: policy.waivers.0.expires: "2027-01-31T10:00:00" is not a date in quotes like "2027-01-31"',
        ),
        (
            REGION,
            'region: us-west-2\n    policy: {waivers: [{rule: r, object: "*", reason: because of x, expires: 2027-01-31}]}',
            '5: policy.waivers.0.expires: 2027-01-31 without quotes arrives as a point in time with a zone; write it in quotes: "2027-01-31"',
        ),
        # A name in a free mapping.
        (
            REGION,
            "region: us-west-2\n    budget: {usdPerMonth: 1, prices: {g5: 1.0}}",
            '5: budget.prices.g5: is not allowed as a name: "g5" is not an EC2 instance type like g5.12xlarge',
        ),
        # Numbers that YAML reads in another base.
        (
            'accountId: "111122223333"',
            "accountId: 011122223333",
            '5: accountId: 011122223333 is read as the number 1229530843; write "011122223333" if it is text, or 1229530843',
        ),
    ],
)  # fmt: skip
def test_says_what_is_wrong_and_what_to_do(old: str, new: str, sentence: str) -> None:
    """The whole line that a person reads, for one change to a valid file."""
    assert said((old, new)) == [sentence]


@pytest.mark.parametrize(
    ("old", "sentence"),
    [
        ("    region: us-west-2\n", "3: region: is missing; add it: AWS region of everything in the stack"),
        (
            "        engine:\n          maxModelLen: 8192\n",
            "21: models.0.engine: is missing; add it: What vLLM is told, at least the context length maxModelLen",
        ),
        (
            "        limits: {gpus: 4}\n",
            "14: gpuPools.0.limits: is missing; add it: What the pool may grow to at most: the ceiling of the bill",
        ),
    ],
)
def test_a_missing_key_names_its_block_and_its_purpose(old: str, sentence: str) -> None:
    """The line is that of the block in which the key is missing."""
    assert said((old, "")) == [sentence]


def test_says_all_problems_at_once_in_the_order_of_the_file() -> None:
    """Repeated keys, unknown keys and wrong values are told together."""
    found = said(
        (REGION, "region: nowhere\n    region: us-west-2"),
        (TP, "tensorParallel: 0\n        loade: mountpoint"),
        ("kind: s3", "kind: gcs"),
        ("config:\n", "confing: {}\nconfig:\n"),
    )

    assert found == [
        "2: confing: is not a key that Pulumi reads; did you mean config?",
        '5: region: "nowhere" is not an AWS region like us-west-2',
        "6: region: is written twice (first on line 5); keep one",
        '25: models.0.source.kind: "gcs" is not one of s3, huggingFace, path',
        "30: models.0.tensorParallel: 0 is below 1, the least allowed",
        "31: models.0.loade: is not a setting; did you mean loader?",
    ]


def test_an_item_that_is_refused_is_told_once() -> None:
    """Pydantic also calls the list too short when its only item is refused."""
    assert said(
        ("        limits: {gpus: 4}\n", "        limits: {gpus: 0}\n"), (TP, "tensorParallel: 0")
    ) == [
        "16: gpuPools.0.limits.gpus: 0 is below 1, the least allowed",
        "28: models.0.tensorParallel: 0 is below 1, the least allowed",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"),
        ("a\nb", '"a\\nb"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("ümlaut", '"ümlaut"'),
        ("x" * 100, '"' + "x" * 56 + "…"),
        ("hf_abcdefghijklmnop", '"hf_…"'),
        ({"key": "sk-abcdefghijklmnop"}, '{"key": "sk-…"}'),
        ([1, True], "[1, true]"),
    ],
)
def test_shows_a_value_on_one_line(value: object, text: str) -> None:
    """Line breaks and terminal codes are escaped, long values cut, and tokens not repeated into a log."""
    assert shown(value) == text
