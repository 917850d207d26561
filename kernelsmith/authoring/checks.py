"""What is missing or unsound about a task: all of it at once, in words of the one who wrote it."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelsmith import catalog
from kernelsmith.authoring import wording
from kernelsmith.authoring.facts import Entry, parsed, read_seed
from kernelsmith.authoring.orders import left_open
from kernelsmith.authoring.soundness import soundness
from kernelsmith.catalog import Finding
from kernelsmith.catalog_build import MAX_TIMED_CASES, build_task
from kernelsmith.catalog_schema import CasesFile, TaskFile
from kernelsmith.errors import TaskError
from kernelsmith.gate import policy

MOST_VIOLATIONS = 25
# What building a task says of these, this module says in its own words.
_SAID_HERE = ("timed cases on", "weights on", "no call uses the entry", "has no function")


def check(name: str, dirs: Sequence[Path] = ()) -> list[Finding]:
    """Everything that can be said of a task without running it.

    Returns:
        Findings, errors among them; "ok" lines say what was counted.

    Raises:
        TaskError: there is no task of that name.
    """
    entry = catalog.find_task(name, dirs)
    problems = wording.problems_of(entry.path)
    if problems:
        return problems
    try:
        file = catalog.read_file(entry.path)
        source = catalog.seed_source(entry.path, file.seed)
    except TaskError as error:
        return [_error(error.message, error.hint or "")]
    findings = [*_of_seed(file, source), *_of_file(file)]
    known = {finding.message for finding in findings}
    for device in file.devices:
        try:
            task = build_task(file, device, source, shipped=entry.shipped, where=str(entry.path))
        except TaskError as error:
            if error.message not in known and not any(w in error.message for w in _SAID_HERE):
                known.add(error.message)
                findings.append(_error(error.message, error.hint or ""))
            continue
        for finding in (*catalog.findings(task), *soundness(task)):
            if finding.message not in known:
                known.add(finding.message)
                findings.append(finding)
    return findings


def _error(message: str, hint: str) -> Finding:
    return Finding(level="error", message=message, hint=hint)


def _warning(message: str, hint: str) -> Finding:
    return Finding(level="warning", message=message, hint=hint)


def _of_seed(file: TaskFile, source: str) -> Iterator[Finding]:
    """The seed against the language and against what the task says of it."""
    found = policy.check(source, tuple(file.entries))
    for violation in found[:MOST_VIOLATIONS]:
        yield _error(
            f"seed {file.seed}, line {violation.line}: {violation.construct} is outside the "
            "language that seeds and candidates share",
            violation.instead,
        )
    if len(found) > MOST_VIOLATIONS:
        yield _error(
            f"seed {file.seed}: {len(found) - MOST_VIOLATIONS} more places outside the language",
            "they are named once the first ones are mended",
        )
    try:
        facts = read_seed(source, file.seed)
    except TaskError:
        return  # its syntax is told above
    yield from left_open(parsed(source, file.seed), file.seed)
    known = {entry.name: entry for entry in facts.entries}
    for name in file.entries:
        if name not in known:
            yield _error(
                f"entry {name}: seed {file.seed} has no public function of that name that launches "
                "a kernel",
                "entries of the seed: " + (", ".join(known) or "none"),
            )
    for name in known:
        if name not in file.entries:
            yield _warning(
                f"{name} of seed {file.seed} launches kernels and is no entry of the task",
                "add it to entries with a call and cases, or begin its name with _",
            )
    yield from _strides(file, known)


def _strides(file: TaskFile, known: dict[str, Entry]) -> Iterator[Finding]:
    said = set()
    for call in file.calls:
        entry = known.get(call.entry)
        for arg in call.args:
            parameter = entry.parameter(arg.name) if entry else None
            place = (call.entry, arg.name)
            wide = arg.shape is not None and len(arg.shape) > 1
            if parameter is None or not wide or parameter.strided or place in said:
                continue
            said.add(place)
            yield _error(
                f"entry {call.entry} reads no stride of {arg.name}: it would read the gaps of "
                "rows that are slices of wider ones, and the gate draws such rows",
                f"pass {arg.name}.stride(0) to the kernel and step from row to row by it",
            )


def _of_file(file: TaskFile) -> Iterator[Finding]:
    """What can be counted before the task is built."""
    for entry in file.entries:
        calls = {call.name for call in file.calls if call.entry == entry}
        if not calls:
            yield _error(
                f"entry {entry} has no call: nothing says how it is called",
                f'add [[calls]] with entry = "{entry}", its args and its outputs',
            )
            continue
        for device, on in file.devices.items():
            if not any(calls & set(block.calls) for block in on.cases):
                yield _error(
                    f"{device}: entry {entry} has no case: it would not be judged there",
                    f"add a [[devices.{device}.cases]] with calls = {sorted(calls)[:1]}",
                )
    for device, on in file.devices.items():
        timed = [(block, _combinations(block)) for block in on.cases if block.weight > 0]
        count = sum(number for _, number in timed)
        total = math.fsum(block.weight * number for block, number in timed)
        if not timed:
            yield _error(
                f"{device}: no case is timed: no block has a weight above 0",
                "give the calls that your steps spend their time in a weight; shares sum to 1",
            )
        elif count > MAX_TIMED_CASES:
            yield _error(
                f"{device}: {count} timed cases, {MAX_TIMED_CASES} are the most",
                "every combination of a block with a weight is timed: leave single sizes there, "
                "and time the rest with weight 0 (bits only)",
            )
        elif abs(total - 1.0) > 1e-9:
            yield _error(
                f"{device}: the weights of timed cases sum to {total:g}, not to 1",
                "they are shares of the whole; each combination of a block counts its weight",
            )


def _combinations(block: CasesFile) -> int:
    sizes = math.prod(len(s) if isinstance(s, list) else 1 for s in block.dims.values())
    return len(block.calls) * len(block.dtypes) * len(block.regimes) * sizes
