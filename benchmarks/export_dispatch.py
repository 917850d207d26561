"""What calling an exported op costs beyond launching its kernel.

    python benchmarks/export_dispatch.py LIBRARY

LIBRARY is a folder that ``kernelsmith export`` wrote, of this epoch. Of each op the smallest
certified call of ``forward_infer`` in bfloat16, one row, timed by turns in one process, minimum of
many windows:

- ``bare``: the kernels that Triton compiled, launched again on buffers that are there;
- ``op``: the exported entry, which binds, looks the call up, runs host code, allocates, launches;
- ``written``: the winner's module as a person would call it, by Triton's own look-up;
- ``torch``: torch eager.

Writes ``benchmarks/results/export_dispatch.json``; under a minute. CPU figures.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton

from kernelsmith.devices import cpu
from kernelsmith.devices.cpu.epoch import describe

RESULT = Path(__file__).parent / "results" / "export_dispatch.json"
ENTRY = "forward_infer"
GOAL_US = 20.0
CALLS, WINDOWS = 100, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=RESULT)
    given = parser.parse_args()
    sys.path.insert(0, str(given.library.resolve().parent))
    torch.set_num_threads(1)
    cpu.activate(threads=1)
    index = json.loads((given.library / "library.json").read_text())
    rows = [row(given.library.resolve(), op) for op in sorted(index["ops"])]
    facts = describe()
    worst = max(each["dispatch_us"] for each in rows)
    document = {
        "schema": "kernelsmith.benchmark.export_dispatch/1",
        "machine": {"cpu": facts["cpu"], "threads": 1, "key": facts["key"]},
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "windows": WINDOWS,
        "calls_a_window": CALLS,
        "rows": rows,
        "goal_us": GOAL_US,
        "goal_met": worst <= GOAL_US,
    }
    given.out.write_text(json.dumps(document, indent=1) + "\n")
    for each in rows:
        print(
            f"{each['op']:<10} bare {each['bare_us']:6.2f} us, op {each['op_us']:6.2f} us "
            f"(+{each['dispatch_us']:.2f}), as written {each['written_us']:6.2f} us, "
            f"torch {each['torch_us']:6.2f} us"
        )


def row(library: Path, name: str) -> dict[str, Any]:
    """One op's figures."""
    runtime = importlib.import_module(f"{library.name}._runtime")
    index = json.loads((library / "library.json").read_text())
    epoch = index["ops"][name]["current"]
    op = runtime.Op(f"{library.name}.{name}", epoch, library / name / epoch)
    entry = op.entries()[ENTRY]
    form = next(
        each
        for each in op._facts["forms"]
        if each["entry"] == ENTRY and each["dtypes"] == ["bfloat16"]
    )
    values = arguments(form)
    entry(*values.values())
    if op.counts.read()["winner"] != 1:
        raise SystemExit(f"{name}: the winner did not run: {op.counts.read()['reasons']}")
    written = vars(op._epoch.module("kernel"))[ENTRY]
    launching = importlib.import_module(f"{library.name}._launching")
    sides: dict[str, Callable[[], Any]] = {
        "bare": bare(op, values),
        "op": lambda: entry(*values.values()),
        "written": lambda: launching.run(written, values, op._programs),
        "torch": eager(name, values),
    }
    best = by_turns(sides)
    return {
        "op": name,
        "call": form["call"],
        "sizes": {key: list(each.shape) for key, each in values.items() if torch.is_tensor(each)},
        **{f"{side}_us": round(best[side] * 1e6, 3) for side in sides},
        "dispatch_us": round((best["op"] - best["bare"]) * 1e6, 3),
        "op_to_written": round(best["op"] / best["written"], 3),
        "op_to_torch": round(best["op"] / best["torch"], 3),
    }


def arguments(form: dict[str, Any]) -> dict[str, Any]:
    """The smallest call of a form that has one row."""
    torch.manual_seed(0)
    sizes = min(form["sizes"], key=lambda each: sum(each.values()))
    dims = {**sizes, form["tokens"][0]: 1}
    values: dict[str, Any] = {}
    for arg in form["args"]:
        if arg["kind"] == "tensor":
            shape = [dims.get(dim, dim) for dim in arg["shape"]]
            dtype = getattr(torch, form["dtypes"][0] if arg["dtype"] == "T" else arg["dtype"])
            values[arg["name"]] = torch.randn(shape).to(dtype)
            if not dtype.is_floating_point:
                values[arg["name"]] = torch.zeros(shape, dtype=dtype)
        elif arg["kind"] == "int":
            values[arg["name"]] = dims.get(arg["dim"], *arg["values"][:1])
        else:
            values[arg["name"]] = 1e-6 if arg["kind"] == "float" else None
    return values


class Noted:
    """In a compiled kernel's place: notes its grid and arguments, and launches it."""

    def __init__(self, compiled: Any, launches: list[tuple[Any, tuple[Any, ...]]]) -> None:
        self.compiled, self.launches = compiled, launches

    def __getitem__(self, grid: Any) -> Any:
        def launch(*args: Any) -> None:
            self.launches.append((self.compiled[grid], args))
            self.compiled[grid](*args)

        return launch


def bare(op: Any, values: dict[str, Any]) -> Callable[[], None]:
    """The launches of one call of the op, again, on the buffers of that call."""
    (decided,) = op._decided.values()
    launches: list[tuple[Any, tuple[Any, ...]]] = []
    made = [step.compiled for step in decided.plan]
    for step in decided.plan:
        step.compiled = step.compiled and Noted(step.compiled, launches)
    op.call(ENTRY, values)
    for step, compiled in zip(decided.plan, made, strict=True):
        step.compiled = compiled

    def again() -> None:
        for launch, args in launches:
            launch(*args)

    return again


def eager(name: str, values: dict[str, Any]) -> Callable[[], Any]:
    """What torch has for it."""
    functional = torch.nn.functional
    given = tuple(values.values())

    def logprob() -> Any:
        logs = functional.log_softmax(given[0].float(), dim=-1)
        chosen = logs.gather(1, given[1].long()[:, None])
        return chosen, -(logs.exp() * logs).sum(-1)

    return {
        "rms_norm": lambda: functional.rms_norm(given[0], given[1].shape, given[1], 1e-6),
        "linear": lambda: functional.linear(given[0], given[1]),
        "swiglu": lambda: functional.silu(given[0]) * given[1],
        "logprob": logprob,
    }[name]


def by_turns(sides: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds a call of each side: the minimum of its windows, which take turns."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(WINDOWS):
        for name, call in sides.items():
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / CALLS)
    return best


if __name__ == "__main__":
    main()
