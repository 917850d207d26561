"""The demonstration: a stock model is off-policy against itself, with the same weights and tokens.

One model (:mod:`kernelsmith.onpolicy.demo_model`) samples with its KV cache, half of the sequences
alone and half in a ragged batch, and then is its own trainer: a packed full forward of the same
ids. Both sides leave their dumps through :func:`kernelsmith.onpolicy.record`; the audit reads them
from the files. bfloat16 with transformers' default attention is what is audited, because that is
how such models are shipped and run; the same pairings in float32 and with the plain attention
stand beside it, whatever comes out.

Everything is a CPU's doing, on one thread. It says nothing of a GPU's kernels.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import InputError
from kernelsmith.onpolicy import demo_model
from kernelsmith.onpolicy.audit import Audit, audit
from kernelsmith.onpolicy.demo_model import Rollout
from kernelsmith.onpolicy.demo_origin import Origin, origin
from kernelsmith.onpolicy.dump import record
from kernelsmith.onpolicy.model import HeldDump, Turn
from kernelsmith.onpolicy.reading import open_dump
from kernelsmith.onpolicy.remedies import Remedy, weighed
from kernelsmith.onpolicy.tensors import logprobs_of, tokens_of

if TYPE_CHECKING:
    from torch import Tensor

Rollouts = tuple[Rollout, ...]

STOCK = ("bfloat16", "sdpa")
"""What is audited: the dtype in which Qwen3 is published, transformers' default attention."""
BESIDE = (("float32", "sdpa"), ("bfloat16", "eager"), ("float32", "eager"))
_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The same ids in two ways through one model.

    ``sampler``: ``alone``, ``ragged``, ``alone again`` (the control: the same way twice) or
    ``forward alone`` (a full forward of one sequence). ``trainer``: ``packed``, but ``alone`` for
    the control. ``origin``: where they part, if they were followed through the modules
    (``followed``) and do.
    """

    dtype: str
    attention: str
    sampler: str
    trainer: str
    audit: Audit
    followed: bool = False
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the recomputing forward costs, as ratios within this run: median of some rounds in
    which it and an update (forward and backward, no optimizer) took turns."""

    forward_over_update: float
    forward_over_rollout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What was seen. ``again``, ``two_packs``, ``one_each``: the trainer against itself, the packed
    forward beside the same once more, beside the same sequences in two packs, and beside a forward
    of each alone. It is what recompute makes of the ratio."""

    stock: Audit
    pairings: tuple[Pairing, ...]
    remedies: tuple[Remedy, ...]
    again: Audit
    two_packs: Audit
    one_each: Audit
    cost: Cost
    device: str
    epoch: str


def run(keep: Path | None = None) -> Demonstration:
    """Samples, trains, audits. About ten seconds on a quiet CPU; the model holds 5 million
    weights.

    Args:
        keep: a folder for the two dumps, ``sampler.jsonl`` and ``trainer.jsonl``; without one they
            are gone afterwards. It must not hold dumps of these names.

    Raises:
        MissingError: transformers is not installed.
        InputError: ``keep`` cannot be written.
    """
    with demo_model.one_thread(), _folder(keep) as folder:
        return _run(folder)


def _run(folder: Path) -> Demonstration:
    model = demo_model.build(*STOCK)
    begun = time.perf_counter()
    alone, ragged = _rollouts(model)
    rollout_s = time.perf_counter() - begun
    both = (*alone, *ragged)
    trainer, again = _forward(model, both), _forward(model, both)
    two_packs = (*_forward(model, both[:3]), *_forward(model, both[3:]))
    one_each = [_forward(model, (rollout,))[0] for rollout in both]
    epoch = _epoch()
    dumps = _written(folder, both, trainer, epoch)
    stock = audit(open_dump(dumps[0], "sampler"), open_dump(dumps[1], "trainer"))
    pairings = list(_pairings(model, STOCK, alone, ragged))
    for kind in BESIDE:
        other = demo_model.build(*kind)
        pairings += _pairings(other, kind, *_rollouts(other))
    return Demonstration(
        stock=stock,
        pairings=tuple(pairings),
        remedies=weighed(open_dump(dumps[0], "sampler"), open_dump(dumps[1], "trainer")),
        again=audit(_held(both, trainer), _held(both, again)),
        two_packs=audit(_held(both, trainer), _held(both, two_packs)),
        one_each=audit(_held(both, trainer), _held(both, one_each)),
        cost=_cost(model, both, rollout_s),
        device="cpu",
        epoch=epoch,
    )


def _rollouts(model: Any) -> tuple[Rollouts, Rollouts]:
    """Answers to the prompts, each alone; then to the same prompts in one ragged batch."""
    import torch

    given = demo_model.prompts()
    choose = demo_model.sampling(torch.Generator().manual_seed(demo_model.SEED + 2))
    alone = [
        rollout
        for number, prompt in enumerate(given)
        for rollout in demo_model.decode(model, [prompt], [f"alone-{number}"], choose)
    ]
    names = [f"ragged-{number}" for number in range(len(given))]
    return tuple(alone), tuple(demo_model.decode(model, given, names, choose))


def _pairings(
    model: Any, kind: tuple[str, str], alone: Rollouts, ragged: Rollouts
) -> Iterator[Pairing]:
    both = (*alone, *ragged)
    trainer = _forward(model, both)
    for way, batch, start in (("alone", alone, 0), ("ragged", ragged, len(alone))):
        found = audit(
            _held(batch, [rollout.logprobs for rollout in batch]),
            _held(batch, trainer[start : start + len(batch)]),
        )
        row = _first_row(found, batch)
        decoded, row = (batch, row) if way == "ragged" else ((batch[row],), 0)
        yield Pairing(
            dtype=kind[0],
            attention=kind[1],
            sampler=way,
            trainer="packed",
            audit=found,
            followed=True,
            origin=origin(model, decoded, row, both),
        )
    first = alone[:1]
    more = demo_model.decode(model, [first[0].prompt], ["again"], demo_model.feeding(first))
    forwards = [_forward(model, (rollout,))[0] for rollout in both]
    for way, of, batch, ours, theirs in (
        ("alone again", "alone", first, [more[0].logprobs], [first[0].logprobs]),
        ("forward alone", "packed", both, forwards, trainer),
    ):
        yield Pairing(
            dtype=kind[0],
            attention=kind[1],
            sampler=way,
            trainer=of,
            audit=audit(_held(batch, ours), _held(batch, theirs)),
        )


def _first_row(found: Audit, batch: Rollouts) -> int:
    """Which sequence is followed through the modules: the first that differs, else the first."""
    named = found.evidence.named
    return next((n for n, rollout in enumerate(batch) if named and rollout.name == named[0][0]), 0)


def _forward(model: Any, rollouts: Rollouts) -> "list[Tensor]":
    import torch

    with torch.no_grad():
        return demo_model.packed(model, rollouts)


def _held(rollouts: Rollouts, values: "Sequence[Tensor]") -> HeldDump:
    turns = [
        Turn(sequence=each.name, tokens=tokens_of(each.tokens), logprobs=logprobs_of(value))
        for each, value in zip(rollouts, values, strict=True)
    ]
    return HeldDump(held=tuple(turns))


def _written(
    folder: Path, rollouts: Rollouts, trainer: "Sequence[Tensor]", epoch: str
) -> tuple[Path, Path]:
    """The two dumps, as a sampler and a trainer leave them: turn 0 the prompt, masked and without
    log-probs at the sampler's, turn 1 the answer."""
    paths = _dumps(folder)
    said: dict[str, Any] = {
        "dtype": "float32",
        "device": "cpu",
        "epoch": epoch,
        "weights": "seed 0",
    }
    sampler = record(paths[0], side="sampler", **said)
    probe = record(paths[1], side="trainer", **said)
    for rollout, values in zip(rollouts, trainer, strict=True):
        mask = [0] * len(rollout.prompt)
        for one, logprobs in ((sampler, rollout.logprobs), (probe, values)):
            one.turn(rollout.name, tokens=rollout.prompt, mask=mask, index=0)
            trained = [1] * len(rollout.tokens)
            one.turn(rollout.name, logprobs, tokens=rollout.tokens, mask=trained, index=1)
    return paths


def _cost(model: Any, rollouts: Rollouts, rollout_s: float) -> Cost:
    forward_s, update_s = [], []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        _forward(model, rollouts)
        halfway = time.perf_counter()
        sum(values.sum() for values in demo_model.packed(model, rollouts)).backward()
        update_s.append(time.perf_counter() - halfway)
        forward_s.append(halfway - begun)
        model.zero_grad()
    return Cost(
        forward_over_update=statistics.median(
            one / other for one, other in zip(forward_s, update_s, strict=True)
        ),
        forward_over_rollout=statistics.median(forward_s) / rollout_s,
    )


def _epoch() -> str:
    import torch

    return f"torch {torch.__version__}, cpu {torch.backends.cpu.get_cpu_capability()}, 1 thread"


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{keep} cannot be made: {error.strerror}", hint="name a folder of yours"
        ) from error
    there = [str(path) for path in _dumps(keep) if path.exists()]
    if there:
        raise InputError(f"{' and '.join(there)} is there", hint="name another folder")
    yield keep


def _dumps(folder: Path) -> tuple[Path, Path]:
    return folder / "sampler.jsonl", folder / "trainer.jsonl"
