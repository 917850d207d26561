"""A launch is made as exactly one certified class, or the call makes none."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernelsmith.devices import cpu
from kernelsmith.library.package._launching import NotCertifiedError, Pinned, Winner, host_functions
from tests.export import scaling

OPTIONS = {"enable_fp_fusion": False, "num_ctas": 1, "num_stages": 3, "num_warps": 2}
WORDS = "x_ptr:*fp32 y_ptr:*fp32 n:i32 factor:fp32 BLOCK=int:16"
WHOLE = ["x_ptr", "y_ptr", "n"]


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    with cpu.activated(threads=1):
        yield


def winner(*divisible: list[str], **changes: Any) -> Winner:
    common = {"kernel": "_scale", "parameters": WORDS, "options": OPTIONS, **changes}
    return Winner(scaling, [{**common, "divisible": names} for names in divisible])


def values(count: int = 32, *, offset: int = 0, factor: float = 3.0) -> dict[str, Any]:
    return {"x": torch.arange(float(count + offset))[offset:], "factor": factor}


def assumed(plan: Any) -> list[bool]:
    """Of each pointer and integer of the compiled kernel, whether it relies on 16."""
    asm = plan[0].compiled.asm
    (head,) = re.findall(r"tt\.func public @\w+\((.*?)\) attributes", asm["ttir"])
    return ["tt.divisibility" in each for each in head.split("%")[1:4]]


def test_a_certified_launch_is_made() -> None:
    given = values()
    found, plan = winner(WHOLE).run("scale", given, 4)
    assert found.tolist() == (given["x"] * 3.0).tolist()
    assert (plan[0].grid, plan[0].options) == ((2, 1, 1), OPTIONS)
    assert assumed(plan) == [True, True, True]


def test_a_class_that_relies_on_less_is_what_runs() -> None:
    given = values()
    for names in ([], ["n"], ["x_ptr", "y_ptr"]):
        found, plan = winner(names).run("scale", given, 4)
        assert found.tolist() == (given["x"] * 3.0).tolist()
        assert assumed(plan) == [name in names for name in WHOLE]


def test_of_several_classes_the_one_that_relies_on_most_of_what_holds_runs() -> None:
    given = values(33)
    _, plan = winner([], ["y_ptr"], WHOLE, ["x_ptr", "y_ptr"]).run("scale", given, 4)
    assert assumed(plan) == [True, True, False]


@pytest.mark.parametrize(
    ("divisible", "given"),
    [
        (WHOLE, values(33)),
        (WHOLE, values(32, offset=1)),
        (["n"], values(33)),
        (WHOLE, values(1)),
        (WHOLE, values(factor=2)),
    ],
    ids=["n is odd", "x is not aligned", "n alone", "n is 1", "factor is an int"],
)
def test_a_class_that_relies_on_what_does_not_hold_is_never_taken(
    divisible: list[str], given: dict[str, Any]
) -> None:
    with pytest.raises(NotCertifiedError, match="launch of _scale is not certified"):
        winner(divisible).run("scale", given, 4)


@pytest.mark.parametrize(
    "options",
    [{**OPTIONS, "num_warps": 4}, {**OPTIONS, "num_stages": 2}, {**OPTIONS, "maxnreg": 64}],
)
def test_other_options_are_another_class(options: dict[str, Any]) -> None:
    with pytest.raises(NotCertifiedError, match="num_warps=2"):
        winner(WHOLE, options=options).run("scale", values(), 4)


def test_an_empty_grid_launches_nothing_and_needs_no_class() -> None:
    found, plan = winner().run("scale", values(0), 4)
    assert found.shape == (0,)
    assert plan[0].compiled is None


def test_a_later_call_makes_the_launches_of_the_first() -> None:
    made = winner(WHOLE)
    _, plan = made.run("scale_twice", values(), 4)
    assert len(plan) == 2
    again = made.again("scale_twice", values(), 4, plan)
    assert again.tolist() == [9.0 * each for each in range(32)]


@pytest.mark.parametrize(("programs", "launches"), [(3, 1), (4, 0)])
def test_an_entry_that_asks_for_programs_gets_them(programs: int, launches: int) -> None:
    _, plan = winner(WHOLE).run("scale_or_not", values(), programs)
    assert len(plan) == launches


def test_the_seeds_launches_have_their_options_written_down() -> None:
    seen: list[dict[str, Any]] = []

    class Kernel:
        def __getitem__(self, grid: Any) -> Any:
            return lambda *args, **kwargs: seen.append(kwargs)

    Pinned(Kernel())[(1,)](1, num_warps=8)
    assert seen == [{"num_warps": 8, "num_stages": 3, "num_ctas": 1, "enable_fp_fusion": False}]
    scale = host_functions(scaling, Pinned)["scale"]
    assert scale(**values()).tolist() == [3.0 * each for each in range(32)]


def test_the_options_written_down_are_tritons_own() -> None:
    from triton.backends.nvidia.compiler import CUDAOptions

    from kernelsmith.devices.cpu.compiler import CpuOptions
    from kernelsmith.library.package._pinned import DEFAULTS

    for kind in (CpuOptions, CUDAOptions):
        fields = kind.__dataclass_fields__
        assert {name: fields[name].default for name in DEFAULTS} == DEFAULTS
