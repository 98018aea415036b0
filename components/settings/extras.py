"""The rest of a stack: endpoint, observability, headroom, storage, budget and policy."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from components.settings.base import (
    Arn,
    BucketName,
    Cidr,
    Cron,
    Day,
    DiskSize,
    Fault,
    InstanceType,
    Name,
    Positive,
    Settings,
    Text,
    form,
    time_zone,
)

Host = Annotated[
    str, form(r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", "a host name in lower case like llm.example.com", longest=253)
]
TimeZone = Annotated[
    str,
    form(r"^(UTC|[A-Za-z]+(/[A-Za-z0-9_+-]+)+)$", "a time zone like UTC or America/Los_Angeles"),
    AfterValidator(time_zone),
]
Certificate = Annotated[
    str,
    form(
        r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[A-Za-z0-9-]+$",
        "the ARN of a certificate of ACM like arn:aws:acm:us-west-2:111122223333:certificate/8f4d2a60",
    ),
]
PrometheusAddress = Annotated[
    str,
    form(
        r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[^\s]*)?$",
        "an address like http://prometheus.monitoring:9090",
    ),
]
Reason = Annotated[str, Field(min_length=10)]  # "because" is none


class Scheme(StrEnum):
    """Where the load balancer listens."""

    INTERNAL = "internal"
    INTERNET_FACING = "internetFacing"


class EndpointSettings(Settings):
    """One ALB for the stack; each model answers at <model>.<host>."""

    host: Host = Field(description="Host name of the stack; each model answers at <model>.<host>.")
    scheme: Scheme = Field(default=Scheme.INTERNAL, description="Within the VPC, or open to the internet.")
    certificate_arn: Certificate | None = Field(
        default=None, description="Certificate of ACM for *.<host>; unset: plain HTTP."
    )
    cidrs: tuple[Cidr, ...] = Field(
        default=(), description="Networks that may call; empty: all that reach the balancer."
    )
    keys: bool = Field(
        default=False, description="Callers need a key of the secret llm-platform:endpointKeys."
    )
    idle_timeout: Annotated[int, Field(ge=60, le=4000, description="Seconds.")] = (
        600  # as long as a request (timeouts.request): what is not streamed sends nothing before its end
    )


class StorageSettings(Settings):
    """The bucket with the weights: made here, or one that exists."""

    bucket: BucketName | None = Field(
        default=None, description="Name of the bucket; unset: Pulumi chooses one."
    )
    existing: bool = Field(
        default=False, description="The bucket is there already and stays when the stack goes."
    )
    kms_key_arn: Arn | None = Field(
        default=None, description="Own KMS key of the bucket; unset: S3's own encryption."
    )

    def faults(self) -> Iterable[Fault]:
        """A bucket that is there has a name."""
        if self.existing and not self.bucket:
            yield ("existing",), "needs the name of the bucket; write it in bucket"


class ObservabilitySettings(Settings):
    """Prometheus, Grafana, monitors and alerts."""

    enabled: bool = Field(default=True, description="false: no monitors, alerts or dashboards at all.")
    retention_days: Positive = Field(default=15, description="Days that Prometheus keeps what it measured.")
    storage: DiskSize = Field(default="100Gi", description="Disk of Prometheus.")
    scrape_interval: Annotated[int, Field(ge=1, le=60, description="Seconds.")] = 5
    prometheus: PrometheusAddress | None = Field(
        default=None,
        description="Address of a Prometheus that is there already; unset: the one of this stack.",
    )


class OfficeHours(Settings):
    """Hours in which headroom is held."""

    timezone: TimeZone = Field(
        default="UTC", description="Time zone of start and end, which may have summer time."
    )
    start: Cron = Field(default="0 8 * * 1-5", description="Cron expression.")
    end: Cron = Field(default="0 19 * * 1-5", description="Cron expression.")
    replicas: Positive = Field(default=1, description="Replicas' worth of GPUs that are held.")


class HeadroomSettings(Settings):
    """Pause pods that keep GPU nodes warm for one model; a real pod takes their place at once."""

    model: Name = Field(description="Name of the model whose nodes are kept warm.")
    office_hours: OfficeHours | None = Field(
        default=None, description="Hours in which nodes are held whatever the load."
    )
    waiting_requests: Positive | None = Field(
        default=None, description="Queue length that buys one more node."
    )
    max_replicas: Positive = Field(default=1, description="Most replicas' worth of GPUs that are held idle.")

    def faults(self) -> Iterable[Fault]:
        """Something says when nodes are held, and the most is not below the least."""
        hours = self.office_hours
        if hours is None and self.waiting_requests is None:
            yield (
                (),
                "needs officeHours, waitingRequests or both; without a trigger it would never hold anything",
            )
        if hours and hours.replicas > self.max_replicas:
            message = f"maxReplicas {self.max_replicas} is below the {hours.replicas} of officeHours; raise one or lower the other"
            yield self.written("max_replicas", "office_hours"), message


class Waiver(Settings):
    """One rule not applied to one object, for a reason and until a day."""

    rule: Text = Field(description="Id of the rule, as findings show it in brackets.")
    object: Text = Field(description="Kind/name, or * for all.")
    reason: Reason = Field(description="Why the rule may be broken here, for the next reader.")
    expires: Day = Field(
        description='Day after which the waiver is itself a finding, in quotes like "2027-01-31".'
    )


class Override(Settings):
    """Another severity for a rule in this stack."""

    severity: Literal["error", "warn", "advice", "off"] = Field(
        description="How much the rule weighs in this stack."
    )
    reason: Reason = Field(description="Why it weighs more or less here, for the next reader.")


class PolicySettings(Settings):
    """How the rules are applied to this stack."""

    # prod unless said otherwise: a stack that forgets it is judged strictly.
    environment: Literal["dev", "prod"] = Field(default="prod", description="dev: some rules only advise.")
    overrides: dict[Text, Override] = Field(default_factory=dict, description="By the id of the rule.")
    waivers: tuple[Waiver, ...] = Field(default=(), description="Rules not applied to single objects.")


class BudgetSettings(Settings):
    """What the stack may cost at its ceiling."""

    usd_per_month: Positive = Field(
        description="US dollars a month that the stack may cost when every pool is full."
    )
    prices: dict[InstanceType, Annotated[float, Field(gt=0, le=10_000)]] = Field(
        default_factory=dict,
        description="Own price of an instance type, USD per hour, in place of the table's.",
    )


class DeletionSettings(Settings):
    """What `pulumi destroy` must not take along by mistake."""

    protect: bool = Field(default=True, description="Pulumi refuses to delete the cluster and the bucket.")
    keep_weights: bool = Field(
        default=True, description="The bucket stays when the stack is destroyed."
    )  # 141 GB to fetch again
