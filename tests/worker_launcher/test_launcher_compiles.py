"""A CompileJob: objects beside the result, or the first failure in the job's order."""

import threading

import pytest

from kernelsmith.model import CompileJob
from kernelsmith.worker import launcher, launcher_compile


def compile_all(bench, texts):
    job = CompileJob(ttirs=dict(texts), device="cpu")
    return launcher.run(job, bench.folder, device=bench.device, draw=bench.draw)


@pytest.mark.parametrize("kinds", [["double"], ["double", "overrun", "slow", "last_wins"]])
def test_every_text_becomes_an_object_beside_the_result(bench, kinds):
    texts = {kind: bench.ir(kind) for kind in kinds}
    result = compile_all(bench, texts)
    assert result.failure is None
    assert list(result.objects) == kinds
    for kind in kinds:
        assert (bench.folder / f"{kind}.obj").read_bytes()[:4] == b"\x7fELF"


def test_two_processes_give_the_bytes_that_one_gives(bench):
    texts = {kind: bench.ir(kind) for kind in ("double", "overrun", "slow")}
    job = CompileJob(ttirs=texts, device="cpu")
    answers = []
    alone = threading.active_count() == 1  # a thread that another test left forbids the fork
    for chars in (1, 1 << 30):
        marks = []
        result = launcher_compile.run(
            job, bench.folder, bench.device, marks.append, fork_min_text_chars=chars
        )
        answers.append((result.objects, len(marks) == len(texts)))
    (two, two_marked_all), (one, one_marked_all) = answers
    assert two == one
    assert (two_marked_all, one_marked_all) == (not alone, True)


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_the_failure_names_op_and_line_of_the_first_text_in_job_order(bench, bad):
    kinds = ["double", "overrun", "slow", "last_wins"]
    texts = {kind: bench.ir(kind) for kind in kinds}
    for kind in kinds[bad:]:
        texts[kind] = "refuse " + texts[kind]
    result = compile_all(bench, texts)
    assert result.objects == {}
    assert result.failure is not None
    assert result.failure.status == "COMPILE"
    assert result.failure.where == kinds[bad]
    assert result.failure.message == "tt.histogram at kernel.py:12: is not lowered"


@pytest.mark.parametrize("text", ["fault", "define void @broken(ptr %args) {"])
def test_a_fault_of_the_compiler_is_said_to_be_its_own(bench, text):
    failure = compile_all(bench, {"one": text}).failure
    assert failure is not None
    assert failure.status == "COMPILE"
    assert "its own fault" in failure.message


@pytest.mark.parametrize("op", ["tt.ptr_to_int", "tt.int_to_ptr"])
def test_an_address_used_as_a_value_is_refused_by_name(bench, op):
    text = bench.ir("double")
    assert compile_all(bench, {"one": text}).failure is None
    failure = compile_all(bench, {"one": f"{text}; %1 = {op} %0 : tensor<16xi64>\n"}).failure
    assert failure is not None
    assert failure.status == "COMPILE"
    assert failure.message.startswith(f"{op}: an address is no value")
