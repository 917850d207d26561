"""Layout, poison and argument packing."""

from dataclasses import replace

import numpy as np
import pytest

from kernelsmith.errors import InputError
from kernelsmith.model import InputSpec, LaunchArg, ObjectInfo, OutputRef, TensorMeta
from kernelsmith.worker import buffers, buffers_poison, launcher_bind


def spec(shape, strides, dtype="float32"):
    meta = TensorMeta(shape=shape, strides=strides, dtype=dtype)
    return InputSpec(name="x", meta=meta, recipe="normal", base_shape=shape, token_axis=0)


@pytest.mark.parametrize("seed", [1, 3, 7])
@pytest.mark.parametrize("kind", ["f2", "f4"])
def test_odd_poison_is_nan_in_every_float_type(seed, kind):
    assert np.isnan(buffers_poison.pattern(seed).view(kind)).all()
    bfloat16 = buffers_poison.pattern(seed).view(np.uint16).astype(np.uint32) << 16
    assert np.isnan(bfloat16.view(np.float32)).all()


def test_even_poison_is_large_and_finite():
    values = buffers_poison.pattern(4).view(np.float32)
    assert np.isfinite(values).all()
    assert np.abs(values).min() > 1e6


@pytest.mark.parametrize("place", ["zone_start", "start", "end", "zone_end"])
def test_one_changed_byte_breaks_exactly_one_red_zone(bench, place):
    held = buffers.allocate(bench.plan(70_000), misalign_bytes=2, poison=5)
    assert buffers.broken_zones(held) == ()
    span = held.spans[1]
    at = {
        "zone_start": span.zone_start,
        "start": span.start - 1,
        "end": span.start + span.nbytes,
        "zone_end": span.zone_end - 1,
    }[place]
    held.region.bytes[at] ^= 1
    side = "before" if at < span.start else "after"
    assert buffers.broken_zones(held) == (f"output 0 {side}",)


def test_two_buffers_never_hold_the_same_poison():
    views = [np.empty(4096, np.uint8) for _ in range(2)]
    for salt, view in enumerate(views):
        buffers_poison.fill(view, 5, salt)
    assert not np.array_equal(*views)


def test_rows_lie_at_their_strides_and_poison_between_them():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    image = buffers.input_image(spec((2, 3), (5, 1)), values, 4 * 8, poison=1, salt=0)
    rows = image.view(np.float32)
    assert rows[[0, 1, 2, 5, 6, 7]].tolist() == values.ravel().tolist()
    assert np.isnan(rows[[3, 4]]).all()


def test_transposed_inputs_and_strided_outputs_keep_their_elements():
    values = np.arange(6, dtype=np.uint16).reshape(2, 3)
    meta = spec((2, 3), (1, 2), "bfloat16")
    image = buffers.input_image(meta, values, 12, poison=2, salt=1)
    assert image.view(np.uint16).tolist() == values.T.ravel().tolist()
    ref = OutputRef(buffer=0, offset_bytes=0, meta=meta.meta)
    assert buffers.output_bytes(image, ref) == values.tobytes()


@pytest.mark.parametrize(
    ("shape", "strides", "offset"), [((2, 3), (5, 1), 4), ((9,), (1,), 0), ((2,), (1,), -4)]
)
def test_a_tensor_that_leaves_its_storage_is_refused(shape, strides, offset):
    meta = TensorMeta(shape=shape, strides=strides, dtype="float32")
    with pytest.raises(InputError, match="does not fit"):
        buffers.element_view(np.zeros(32, np.uint8), meta, offset)


def test_inputs_of_another_shape_or_item_size_are_refused():
    with pytest.raises(InputError, match="declared"):
        buffers.input_image(spec((2,), (1,)), np.zeros(3, np.float32), 12, poison=1, salt=0)
    with pytest.raises(InputError, match="declared"):
        buffers.input_image(spec((2,), (1,)), np.zeros(2, np.float64), 16, poison=1, salt=0)


@pytest.mark.parametrize(
    ("kind", "value", "slot"),
    [
        ("i32", -1, "ffffffffffffffff"),
        ("i64", 1 << 40, "0000000000010000"),
        ("i1", True, "0100000000000000"),
        ("f32", 1e-6, "bd37863500000000"),
        ("f64", 1.0, "000000000000f03f"),
        ("f16", 1.0, "003c000000000000"),
        ("bf16", 1.00390625, "803f000000000000"),
        ("bf16", 1.01171875, "823f000000000000"),
    ],
)
def test_scalars_are_packed_into_eight_byte_slots(bench, kind, value, slot):
    plan = bench.plan(64)
    launch = replace(plan.launches[0], args=(LaunchArg(kind=kind, value=value),))
    info = ObjectInfo(id="o", symbol="s", params=(kind,), arena_bytes=0, code_hash="")
    entry = launcher_bind.Entry(info=info, address=0, keep=None)
    assert bytes(launcher_bind.bind(launch, entry, []).args)[:8].hex() == slot
