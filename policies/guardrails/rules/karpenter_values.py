"""Values of Karpenter objects, as the v1 API takes them."""

import re
from collections.abc import Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.values import items, listed, mappings, text, whole
from guardrails.world import World

ENUM = Rule(
    id="karpenter-value-invalid",
    severity=Severity.ERROR,
    sentence="Fields with a fixed set of values have one of them.",
    why="The API server refuses the object.",
    remedy="use one of the values that the message lists",
    source="Karpenter 1.14 CRDs",
)


# ---------------------------------------------------------------------- values

SPEC: Path = ("spec", "template", "spec")
_DURATION = re.compile(r"([0-9]+(s|m|h))+|Never")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# Path in an object -> the values its CRD allows. "*" stands for every element of a list.
ENUMS: Mapping[str, tuple[tuple[Path, tuple[str, ...]], ...]] = {
    "NodePool": (
        (
            ("spec", "disruption", "consolidationPolicy"),
            ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"),
        ),
        (("spec", "disruption", "budgets", "*", "reasons", "*"), ("Underutilized", "Empty", "Drifted")),
        ((*SPEC, "taints", "*", "effect"), EFFECTS),
        ((*SPEC, "startupTaints", "*", "effect"), EFFECTS),
        ((*SPEC, "requirements", "*", "operator"), OPERATORS),
    ),
    "EC2NodeClass": (
        (
            ("spec", "amiFamily"),
            ("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"),
        ),
        (("spec", "instanceStorePolicy"), ("RAID0",)),
        (("spec", "networkInterfaces", "*", "interfaceType"), ("interface", "efa-only")),
        (
            ("spec", "blockDeviceMappings", "*", "ebs", "volumeType"),
            ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"),
        ),
        (("spec", "metadataOptions", "httpEndpoint"), ("enabled", "disabled")),
        (("spec", "metadataOptions", "httpTokens"), ("required", "optional")),
        (("spec", "metadataOptions", "httpProtocolIPv6"), ("enabled", "disabled")),
    ),
}
# Requirement key -> the values that there are.
VALUES: Mapping[str, tuple[str, ...]] = {
    "karpenter.sh/capacity-type": ("spot", "on-demand", "reserved"),
    "kubernetes.io/arch": ("amd64", "arm64"),
    "kubernetes.io/os": ("linux", "windows"),
}
ALIAS_FAMILIES = ("al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025")
_BEFORE = {"WhenUnderutilized": "WhenEmptyOrUnderutilized", "efa": "efa-only"}


def pools(world: World) -> list[Subject]:
    """NodePools."""
    return world.kind("NodePool", group="karpenter.sh")


def classes(world: World) -> list[Subject]:
    """Node classes of Karpenter itself, not of EKS Auto Mode."""
    return world.kind("EC2NodeClass", group="karpenter.k8s.aws")


def enum(world: World) -> Iterator[Hit]:
    """Values that the API server refuses."""
    for subject in (*pools(world), *classes(world)):
        for pattern, allowed in ENUMS[subject.kind]:
            for path, value in _values(subject.body, pattern):
                if value not in allowed:
                    yield Hit(
                        subject,
                        path,
                        _enum_message(
                            str(path[-1] if not isinstance(path[-1], int) else path[-2]), value, allowed
                        ),
                    )
    for subject in pools(world):
        yield from _requirement_values(subject)
        yield from _durations(subject)
    for subject in classes(world):
        yield from _aliases(subject)


def _enum_message(field: str, value: str, allowed: tuple[str, ...]) -> str:
    instead = _BEFORE.get(value)
    hint = f"; it is {instead} now" if instead in allowed else ""
    return f"{field} {value} is not one of {listed(allowed)}{hint}"


def _values(tree: object, pattern: Path, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if not pattern:
        found = text(tree)
        if found is not None:
            yield path, found
        return
    step, rest = pattern[0], pattern[1:]
    if step == "*":
        for index, item in enumerate(items(tree)):
            yield from _values(item, rest, (*path, index))
    elif isinstance(tree, dict):
        yield from _values(tree.get(str(step)), rest, (*path, step))


def _requirement_values(subject: Subject) -> Iterator[Hit]:
    for index, item in mappings(subject.get(*SPEC, "requirements")):
        name, path = text(item.get("key")) or "", (*SPEC, "requirements", index)
        for place, value in enumerate(items(item.get("values"))):
            found, allowed = text(value), VALUES.get(name, ())
            if found is not None and allowed and found not in allowed:
                yield Hit(subject, (*path, "values", place), _enum_message(name, found, allowed))
        if item.get("operator") == "In" and isinstance(item.get("values"), list):
            least = whole(item.get("minValues"))
            if least is not None and least > len(items(item["values"])):
                message = f"minValues {least} is more than the {len(items(item['values']))} values of {name}"
                yield Hit(subject, (*path, "minValues"), message)


def _durations(subject: Subject) -> Iterator[Hit]:
    places: tuple[Path, ...] = (
        ("spec", "disruption", "consolidateAfter"), (*SPEC, "expireAfter"), (*SPEC, "terminationGracePeriod"),
    )  # fmt: skip
    for path in places:
        value = subject.get(*path)
        if isinstance(value, str) and not _DURATION.fullmatch(value):
            yield Hit(
                subject,
                path,
                f"{path[-1]} {value} is no duration of hours, minutes and seconds (there is no d)",
            )


def _aliases(subject: Subject) -> Iterator[Hit]:
    for index, term in mappings(subject.get("spec", "amiSelectorTerms")):
        alias = text(term.get("alias"))
        if alias is None:
            continue
        path: Path = ("spec", "amiSelectorTerms", index, "alias")
        family, at, version = alias.partition("@")
        if not at or not version:
            yield Hit(subject, path, f"alias {alias} has no version; write family@version")
        elif family.lower() not in ALIAS_FAMILIES:
            yield Hit(subject, path, f"alias family {family} is not one of {listed(ALIAS_FAMILIES)}")


RULES: Table = ((ENUM, enum),)
