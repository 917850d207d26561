"""NVIDIA GPUs as a kernelsmith device.

TTIR is compiled by Triton's own CUDA backend with pinned options (:mod:`.compile`); the cubin is
loaded and launched through the CUDA driver, ``libcuda.so.1``, by ctypes (:mod:`.libcuda`,
:mod:`.gpu`, :mod:`.kernel`), so that a process that runs or times kernels imports neither torch
nor Triton. :mod:`.cubin`, :mod:`.occupancy` and :mod:`.lint` read what was compiled, without a GPU.

**What has run where.** Compiling, reading binaries and the lint run on any machine and are tested
there. Everything that calls the driver has been run against a stand-in written in C from the
public header ``cuda.h`` (``tests/cuda/fake_libcuda.c``), never yet on a GPU;
``benchmarks/gpu_check.py`` is what to run first on one.

Importing this package imports none of triton, torch and numpy, and opens no library.
"""

from kernelsmith.devices.cuda.device import ARCHS, CudaDevice

__all__ = ["ARCHS", "CudaDevice"]
