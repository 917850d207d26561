"""How other stacks name what an audit needs, and a mapping for those that are not listed.

Names were read in the public sources (2026-11-30): verl's batch (``docs/algo/rollout_corr.md``,
``verl/trainer/ppo/rollout_corr_helper.py``), prime-rl's ``TrainingExample`` and ``MicroBatch``
(``src/prime_rl/transport/types.py``) and loss inputs, TorchTitan's ``TrainingSample``
(``torchtitan/experiments/rl/components/training_sample_builder.py``) and the arguments of its drift
metrics, slime's ``Sample`` and rollout batch (``slime/utils/types.py``).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.model import SIDES, Side

Names = tuple[str, ...]

IDS = ("sequence", "sequence_id", "id", "request_id", "rollout_id", "example_id", "uid", "index")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where a stack keeps what: for each thing the names that are tried, in order.

    ``length``: a field with the number of log-probs, whose tokens are the *last* so many of
    ``tokens`` (prompt and response in one list).
    """

    stack: str
    sampler: Names
    trainer: Names
    tokens: Names = ()
    mask: Names = ()
    length: Names = ()
    sequence: Names = IDS
    turn: Names = ("turn", "turn_idx")
    epoch: Names = ("epoch",)
    weights: Names = ("weights",)
    state: Names = ("state",)
    results: Names = ("results",)
    payloads: Names = ("payloads",)
    masked_tokens: Names = ("masked_tokens",)
    total_tokens: Names = ("total_tokens",)

    def logprobs(self, side: Side) -> Names:
        """The names of a side's log-probs."""
        return self.sampler if side == "sampler" else self.trainer

    @property
    def names(self) -> frozenset[str]:
        """All names that are tried."""
        return frozenset(name for what in _MAPPABLE for name in getattr(self, what))


_MAPPABLE = tuple(name for name in Fields.__slots__ if name != "stack")

NATIVE = Fields(
    stack="kernelsmith",
    sampler=("sampler_logprobs", "logprobs"),
    trainer=("trainer_logprobs", "logprobs"),
    tokens=("tokens",),
    mask=("mask",),
)

STACKS: tuple[Fields, ...] = (
    Fields(
        stack="verl",
        sampler=("rollout_log_probs",),
        trainer=("old_log_probs",),
        tokens=("responses",),
        mask=("response_mask",),
        weights=("weights", "param_version"),
    ),
    Fields(
        stack="slime",
        sampler=("rollout_log_probs",),
        trainer=("log_probs",),
        tokens=("tokens",),
        mask=("loss_mask", "loss_masks"),
        length=("response_length", "response_lengths"),
        weights=("weights", "weight_versions"),
    ),
    Fields(
        stack="prime-rl examples",
        sampler=("completion_logprobs",),
        trainer=(),
        tokens=("completion_ids",),
        mask=("completion_mask",),
    ),
    Fields(
        stack="prime-rl",
        sampler=("inference_logprobs",),
        trainer=("trainer_logprobs",),
        tokens=("input_ids",),
        mask=("loss_mask",),
    ),
    Fields(
        stack="TorchTitan",
        sampler=("generator_logprobs", "behavior_logprobs", "logprobs"),
        trainer=("policy_logprobs", "trainer_logprobs"),
        tokens=("token_ids",),
        mask=("loss_mask",),
        weights=("weights", "min_policy_version", "policy_version"),
    ),
    NATIVE,
    Fields(
        stack="none of these",
        sampler=("logprobs", "log_probs", "token_logprobs", "logps"),
        trainer=("logprobs", "log_probs", "token_logprobs", "logps"),
        tokens=("tokens", "token_ids", "input_ids", "ids"),
        mask=("mask", "loss_mask", "response_mask"),
    ),
)
"""In the order in which they are tried; what a file's first record holds decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """What ``--field`` says: one name for a thing, on one side or on both."""

    what: str
    name: str
    side: Side | None = None


def mapping(words: Iterable[str]) -> tuple[Mapped, ...]:
    """Reads ``--field sampler=my_logps``, ``--field tokens=ids``, ``--field trainer.mask=m``.

    Raises:
        InputError: no such thing, or no name.
    """
    found = []
    for word in words:
        left, equals, name = word.partition("=")
        side: Side | None = None
        what = left
        for one in SIDES:
            if left.startswith(f"{one}."):
                side, what = one, left.partition(".")[2]
                if what == "logprobs":
                    what = one
        if not equals or not name or what not in _MAPPABLE:
            raise InputError(
                f"--field {word!r} maps nothing",
                hint=f"WHAT=NAME with WHAT one of {', '.join(_MAPPABLE)}; `trainer.mask=NAME` is "
                "for one side",
            )
        found.append(Mapped(what=what, name=name, side=side))
    return tuple(found)


def fields_of(
    names: Collection[str],
    side: Side,
    mapped: Iterable[Mapped],
    file: str,
    *,
    native: bool = False,
) -> tuple[Fields, Side]:
    """The fields of a file by the names that its first record holds; what is mapped comes first.

    The first stack whose log-probs *and* tokens or mask are there, else the first whose log-probs
    are. Where there are only log-probs that a stack gives the other side, they are taken: the
    second of what is returned says whose they are by their name. A ``native`` file has a header
    that says so, and need not have log-probs.

    Raises:
        InputError: no log-probs are there, or a mapped name is not.
    """
    told = _told(names, side, mapped, file)
    if native:
        return replace(NATIVE, **_overrides(told)), side
    other: Side = "trainer" if side == "sampler" else "sampler"
    for whose in (side, other):
        held = [one for one in STACKS if side in told or _any(one.logprobs(whose), names)]
        whole = [one for one in held if _any(one.tokens, names) or _any(one.mask, names)]
        if held:
            one = (whole or held)[0]
            return replace(one, **{side: one.logprobs(whose), **_overrides(told)}), whose
    raise _absent(f"no log-probs of the {side} in {file}", names, side)


def _told(
    names: Collection[str], side: Side, mapped: Iterable[Mapped], file: str
) -> dict[str, Names]:
    told: dict[str, Names] = {}
    for each in mapped:
        if each.side not in (None, side) or (each.what in SIDES and each.what != side):
            continue
        if each.name not in names:
            raise _absent(f"no field {each.name!r} in {file}", names)
        told[each.what] = (each.name,)
    return told


def holds(names: Collection[str]) -> bool:
    """Whether any stack's log-probs are among the names."""
    return any(_any((*one.sampler, *one.trainer), names) for one in STACKS)


def _overrides(told: Mapping[str, Names]) -> dict[str, Any]:
    # A mapped token field is as long as the log-probs unless a length is mapped too.
    return {**({"length": ()} if "tokens" in told else {}), **told}


def _any(wanted: Names, names: Collection[str]) -> bool:
    return any(name in names for name in wanted)


def _absent(message: str, names: Collection[str], side: Side | None = None) -> InputError:
    shown = ", ".join(sorted(names)[:20]) or "nothing"
    way = f"; name the right one with --field {side}=NAME" if side else ""
    return InputError(message, hint=f"it has: {shown}{way}")
