"""The same question to PTX: compiled here for three generations of GPUs, run on none."""

from typing import Any

import pytest

from kernelsmith.devices.cuda import CudaDevice, lint
from kernelsmith.devices.cuda.emit import emit_ttir
from kernelsmith.gate.witness.check import REFUSED_MACHINE_CODE
from kernelsmith.gate.witness.reading import read
from tests.witness.deciders import RULES
from tests.witness.test_facts import _apart, _exp, _fused

ARCHS = (80, 90, 100)


def text_of(kernel: Any, arch: int) -> str:
    signature = dict.fromkeys(kernel.arg_names, "*fp32")
    return emit_ttir(kernel, signature, {}, {}, {"num_warps": 4}, arch)


def counts(kernel: Any, arch: int) -> dict[str, int]:
    return lint.lint(CudaDevice().cross_compile(text_of(kernel, arch), arch=arch).ptx).facts()


@pytest.mark.parametrize("arch", ARCHS)
def test_ptx_tells_contraction_and_approximation_apart(arch: int) -> None:
    apart, fused = counts(_apart, arch), counts(_fused, arch)
    assert apart["fma"] == 0
    assert set(lint.beyond(fused, [apart])) == {"fma"}
    assert not set(lint.beyond(fused, [apart])) & set(REFUSED_MACHINE_CODE)
    beyond = lint.beyond(counts(_exp, arch), [apart])
    assert "approx" in beyond
    assert set(beyond) & set(REFUSED_MACHINE_CODE)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["by_branch", "by_address", "by_choice_of_sums"])
def test_the_text_for_a_gpu_is_read_by_the_same_rules(name: str, arch: int) -> None:
    kernel, rule = RULES[name]
    said = read(text_of(kernel, arch), None)
    assert said.fault == ""
    assert said.decided[0].kind == rule
