"""What every settings model shares: frozen, unknown keys refused, camelCase in YAML, snake_case in Python.

A rule about one value stands here with its type, a rule about the keys of one block in the block's `faults`. Rules about
meaning across blocks live in `policies/guardrails`.
"""

import difflib
import ipaddress
import re
import zoneinfo
from collections.abc import Iterable
from datetime import date, datetime
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

# What a pattern means, in words that follow "… is not"; for people and for editors.
FORMS: Final[dict[str, str]] = {}

Fault = tuple[tuple[str | int, ...], str]  # keys below the block as the file writes them, and a sentence


class Settings(BaseModel):
    """Base of all settings. Instances are frozen; a key that no field has is an error, so a typo never passes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        strict=True,  # "4" is not 4 and 1.36 is not "1.36": YAML's guesses are shown, not repaired
        ser_json_inf_nan="strings",
    )

    def faults(self) -> Iterable[Fault]:
        """What is wrong between the keys of this block, each with the key that has to change."""
        return ()

    @model_validator(mode="after")
    def _has_no_faults(self) -> Self:
        # A plain ValueError would point at the first line of the block; these point at the key.
        found = [
            InitErrorDetails(
                type=PydanticCustomError("fault", "{sentence}", {"sentence": text}), loc=keys, input=None
            )
            for keys, text in self.faults()
        ]
        if found:
            raise ValidationError.from_exception_data(type(self).__name__, found)
        return self

    def written(self, *names: str) -> tuple[str, ...]:
        """Path of the first of some fields that was given and not left at its default; empty if none was."""
        given = next((name for name in names if name in self.model_fields_set), None)
        return (type(self).model_fields[given].alias or given,) if given else ()


def form(pattern: str, words: str, *, longest: int | None = None) -> StringConstraints:
    """A pattern with the words for it: `a name like llama-8b`."""
    FORMS[pattern] = words
    return StringConstraints(pattern=pattern, max_length=longest)


def network(text: str) -> str:
    """Refuse what only looks like a network: 10.0.0.300/16, or 10.0.0.1/16, whose last part is a host's."""
    try:
        whole = ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        message = f'"{text}" is not a network like 10.0.0.0/16: its numbers go to 255 and its length to 32'
        raise ValueError(message) from None
    if str(whole.network_address) != text.partition("/")[0]:
        message = f'"{text}" names a host within a network; write {whole}'
        raise ValueError(message)
    return text


def day(value: object) -> object:
    """A day from its text. Pydantic itself would also take the seconds since 1970."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.strptime(value, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        message = f'"{value}" is not a date in quotes like "2027-01-31"'
        raise ValueError(message) from None


def time_zone(text: str) -> str:
    """Refuse a zone that the time zone database has not; where the machine has no database, the form must do."""
    if _is_zone(text) or not _is_zone("America/New_York"):
        return text
    close = difflib.get_close_matches(text, zoneinfo.available_timezones(), n=1)
    message = f'"{text}" is not in the time zone database; ' + (
        f"did you mean {close[0]}?" if close else "write a zone like America/Los_Angeles"
    )
    raise ValueError(message)


def _is_zone(text: str) -> bool:
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return False
    return True


# Minute, hour, day, month, weekday: the largest number of each (KEDA's and Karpenter's cron, five fields).
_CRON_FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
)
_CRON_NAMES: Final = re.compile(
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat", re.IGNORECASE
)
_CRON_PART: Final = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", re.ASCII)


def cron(text: str) -> str:
    """Refuse a cron expression that no scheduler would take; the sentence names the field."""
    fields = text.split()
    if len(fields) != len(_CRON_FIELDS):
        message = f'"{text}" has {len(fields)} of five fields; a cron expression is like "0 8 * * 1-5" (minute hour day month weekday)'
        raise ValueError(message)
    for given, (name, least, most) in zip(fields, _CRON_FIELDS, strict=True):
        for part in _CRON_NAMES.sub(str(least), given).split(","):
            match = _CRON_PART.fullmatch(part)
            numbers = [int(x) for x in match.groups()[:2] if x] if match else [-1]
            if not all(least <= x <= most for x in numbers) or (match and match[3] == "0"):
                message = f'"{text}" has "{given}" for the {name}; allowed are {least} to {most}, lists, ranges and steps'
                raise ValueError(message)
    return text


_NUMBER: Final = r"([1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)"  # above zero

# A DNS label is what Kubernetes accepts as the name of nearly everything; Ray's are shorter, see guardrails.
Name = Annotated[
    str,
    form(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "a name of lower-case letters, digits and - like llama-8b",
        longest=63,
    ),
]
Region = Annotated[str, form(r"^[a-z]{2}(-[a-z]+)+-[0-9]$", "an AWS region like us-west-2")]
Zone = Annotated[str, form(r"^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$", "a zone of a region like us-west-2a")]
AccountId = Annotated[
    str, form(r"^[0-9]{12}$", 'the twelve digits of an AWS account in quotes like "111122223333"')
]
Cidr = Annotated[
    str,
    form(r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$", "a network like 10.0.0.0/16"),
    AfterValidator(network),
]
Arn = Annotated[
    str,
    form(
        r"^arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:([0-9]{12}|aws)?:[A-Za-z0-9+=,.@_/:*-]+$",
        "an ARN like arn:aws:iam::111122223333:role/platform-admin",
    ),
]
Quantity = Annotated[
    str,
    form(rf"^{_NUMBER}(m|k|Ki|[MGTP]i?)?$", "a quantity of Kubernetes above zero, like 2, 500m or 16Gi"),
]
Cpu = Annotated[str, form(rf"^({_NUMBER}|[1-9][0-9]*m)$", 'CPU cores in quotes like "2" or "500m"')]
Memory = Annotated[
    str, form(rf"^{_NUMBER}(Ki|Mi|Gi|Ti|k|M|G|T)$", "memory with its unit, like 16Gi or 512Mi")
]
DiskSize = Annotated[str, form(r"^[1-9][0-9]{0,4}Gi$", "the size of a disk in Gi, like 500Gi")]
# What Karpenter's CRDs take (1.14.1, karpenter.sh_nodepools.yaml): no days, no fractions.
Duration = Annotated[str, form(r"^([0-9]+(s|m|h))+$", "a time in h, m and s like 10m or 1h30m")]
DurationOrNever = Annotated[
    str, form(r"^(([0-9]+(s|m|h))+|Never)$", "a time in h, m and s like 720h, or Never")
]
HoursAndMinutes = Annotated[str, form(r"^([0-9]+h([0-9]+m)?|[0-9]+m)$", "a time in h and m like 9h or 8h30m")]
Day = Annotated[date, BeforeValidator(day)]
Cron = Annotated[str, AfterValidator(cron)]
InstanceType = Annotated[str, form(r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$", "an EC2 instance type like g5.12xlarge")]
BucketName = Annotated[
    str,
    form(
        r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        "the name of a bucket: 3 to 63 lower-case letters, digits, - and .",
    ),
]
LabelKey = Annotated[
    str,
    form(
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "a label key of Kubernetes like team or example.com/team",
        longest=317,
    ),
]
LabelValue = Annotated[
    str,
    form(
        r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        "a label value of Kubernetes: letters, digits, -, _ and . between them",
        longest=63,
    ),
]
_TAG: Final = "a tag of AWS: letters, digits, spaces and _ . : / = + - @"
TagKey = Annotated[str, form(r"^[A-Za-z0-9 _.:/=+@-]+$", _TAG, longest=128)]
TagValue = Annotated[str, form(r"^[A-Za-z0-9 _.:/=+@-]*$", _TAG, longest=256)]
Text = Annotated[str, form(r"^\S(.*\S)?$", "text on one line")]
_LARGEST: Final = 2**31 - 1  # Kubernetes and vLLM keep counts in 32 bits
_WEEK: Final = 7 * 24 * 3600  # a longer time was meant in milliseconds
Positive = Annotated[int, Field(ge=1, le=_LARGEST)]
Natural = Annotated[int, Field(ge=0, le=_LARGEST)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=_WEEK)]
PositiveSeconds = Annotated[float, Field(gt=0, le=_WEEK)]
