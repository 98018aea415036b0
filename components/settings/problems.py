"""Problems of a stack file as sentences: place, value, what is allowed, what to do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from components.settings.places import Location, place_of
from components.settings.platform import PlatformSettings
from components.settings.sentences import Case, closest, nearest, sentence, shown, shown_words

if TYPE_CHECKING:
    from components.settings.stack_file import StackFile

_MOST_SHOWN: Final = 100  # more lines than this are one mistake, such as a wrong indent at the top


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a stack file; ``line`` is None where the value did not come from a file."""

    file: str
    line: int | None
    path: Location
    message: str

    def __str__(self) -> str:
        """`Pulumi.prod.yaml:12: models.0.pool: what is wrong, what is allowed`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        path = ".".join(_step(step) for step in self.path)
        return f"{place}: {path}: {self.message}" if path else f"{place}: {self.message}"


class SettingsError(Exception):
    """Every problem of a stack file. Its text is what the user reads."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Sort the problems by line, so that they read like the file."""
        self.problems = tuple(sorted(problems, key=lambda p: (p.line or 0, [str(x) for x in p.path])))
        lines = [str(problem) for problem in self.problems[:_MOST_SHOWN]]
        if len(self.problems) > _MOST_SHOWN:
            lines.append(f"… and {len(self.problems) - _MOST_SHOWN} more")
        super().__init__("\n".join(lines))


def from_validation(
    error: ValidationError, file: "StackFile | None", name: str, root: type[BaseModel] = PlatformSettings
) -> list[Problem]:
    """Pydantic's errors in the user's words, with their lines; one for a value that is none of several types.

    ``root`` is the model that was validated.
    """
    problems: dict[tuple[Location, str], Problem] = {}
    for details in error.errors(include_url=False):
        case = _case(details, file, root)
        path = case.place.path
        hidden = file is not None and any(path[: len(above)] == above for above in file.hidden)
        if hidden or _is_echo(details):
            continue
        message = sentence(case)
        line = file.line_of(path) if file else None
        same = (path, "" if case.place.is_union else message)
        problems.setdefault(same, Problem(file.name if file else name, line, path, message))
    return list(problems.values())


def _is_echo(details: ErrorDetails) -> bool:
    """A list is called too short when its only item is refused; the item's own problem says it all."""
    given = details["input"]
    return (
        details["type"] == "too_short"
        and isinstance(given, list)
        and len(given) >= details["ctx"]["min_length"]
    )


def _case(details: ErrorDetails, file: "StackFile | None", root: type[BaseModel]) -> Case:
    kind, given = details["type"], details["input"]
    place = place_of(root, details["loc"])
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        # Pydantic points at the block; its key `kind` is what is wrong, or one that was meant to be it.
        meant = closest("kind", given) if kind == "union_tag_not_found" and isinstance(given, dict) else None
        place = replace(place, path=(*place.path, meant or "kind"))
        kind = "kind_misspelt" if meant else kind
    text = file.text_of(place.path) if file and not isinstance(given, (str, dict, list)) else None
    case = Case(kind, given, text or shown(given), details.get("ctx", {}), place, details["msg"], root)
    return replace(case, top=str(file.root[-1])) if file else case


def _step(step: str | int) -> str:
    """One step of a path on one line, however strange the key is."""
    text = str(step)
    return text if text.isprintable() and text and len(text) <= 60 else shown(text)  # noqa: PLR2004 - part of a line


__all__ = ["Location", "Problem", "SettingsError", "from_validation", "nearest", "shown_words"]
