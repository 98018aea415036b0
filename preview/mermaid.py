"""A picture of the stack, made from what it registered: components, what is in them, and what waits for what."""

from collections import Counter

from preview.build import Preview
from preview.shape import COMPONENT_PREFIX, short_type

_MOST_KINDS = 4  # lines in a box before it says "and more"


def diagram(preview: Preview) -> str:
    """A Mermaid flowchart with a box per component and an arrow from each component to those it depends on."""
    components = {r.urn: r for r in preview.registrations if r.type.startswith(COMPONENT_PREFIX)}
    owner = {r.urn: r.parent if r.urn not in components else r.urn for r in preview.registrations}
    kinds: dict[str, Counter[str]] = {urn: Counter() for urn in components}
    edges: set[tuple[str, str]] = set()
    for registration in preview.registrations:
        here = owner[registration.urn]
        if here not in components:
            continue
        if registration.urn != here:
            kinds[here][short_type(registration)] += 1
        targets = (owner.get(urn) for urn in registration.dependencies)
        edges |= {(here, there) for there in targets if there in components and there != here}
    ids = {urn: f"c{index}" for index, urn in enumerate(components)}
    lines = ["flowchart LR"]
    lines += [f'  {ids[urn]}["<b>{r.name}</b><br/>{_contents(kinds[urn])}"]' for urn, r in components.items()]
    lines += [
        f"  {ids[user]} --> {ids[used]}"
        for user, used in sorted(_reduced(edges), key=lambda e: (ids[e[0]], ids[e[1]]))
    ]
    return "\n".join(lines)


def _contents(kinds: Counter[str]) -> str:
    shown = [f"{number} {kind}" if number > 1 else kind for kind, number in kinds.most_common(_MOST_KINDS)]
    return "<br/>".join([*shown, *(["and more"] if len(kinds) > _MOST_KINDS else [])])


def _reduced(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Edges that no longer path implies, so that the picture stays readable."""
    after: dict[str, set[str]] = {}
    for user, used in edges:
        after.setdefault(user, set()).add(used)

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        return any(
            step == goal or (step not in seen and reaches(step, goal, seen | {step}))
            for step in after.get(start, set())
        )

    def is_implied(user: str, used: str) -> bool:
        return any(middle != used and reaches(middle, used, {user, middle}) for middle in after[user])

    return {(user, used) for user, used in edges if not is_implied(user, used)}
