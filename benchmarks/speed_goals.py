"""Speed goals of the CPU device and what ``cpu_device.json`` says of each.

Ratios are times over torch eager's of the same op, one thread, one run, compiled code alone. A
goal that names no dtype is over torch eager in the kernel's own dtype; that of `linear` is over
float32, as torch has bfloat16 products of its own hardware, which are not a chain of fma. The
measured value is the worst of all sizes and dtypes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """``measured`` at its worst, ``where``; ``median`` over what was measured."""

    what: str
    limit: float
    unit: str
    measured: float
    median: float
    where: str

    @property
    def met(self) -> bool:
        return self.measured <= self.limit


def goals(document: Any) -> list[Goal]:
    """All goals, from the document that ``cpu_device.py`` writes."""
    rows: Rows = document["ops"]
    found = []
    for op in ("rms_norm", "swiglu", "logprob"):
        for side in ("seed", "hand"):
            found.append(_ratio(f"`{op}`, {side}", 1.0, _of(rows, op), side, "torch"))
    found.append(_ratio("`softmax`", 1.0, _of(rows, "softmax"), "hand", "torch"))
    few = [row for row in _of(rows, "linear") if row["tokens"] in (1, 16)]
    many = [row for row in _of(rows, "linear") if row["tokens"] >= 64]
    found.append(_ratio("`linear` at M = 1 and 16, hand", 1.5, few, "hand", "torch_fp32"))
    found.append(_ratio("`linear` at M ≥ 64, hand", 1.2, many, "hand", "torch_fp32"))
    found.append(_ratio("causal attention", 1.3, _of(rows, "attention"), "hand", "torch"))
    found.append(_compile(document["compile"]))
    found.append(_launcher(document["launch"]))
    return found


def _of(rows: Rows, op: str) -> Rows:
    return [row for row in rows if row["op"] == op]


def _ratio(what: str, limit: float, rows: Rows, side: str, torch_side: str) -> Goal:
    def ratio(row: dict[str, Any]) -> float:
        return float(row["us_min"][side] / row["us_min"][torch_side])

    kind = "torch fp32" if torch_side == "torch_fp32" else "torch"
    return _worst(what, limit, f"× {kind}", rows, ratio, _size)


def _size(row: dict[str, Any]) -> str:
    sizes = " × ".join(str(size) for size in row["sizes"].values())
    return f"{row['tokens']} × {sizes}, {row['dtype']}"


def _compile(entries: Rows) -> Goal:
    return _worst(
        "compiling a kernel", 250.0, "ms", entries, lambda e: float(e["ms"]), lambda e: e["kernel"]
    )


def _launcher(entries: Rows) -> Goal:
    return _worst(
        "the launcher alone, a call",
        20.0,
        "µs",
        entries,
        lambda e: float(e["launcher_us"]),
        lambda e: f"{e['kernel']}, {e['arguments']} arguments",
    )


def _worst(
    what: str,
    limit: float,
    unit: str,
    entries: Rows,
    value: Callable[[dict[str, Any]], float],
    name: Callable[[dict[str, Any]], str],
) -> Goal:
    ordered = sorted(entries, key=value)
    return Goal(
        what=what,
        limit=limit,
        unit=unit,
        measured=value(ordered[-1]),
        median=value(ordered[len(ordered) // 2]),
        where=name(ordered[-1]),
    )


def table(document: Any) -> str:
    """The goals as a Markdown table."""
    lines = ["| what | goal | worst | at | median | met |", "|---|---|---|---|---|---|"]
    for goal in goals(document):
        digits = 2 if goal.unit.startswith("×") else 1
        lines.append(
            f"| {goal.what} | ≤ {goal.limit:g} {goal.unit} | {goal.measured:.{digits}f} "
            f"| {goal.where} | {goal.median:.{digits}f} | {'yes' if goal.met else '**no**'} |"
        )
    return "\n".join(lines) + "\n"


def ratios(document: Any) -> str:
    """Every op's ratios as a Markdown table: least, median and worst over sizes, a dtype a line."""
    lines = [
        "| op | dtype | sizes | side | to torch: least, median, worst | to torch fp32 |",
        "|---|---|---|---|---|---|",
    ]
    kinds = dict.fromkeys((row["op"], row["dtype"]) for row in document["ops"])
    for op, dtype in kinds:
        rows = [row for row in document["ops"] if (row["op"], row["dtype"]) == (op, dtype)]
        for side in ("seed", "hand"):
            if side in rows[0]["us_min"]:
                spans = [
                    _span([row["us_min"][side] / row["us_min"][torch] for row in rows])
                    for torch in ("torch", "torch_fp32")
                ]
                lines.append(f"| `{op}` | {dtype} | {len(rows)} | {side} | {' | '.join(spans)} |")
    return "\n".join(lines) + "\n"


def _span(values: list[float]) -> str:
    ordered = sorted(values)
    return ", ".join(f"{ordered[i]:.2f}" for i in (0, len(ordered) // 2, -1))
