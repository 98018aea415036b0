"""Runs what `llmp preview` runs first on broken stack files, and judges what a person would read."""

import random
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from components.settings import PlatformSettings, stack_file
from components.settings.problems import SettingsError
from tests.badconfig.operators import OPERATORS, Broken, Operator
from tests.badconfig.targets import ROOT, Stack, stacks

# Words of pydantic, of PyYAML and of Python, which tell a platform engineer nothing.
_FOREIGN = re.compile(
    r"Input should|[Vv]alidation|is refused:|should have at|Traceback|NoneType|Error\b|<class|object at 0x"
)


@dataclass(slots=True)
class Count:
    """What became of the cases of one operator."""

    cases: int = 0
    refused: int = 0
    accepted: int = 0
    at_line: int = 0
    with_line: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Counts by operator, and the processor seconds of each case."""

    counts: dict[str, Count]
    times: list[float]
    with_rules: bool

    @property
    def failures(self) -> list[str]:
        """Everything that should not be, in the order it was found."""
        return [failure for count in self.counts.values() for failure in count.failures]


def run(count: int, seed: int, operators: Sequence[Operator] = OPERATORS) -> Report:
    """Break the stack files ``count`` times, the operators in turn."""
    chance, files = random.Random(seed), stacks()
    rules = _rules()
    chosen = [operator for operator in operators if rules or not operator.needs_rules]
    report = Report({operator.name: Count() for operator in chosen}, [], rules is not None)
    for index in range(count):
        operator = chosen[index % len(chosen)]
        stack, broken = _broken(operator, files, chance)
        start = time.process_time()
        outcome = _outcome(stack, broken, rules)
        report.times.append(time.process_time() - start)
        _judge(report.counts[operator.name], operator, stack, broken, outcome)
    return report


def _broken(operator: Operator, files: list[Stack], chance: random.Random) -> tuple[Stack, Broken]:
    """A stack and its broken text; chance is asked again where the operator has nothing to do."""
    while True:
        stack = chance.choice(files)
        broken = operator.run(stack, chance)
        if broken is not None and broken.text != stack.text:
            return stack, broken


@dataclass(slots=True)
class _Outcome:
    """Sentences of the refusal (empty: accepted), or the traceback of an accident."""

    sentences: list[str]
    accident: str = ""
    settings: PlatformSettings | None = None


def _outcome(stack: Stack, broken: Broken, rules: object) -> _Outcome:
    """What `llmp preview` does first, on the bytes of a broken file."""
    try:
        file = stack_file.decode(broken.text.encode(), stack.name)
        settings = stack_file.settings_of(file)
        return _Outcome(list(_refusals(rules, settings, file)), settings=settings)
    except SettingsError as error:
        return _Outcome(str(error).splitlines())
    except BaseException:  # noqa: BLE001 - an accident of any kind is what is looked for
        return _Outcome([], traceback.format_exc(limit=-3))


def _refusals(rules: object, settings: PlatformSettings, file: stack_file.StackFile) -> Iterator[str]:
    """Findings of the rules that stop a stack, as `llmp preview` prints them."""
    if rules is None:
        return
    for finding in rules.check_settings(settings):  # type: ignore[attr-defined]
        if str(finding.severity) == "error":
            path = ".".join(map(str, finding.path))
            yield f"{file.name}:{file.line_of(finding.path)}: {path}: {finding.message} [{finding.rule}]"


def _judge(count: Count, operator: Operator, stack: Stack, broken: Broken, outcome: _Outcome) -> None:
    count.cases += 1
    if outcome.sentences:
        lines = _lines(outcome, stack)
        count.refused += 1
        count.with_line += None not in lines
        count.at_line += broken.line in lines
        complaints = _about_refusal(broken, outcome, lines)
    else:
        count.accepted += not outcome.accident
        complaints = _about_acceptance(operator, stack, broken, outcome)
    count.failures += [f"{operator.name}: {stack.name}: {broken.what}: {what}" for what in complaints]


def _about_acceptance(operator: Operator, stack: Stack, broken: Broken, outcome: _Outcome) -> Iterator[str]:
    """What is wrong with a file that was not refused."""
    if outcome.accident:
        yield f"ended in a traceback:\n{outcome.accident}"
    elif operator.always or broken.certain:
        yield "was accepted"
    elif operator.keeps and outcome.settings != stack_file.settings_of(
        stack_file.parse(stack.text, stack.name)
    ):
        yield "was accepted and means something else"


def _about_refusal(broken: Broken, outcome: _Outcome, lines: Sequence[int | None]) -> Iterator[str]:
    """What is wrong with the sentences of a refusal."""
    first = outcome.sentences[0]
    if any(line is None or not 1 <= line <= broken.text.count("\n") + 1 for line in lines):
        yield f"names no line: {first}"
    if broken.line is not None and broken.line not in lines:
        yield f"names line {lines[0]} and not {broken.line}: {first}"
    yield from (f"is not in people's words: {one}" for one in outcome.sentences if _FOREIGN.search(one))


def _lines(outcome: _Outcome, stack: Stack) -> list[int | None]:
    """The line that each sentence names."""
    matches = [
        re.match(rf"{re.escape(stack.name)}:(\d+): ", one) for one in outcome.sentences if one[0] != "…"
    ]
    return [int(match[1]) if match else None for match in matches]


def _rules() -> object:
    """The guardrails, or None where they are not there."""
    folder = ROOT / "policies"
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        import guardrails  # noqa: PLC0415 - needs the path above
    except ImportError:
        return None
    return guardrails if hasattr(guardrails, "check_settings") else None
