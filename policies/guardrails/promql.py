"""Enough of PromQL to say how many series a query returns, which metrics it names, and whether it is an average.

Not a full parser: an expression that it does not understand counts as one that may return several series only where
that is certain, so an odd query is never called wrong.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

AGGREGATIONS = frozenset(
    {"sum", "min", "max", "avg", "count", "group", "stddev", "stdvar", "quantile", "topk", "bottomk", "count_values",
     "limitk", "limit_ratio"}
)  # fmt: skip
SINGLE_FUNCTIONS = frozenset({"scalar", "vector", "time", "absent", "absent_over_time", "pi"})
# Functions that make one series of several by joining buckets.
QUANTILES = frozenset({"histogram_quantile", "histogram_fraction"})
_OPERATORS = ("==", "!=", ">=", "<=", "=~", "!~", "+", "-", "*", "/", "%", "^", ">", "<")
_WORD_OPERATORS = frozenset({"and", "or", "unless", "atan2"})
_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`)|(?P<number>0x[0-9a-f]+|\d+\.?\d*(?:[eE][+-]?\d+)?"
    r"(?:ms|[smhdwy])?|\.\d+)|(?P<name>[a-zA-Z_:][\w:.]*)|(?P<op>==|!=|>=|<=|=~|!~|[-+*/%^<>=(){}\[\],@]))"
)
# Names of values that are parts of a whole: adding them up over replicas means nothing.
_RATIO_NAME = re.compile(r"(?:_perc|_percent|_percentage|_ratio|_utilization|_UTIL|_util)$")
_METRIC = re.compile(r"(?<![\w:.])(vllm:[a-z0-9_]+|ray_vllm_[a-z0-9_]+)(?![\w:])")


@dataclass(frozen=True, slots=True)
class Series:
    """What an expression returns. `labels` None: one series, or as many as its selector finds."""

    many: bool
    labels: frozenset[str] = frozenset()
    number: bool = False
    ratio: bool = False  # a quotient of two measured values, or an average


class _UnclearError(Exception):
    """The expression is outside of what is understood here."""


def series_of(query: str) -> Series | None:
    """What a query returns; None where that is not clear."""
    try:
        tokens = list(_tokens(query))
        reader = _Reader(tokens)
        found = reader.expression()
    except (_UnclearError, IndexError, RecursionError):
        return None
    return found if reader.at_end else None


def metrics_in(text: str) -> list[str]:
    """Engine metrics that a text names, each once."""
    return list(dict.fromkeys(_METRIC.findall(text)))


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    position = 0
    stripped = query.strip()
    while position < len(stripped):
        found = _TOKEN.match(stripped, position)
        if found is None or found.end() == position:
            raise _UnclearError
        position = found.end()
        kind = found.lastgroup or ""
        yield kind, found[kind]


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.index = 0

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    def peek(self) -> str:
        return "" if self.at_end else self.tokens[self.index][1]

    def kind(self) -> str:
        return "" if self.at_end else self.tokens[self.index][0]

    def take(self, wanted: str | None = None) -> str:
        if self.at_end or (wanted is not None and self.peek() != wanted):
            raise _UnclearError
        value = self.tokens[self.index][1]
        self.index += 1
        return value

    def expression(self) -> Series:
        """Operands joined by operators; precedence does not change how many series there are."""
        left = self.operand()
        while not self.at_end and (self.peek() in _OPERATORS or self.peek().lower() in _WORD_OPERATORS):
            operator = self.take().lower()
            if self.peek() == "bool":
                self.take()
            self._matching()
            left = _joined(operator, left, self.operand())
        return left

    def _matching(self) -> None:
        """On (…), ignoring (…), group_left (…)."""
        while self.peek() in ("on", "ignoring", "group_left", "group_right"):
            self.take()
            if self.peek() == "(":
                self._names()

    def operand(self) -> Series:
        if self.peek() in ("+", "-"):
            self.take()
            return self.operand()
        found = self._primary()
        while self.peek() in ("[", "@") or self.peek() == "offset":
            self._modifier()
        return found

    def _primary(self) -> Series:
        if self.peek() == "(":
            self.take()
            found = self.expression()
            self.take(")")
            return found
        if self.kind() in ("number", "string"):
            self.take()
            return Series(many=False, number=True)
        if self.peek() == "{":
            return self._selector()
        name = self.take()
        if name.lower() in AGGREGATIONS and self.peek() in ("(", "by", "without"):
            return self._aggregation(name.lower())
        if self.peek() == "(":
            return self._call(name)
        return self._selector()

    def _modifier(self) -> None:
        if self.take() == "[":
            while self.take() != "]":
                pass
        else:
            if self.peek() == "-":
                self.take()
            self.take()

    def _selector(self) -> Series:
        """A metric with its label matchers: one series only where a matcher names the pod or instance."""
        name = (
            self.tokens[self.index - 1][1] if self.index and self.tokens[self.index - 1][0] == "name" else ""
        )
        one = False
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                label, operator = self.take(), self.take()
                if operator in ("=", "==", "!=", "=~", "!~"):
                    self.take()
                    one = one or (operator == "=" and label in ("pod", "instance", "ReplicaId"))
                elif operator not in (",", "}"):
                    raise _UnclearError
                if self.peek() == ",":
                    self.take()
            self.take("}")
        return Series(many=not one, ratio=bool(_RATIO_NAME.search(name)))

    def _names(self) -> frozenset[str]:
        self.take("(")
        names = set()
        while self.peek() != ")":
            value = self.take()
            if value != ",":
                names.add(value)
        self.take(")")
        return frozenset(names)

    def _grouping(self) -> tuple[str, frozenset[str]]:
        if self.peek() in ("by", "without"):
            word = self.take()
            return word, self._names()
        return "", frozenset()

    def _arguments(self) -> list[Series]:
        self.take("(")
        found = []
        while self.peek() != ")":
            found.append(self.expression())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return found

    def _aggregation(self, name: str) -> Series:
        word, labels = self._grouping()
        start = self.index
        inner = self._arguments()
        if not word:
            word, labels = self._grouping()
        if name in ("topk", "bottomk", "limitk"):
            first = self.tokens[start + 1][1]
            return Series(many=first != "1" or bool(labels), ratio=inner[-1].ratio)
        many = name == "count_values" or word == "without" or bool(labels)
        ratio = name == "avg" or (name in ("max", "min", "quantile") and inner[-1].ratio)
        return Series(many=many, labels=labels, ratio=ratio)

    def _call(self, name: str) -> Series:
        arguments = self._arguments()
        if name in SINGLE_FUNCTIONS:
            return Series(many=False, number=name in ("time", "pi"))
        if name in QUANTILES:
            inner = arguments[-1]
            return Series(many=inner.many and inner.labels != frozenset({"le"}), ratio=True)
        vectors = [item for item in arguments if not item.number]
        if not vectors:
            return Series(many=False, number=True)
        return Series(many=vectors[0].many, labels=vectors[0].labels, ratio=vectors[0].ratio)


def _joined(operator: str, left: Series, right: Series) -> Series:
    if operator in ("and", "unless"):
        return left
    if operator == "or":
        return Series(left.many or right.many, left.labels, ratio=left.ratio)
    if left.number and right.number:
        return Series(many=False, number=True)
    if left.number or right.number:
        vector = right if left.number else left
        return Series(vector.many, vector.labels, ratio=vector.ratio)
    quotient = operator == "/"
    return Series(left.many or right.many, ratio=quotient or left.ratio or right.ratio)
