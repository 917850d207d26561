"""What is known of the seed's order in a run."""

from dataclasses import dataclass, field

from kernelsmith.numerics import order


@dataclass(slots=True, kw_only=True)
class Trees:
    """Not frozen: it grows. ``tuned``: inputs under which a sum shows, by place; ``found``: what
    probing the seed gave, by place; ``digests``: hashes of the seed's outputs, by what a launch
    was given."""

    found: dict[tuple[str, str, str, int], order.Outcome] = field(default_factory=dict)
    tuned: dict[tuple[str, str, str, int], tuple[float, float, float] | None] = field(
        default_factory=dict
    )
    digests: dict[bytes, bytes] = field(default_factory=dict)
