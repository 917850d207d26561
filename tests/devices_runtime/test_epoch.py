"""Object ids: equal for texts that compile to equal code, different otherwise."""

from kernelsmith.devices import get
from kernelsmith.devices.cpu.epoch import canonical

KERNEL = """#loc = loc("{file}":4:0)
#loc15 = loc("x_ptr"(#loc))
module {{
  tt.func public @add(%{x}: !tt.ptr<f32> loc("x_ptr"(#loc)), %n: i32 loc("a)b\\"("(#loc))) {{
    %c{one}_i32 = arith.constant {one} : i32 loc(#loc1)
    %{y}:2 = scf.for %i = %n to %c{one}_i32 step %n iter_args(%a = %{x}) -> (i32) {{
    }} {{tt.note = "loc(kept)"}} loc(#loc2)
    tt.store %{x}, %{y}#1 : !tt.ptr<f32> loc(callsite(#loc2 at "{file}":9:1))
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc(unknown)
"""


def text(*, file: str = "a.py", x: str = "x", y: str = "y", one: int = 1) -> str:
    return KERNEL.format(file=file, x=x, y=y, one=one)


def test_locations_and_names_of_values_do_not_change_the_id() -> None:
    device = get("cpu")
    assert device.object_id(text()) == device.object_id(text(file="b.py", x="in_ptr", y="z"))
    assert "loc" not in canonical(text()).replace('"loc(kept)"', "")
    assert '"loc(kept)"' in canonical(text())
    assert "%3:2" in canonical(text())
    assert "%3#1" in canonical(text())


def test_alignment_of_arguments_does_not_change_the_id() -> None:
    hinted = text().replace("!tt.ptr<f32> loc", "!tt.ptr<f32> {tt.divisibility = 16 : i32} loc", 1)
    assert hinted != text()
    assert get("cpu").object_id(hinted) == get("cpu").object_id(text())


def test_a_constant_or_swapped_values_do() -> None:
    device = get("cpu")
    assert device.object_id(text()) != device.object_id(text(one=2))
    swapped = text().replace("tt.store %x, %y#1", "tt.store %y#1, %x")
    assert device.object_id(text()) != device.object_id(swapped)


def test_description_is_jsonable_and_names_what_decides_the_code() -> None:
    facts = get("cpu").describe()
    assert facts["device"] == "cpu"
    assert {"cpu", "level", "llvmlite", "lowering", "key"} <= set(facts)
