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
from kernelsmith.onpolicy.model import Side

Names = tuple[str, ...]


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
    sequence: Names = ("sequence",)
    turn: Names = ("turn", "index")
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
        sequence=("sequence", "request_id", "uid"),
        turn=("turn",),
        weights=("weights", "param_version"),
    ),
    Fields(
        stack="slime",
        sampler=("rollout_log_probs",),
        trainer=("log_probs",),
        tokens=("tokens",),
        mask=("loss_mask", "loss_masks"),
        length=("response_length", "response_lengths"),
        sequence=("sequence", "index", "sample_indices"),
        turn=("turn",),
        weights=("weights", "weight_versions"),
    ),
    Fields(
        stack="prime-rl examples",
        sampler=("completion_logprobs",),
        trainer=(),
        tokens=("completion_ids",),
        mask=("completion_mask",),
        sequence=("sequence", "example_id", "rollout_id"),
        turn=("turn",),
    ),
    Fields(
        stack="prime-rl",
        sampler=("inference_logprobs",),
        trainer=("trainer_logprobs",),
        tokens=("input_ids",),
        mask=("loss_mask",),
        sequence=("sequence", "example_id", "rollout_id"),
        turn=("turn",),
    ),
    Fields(
        stack="TorchTitan",
        sampler=("generator_logprobs", "behavior_logprobs", "logprobs"),
        trainer=("policy_logprobs", "trainer_logprobs"),
        tokens=("token_ids",),
        mask=("loss_mask",),
        sequence=("sequence", "rollout_id"),
        turn=("turn",),
        weights=("weights", "min_policy_version", "policy_version"),
    ),
    NATIVE,
)
"""In the order in which they are tried; what a file's first record holds decides."""

_MAPPABLE = tuple(name for name in Fields.__slots__ if name != "stack")


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
        for one in ("sampler", "trainer"):
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
) -> Fields:
    """The fields of a file by the names that its first record holds; what is mapped comes first.

    The first stack whose log-probs *and* tokens or mask are there, else the first whose log-probs
    are. A ``native`` file has a header that says so, and need not have log-probs.

    Raises:
        InputError: no log-probs of this side are there, or a mapped name is not.
    """
    mine = [each for each in mapped if each.side in (None, side)]
    told: dict[str, Names] = {}
    for each in mine:
        of_other_side = each.what in ("sampler", "trainer") and each.what != side
        if each.name not in names and not of_other_side:
            raise _absent(f"no field {each.name!r} in {file}", names)
        told[each.what] = (each.name,)
    if native:
        return replace(NATIVE, **_overrides(told))
    held = [one for one in STACKS if side in told or _any(one.logprobs(side), names)]
    whole = [one for one in held if _any(one.tokens, names) or _any(one.mask, names)]
    if not held:
        raise _absent(f"no log-probs of the {side} in {file}", names, side)
    return replace((whole or held)[0], **_overrides(told))


def _overrides(told: Mapping[str, Names]) -> dict[str, Any]:
    # A mapped token field is as long as the log-probs unless a length is mapped too.
    return {**({"length": ()} if "tokens" in told else {}), **told}


def _any(wanted: Names, names: Collection[str]) -> bool:
    return any(name in names for name in wanted)


def _absent(message: str, names: Collection[str], side: Side | None = None) -> InputError:
    shown = ", ".join(sorted(names)[:20]) or "nothing"
    way = f"; name the right one with --field {side}=NAME" if side else ""
    return InputError(message, hint=f"it has: {shown}{way}")
