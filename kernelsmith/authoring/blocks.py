"""Proposes the cases of a drafted task: bits at sizes and regimes that tell, and what is timed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.authoring.draft import Draft
from kernelsmith.catalog_build import MAX_TIMED_CASES
from kernelsmith.model import Call

BATCHES = (0, 1, 2, 3, 7, 16, 33, 64, 97, 131, 200, 257, 600, 1100)
FIRST_REGIME = "cancel"
REGIMES = ("absorb", "ties", "logspace", "pairs", "constant", "special", "huge", "tiny")
DECODE, CHUNK, PACKED, PRIME, REGIME_ROWS, PADDED, PART = 16, 112, 257, 67, 10, 29, 33
PAD_ELEMENTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of cases of a task file; ``note`` is the comment above it."""

    calls: tuple[str, ...]
    dtypes: tuple[str, ...]
    dims: Mapping[str, int | tuple[int, ...]]
    regimes: tuple[str, ...]
    role: str
    weight: float = 0.0
    pad: int = 0
    note: str = ""


def propose(draft: Draft, device: str) -> list[Block]:
    """Blocks of cases on one device: bits first, then what is timed."""
    low, high = draft.token_ranges[device]
    continued = {spec.carry_call for call in draft.calls for spec in call.outputs}
    whole = [call for call in draft.calls if call.name not in continued]
    parts = [call for call in draft.calls if call.name in continued]
    first = {name: sizes[0] for name, sizes in draft.sizes.items()}
    token = draft.token_dim
    blocks = [
        Block(
            calls=_names(whole, path),
            dtypes=draft.dtypes[:1],
            dims={token: tuple(n for n in BATCHES if low <= n <= high) or (low, high), **first},
            regimes=(FIRST_REGIME,),
            role=f"{path}: batches of every kind, the empty one included",
        )
        for path in ("train", "infer")
        if _names(whole, path)
    ]
    timed = _timed(draft, whole, (low, high), first)
    # What is timed is "normal" too: these sizes must not meet its sizes.
    used = {size for block in timed for size in [block.dims[token]] if isinstance(size, int)}
    everything = tuple(call.name for call in whole)
    for size, regimes, pad, role in (
        (REGIME_ROWS, REGIMES, 0, "values that tell orders, roundings and special numbers apart"),
        (PADDED, ("normal",), PAD_ELEMENTS, "rows sliced out of wider ones"),
    ):
        if pad and not draft.strided:
            continue
        dims = {token: min(max(size, low), high), **first}
        blocks.append(
            Block(calls=everything, dtypes=draft.dtypes, dims=dims, regimes=regimes, pad=pad,
                  role=role)
        )  # fmt: skip
    prime = _free(PRIME, low, high, used)
    if prime is not None:
        all_sizes = {n: s if len(s) > 1 else s[0] for n, s in draft.sizes.items()}
        blocks.append(
            Block(calls=everything, dtypes=draft.dtypes, dims={token: prime, **all_sizes},
                  regimes=("normal",), role="a prime number of tokens at every declared size")
        )  # fmt: skip
    if parts:
        blocks.append(
            Block(calls=tuple(call.name for call in parts), dtypes=draft.dtypes,
                  dims={token: min(max(PART, low), high), **first}, regimes=("normal",),
                  role="second part of a batch that was cut in two")
        )  # fmt: skip
    return [*blocks, *timed]


def _names(calls: Sequence[Call], path: str) -> tuple[str, ...]:
    return tuple(call.name for call in calls if call.path == path)


def _free(wanted: int, low: int, high: int, used: set[int]) -> int | None:
    start = min(wanted, high)
    return next((size for size in range(start, low - 1, -1) if size not in used), None)


def _timed(
    draft: Draft, calls: Sequence[Call], tokens: tuple[int, int], first: Mapping[str, int]
) -> list[Block]:
    """What a training and a serving step call, in equal shares that sum to 1."""
    low, high = tokens
    wanted: list[tuple[Call, int, str]] = []
    for call in calls:
        if call.path == "train":
            wanted.append((call, PACKED, "packed training batch"))
        else:
            wanted += [(call, DECODE, "decode"), (call, CHUNK, "a chunk of prefill")]
    seen = set()
    kept: list[tuple[Call, int, str]] = []
    for call, size, role in wanted:
        size = min(max(size, low, 1), high)
        if (call.name, size) not in seen and len(kept) < MAX_TIMED_CASES:
            seen.add((call.name, size))
            kept.append((call, size, role))
    return [
        Block(calls=(call.name,), dtypes=draft.dtypes[:1], dims={draft.token_dim: size, **first},
              regimes=("normal",), weight=weight, role=role)
        for (call, size, role), weight in zip(kept, shares([1.0] * len(kept)), strict=True)
    ]  # fmt: skip


def shares(weights: Sequence[float], least: int = 1) -> list[float]:
    """Weights as ten-thousandths that sum to 1, none under ``least`` of them."""
    total = math.fsum(weights)
    steps = [max(least, round(10_000 * weight / total)) for weight in weights]
    steps[steps.index(max(steps))] += 10_000 - sum(steps)
    return [step / 10_000 for step in steps]
