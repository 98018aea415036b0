"""The one comment of a stack on a pull request: what stands in it, and which of the comments it is."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

MOST_CHARACTERS: Final = 65_536  # GitHub takes no longer body of a comment
_ROOM: Final = 200  # for what closes a cut text
_CUT: Final = "\n\n_The rest is in the summary of the job._\n"


def body_of(marker: str, stack: str, report: str | None, problems: str) -> str:
    """The report, or what stands in its way; always with the marker first."""
    if report is None:
        fence = "````"  # a stack file may hold three
        report = (
            f"{marker}\n## Stack `{stack}` cannot be previewed\n\n{fence}text\n{problems.strip()}\n{fence}\n"
        )
    return shortened(report if report.startswith(marker) else f"{marker}\n{report}")


def shortened(body: str) -> str:
    """The text, cut at the end of a line where it is too long."""
    if len(body) <= MOST_CHARACTERS:
        return body
    kept = body[: body.rfind("\n", 0, MOST_CHARACTERS - _ROOM)]
    return f"{kept}{_closing(kept)}{_CUT}"


def ours(comments: Iterable[Mapping[str, Any]], marker: str) -> int | None:
    """Id of the comment with the marker. A person who quotes it is no bot and is left alone."""
    for comment in comments:
        if str(comment["body"]).startswith(marker) and comment["user"]["type"] == "Bot":
            return int(comment["id"])
    return None


def _closing(text: str) -> str:
    """What a cut left open: a fence or a folded part."""
    fence = "\n```" if text.count("\n```") % 2 else ""
    return fence + "\n</details>" * (text.count("<details>") - text.count("</details>"))
