"""How a stack's models scale, drain, are reached and stay up."""

from collections.abc import Iterator, Mapping

from components.manifests.drain import ON_DEMAND, SPOT
from guardrails.core import Hit, Path, Profile, Rule, Severity, Table
from guardrails.hardware import hardware_of
from guardrails.objects import Subject
from guardrails.stack import DrainFacts, ModelFacts, PoolFacts, StackFacts
from guardrails.world import World

# The mounter pod's own grace: a pod that lives longer loses its volume (S3 CSI v2 docs).
S3_MOUNT_SECONDS = 600
SPOT_NOTICE_SECONDS = 120  # EC2 spot interruption notice
# What a pool gets where a model names no drain, by whether it may buy spot: what the manifests give it.
DEFAULT_DRAINS: Mapping[bool, DrainFacts] = {
    spot: DrainFacts(graceful=given.graceful_shutdown, ray=given.ray_drain, pod=given.pod_termination)
    for spot, given in ((True, SPOT), (False, ON_DEMAND))
}

DRAIN = Rule(
    id="drain-order",
    severity=Severity.ERROR,
    sentence="A replica's grace is shorter than Ray's drain, that than the pod's, and that at most the node's.",
    why="Otherwise the outer one kills the inner one while requests are still being answered.",
    remedy="set gracefulShutdown < rayDrain < podTermination <= the pool's terminationGracePeriod",
    source="Ray 2.60 drain on SIGTERM; Karpenter terminationGracePeriod; Mountpoint S3 CSI v2 docs",
    profile=Profile.HOUSE,
)
HEADROOM = Rule(
    id="headroom-exceeds-pool",
    severity=Severity.WARN,
    sentence="Headroom fits into the pool's GPU limit beside the model's replicas.",
    why="At the ceiling there is no room for it, so the last replicas start cold after all.",
    remedy="raise limits.gpus, or lower headroom.maxReplicas or the model's maxReplicas",
    source="docs: headroom",
    profile=Profile.HOUSE,
)
ENDPOINT = Rule(
    id="endpoint-open",
    severity=Severity.ERROR,
    sentence="An internet-facing endpoint has TLS, and keys or a list of networks.",
    why="Anyone could use the GPUs, and read the prompts of others on the way.",
    remedy="set certificateArn, and keys: true or cidrs",
    source="AWS Well-Architected SEC09; OWASP LLM10",
    framework="AWS Well-Architected SEC09-BP02",
    profile=Profile.HOUSE,
)
SINGLE = Rule(
    id="single-replica-in-prod",
    severity=Severity.ADVICE,
    sentence="A production model keeps at least two replicas.",
    why="A lost node leaves nobody to answer for the minutes that a new one takes; on spot the notice is two minutes.",
    remedy="set scaling.minReplicas to 2",
    source="docs: spot and drain",
    profile=Profile.HOUSE,
)
ZERO = Rule(
    id="scale-to-zero-in-prod",
    severity=Severity.WARN,
    sentence="A production model does not scale to zero.",
    why="The first caller waits minutes for a node and the weights; Ray has open bugs around zero (ray#59076, kuberay#4445).",
    remedy="set scaling.minReplicas to 1 or more",
    source="ray#59076, ray#62682, kuberay#4445",
    profile=Profile.HOUSE,
)
HUB = Rule(
    id="hub-at-run-time",
    severity=Severity.ERROR,
    sentence="In production no pod fetches weights from Hugging Face.",
    why="Scale-up then depends on a site that answers 429 under load, and on weights that can change or vanish.",
    remedy="use a source of kind s3 with downloadFrom; the download job copies the weights once",
    source="huggingface_hub#3312, vllm#24541, dynamo#874",
    profile=Profile.HOUSE,
)
GCS = Rule(
    id="head-without-fault-tolerance",
    severity=Severity.WARN,
    sentence="In production the head keeps its state in Redis.",
    why="Without it the loss of the head restarts every worker and loads every model again.",
    remedy="add redis: {} to the model",
    source="KubeRay GCS fault tolerance; ray-vllm facts 7.4",
    profile=Profile.HOUSE,
)
TOKEN = Rule(
    id="ray-token-off",
    severity=Severity.WARN,
    sentence="Ray asks for a token.",
    why="The dashboard and the jobs API run any code for whoever reaches them.",
    remedy="remove rayToken: false",
    source="Ray token authentication (2.52); ShadowRay, CVE-2023-48022",
    framework="NSA Kubernetes Hardening, authentication",
    profile=Profile.HOUSE,
)
DEBUG = Rule(
    id="debug-in-prod",
    severity=Severity.ERROR,
    sentence="Production pods have no debugging capability.",
    why="SYS_PTRACE reads the memory of every process in the pod, prompts and keys included.",
    remedy="remove debug: true",
    source="Pod Security Standards, baseline",
    framework="NSA Kubernetes Hardening, capabilities",
    profile=Profile.HOUSE,
)
RUNAI = Rule(
    id="streamer-not-in-image",
    severity=Severity.ERROR,
    sentence="The streamer loads only from an image that has it.",
    why="vLLM's extra runai is not in the pinned image as far as is known; the engine would not start.",
    remedy="name an image in images.serving and set images.hasRunai: true, or use another loader",
    source="vLLM extra runai; facts on the images",
    profile=Profile.HOUSE,
)
NVME = Rule(
    id="nvme-cache-without-disk",
    severity=Severity.ERROR,
    sentence="The NVMe cache runs on types with disks of their own, in a pool that uses them.",
    why="There is nothing to cache on, and the filler would fill the root disk.",
    remedy="set localNvme: true and use types with NVMe, or use another loader",
    source="EC2 instance types; EC2NodeClass instanceStorePolicy",
    profile=Profile.HOUSE,
)


def _models(world: World) -> Iterator[tuple[StackFacts, ModelFacts, Subject]]:
    for stack in world.stacks:
        if stack.house:
            for model in stack.models:
                yield stack, model, world.stack_subject(stack, model.name, "model")


def drain(world: World) -> Iterator[Hit]:
    """Graces in the wrong order, or longer than what ends them."""
    for stack, model, subject in _models(world):
        pool = stack.pool(model.pool)
        given = model.drain or DEFAULT_DRAINS[pool is not None and "spot" in pool.capacity]
        path: Path = (*model.path, "drain")
        yield from _order(subject, path, given)
        yield from _node_grace(subject, path, given, pool)
        if given.pod >= S3_MOUNT_SECONDS and model.loader in ("mountpoint", "nvmeCache"):
            message = f"podTermination {given.pod:g} s is not below 600 s, when the S3 volume of a stopping pod dies"
            yield Hit(subject, (*path, "podTermination"), message)


def _order(subject: Subject, path: Path, given: DrainFacts) -> Iterator[Hit]:
    if given.graceful >= given.ray:
        message = f"gracefulShutdown {given.graceful:g} s is not below rayDrain {given.ray:g} s"
        yield Hit(subject, (*path, "gracefulShutdown"), message)
    if given.ray >= given.pod:
        yield Hit(
            subject,
            (*path, "rayDrain"),
            f"rayDrain {given.ray:g} s is not below podTermination {given.pod:g} s",
        )


def _node_grace(subject: Subject, path: Path, given: DrainFacts, pool: PoolFacts | None) -> Iterator[Hit]:
    if pool is None:
        return
    if pool.termination_grace is not None and given.pod > pool.termination_grace:
        message = (
            f"podTermination {given.pod:g} s is longer than the terminationGracePeriod of pool {pool.name}, "
            f"{pool.termination_grace:g} s"
        )
        yield Hit(subject, (*path, "podTermination"), message)
    if "spot" in pool.capacity and given.pod > SPOT_NOTICE_SECONDS:
        message = f"podTermination {given.pod:g} s is longer than the 120 s that EC2 gives a spot node of pool {pool.name}"
        yield Hit(subject, (*path, "podTermination"), message, Severity.WARN)


def headroom(world: World) -> Iterator[Hit]:
    """Headroom for a model that is not there, or without room."""
    for stack in world.stacks:
        if not stack.headroom_model:
            continue
        subject = world.stack_subject(stack, "headroom", "headroom")
        model = next((item for item in stack.models if item.name == stack.headroom_model), None)
        if model is None:
            yield Hit(subject, ("headroom", "model"), f"there is no model {stack.headroom_model}", Severity.ERROR,
                      "name one of the models")  # fmt: skip
            continue
        pool = stack.pool(model.pool)
        if pool is None or pool.gpus is None:
            if model.pool is None:
                message = f"model {model.name} runs on CPU; headroom keeps GPU nodes"
                yield Hit(
                    subject, ("headroom", "model"), message, Severity.ERROR, "name a model on a GPU pool"
                )
            continue
        wanted = (model.max_replicas + stack.headroom_replicas) * model.gpus
        if wanted > pool.gpus >= model.max_replicas * model.gpus:
            message = (
                f"{stack.headroom_replicas} of headroom and {model.max_replicas} replicas of {model.name} need {wanted} GPUs; "
                f"pool {pool.name} may have {pool.gpus:g}"
            )
            yield Hit(subject, ("headroom", "maxReplicas"), message)


def endpoint(world: World) -> Iterator[Hit]:
    """Internet-facing without TLS or without a guard."""
    for stack in world.stacks:
        found = stack.endpoint
        if found is None or not found.internet_facing:
            continue
        subject = world.stack_subject(stack, "endpoint", "endpoint")
        if not found.tls:
            message = "the endpoint is internet-facing and has no certificate: prompts and keys travel in clear text"
            yield Hit(subject, (*found.path, "scheme"), message, remedy="set certificateArn")
        if not found.keys and (not found.cidrs or "0.0.0.0/0" in found.cidrs):
            message = "the endpoint is internet-facing and asks for no key and no network"
            yield Hit(subject, (*found.path, "scheme"), message, remedy="set keys: true, or cidrs")


def single(world: World) -> Iterator[Hit]:
    """One replica in production."""
    for stack, model, subject in _models(world):
        if world.prod and model.min_replicas == 1:
            pool = stack.pool(model.pool)
            spot = pool is not None and "spot" in pool.capacity
            where = f" on pool {pool.name}, which may be spot" if pool and spot else ""
            # An update in place stops the only replica first (seen: 40 s of pause, one request failed, with a tiny model).
            message = (
                f"minReplicas is 1{where}: nobody answers while another revision or engine setting loads"
            )
            yield Hit(
                subject, (*model.path, "scaling", "minReplicas"), message, Severity.WARN if spot else None
            )


def zero(world: World) -> Iterator[Hit]:
    """Scale to zero in production."""
    for _, model, subject in _models(world):
        if world.prod and model.min_replicas == 0:
            yield Hit(subject, (*model.path, "scaling", "minReplicas"), "minReplicas is 0 in production")


def hub(world: World) -> Iterator[Hit]:
    """Hugging Face as the run-time source."""
    for _, model, subject in _models(world):
        if model.source_kind == "huggingFace":
            severity = None if world.prod else Severity.ADVICE
            message = f"every new pod fetches {model.source} from Hugging Face"
            yield Hit(subject, (*model.path, "source", "kind"), message, severity)


def gcs(world: World) -> Iterator[Hit]:
    """No Redis in production."""
    for _, model, subject in _models(world):
        if world.prod and model.redis is False and model.pool is not None:
            yield Hit(
                subject, (*model.path, "redis"), "the head's state is lost with the head: redis is not set"
            )


def token(world: World) -> Iterator[Hit]:
    """Ray without its token."""
    for _, model, subject in _models(world):
        if model.ray_token is False:
            severity = None if world.prod else Severity.ADVICE
            yield Hit(
                subject, (*model.path, "rayToken"), "Ray's dashboard and jobs API ask for no token", severity
            )


def debug(world: World) -> Iterator[Hit]:
    """SYS_PTRACE in production."""
    for _, model, subject in _models(world):
        if model.debug:
            severity = None if world.prod else Severity.ADVICE
            yield Hit(subject, (*model.path, "debug"), "debug adds SYS_PTRACE to the pods", severity)


def runai(world: World) -> Iterator[Hit]:
    """The streamer with an image that is not known to have it."""
    for stack, model, subject in _models(world):
        if model.loader == "streamer" and not stack.has_runai:
            yield Hit(
                subject,
                (*model.path, "loader"),
                "loader streamer needs vLLM's extra runai; images.hasRunai is false",
            )


def nvme(world: World) -> Iterator[Hit]:
    """The NVMe cache without NVMe."""
    for stack, model, subject in _models(world):
        pool = stack.pool(model.pool)
        if model.loader != "nvmeCache":
            continue
        path: Path = (*model.path, "loader")
        if pool is None:
            yield Hit(subject, path, "loader nvmeCache needs a GPU pool; the model runs on CPU")
            continue
        if pool.local_nvme is False:
            yield Hit(subject, path, f"loader nvmeCache needs localNvme: true on pool {pool.name}")
        for item in hardware_of(pool.instance_types):
            if not item.nvme_gb:
                yield Hit(
                    subject, path, f"loader nvmeCache: {item.name} of pool {pool.name} has no NVMe disk"
                )


RULES: Table = (
    (DRAIN, drain), (HEADROOM, headroom), (ENDPOINT, endpoint), (SINGLE, single), (ZERO, zero),
    (HUB, hub), (GCS, gcs), (TOKEN, token), (DEBUG, debug), (RUNAI, runai), (NVME, nvme),
)  # fmt: skip
