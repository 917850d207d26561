"""The page about planted bugs, from the figures alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mutant_items import DRAWS, RULES, SETS

from kernelsmith.gate.probes.spot import KINDS

Record = Mapping[str, Any]
OUTCOMES = ("caught", "missed", "of these: parent's code", "equivalent", "not built")
SAME_CODE = "machine code and launches are the parent's everywhere"
GAPS = {
    "offsets of 32 bits": "a gap of the gate: it shows from 2**31 elements on, and no declared "
    "shape, hidden or not, is so large",
    "zero added": "a gap of the gate: it shows where every product of a dot underflows to -0 and "
    "the bias is -0, which no declared input does",
}
BENIGN = {
    "loop a turn long": "the further turn is masked off",
    "masked lanes are NaN": "what masked lanes hold is not stored",
    "masked lanes are ones": "what masked lanes hold is not stored, or meets a zero",
    "masked lanes are zeros": "what masked lanes hold is not stored",
    "masked lanes undefined": "what masked lanes hold is not stored; here it is zero",
    "one mask of two": "the other mask is true wherever this one is",
    "load never cast": "the operation that takes it casts it",
    "sum and term swapped": "a sum of two is the same in either order",
    "operands of the tree swapped": "a sum of two is the same in either order, pair by pair",
    "tf32 asked for": "this device has no tf32; on a GPU it would show",
    "grid long by one": "the further program is masked off",
    "one block too many": "the further block is masked off",
}
"""What an operator's survivors have in common. A word to the reader: they count as missed."""
HEAD = """# Planted bugs

One-spot mutants of the four seeds and of four recorded winners, judged by every check of the gate
that is about bits, and beside it by `torch.allclose` on the outputs of the same kernels. Made by
`make proof-mutants`, which writes this page; do not edit it.

- **caught**: a check rejected it. **missed**: every check about bits let it through.
- **equivalent**: the canonical TTIR (values numbered, constants where they are used), the options
  and the launches of every plan class are its parent's, at all declared cases, with padded rows,
  and at every row count of the declared range.
  Nothing else is called equivalent: what is let through for another reason counts as missed.
- **not built**: the mutant does not trace or compile, so nothing was planted. Left out of rates.
- *parent's code*: of the missed ones, those whose machine code and launches are the parent's at all
  those cases and row counts, although the TTIR is another. No judge on this device can see them;
  the second rate leaves them out.
- *drawn*: by the engine (`kernelsmith/gate/probes/engine.py`), from seeds and winners, spread over
  kinds and operators by a fixed seed. *by hand*: the tables in `tests/mutants/`, of seeds; their
  survivors are changes written down because no bit can differ, and count as missed like any other.
- Seconds are those of the gate alone, on the machine below.
"""
FOUND = """## What it found

- Closed: blocks of columns taken in descending order got through in `rms_norm`. No declared row had
  more than two blocks, and two sum alike in either order; rows of three blocks are declared now.
- Closed: an epsilon one ulp up got through in `rms_norm`. No declared row weighed as much as
  epsilon; the regime `logspace` has such rows now.
- Open, a gap: **zero added** behind a dot and its bias, which makes a +0 of a -0. For a -0 every
  product of the dot must underflow to -0 and the bias be -0; no declared input does that.
- Open where it cannot show: a loop over columns that ends one early is wrong for a row one longer
  than its blocks, and an offset in 8 bits for more blocks than 127; neither is in a declared range.
- Open, a gap: **offsets in 32 bits** where the seed has 64. They wrap from 2**31 elements on, and
  no declared or hidden shape is so large on this device; only reading the diff shows it.
- Survivors below that are no bugs (a further turn of a loop whose lanes are all masked off, a block
  of another length over columns that nothing sums) are counted as missed all the same: that no bit
  can differ is an argument, not a proof. No mutant's inputs were enumerated.
"""
BESIDE = f"""## Beside torch.allclose

Rates over the mutants that build and are not equivalent. *gate*: as above. The other columns are a
judge that sees the outputs of the same kernels and asks `torch.allclose(candidate, seed,
equal_nan=True)`:

- `torch.testing`: rtol and atol that `torch.testing.assert_close` takes by default for the output's
  dtype (float32 1.3e-6 and 1e-5, bfloat16 1.6e-2 and 1e-5).
- `KernelBench`: rtol = atol = 1e-4 for float32, 1e-2 for 16 bits, by the case's dtype, as
  `get_tolerance_for_precision` in KernelBench's `src/kernelbench/eval.py` has it.
- *declared*: on the task's own cases, the inputs that the gate compares. *public*: on one shape of
  normal inputs, {DRAWS} draws, as public judges draw them; every entry, backward included, in
  float32 and bfloat16. What crashes or writes nothing there counts as seen.

A judge by tolerance that is given the gate's own cases still lets through what it lets through by
definition; what lies between *declared* and *public* is what the cases are worth.
"""


def page(document: Mapping[str, Any]) -> str:
    """docs/mutants.md."""
    every: Sequence[Record] = document["mutants"]
    device = document["device"]
    state = "all of them" if document["complete"] else "**not all of them**: run it again to go on"
    parts = [
        HEAD,
        f"CPU figures ({device['cpu']}, {device['level']}); nothing here was run on a GPU. "
        f"{document['judged']} of {document['asked']} mutants judged, {state}; written "
        f"{document['written_at']}. By hand: {document['as_their_tables_say']} of "
        f"{document['by_hand']} came out as their tables say.\n",
        "## What the gate makes of them\n",
        _table(every, "origin and parent", lambda one: f"{_origin(one)}, {one['parent']}"),
        _table(every, "task", lambda one: one["task"]),
        _table(every, "kind", lambda one: one["kind"], KINDS),
        "## Which check caught them\n",
        _checks(every),
        BESIDE,
        _beside(every),
        FOUND,
        "## Missed, by name\n",
        *_missed(every),
        "## Drawn mutants that are equivalent\n",
        _equivalent(every),
    ]
    return "\n".join(parts).rstrip() + "\n"


def figures(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows for the table of committed figures."""
    judged = [one for one in document["mutants"] if one["tolerance"] is not None]

    def told(own: Sequence[Record]) -> str:
        caught = sum(one["outcome"] == "caught" for one in own)
        return f"{caught} of {len(own)} ({_rate(caught, len(own))})"

    def seen(where: str) -> str:
        return ", ".join(
            _rate(sum(one["tolerance"][where][rule] for one in judged), len(judged))
            for rule in RULES
        )

    drawn, by_hand = ([one for one in judged if _origin(one) == o] for o in ("drawn", "by hand"))
    asked = "" if document["complete"] else f" ({document['judged']} of {document['asked']} judged)"
    return [
        (f"planted bugs caught: drawn, by hand{asked}", f"{told(drawn)}; {told(by_hand)}"),
        (
            f"the same seen by torch.allclose ({', '.join(RULES)}): declared cases; public inputs",
            f"{seen('declared')}; {seen('public')}",
        ),
    ]


def _origin(one: Record) -> str:
    return "by hand" if one["origin"] == "hand" else "drawn"


def _rows(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; the first column is text, the others numbers."""
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _rate(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _table(
    every: Sequence[Record],
    title: str,
    of: Callable[[Record], str],
    names: Sequence[str] = (),
) -> str:
    found = names or sorted({of(one) for one in every})

    def row(name: str, own: Sequence[Record]) -> list[object]:
        count = Counter(one["outcome"] for one in own)
        judged = count["caught"] + count["missed"]
        seconds = sorted(one["seconds"] for one in own if one["outcome"] == "caught")
        median = f"{seconds[len(seconds) // 2]:.1f}" if seconds else "–"
        same = sum(one["message"] == SAME_CODE for one in own)
        rates = [_rate(count["caught"], judged), _rate(count["caught"], judged - same)]
        counts = [count["caught"], count["missed"], same, count["equivalent"], count["not built"]]
        return [name, len(own), *counts, *rates, median]

    rows = [row(name, [one for one in every if of(one) == name]) for name in found]
    header = (title, "mutants", *OUTCOMES, "catch rate", "where code differs", "median s to catch")
    return _rows(header, [*rows, row("all", every)])


def _checks(every: Sequence[Record]) -> str:
    caught = [one for one in every if one["outcome"] == "caught"]
    checks = sorted({one["check"] for one in caught})
    rows = []
    for kind in KINDS:
        own = Counter(one["check"] for one in caught if one["kind"] == kind)
        rows.append([kind, *(own[check] or "" for check in checks)])
    total = Counter(one["check"] for one in caught)
    return _rows(("kind", *checks), [*rows, ["all", *(total[check] for check in checks)]])


def _beside(every: Sequence[Record]) -> str:
    judged = [one for one in every if one["tolerance"] is not None]

    def row(name: str, own: Sequence[Record]) -> list[object]:
        gate = sum(one["outcome"] == "caught" for one in own)
        seen = [
            sum(one["tolerance"][where][rule] for one in own) for where in SETS for rule in RULES
        ]
        return [name, len(own), _rate(gate, len(own)), *(_rate(n, len(own)) for n in seen)]

    rows = [row(kind, [one for one in judged if one["kind"] == kind]) for kind in KINDS]
    for origin in ("drawn", "by hand"):
        rows.append(row(origin, [one for one in judged if _origin(one) == origin]))
    header = ("kind", "mutants", "gate", *(f"{rule}, {where}" for where in SETS for rule in RULES))
    text = _rows(header, [*rows, row("all", judged)])
    only = [
        one
        for one in judged
        if one["outcome"] == "missed"
        and any(one["tolerance"][where][rule] for where in SETS for rule in RULES)
    ]
    told = "none." if not only else "; ".join(_line(one) for one in only)
    return f"{text}\nMutants that a tolerance sees and the gate does not: {told}\n"


def _line(one: Record) -> str:
    return f"{one['task']} {one['parent']} line {one['line']}, {one['operator']}"


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _missed(every: Sequence[Record]) -> list[str]:
    missed = [one for one in every if one["outcome"] == "missed"]
    groups = (
        ("Drawn; other machine code, and no check saw a bit", "drawn", False),
        (
            "Drawn; machine code and launches are the parent's everywhere on the CPU",
            "drawn",
            True,
        ),
        ("By hand, with the reason", "by hand", None),
    )
    parts = []
    for title, origin, same in groups:
        own = [
            one
            for one in missed
            if _origin(one) == origin and same in (None, one["message"] == SAME_CODE)
        ]
        parts.append(f"### {title}: {len(own)}\n")
        for one in own:
            change = f"{_code(one['old'])} → {_code(one['new'])}"
            code = "same machine code" if one["message"] == SAME_CODE else "other machine code"
            note = GAPS.get(one["operator"]) or BENIGN.get(one["operator"])
            why = f": {one['reason']} ({code})" if one["reason"] else ""
            why = f": {note}" if note and not why else why
            name = f"{one['name']}; " if _origin(one) == "by hand" else ""
            parts.append(f"- {_line(one)} ({one['kind']}): {name}{change}{why}")
        parts.append("")
    return parts


def _equivalent(every: Sequence[Record]) -> str:
    count = Counter(
        f"{one['kind']}: {one['operator']}"
        for one in every
        if one["outcome"] == "equivalent" and _origin(one) == "drawn"
    )
    return _rows(("operator", "mutants"), sorted(count.items()))
