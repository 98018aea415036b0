"""What libyaml complains about, in words for someone who writes a stack file."""

from typing import Any, Final

import yaml

# What libyaml (and PyYAML's own parser) says -> what it means here. The first that is found counts.
_SAYINGS: Final = (
    ("mapping values are not allowed", "a `key:` within another value; indent it like its neighbours, or quote text that has a colon and a space"),
    ("did not find expected key", "does not fit the block{above}; check the indent, commas and quotes there"),
    ("but found", "does not fit the block{above}; check the indent, commas and quotes there"),
    ("did not find expected '-' indicator", "does not fit the list{above}; start each item with `- ` at the same indent"),
    ("did not find expected ',' or ']'", "the list opened with [{above} lacks a comma or its ]"),
    ("did not find expected ',' or '}'", "the mapping opened with {{{above} lacks a comma or its }}"),
    ("did not find expected node content", "a value is missing here; check the brackets and commas before it"),
    ("could not find expected ':'", "`key: value` is expected{above}; check the colon, the indent and the quotes"),
    ("found unexpected end of stream", "the quotes opened{above} are never closed"),
    ("found unknown escape character", "\\ starts an escape within double quotes; write \\\\ or use single quotes"),
    ("did not find expected hexdecimal number", "\\ starts an escape within double quotes; write \\\\ or use single quotes"),
    ("invalid Unicode character", "\\ with a code that is no character; write \\\\ or use single quotes"),
    ("block sequence entries are not allowed", "a list item (`- `) cannot start here; put it on a line of its own"),
    ("block mapping keys are not allowed", "a `key:` cannot start here; put it on a line of its own"),
    ("found character that cannot start any token", "{character}"),
    ("found a tab character", "a tab stands here; YAML indents with spaces"),
    ("expected comment or line break", "text follows | or >; start it on the next line"),
    ("found unexpected document indicator", "--- or ... stands inside quotes that are not closed"),
    ("did not find expected <document start>", "does not belong to the mapping above; check the indent"),
    ("control characters are not allowed", "holds a control character, so it is not a text file"),
    ("special characters are not allowed", "holds a control character, so it is not a text file"),
    ("duplicate anchor", "an &anchor is given twice; give each its own name"),
)  # fmt: skip


def in_words(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """Line (1-based) and sentence of a parser's complaint."""
    said = f"{getattr(error, 'problem', None) or getattr(error, 'reason', None) or error}"
    mark = getattr(error, "problem_mark", None)
    lines = text.splitlines() or [""]
    line = min(mark.line + 1, len(lines)) if mark else _line_at(error, text)
    for known, meaning in _SAYINGS:
        if known in said:
            above = _above(getattr(error, "context_mark", None), line)
            return line, "is not YAML: " + meaning.format(above=above, character=_character(lines, mark))
    return line, f"is not YAML: {' '.join(said.split())}; check the indent and quotes there"


def _above(mark: Any, line: int) -> str:
    """Where the thing that is not finished began, when that is another line."""
    return f" on line {mark.line + 1}" if mark is not None and mark.line + 1 != line else ""


def _line_at(error: yaml.YAMLError, text: str) -> int:
    """A reader's complaint has a position and no mark."""
    position = getattr(error, "position", None)
    return text[:position].count("\n") + 1 if isinstance(position, int) else 1


def _character(lines: list[str], mark: Any) -> str:
    row = lines[mark.line] if mark and mark.line < len(lines) else ""
    found = row[mark.column : mark.column + 1] if mark else ""
    if found == "\t":
        return "a tab stands here; YAML indents with spaces"
    return f"text that starts with {found or 'this character'} needs quotes"
