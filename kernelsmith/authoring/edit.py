"""Puts imported cases into the text of a task file; what a person wrote stays as it was.

What an import wrote lies between two marks. What it takes out (weights of other cases; a block that
declares a case which is timed now) becomes a comment that begins with ``#~DEVICE``. The next import
first undoes both, so it makes of the file what it would have made of the one that a person wrote;
only token_range and ranges stay as wide as an import made them.
"""

import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from kernelsmith.authoring.blocks import Block
from kernelsmith.authoring.histogram import Group, Plan
from kernelsmith.authoring.toml_text import PROGRAMS, case_block
from kernelsmith.authoring.trace import Seen
from kernelsmith.catalog_schema import CasesFile, DeviceFile, TaskFile
from kernelsmith.errors import TaskError

_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z][\w.\-]*)\s*\]\]?\s*(#.*)?$")
_WEIGHT = re.compile(r"\s*weight\s*=")
Key = tuple[str, str, frozenset[tuple[str, int]], str]
"""Call, dtype, sizes and regime of a case without padding and scalars of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A file's lines on the way to their new text, and what was done besides adding cases."""

    lines: list[str]
    notes: list[str] = field(default_factory=list)


def imported(
    text: str, device: str, token_dim: str, plan: Plan, seen: Sequence[Seen], trace: str
) -> Edited:
    """The file's new lines.

    Args:
        text: the file as it is.
        device: whose cases are imported.
        token_dim: the task's.
        plan: what the trace becomes.
        seen: all that was seen; token_range and ranges come to hold each of its sizes.
        trace: the trace's name, for the comment above the cases.

    Raises:
        TaskError: the file's cases are written in a way that cannot be edited line by line.
    """
    begin, end = f"# >>> imported on {device}", f"# <<< imported on {device}"
    edited = Edited(lines=_restored(_without(text.splitlines(), begin, end), device))
    file = _own(edited.lines)
    on = {str(name): each for name, each in file.devices.items()}.get(device)
    groups = [group for group, _ in plan.timed]
    declared: set[Key] = set()
    split: list[Block] = []
    head: list[str] = []
    if on is None:
        head = _table(device, seen, token_dim)
    else:
        timed = {key_of(group.seen) for group in groups}
        declared, split = _take_out(edited, device, on, timed, token_dim)
        _untime(edited, device)
        _widen(edited, device, on, seen, token_dim)
    fresh = [group for group in plan.bits_only if key_of(group.seen) not in declared]
    if len(fresh) < len(plan.bits_only):
        edited.notes.append(f"{len(plan.bits_only) - len(fresh)} were cases already")
    blocks = [*split, *(_block(group, share) for group, share in plan.timed)]
    blocks += [_block(group, 0.0) for group in fresh]
    while edited.lines and not edited.lines[-1].strip():
        edited.lines.pop()
    body = "\n".join(case_block(block, device) for block in blocks).splitlines()
    mark = (
        f"{begin} from {trace}. The next import on {device} replaces what is between the marks\n"
        f"# and brings lines that begin with {_taken(device)} back."
    )
    edited.lines.extend(["", mark, *head, *body, end])
    return edited


def _own(lines: Sequence[str]) -> TaskFile:
    """The file as a person wrote it, without what was imported."""
    try:
        return TaskFile.model_validate(tomllib.loads("\n".join(lines) + "\n"))
    except (ValidationError, tomllib.TOMLDecodeError) as error:
        raise TaskError(
            "without its imported cases the file is no task",
            hint="leave at least one block of cases of your own outside the marks",
        ) from error


def key_of(seen: Seen) -> Key:
    """What makes an imported case the case it is."""
    return seen.call, seen.dtype, frozenset(seen.dims), "normal"


def _block(group: Group, share: float) -> Block:
    seen = group.seen
    return Block(
        calls=(seen.call,),
        dtypes=(seen.dtype,),
        dims=dict(seen.dims),
        regimes=("normal",),
        weight=share,
        role=f"seen: {seen.count:,} calls of {group.kinds} kind{'' if group.kinds == 1 else 's'}",
    )


def _without(lines: list[str], begin: str, end: str) -> list[str]:
    """The lines without what an earlier import wrote."""
    first = next((i for i, line in enumerate(lines) if line.startswith(begin)), None)
    if first is None:
        return lines
    last = next((i for i, line in enumerate(lines) if i > first and line.startswith(end)), None)
    if last is None:
        raise TaskError(
            f"line {first + 1}: the mark {begin!r} has no end",
            hint=f"write {end!r} behind the last imported case",
        )
    return [*lines[:first], *lines[last + 1 :]]


def _taken(device: str) -> str:
    return f"#~{device}"


def _restored(lines: Sequence[str], device: str) -> list[str]:
    """The lines with those that an earlier import took out."""
    return [line.removeprefix(f"{_taken(device)} ") for line in lines]


def _spans(lines: Sequence[str], section: str) -> list[tuple[int, int]]:
    """(header, end) of each table of that name; blank lines and comments at its end are not its."""
    heads = [(i, m.group(1)) for i, line in enumerate(lines) if (m := _HEADER.match(line))]
    stops = [i for i, _ in heads[1:]] + [len(lines)]
    found = []
    for (start, name), stop in zip(heads, stops, strict=True):
        if name == section:
            while stop > start + 1 and lines[stop - 1].strip()[:1] in ("", "#"):
                stop -= 1
            found.append((start, stop))
    return found


def _take_out(
    edited: Edited, device: str, on: DeviceFile, timed: set[Key], token_dim: str
) -> tuple[set[Key], list[Block]]:
    """Keys that stay declared, and blocks for what is left of those that hold a timed case."""
    spans = _spans(edited.lines, f"devices.{device}.cases")
    if len(spans) != len(on.cases):
        raise TaskError(
            f"{len(on.cases)} blocks of cases on {device}, {len(spans)} headers "
            f"[[devices.{device}.cases]]",
            hint="write each block of cases under a header of its own; imports edit lines",
        )
    declared: set[Key] = set()
    split: list[Block] = []
    for (start, stop), block in zip(spans, on.cases, strict=True):
        if block.row_stride_pad or block.scalars:
            continue
        keys = set(_keys(block))
        declared |= keys
        if keys & timed:
            for number in range(start, stop):
                edited.lines[number] = f"{_taken(device)} {edited.lines[number]}"
            rest = _rest(block, timed, token_dim)
            split += rest
            edited.notes.append(
                f"line {start + 1}: a case of this block is timed now; "
                + ("the others follow below" if rest else "it is a comment now")
            )
    return declared, split


def _sizes(block: CasesFile) -> list[dict[str, int]]:
    lists = [size if isinstance(size, list) else [size] for size in block.dims.values()]
    return [dict(zip(block.dims, sizes, strict=True)) for sizes in itertools.product(*lists)]


def _keys(block: CasesFile) -> list[Key]:
    return [
        (call, dtype, frozenset(dims.items()), regime)
        for call, dtype, dims, regime in itertools.product(
            block.calls, block.dtypes, _sizes(block), block.regimes
        )
    ]


def _rest(block: CasesFile, timed: set[Key], token_dim: str) -> list[Block]:
    """Blocks of all cases of a block but those that are timed."""
    clean: dict[tuple[tuple[str, int], ...], list[int]] = {}
    found: list[Block] = []
    for dims in _sizes(block):
        keys = [key for key in _keys(block) if key[2] == frozenset(dims.items())]
        if not timed & set(keys):
            others = tuple((name, size) for name, size in dims.items() if name != token_dim)
            clean.setdefault(others, []).append(dims[token_dim])
            continue
        found += [
            Block(calls=(call,), dtypes=(dtype,), dims=dims, regimes=(regime,), role=block.role)
            for call, dtype, sizes, regime in keys
            if (call, dtype, sizes, regime) not in timed
        ]
    for others, tokens in clean.items():
        sizes: Mapping[str, int | tuple[int, ...]] = {token_dim: tuple(tokens), **dict(others)}
        found.append(
            Block(
                calls=tuple(block.calls),
                dtypes=tuple(block.dtypes),
                dims=sizes,
                regimes=tuple(block.regimes),
                role=block.role,
            )
        )
    return found


def _untime(edited: Edited, device: str) -> None:
    count = 0
    for start, stop in _spans(edited.lines, f"devices.{device}.cases"):
        for number in range(start, stop):
            if _WEIGHT.match(edited.lines[number]):
                edited.lines[number] = f"{_taken(device)} {edited.lines[number]}"
                count += 1
    if count:
        edited.notes.append(f"{count} blocks that were timed are bits only now")


def _widen(
    edited: Edited, device: str, on: DeviceFile, seen: Sequence[Seen], token_dim: str
) -> None:
    """Makes token_range and ranges hold every size that was seen."""
    tokens = [dict(one.dims)[token_dim] for one in seen]
    low, high = min(on.token_range[0], *tokens), max(on.token_range[1], *tokens)
    if [low, high] != on.token_range:
        _replace(edited, device, "token_range", f"[{low}, {high}]", on.token_range)
    ranges = {name: list(sizes) for name, sizes in on.ranges.items()}
    for one in seen:
        for name, size in one.dims:
            if name != token_dim and size not in ranges.setdefault(name, []):
                ranges[name].append(size)
    if ranges != on.ranges:
        _replace(edited, device, "ranges", _inline(ranges), on.ranges)


def _replace(edited: Edited, device: str, key: str, value: str, before: object) -> None:
    found = re.compile(rf"(\s*{key}\s*=\s*)(\[[^\]#]*\]|\{{[^}}#]*\}})(\s*(#.*)?)$")
    for start, stop in _spans(edited.lines, f"devices.{device}"):
        for number in range(start, stop):
            match = found.match(edited.lines[number])
            if match:
                edited.lines[number] = f"{match.group(1)}{value}{match.group(3)}"
                edited.notes.append(f"{key} of {device} is {value} now")
                return
        if not before:
            edited.lines.insert(start + 1, f"{key} = {value}")
            edited.notes.append(f"{key} of {device} is {value} now")
            return
    edited.notes.append(f"write {key} = {value} into [devices.{device}] by hand")


def _inline(ranges: Mapping[str, Sequence[int]]) -> str:
    parts = (f"{name} = [{', '.join(map(str, sizes))}]" for name, sizes in ranges.items())
    return "{ " + ", ".join(parts) + " }" if ranges else "{}"


def _table(device: str, seen: Sequence[Seen], token_dim: str) -> list[str]:
    """The table of a device that the file does not have yet."""
    tokens = [dict(one.dims)[token_dim] for one in seen]
    ranges: dict[str, list[int]] = {}
    for one in seen:
        for name, size in one.dims:
            if name != token_dim and size not in ranges.setdefault(name, []):
                ranges[name].append(size)
    return [
        f"[devices.{device}]",
        f"num_programs = {PROGRAMS[device]}",
        f"token_range = [0, {max(tokens)}]",
        f"ranges = {_inline(ranges)}",
        "",
    ]
