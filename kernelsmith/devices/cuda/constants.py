"""Numbers and structures of the CUDA driver interface that are used here.

Names and values are those of the public header ``cuda.h``; ``tests/cuda/test_header.py`` has a C
compiler check each of them, and sizes and offsets of the structures, against the header that
Triton's wheel carries (CUDA 12.8 to 13.1).
"""

import ctypes
import enum


class DeviceAttribute(enum.IntEnum):
    """``CUdevice_attribute``."""

    MULTIPROCESSOR_COUNT = 16
    COMPUTE_MODE = 20
    KERNEL_EXEC_TIMEOUT = 17
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
    MAX_REGISTERS_PER_MULTIPROCESSOR = 82
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    RESERVED_SHARED_MEMORY_PER_BLOCK = 111


class FunctionAttribute(enum.IntEnum):
    """``CUfunction_attribute``."""

    MAX_THREADS_PER_BLOCK = 0
    SHARED_SIZE_BYTES = 1
    LOCAL_SIZE_BYTES = 3
    NUM_REGS = 4
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14


class LaunchAttributeId(enum.IntEnum):
    """``CUlaunchAttributeID``."""

    COOPERATIVE = 2
    CLUSTER_DIMENSION = 4
    CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5
    PROGRAMMATIC_STREAM_SERIALIZATION = 6


FUNC_CACHE_PREFER_SHARED = 1
CLUSTER_SCHEDULING_POLICY_SPREAD = 1
LIMIT_PERSISTING_L2_CACHE_SIZE = 6
STREAM_NON_BLOCKING = 1
STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
EVENT_DEFAULT = 0
EVENT_RECORD_EXTERNAL = 1
MEM_ALLOCATION_TYPE_PINNED = 1
MEM_LOCATION_TYPE_DEVICE = 1
MEM_ACCESS_FLAGS_PROT_READWRITE = 3
MEM_ALLOC_GRANULARITY_MINIMUM = 0
COMPUTEMODE_DEFAULT = 0

SUCCESS = 0
OUT_OF_MEMORY = 2
NO_DEVICE = 100
LAUNCH_OUT_OF_RESOURCES = 701
LAUNCH_TIMEOUT = 702
# What a kernel does to itself. After any of them but the last three, which the launch itself is
# refused with, the context is lost.
KERNEL_FAULTS = {
    700: "ILLEGAL_ADDRESS",
    702: "LAUNCH_TIMEOUT",
    710: "ASSERT",
    714: "HARDWARE_STACK_ERROR",
    715: "ILLEGAL_INSTRUCTION",
    716: "MISALIGNED_ADDRESS",
    717: "INVALID_ADDRESS_SPACE",
    718: "INVALID_PC",
    719: "LAUNCH_FAILED",
    721: "TENSOR_MEMORY_LEAK",
    720: "COOPERATIVE_LAUNCH_TOO_LARGE",
    701: "LAUNCH_OUT_OF_RESOURCES",
    912: "INVALID_CLUSTER_SIZE",
}


class LaunchAttributeValue(ctypes.Structure):
    """``CUlaunchAttributeValue``, a union of 64 bytes: ``clusterDim`` takes the first three words,
    each of its flags and preferences the first."""

    _fields_ = (("words", ctypes.c_uint * 16),)


class LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute``: the value lies 8 bytes in."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("value", LaunchAttributeValue),
    )


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid_x", ctypes.c_uint),
        ("grid_y", ctypes.c_uint),
        ("grid_z", ctypes.c_uint),
        ("block_x", ctypes.c_uint),
        ("block_y", ctypes.c_uint),
        ("block_z", ctypes.c_uint),
        ("shared_mem_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attrs", ctypes.POINTER(LaunchAttribute)),
        ("num_attrs", ctypes.c_uint),
    )


class MemLocation(ctypes.Structure):
    """``CUmemLocation``."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class MemAllocationProp(ctypes.Structure):
    """``CUmemAllocationProp``; ``flags`` stands for the struct ``allocFlags``, all zero."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("requested_handle_types", ctypes.c_int),
        ("location", MemLocation),
        ("win32_handle_meta_data", ctypes.c_void_p),
        ("flags", ctypes.c_char * 8),
    )


class MemAccessDesc(ctypes.Structure):
    """``CUmemAccessDesc``."""

    _fields_ = (("location", MemLocation), ("flags", ctypes.c_int))
