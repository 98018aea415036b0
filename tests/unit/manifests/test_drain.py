"""How long a leaving pod is given."""

from components.manifests.drain import drain_of
from components.settings.models import Drain
from components.settings.pools import Capacity
from tests.unit.manifests.serving_samples import cpu_model, model, pool


def test_on_demand_ends_before_s3_mounts_do() -> None:
    """540, 560 and 590 s: S3 volumes go away at 600."""
    drain = drain_of(model(), pool())

    assert (drain.graceful_shutdown, drain.ray_drain, drain.pod_termination) == (540, 560, 590)


def test_one_spot_type_makes_it_short() -> None:
    """EC2 takes a spot node two minutes after it says so, and Serve knows one value for all replicas."""
    drain = drain_of(model(), pool(capacity=(Capacity.SPOT, Capacity.ON_DEMAND)))

    assert (drain.graceful_shutdown, drain.ray_drain, drain.pod_termination) == (80, 95, 110)


def test_reserved_capacity_is_not_taken_away() -> None:
    """Reserved nodes have the long grace."""
    assert drain_of(model(), pool(capacity=(Capacity.RESERVED,))).pod_termination == 590


def test_cpu_has_the_long_grace() -> None:
    """A model without a pool runs on nodes that nobody takes back."""
    assert drain_of(cpu_model(), None).pod_termination == 590


def test_the_models_own_values_win() -> None:
    """What the stack says is taken."""
    own = Drain(graceful_shutdown=10, ray_drain=20, pod_termination=30)

    assert drain_of(model(drain=own), pool()) == own
