"""Rules about one value and about the keys of one block: the sentence, and the line of the key that has to change."""

import pytest

from components.settings.base import cron
from tests.unit.settings.stackfile import said, settings

REGION = "    region: us-west-2\n"
LIMITS = "        limits: {gpus: 4}\n"
TP = "        tensorParallel: 1\n"
BUDGET = '            - nodes: "1"\n'
CREATE = '        kubernetesVersion: "1.36"\n'
CLUSTER = f"    cluster:\n      create:\n        name: llm-test\n{CREATE}"
NETWORK = "    network:\n      cidr: 10.0.0.0/16\n      zones: [us-west-2a, us-west-2b]\n"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        # Names and forms.
        ("name: llama-8b", "name: Llama", '21: models.0.name: "Llama" is not a name of lower-case letters, digits and - like llama-8b'),
        ('"111122223333"', '"1234"', '5: accountId: "1234" is not the twelve digits of an AWS account in quotes like "111122223333"'),
        ("[us-west-2a, us-west-2b]", "[us-west-2a, 2b]", '8: network.zones.1: "2b" is not a zone of a region like us-west-2a'),
        ('"1.36"', '"1.36.1"', '12: cluster.create.kubernetesVersion: "1.36.1" is not a minor version of Kubernetes in quotes like "1.36"'),
        ("[g5.2xlarge]", "[g5]", '15: gpuPools.0.instanceTypes.0: "g5" is not an EC2 instance type like g5.12xlarge'),
        ("architecture: llama-3.1-8b", "architecture: llama-9", '26: models.0.architecture: "llama-9" is not known; write the path of the model\'s config.json, or one of llama-3.1-8b, llama-3.1-70b, llama-3.1-405b, llama-2-7b, llama-2-13b, llama-2-70b, mixtral-8x7b, mixtral-8x22b, qwen2.5-7b, qwen3-8b, qwen3-32b, qwen3-30b-a3b, qwen3-235b-a22b, mistral-nemo-12b, mistral-small-24b, deepseek-v3, gpt-oss-120b, tiny'),
        (TP, "        head: {memory: 8GB}\n", '28: models.0.head.memory: "8GB" is not memory with its unit, like 16Gi or 512Mi'),
        (TP, '        head: {cpu: "0"}\n', '28: models.0.head.cpu: "0" is not CPU cores in quotes like "2" or "500m"'),
        (TP, "        shm: 16G\n", '28: models.0.shm: "16G" has no unit of Mi or Gi; write for example 16Gi'),
        (LIMITS, f"{LIMITS}        dataVolume: {{size: 500G}}\n", '17: gpuPools.0.dataVolume.size: "500G" is not the size of a disk in Gi, like 500Gi'),
        (LIMITS, f"{LIMITS}        terminationGracePeriod: 1d\n", '17: gpuPools.0.terminationGracePeriod: "1d" is not a time in h, m and s like 10m or 1h30m'),
        (LIMITS, f"{LIMITS}        amiAlias: bottlerocket@latest\n", '17: gpuPools.0.amiAlias: "bottlerocket@latest" is not a pinned image of Bottlerocket like bottlerocket@v1.64.0'),
        (LIMITS, f"{LIMITS}        reservationIds: [r-1]\n", '17: gpuPools.0.reservationIds.0: "r-1" is not a capacity reservation like cr-0f1e2d3c4b5a69788'),
        (LIMITS, f"{LIMITS}        labels: {{a: b c}}\n", '17: gpuPools.0.labels.a: "b c" is not a label value of Kubernetes: letters, digits, -, _ and . between them'),
        (LIMITS, f"{LIMITS}        labels: {{-a: b}}\n", '17: gpuPools.0.labels.-a: is not allowed as a name: "-a" is not a label key of Kubernetes like team or example.com/team'),
        (REGION, f"{REGION}    tags: {{team: 'a*b'}}\n", '5: tags.team: "a*b" is not a tag of AWS: letters, digits, spaces and _ . : / = + - @'),
        (CREATE, f"{CREATE}        administrators: [admin]\n", '13: cluster.create.administrators.0: "admin" is not the ARN of a role or user like arn:aws:iam::111122223333:role/platform-admin'),
        (REGION, f"{REGION}    images: {{serving: my/image}}\n", '5: images.serving: "my/image" is not an image with its tag or digest like registry.example.com/ray-llm:2.60.0'),
        (REGION, f"{REGION}    endpoint: {{host: LLM}}\n", '5: endpoint.host: "LLM" is not a host name in lower case like llm.example.com'),
        (CREATE, f"{CREATE}        administrators: ['arn:aws:sts::111122223333:assumed-role/a/b']\n", '13: cluster.create.administrators.0: "arn:aws:sts::111122223333:assumed-role/a/b" is not the ARN of a role or user like arn:aws:iam::111122223333:role/platform-admin'),
        (REGION, f"{REGION}    endpoint: {{host: a.b, certificateArn: 'arn:aws:iam::111122223333:role/a'}}\n", '5: endpoint.certificateArn: "arn:aws:iam::111122223333:role/a" is not the ARN of a certificate of ACM like arn:aws:acm:us-west-2:111122223333:certificate/8f4d2a60'),
        (LIMITS, f"{LIMITS}        dataVolume: {{iops: 3000, throughput: 751}}\n", "17: gpuPools.0.dataVolume.throughput: throughput 751 needs at least 3004 iops, and they are 3000; raise iops or lower throughput"),
        (LIMITS, f"{LIMITS}        dataVolume: {{iops: 3900}}\n", "17: gpuPools.0.dataVolume.iops: throughput 1000 needs at least 4000 iops, and they are 3900; raise iops or lower throughput"),
        (REGION, f"{REGION}    headroom: {{model: llama-8b, officeHours: {{timezone: America/Los_Angles}}}}\n", '5: headroom.officeHours.timezone: "America/Los_Angles" is not in the time zone database; did you mean America/Los_Angeles?'),
        (REGION, f"{REGION}    storage: {{bucket: My_Bucket}}\n", '5: storage.bucket: "My_Bucket" is not the name of a bucket: 3 to 63 lower-case letters, digits, - and .'),
        (TP, "        redis: {address: 'rediss://:secret@host:6379'}\n", '28: models.0.redis.address: "rediss://:secret@host:6379" is not an address without a password like rediss://ray-state.example.com:6379'),
        ("revision: v1", "revision: v1\n          downloadFrom: {repository: a/b, revision: main}", '26: models.0.source.downloadFrom.revision: "main" is not a full commit of 40 hexadecimal digits; branches and tags move'),
        # Networks.
        ("10.0.0.0/16", "10.0.0.300/16", '7: network.cidr: "10.0.0.300/16" is not a network like 10.0.0.0/16: its numbers go to 255 and its length to 32'),
        ("10.0.0.0/16", "10.0.0.0/33", '7: network.cidr: "10.0.0.0/33" is not a network like 10.0.0.0/16: its numbers go to 255 and its length to 32'),
        ("10.0.0.0/16", "10.0.1.0/16", '7: network.cidr: "10.0.1.0/16" names a host within a network; write 10.0.0.0/16'),
        ("10.0.0.0/16", "10.0.0.0", '7: network.cidr: "10.0.0.0" is not a network like 10.0.0.0/16'),
        ("10.0.0.0/16", "10.0.0.0/20", '7: network.cidr: "10.0.0.0/20" does not fit; a VPC here is /16 (zones a to f) or /17 (zones a to c)'),
        ("[us-west-2a, us-west-2b]", "[us-west-2a, us-west-2a]", "8: network.zones: a zone is named twice in us-west-2a, us-west-2a; name each once"),
        ("[us-west-2a, us-west-2b]", "\n        - us-west-2a\n        - us-west-2g", "10: network.zones.1: zone us-west-2g has no slot in 10.0.0.0/16: it has room for zones a to f"),
        ("[g5.2xlarge]", "[g5.2xlarge, g5.2xlarge]", "15: gpuPools.0.instanceTypes: something is named twice in g5.2xlarge, g5.2xlarge; name each once"),
        # Keys of one block, each with the line of the key that has to change.
        ("{minReplicas: 1, maxReplicas: 2}", "\n          minReplicas: 3\n          maxReplicas: 2", "33: models.0.scaling.maxReplicas: maxReplicas 2 is below minReplicas 3; raise one or lower the other"),
        ("{minReplicas: 1, maxReplicas: 2}", "\n          minReplicas: 9", "32: models.0.scaling.minReplicas: maxReplicas 8 is below minReplicas 9; raise one or lower the other"),
        ("{minReplicas: 1, maxReplicas: 2}", "{maxOngoingRequests: 10}", "31: models.0.scaling.maxOngoingRequests: maxOngoingRequests 10 is below targetOngoingRequests 40; a replica could never reach its target"),
        (TP, "        loader: local\n", "28: models.0.loader: loader local cannot read a source of kind s3; use mountpoint or nvmeCache or streamer"),
        (TP, "        serving: application\n", "28: models.0.serving: the mode application and the block application go together; give both or neither"),
        (BUDGET, f'{BUDGET}              schedule: "0 8 * * *"\n', "20: gpuPools.0.disruption.budgets.0.schedule: schedule and duration make a window together; give both or neither"),
        (BUDGET, f"{BUDGET}              duration: 30s\n", '20: gpuPools.0.disruption.budgets.0.duration: "30s" is not a time in h and m like 9h or 8h30m'),
        (CREATE, f"{CREATE}        endpointAccess:\n          public: true\n", "14: cluster.create.endpointAccess.public: a public endpoint needs cidrs, the networks that may reach it (offices, runners); or set public: false"),
        (CREATE, f"{CREATE}        endpointAccess:\n          cidrs: [10.0.0.0/8]\n", "14: cluster.create.endpointAccess.cidrs: limit the public endpoint, which is off; set public: true or remove them"),
        (CREATE, f"{CREATE}        systemNodes:\n          max: 2\n          min: 3\n", "14: cluster.create.systemNodes.max: max 2 is below min 3; raise max or lower min"),
        (REGION, f"{REGION}    storage: {{existing: true}}\n", "5: storage.existing: needs the name of the bucket; write it in bucket"),
        (REGION, f"{REGION}    headroom: {{model: llama-8b}}\n", "5: headroom: needs officeHours, waitingRequests or both; without a trigger it would never hold anything"),
        (REGION, f"{REGION}    headroom: {{model: llama-8b, officeHours: {{replicas: 3}}}}\n", "5: headroom.officeHours: maxReplicas 1 is below the 3 of officeHours; raise one or lower the other"),
        (REGION, f'{REGION}    images:\n      mirror: a.b\n      pullThroughCache: {{accountId: "111122223333", region: us-west-2}}\n', "6: images.mirror: and pullThroughCache exclude each other; keep one"),
        # The cluster and what it needs.
        (CLUSTER, "    cluster: {}\n", "9: cluster: needs exactly one of create (make an EKS cluster) and existing (use one that is there)"),
        (CLUSTER, "    cluster: {existing: {context: a, name: b}}\n", "6: network: is given, but cluster.existing brings its own; remove network"),
        (NETWORK, "", "3: network: is missing: cluster.create needs the zones to build in"),
        ('    accountId: "111122223333"\n', "", "3: accountId: is missing: cluster.create builds in one account, and no other is touched"),
    ],
)  # fmt: skip
def test_refuses_what_cannot_be(old: str, new: str, sentence: str) -> None:
    """The whole sentence for one change to a valid file."""
    assert said((old, new)) == [sentence]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TP, "        head: {memory: 512Mi, cpu: 500m}\n"),
        (TP, '        head: {memory: 1.5Gi, cpu: "0.5"}\n'),
        (LIMITS, f"{LIMITS}        labels: {{example.com/team: a_b.c-d, empty: ''}}\n"),
        (REGION, f"{REGION}    tags: {{'cost center': 'a+b=c/d@e:f g'}}\n"),
        (CREATE, f"{CREATE}        administrators: ['arn:aws-us-gov:iam::111122223333:role/a/b']\n"),
        (REGION, f"{REGION}    images: {{serving: 'rayproject/ray-llm@sha256:{'a' * 64}'}}\n"),
        (REGION, f"{REGION}    images: {{serving: 'localhost:5000/a/b:1.0@sha256:{'a' * 64}'}}\n"),
        (TP, "        objective: {ttftP99: 1}\n"),
        (LIMITS, f"{LIMITS}        dataVolume: {{iops: 3000, throughput: 750}}\n"),
        (REGION, f"{REGION}    headroom: {{model: llama-8b, officeHours: {{timezone: Europe/Zurich}}}}\n"),
        ("architecture: llama-3.1-8b", "architecture: shapes/own/config.json"),
        (BUDGET, f'{BUDGET}              schedule: "*/15 8-18 * * mon-fri"\n              duration: 1h30m\n'),
        ("10.0.0.0/16", "10.0.0.0/17"),
    ],
)
def test_takes_what_can_be(old: str, new: str) -> None:
    """The compliant case beside each refusal."""
    assert said((old, new)) == []


@pytest.mark.parametrize(
    "text", ["0 8 * * 1-5", "*/5 * * * *", "0 0 1,15 * *", "0 0 * jan-mar sun", "30 23 31 12 7"]
)
def test_takes_cron_expressions(text: str) -> None:
    """Five fields with lists, ranges, steps and names."""
    assert cron(text) == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "8 * * *",
            '"8 * * *" has 4 of five fields; a cron expression is like "0 8 * * 1-5" (minute hour day month weekday)',
        ),
        (
            "@daily",
            '"@daily" has 1 of five fields; a cron expression is like "0 8 * * 1-5" (minute hour day month weekday)',
        ),
        ("60 8 * * *", '"60 8 * * *" has "60" for the minute; allowed are 0 to 59, lists, ranges and steps'),
        ("0 24 * * *", '"0 24 * * *" has "24" for the hour; allowed are 0 to 23, lists, ranges and steps'),
        ("0 8 0 * *", '"0 8 0 * *" has "0" for the day; allowed are 1 to 31, lists, ranges and steps'),
        ("0 8 * 13 *", '"0 8 * 13 *" has "13" for the month; allowed are 1 to 12, lists, ranges and steps'),
        ("0 8 * * 8", '"0 8 * * 8" has "8" for the weekday; allowed are 0 to 7, lists, ranges and steps'),
        ("0 8 * * 1-", '"0 8 * * 1-" has "1-" for the weekday; allowed are 0 to 7, lists, ranges and steps'),
        (
            "*/0 8 * * *",
            '"*/0 8 * * *" has "*/0" for the minute; allowed are 0 to 59, lists, ranges and steps',
        ),
    ],
)
def test_says_which_field_of_a_cron_expression_is_wrong(text: str, sentence: str) -> None:
    """KEDA and Karpenter would refuse it only when the object is applied."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        cron(text)

    assert str(caught.value) == sentence


def test_every_fault_of_a_block_is_told() -> None:
    """Two things wrong within one block are two sentences."""
    change = ("{minReplicas: 1, maxReplicas: 2}", "{minReplicas: 3, maxReplicas: 2, maxOngoingRequests: 1}")

    assert said(change) == [
        "31: models.0.scaling.maxOngoingRequests: maxOngoingRequests 1 is below targetOngoingRequests 40; a replica could never reach its target",
        "31: models.0.scaling.maxReplicas: maxReplicas 2 is below minReplicas 3; raise one or lower the other",
    ]


def test_settings_cannot_be_changed() -> None:
    """What was validated is what is built."""
    with pytest.raises(ValueError, match="frozen"):
        settings().region = "eu-central-1"  # type: ignore[misc]
