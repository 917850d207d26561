"""What an export says of a GPU: its model, and texts in which alignment counts. No GPU is asked."""

import ast

import pytest

from kernelsmith import catalog
from kernelsmith.errors import EvidenceError
from kernelsmith.library import launch
from kernelsmith.library.digests import class_facts
from kernelsmith.library.package import _here
from kernelsmith.model import PlanClass

GPU = {"gpu": "NVIDIA H200", "arch": "sm_90"}
ALIGNED = "tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) { tt.return }"


def test_an_epoch_of_a_gpu_names_its_model() -> None:
    told = {**GPU, "driver": "570.1", "key": "0123456789abcdef", "multiprocessors": 132}
    text = launch.text(catalog.load_task("swiglu", "cuda"), (), told, "3.6.0")
    certified = ast.literal_eval(text.partition("CERTIFIED = ")[2])
    assert certified["device"] == "cuda"
    assert certified["machine"] == GPU


def test_an_epoch_of_an_unknown_gpu_is_not_exported() -> None:
    with pytest.raises(EvidenceError, match="decides the code of cuda"):
        launch.text(catalog.load_task("swiglu", "cuda"), (), {"key": "0123456789abcdef"}, "3.6.0")


@pytest.mark.parametrize(
    ("name", "capability", "reason"),
    [
        ("NVIDIA H200", (9, 0), ""),
        ("NVIDIA H100 80GB HBM3", (9, 0), "another GPU (NVIDIA H100 80GB HBM3, sm_90)"),
        ("NVIDIA B200", (10, 0), "another GPU (NVIDIA B200, sm_100)"),
    ],
)
def test_another_model_runs_the_seed(name: str, capability: tuple[int, int], reason: str) -> None:
    found = _here.other_gpu(GPU, name, capability)
    assert found == (f"{reason}: a new epoch" if reason else "")


def test_alignment_parts_the_texts_of_a_gpu_and_not_of_the_cpu() -> None:
    aligned, plain = (
        PlanClass(id="0", kernel="k", options={}, specialisation="", ttir=text)
        for text in (ALIGNED, ALIGNED.replace(" {tt.divisibility = 16 : i32}", ""))
    )
    assert class_facts(aligned, "cpu") == class_facts(plain, "cpu")
    assert class_facts(aligned, "cuda") != class_facts(plain, "cuda")
