"""What a row of the table says about one resource type.

Arguments of a call are templates: `"{vpcId}"` is the property of that name with its own type, `"a-{name}"` is text, and
whatever has no value is left out. Names need no case: `cidrBlock` finds the API's `CidrBlock`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rehearsal.aws.cloud import Cloud

Values = dict[str, Any]
PLACE = re.compile(r"\{(\w+)\}")
# Names that a template may use and that are no properties.
GIVEN = frozenset(
    {
        "id",
        "account",
        "region",
        "location",
        "partition",
        "random",
        "number",
        "tagsAll",
        "tagKeys",
        "tagKeyList",
    }
)


@dataclass(frozen=True)
class Call:
    """One call of the AWS API, as `service.operation`.

    `takes` names the properties that go in under their own name; `answer` is the JMESPath of what is wanted.
    """

    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    answer: str = "@"
    takes: str = ""

    @property
    def template(self) -> dict[str, Any]:
        """All arguments."""
        return {**{name: f"{{{name}}}" for name in self.takes.split()}, **self.arguments}

    def properties(self) -> set[str]:
        """The properties that the arguments use."""
        return {name for text in _texts(self.template) for name in PLACE.findall(text)} - GIVEN


def _texts(template: Any) -> list[str]:
    if isinstance(template, str):
        return [template]
    items = template.values() if isinstance(template, Mapping) else template
    return [text for item in items for text in _texts(item)]


Step = Call | Callable[["Cloud", Values], Any]
# Where a value is found: JMESPath in what was read, a call of its own, or code.
Reader = str | Call | Callable[["Cloud", Values], Any]


@dataclass(frozen=True)
class Holder:
    """Who keeps a resource from being deleted: a sentence's words, and the call that finds their names."""

    who: str
    find: Call | Callable[[Cloud, Values], Any]


@dataclass(frozen=True)
class Needed:
    """What must exist before a resource can be created."""

    what: str
    find: Call


@dataclass(frozen=True)
class Tagging:
    """How a service tags. `read` is empty where tags come with the resource itself."""

    add: Call
    remove: Call
    read: Reader = "Tags || tags"


@dataclass(frozen=True)
class Row:
    """One resource type.

    Attributes:
        token: the type's token in Pulumi.
        source: where `replaces` comes from; a path is one of hashicorp/terraform-provider-aws, whose schema says
            `ForceNew` or `RequiresReplace`.
        replaces: properties whose change makes a new resource, dots for nested ones.
        create: its answer is the id, unless `identity` gives it. None when the stand-in keeps the whole resource.
        read: its answer is the resource, or nothing when it is gone.
        delete: steps, after the holders were asked.
        identity: template of the id, or code.
        arn: template of the ARN; where it is empty the answer's own is taken.
        after: steps that complete the creation.
        settings: the step that sets a property after the creation, and on every change.
        reads: where a property is found when it has another name in the answer; empty for one that cannot be read.
        outputs: the same for outputs.
        keeps: properties that moto does not take; the stand-in keeps them. `*` for all.
        own: properties that only the provider looks at.
        autoname: the property that gets a made-up name when it has none.
        holders: who keeps it from being deleted.
        needs: what must be there before.
        unique: template of what may exist once; by default the id.
        tagging: how it is tagged, where it can be.
    """

    token: str
    source: str
    replaces: str
    create: Call | None = None
    read: Call | None = None
    delete: tuple[Step, ...] = ()
    identity: str | Callable[[Values], str] = ""
    arn: str = ""
    after: tuple[Step, ...] = ()
    settings: Mapping[str, Step] = field(default_factory=dict)
    reads: Mapping[str, Reader] = field(default_factory=dict)
    outputs: Mapping[str, Reader] = field(default_factory=dict)
    keeps: str = ""
    own: str = ""
    autoname: str = ""
    name_pattern: str = "{name}-{random}"
    holders: tuple[Holder, ...] = ()
    needs: tuple[Needed, ...] = ()
    unique: str = ""
    tagging: Tagging | None = None

    @property
    def held(self) -> bool:
        """Whether the stand-in keeps the whole resource, because moto has no API for it."""
        return self.create is None

    @property
    def tags_kept(self) -> bool:
        """Whether moto cannot tag it, so that the stand-in keeps the tags."""
        return self.held or "tagsAll" in self.kept

    @property
    def kept(self) -> frozenset[str]:
        """The properties that the stand-in keeps."""
        return frozenset(self.keeps.split())

    def taken(self) -> set[str]:
        """The properties that the creation's call takes."""
        return self.create.properties() if self.create else set()

    def knows(self, name: str) -> bool:
        """Whether the row says what becomes of a property."""
        if self.held or name in self.kept or name in self.settings or name in self.own.split():
            return True
        if name in ("tags", "tagsAll", "region") or name in self.taken():
            return True
        return any(isinstance(step, Call) and name in step.properties() for step in self.after)
