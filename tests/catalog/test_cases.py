"""From a case to a traced call and its inputs."""

from dataclasses import replace

import pytest

from kernelsmith import cases, catalog
from kernelsmith.errors import TaskError
from kernelsmith.model import Task, TensorMeta


@pytest.fixture(scope="module")
def linear() -> Task:
    return catalog.load_task("linear", "cpu")


def test_trace_call_gives_the_entrys_parameters_in_order(linear: Task) -> None:
    case = cases.call_for(linear, "bias_backward", "bfloat16", {"M": 3, "N": 4, "K": 5})
    call = cases.trace_call(linear, case)
    assert call.key == "bias_backward.bf16.M3-N4-K5.normal"
    assert (call.entry, call.num_programs) == ("backward", 4)
    assert dict(call.args) == {
        "dy": TensorMeta(shape=(3, 4), strides=(4, 1), dtype="bfloat16"),
        "x": TensorMeta(shape=(3, 5), strides=(5, 1), dtype="bfloat16"),
        "weight": TensorMeta(shape=(4, 5), strides=(5, 1), dtype="bfloat16"),
        "bias": TensorMeta(shape=(4,), strides=(1,), dtype="bfloat16"),
        "dw_carry": None,
        "db_carry": None,
    }


def test_padding_widens_rows_and_leaves_vectors_alone(linear: Task) -> None:
    case = cases.call_for(
        linear, "bias_infer", "float32", {"M": 3, "N": 4, "K": 5}, row_stride_pad=7
    )
    metas = dict(cases.trace_call(linear, case).args)
    assert metas["x"] == TensorMeta(shape=(3, 5), strides=(12, 1), dtype="float32")
    assert metas["bias"] == TensorMeta(shape=(4,), strides=(1,), dtype="float32")
    (y,) = cases.output_meta(linear, case)
    assert y == TensorMeta(shape=(3, 4), strides=(4, 1), dtype="float32")


def test_inputs_describe_base_and_rows(linear: Task) -> None:
    case = cases.call_for(linear, "infer", "float32", {"M": 3, "N": 4, "K": 5})
    inputs = cases.inputs_for(linear, case, 9, rows=(8, -1, 0), base_tokens=9)
    x, weight = inputs.tensors
    assert (x.meta.shape, x.base_shape, x.token_axis, x.rows) == ((3, 5), (9, 5), 0, (8, -1, 0))
    assert (weight.base_shape, weight.token_axis, weight.rows) == ((4, 5), None, None)
    assert inputs.scalars == (("bias", None),)


def test_rows_that_do_not_fit_are_refused(linear: Task) -> None:
    case = cases.call_for(linear, "infer", "float32", {"M": 2, "N": 4, "K": 5})
    with pytest.raises(TaskError, match="3 rows for 2 tokens"):
        cases.inputs_for(linear, case, 9, rows=(0, 1, 2), base_tokens=3)
    with pytest.raises(TaskError, match="row 3 of a base batch of 3"):
        cases.inputs_for(linear, case, 9, rows=(0, 3), base_tokens=3)
    with pytest.raises(TaskError, match="without base_tokens"):
        cases.inputs_for(linear, case, 9, rows=(0, 1))


def test_unknown_call_and_missing_dimension(linear: Task) -> None:
    with pytest.raises(TaskError, match="no call 'gone'"):
        cases.call_for(linear, "gone", "float32", {"M": 1})
    with pytest.raises(TaskError, match="dimension 'K' has no size"):
        cases.call_for(linear, "infer", "float32", {"M": 1, "N": 2})


def test_case_seeds_differ(linear: Task) -> None:
    seeds = {cases.case_seed(1, case) for case in linear.cases}
    assert len(seeds) == len(linear.cases)
    assert seeds.isdisjoint({cases.case_seed(2, case) for case in linear.cases})


def test_padded_arguments_have_row_strides_of_their_own(linear: Task) -> None:
    dims = {"M": 3, "N": 4, "K": 5}
    case = cases.call_for(linear, "backward", "float32", dims, row_stride_pad=3)
    metas = dict(cases.trace_call(linear, case).args)
    assert [metas[name].strides[0] for name in ("dy", "x", "weight")] == [7, 5 + 11, 5 + 19]
    drawn = {spec.name: spec.meta for spec in cases.inputs_for(linear, case, 1).tensors}
    assert drawn == {name: meta for name, meta in metas.items() if meta is not None}
    alone = replace(case, padded_arg="x")
    metas = dict(cases.trace_call(linear, alone).args)
    assert [metas[name].strides[0] for name in ("dy", "x", "weight")] == [4, 8, 5]
    assert cases.full_id(alone) != cases.full_id(case)


def test_every_call_form_has_cases_in_every_dtype(linear: Task) -> None:
    few = replace(linear, cases=tuple(c for c in linear.cases if c.call == "bias_infer"))
    found = cases.forms_of(few)
    assert {call for call, _ in found} == {
        "bias_train",
        "bias_infer",
        "bias_backward",
        "bias_backward_carry",
    }
    assert {dtype for _, dtype in found} == {"bfloat16", "float32"}
    assert set(cases.forms_of(linear)) == {
        (call.name, dtype) for call in linear.calls for dtype in ("bfloat16", "float32")
    }


def test_a_case_may_have_a_scalar_of_its_own() -> None:
    task = catalog.load_task("rms_norm", "cpu")
    case = cases.call_for(task, "infer", "float32", {"M": 1, "N": 128}, scalars=(("eps", 1e-3),))
    assert dict(cases.trace_call(task, case).args)["eps"] == 1e-3
    assert dict(cases.inputs_for(task, case, 1).scalars)["eps"] == 1e-3
    assert case.id.endswith(".eps0.001")
