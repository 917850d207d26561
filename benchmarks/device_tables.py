"""Tables of ``docs/devices.md``: accuracy, conformance, what becomes of each ``tl`` name.

All of them are of the CPU device. ``figures.py`` puts them between their markers.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DTYPES = ("fp32", "fp64", "fp16", "bf16")
RELEASES = ("3.6.0", "3.7.1", "3.9.0")
# Names by what they are for; a name that is not here is listed under "the rest".
GROUPS: dict[str, str] = {
    "memory": "load store make_block_ptr advance make_tensor_descriptor load_tensor_descriptor "
    "store_tensor_descriptor tensor_descriptor",
    "atomics": "atomic_add atomic_and atomic_cas atomic_load atomic_max atomic_min atomic_or "
    "atomic_poll atomic_store atomic_xchg atomic_xor",
    "arithmetic": "add sub mul fdiv div_rn fma cdiv abs floor ceil maximum minimum clamp where "
    "umulhi cast",
    "functions": "exp exp2 log log2 sin cos erf sqrt sqrt_rn rsqrt sigmoid softmax",
    "products": "dot dot_scaled",
    "reductions": "sum max min argmax argmin xor_sum reduce reduce_or",
    "scans and sorts": "cumsum cumprod associative_scan sort topk bitonic_merge histogram",
    "shapes": "arange full zeros zeros_like reshape view ravel trans permute expand_dims squeeze "
    "unsqueeze broadcast broadcast_to join split cat interleave flip gather swizzle2d "
    "map_elementwise",
    "random numbers": "rand rand4x randn randn4x randint randint4x philox philox_impl "
    "pair_uniform_to_normal uint_to_uniform_float",
    "programs and control": "program_id num_programs range static_range condition assume "
    "debug_barrier device_print device_assert static_assert static_print",
    "types": "int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 "
    "float64 float8e4nv float8e5 float8e4b8 float8e5b16 float8e4b15",
}


def ulp() -> str:
    """The largest error of each function and type, with the documented bound."""
    document = _read("math_ulp")
    rows: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in document["rows"]:
        rows[row["function"]][row["dtype"]] = row
    lines = [
        "| CPU: largest error in ulp (documented bound) | " + " | ".join(DTYPES) + " |",
        "|---" * (1 + len(DTYPES)) + "|",
    ]
    for name, by_type in rows.items():
        cells = [_error(by_type.get(dtype)) for dtype in DTYPES]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    points = sum(row["points"] for row in document["rows"])
    lines += ["", f"{points:,} arguments; Triton {document['triton']}; from `math_ulp.json`."]
    return "\n".join(lines) + "\n"


def _error(row: Any) -> str:
    if row is None:
        return ""
    # Rounded up: the bound must not look smaller than it is.
    return f"{-(-row['ulp_max'] * 1000 // 1) / 1000:.3f} ({row['documented']:g})"


def ops() -> str:
    """Every public name of ``triton.language`` by family."""
    sys.path.append(str(ROOT))
    from kernelsmith.devices.cpu.language import language

    names = {row.name: row for row in language()}
    lines = ["| family, on the CPU | names |", "|---|---|"]
    listed: set[str] = set()
    for group, members in GROUPS.items():
        found = [names[name] for name in members.split() if name in names]
        listed |= {row.name for row in found}
        lines.append(f"| {group} | {', '.join(_name(row) for row in found)} |")
    rest = [row for row in names.values() if row.name not in listed]
    lines.append(f"| the rest | {', '.join(_name(row) for row in rest)} |")
    notes = [f"- `{row.name}`: {row.note}." for row in names.values() if row.note]
    return "\n".join([*lines, "", *notes]) + "\n"


def _name(row: Any) -> str:
    mark = {"lowered": "", "free": "°", "refused": " **(refused)**"}[row.becomes]
    since = f" ({row.since})" if row.since != RELEASES[0] else ""
    return f"`{row.name}`{mark}{since}"


def conformance() -> str:
    """Counts by family, and the ops that are refused."""
    document = _read("conformance")
    lines = ["| CPU, family | cases |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in document["families"].items()]
    orders, levels = document["orders"], document["levels"]
    lines += [
        "",
        f"{document['cases']} cases of {document['ops']} ops, {document['to_the_bit']} of them to "
        f"the bit; Triton {', '.join(sorted(document['versions']))}; {', '.join(levels)}; program "
        f"orders {', '.join(orders)}: {document['runs']:,} runs, {len(document['problems'])} "
        "differences. Refused, with these words:",
        "",
    ]
    lines += [f"- `{op}`: {_words(message)}" for op, message in document["refused"].items()]
    return "\n".join(lines) + "\n"


def _words(message: str) -> str:
    """A refusal without the name that a generated kernel's file has."""
    return re.sub(r"<kernel \w+>:\d+", "FILE:LINE", message)


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())
