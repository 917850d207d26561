"""An error of kernelsmith's is the same error in another process."""

import pickle

import pytest

from kernelsmith.errors import (
    CompileError,
    DeviceAssertError,
    GpuError,
    KernelsmithError,
    TaskError,
)


@pytest.mark.parametrize(
    "error",
    [
        TaskError("a case is wrong", hint="mend it"),
        GpuError("cuInit", code=999, kernel_fault=False, hint="see dmesg"),
        CompileError("not lowered", op="tt.dot", line="kernel.py:3"),
        DeviceAssertError("failed", line="kernel.py:4", program=(1, 2, 3)),
    ],
)
def test_what_was_raised_comes_back_with_all_it_says(error: KernelsmithError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
