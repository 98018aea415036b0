"""What a stack's settings must agree on with each other and with AWS: accounts, regions, names and times."""

from collections.abc import Iterator

from components import conventions
from guardrails.core import Hit, Path, Profile, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.stack import ModelFacts, StackFacts
from guardrails.values import flag, get, items, mapping, mappings, number, text, texts
from guardrails.world import World

# Names of folders that people write anew. A revision lies in a folder of its own that never changes.
MOVING = frozenset({"main", "master", "latest", "head", "current", "stable", "newest"})
METRICS_SECONDS = 10.0  # Ray Serve's replicas report every ten seconds (serve/_private/constants.py, 2.60)

CERTIFICATE = Rule(
    id="certificate-elsewhere",
    severity=Severity.ERROR,
    sentence="The endpoint's certificate is of the stack's region and account.",
    why="A load balancer takes certificates of its own region and account only, so the listener is never made.",
    remedy="name a certificate that ACM holds in the stack's region and account",
    source="AWS ELB docs, HTTPS listeners",
    profile=Profile.HOUSE,
)
ADMINISTRATOR = Rule(
    id="administrator-elsewhere",
    severity=Severity.WARN,
    sentence="The cluster's administrators are roles and users of the stack's account.",
    why="Whoever controls another account decides who may do everything in the cluster; a mistyped one is a stranger's.",
    remedy="name a role of the stack's account that the others may take",
    source="EKS access entries; AWS Well-Architected SEC03-BP08",
    profile=Profile.HOUSE,
)
ACCOUNT = Rule(
    id="account-unnamed",
    severity=Severity.ERROR,
    sentence="A stack that makes something in AWS names the account.",
    why="Without it the program has no AWS provider, and an update ends where the first resource is needed.",
    remedy="set accountId, or use what is there: operators present, storage.existing",
    source="components/cluster.py",
    profile=Profile.HOUSE,
)
REDIS = Rule(
    id="redis-without-address",
    severity=Severity.ERROR,
    sentence="On an existing cluster, the Redis of a model has an address.",
    why="The stack makes a Redis only in a network that it made itself.",
    remedy="set redis.address, or remove redis",
    source="components/redis.py",
    profile=Profile.HOUSE,
)
UNUSED = Rule(
    id="pool-unused",
    severity=Severity.ADVICE,
    sentence="Every GPU pool has a model.",
    why="Nothing ever launches in it, and its limit still counts in the quotas and in the ceiling of the bill.",
    remedy="remove the pool, or name it in a model",
    source="components/sizing/stack.py",
    profile=Profile.HOUSE,
)
RESERVED_NAME = Rule(
    id="pool-name-reserved",
    severity=Severity.ERROR,
    sentence="No GPU pool has the name of the stack's own CPU pool.",
    why="Both would be one NodePool, and the second replaces the first.",
    remedy="rename the pool",
    source="components/manifests/placement.py",
    profile=Profile.HOUSE,
)
REVISION = Rule(
    id="revision-moves",
    severity=Severity.ERROR,
    sentence="The revision of weights is a folder that never changes.",
    why="Nodes that start later would serve other weights than those that run, and no change of the stack shows it.",
    remedy="name the commit or the day of the weights, and write new ones into a new folder",
    source="docs/decisions/weights-in-the-cluster.md",
    profile=Profile.HOUSE,
)
BLOCKED = Rule(
    id="disruption-blocked",
    severity=Severity.WARN,
    sentence="A disruption budget of no nodes has a window.",
    why="Without one it holds for ever: Karpenter removes not even an empty node until it expires, and idle GPUs are paid for.",
    remedy="add schedule and duration, or name the reasons that are meant (Drifted, Underutilized)",
    source="Karpenter docs, disruption budgets",
    profile=Profile.HOUSE,
)
KEYS = Rule(
    id="endpoint-keys-unchecked",
    severity=Severity.ERROR,
    sentence="A model that is asked for keys is served by something that checks them.",
    why="The stack's own ingress and vLLM's app check keys; an application of yours answers everybody.",
    remedy="check the keys in the application and waive this, use serving routed or direct, or limit endpoint.cidrs and set keys: false",
    source="components/manifests/serve.py",
    profile=Profile.HOUSE,
)
CPU_IMAGE = Rule(
    id="cpu-model-image",
    severity=Severity.WARN,
    sentence="A model on CPU has an image whose vLLM runs on CPU.",
    why="vLLM in the pinned image is built for CUDA and finds no device on a node without a GPU.",
    remedy="name an image with Ray and vLLM for CPU in images.serving",
    source="vLLM docs, installation on CPU",
    profile=Profile.HOUSE,
)
LOOK_BACK = Rule(
    id="look-back-short",
    severity=Severity.WARN,
    sentence="Scaling looks back over more time than lies between two reports of a replica.",
    why="Between two reports nothing is seen, so that replicas come and go with chance; a later Ray refuses it.",
    remedy="set scaling.lookBack above 10, and above observability.scrapeInterval",
    source="Ray 2.60 AutoscalingConfig.look_back_period_s",
    profile=Profile.HOUSE,
)
IDLE = Rule(
    id="idle-timeout-short",
    severity=Severity.WARN,
    sentence="The load balancer waits as long for an answer as a request may take.",
    why="An answer that is not streamed sends nothing before its end: callers get a 504 while the GPU goes on.",
    remedy="raise endpoint.idleTimeout, or lower the model's timeouts.request",
    source="AWS ELB docs, connection idle timeout",
    profile=Profile.HOUSE,
)


def _houses(world: World) -> Iterator[StackFacts]:
    return (stack for stack in world.stacks if stack.house)


def _models(world: World) -> Iterator[tuple[StackFacts, ModelFacts, dict[str, object], Subject]]:
    """Models with their settings as written."""
    for stack in _houses(world):
        written = items(stack.plain.get("models"))
        for model, settings in zip(stack.models, written, strict=True):
            yield stack, model, mapping(settings), world.stack_subject(stack, model.name, "model")


def certificate(world: World) -> Iterator[Hit]:
    """Certificates of another region or account."""
    for stack in _houses(world):
        _, _, _, region, account, *_ = _arn(get(stack.plain, "endpoint", "certificateArn"))
        wanted = text(stack.plain.get("accountId"))
        wrong = [
            *([f"region {region}, the stack in {stack.region}"] if region not in ("", stack.region) else []),
            *(
                [f"account {account}, the stack in {wanted}"]
                if account and wanted not in (None, account)
                else []
            ),
        ]
        if wrong:
            subject = world.stack_subject(stack, "endpoint", "endpoint")
            message = f"the certificate is in {'; and in '.join(wrong)}"
            yield Hit(subject, ("endpoint", "certificateArn"), message)


def _arn(value: object) -> list[str]:
    """The six parts of an ARN; empty ones where there is none."""
    parts = (text(value) or "").split(":", 5)
    return [*parts, *[""] * (6 - len(parts))]


def administrator(world: World) -> Iterator[Hit]:
    """Administrators of another account."""
    for stack in _houses(world):
        wanted = text(stack.plain.get("accountId"))
        for index, arn in enumerate(texts(get(stack.plain, "cluster", "create", "administrators"))):
            account = _arn(arn)[4]
            if account != wanted:
                path: Path = ("cluster", "create", "administrators", index)
                message = f"{arn} is of account {account}, the stack of {wanted}"
                yield Hit(world.stack_subject(stack, "cluster", "stack"), path, message)


def account(world: World) -> Iterator[Hit]:
    """Resources of AWS and no account to make them in."""
    for stack in _houses(world):
        for path, what in stack.aws_needs if stack.plain.get("accountId") is None else ():
            message = f"{what} makes resources in AWS, and accountId is not set"
            yield Hit(world.stack_subject(stack, "cluster", "stack"), path, message)


def redis(world: World) -> Iterator[Hit]:
    """A Redis to be made where there is no network to put it in."""
    for stack, model, settings, subject in _models(world):
        wanted = settings.get("redis")
        if get(stack.plain, "cluster", "existing") is None or wanted is None:
            continue
        if mapping(wanted).get("address") is None:
            message = "redis has no address, and a cluster that was there brings no network to make one in"
            yield Hit(subject, (*model.path, "redis"), message)


def unused(world: World) -> Iterator[Hit]:
    """Pools that no model names."""
    for stack in _houses(world):
        used = {model.pool for model in stack.models}
        for pool in stack.pools:
            if pool.name not in used:
                subject = world.stack_subject(stack, pool.name, "pool")
                yield Hit(subject, (*pool.path, "name"), f"no model runs on pool {pool.name}")


def reserved_name(world: World) -> Iterator[Hit]:
    """GPU pools that are named like the CPU pool's NodePool."""
    for stack in _houses(world):
        for pool in stack.pools:
            if pool.name == conventions.CPU_WORKLOAD and stack.cpu_pool is not None:
                subject = world.stack_subject(stack, pool.name, "pool")
                yield Hit(subject, (*pool.path, "name"), f"{pool.name} is the NodePool of heads and ingress")


def revision(world: World) -> Iterator[Hit]:
    """Revisions that are names of branches."""
    for _, model, settings, subject in _models(world):
        name = text(get(settings, "source", "revision")) or ""
        if name.lower() in MOVING:
            severity = None if world.prod else Severity.ADVICE
            yield Hit(subject, (*model.path, "source", "revision"), f"revision {name} can change", severity)


def blocked(world: World) -> Iterator[Hit]:
    """Budgets of no nodes for ever, for empty nodes too."""
    for stack in _houses(world):
        plain = [mapping(pool) for pool in items(stack.plain.get("gpuPools"))]
        pools = [*zip(stack.pools, plain, strict=True)]
        if stack.cpu_pool:
            pools.append((stack.cpu_pool, mapping(stack.plain.get("cpuPool"))))
        for pool, settings in pools:
            for index, budget in mappings(get(settings, "disruption", "budgets")):
                reasons = texts(budget.get("reasons"))
                closed = text(budget.get("nodes")) in ("0", "0%") and budget.get("schedule") is None
                if closed and (not reasons or "Empty" in reasons):
                    path: Path = (*pool.path, "disruption", "budgets", index)
                    message = f"a budget of {text(budget.get('nodes'))} nodes without a window keeps every node of pool {pool.name}, idle or not"
                    yield Hit(world.stack_subject(stack, pool.name, "pool"), path, message)


def keys(world: World) -> Iterator[Hit]:
    """Keys that nobody asks for."""
    for stack, model, _, subject in _models(world):
        if model.serving == "application" and stack.endpoint is not None and stack.endpoint.keys:
            message = "endpoint.keys is set, and an application of yours answers without asking for one"
            yield Hit(subject, (*model.path, "serving"), message)


def cpu_image(world: World) -> Iterator[Hit]:
    """Models on CPU in an image for GPUs."""
    for stack, model, _, subject in _models(world):
        if model.pool is None and model.serving != "application" and not stack.own_image:
            severity = None if world.prod else Severity.ADVICE
            message = "the model runs on CPU, and the pinned image holds vLLM for CUDA"
            yield Hit(subject, (*model.path, "name"), message, severity)


def look_back(world: World) -> Iterator[Hit]:
    """Less time than between two reports."""
    for stack, model, settings, subject in _models(world):
        seconds = number(get(settings, "scaling", "lookBack"))
        observed = flag(get(stack.plain, "observability", "enabled")) is not False
        scrape = number(get(stack.plain, "observability", "scrapeInterval")) if observed else None
        longest = max(METRICS_SECONDS, scrape or 0.0)
        if seconds is not None and seconds <= longest:
            message = f"lookBack is {seconds:g} s, and a replica reports every {longest:g} s"
            yield Hit(subject, (*model.path, "scaling", "lookBack"), message)


def idle(world: World) -> Iterator[Hit]:
    """A balancer that gives up before the model does."""
    for stack, model, settings, subject in _models(world):
        given = number(get(stack.plain, "endpoint", "idleTimeout"))
        request = number(get(settings, "timeouts", "request"))
        if given is not None and request is not None and given < request:
            message = f"timeouts.request is {request:g} s, and the load balancer ends a silent connection after {given:g} s"
            yield Hit(subject, (*model.path, "timeouts", "request"), message)


RULES: Table = (
    (CERTIFICATE, certificate), (ADMINISTRATOR, administrator), (ACCOUNT, account), (REDIS, redis),
    (UNUSED, unused), (RESERVED_NAME, reserved_name), (REVISION, revision), (BLOCKED, blocked), (KEYS, keys),
    (CPU_IMAGE, cpu_image), (LOOK_BACK, look_back), (IDLE, idle),
)  # fmt: skip
