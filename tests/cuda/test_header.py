"""Numbers, structures and signatures against the public header ``cuda.h``, by a C compiler."""

import ctypes
import enum
import re
import subprocess
from pathlib import Path

import pytest

from kernelsmith.devices.cuda import constants, occupancy
from kernelsmith.devices.cuda.libcuda import SIGNATURES
from kernelsmith.devices.cuda.tools import include_folder
from tests.cuda.stand_in import why_not

ENUMS = {
    constants.DeviceAttribute: "CU_DEVICE_ATTRIBUTE_",
    constants.FunctionAttribute: "CU_FUNC_ATTRIBUTE_",
    constants.LaunchAttributeId: "CU_LAUNCH_ATTRIBUTE_",
}
PLAIN = {
    "CU_FUNC_CACHE_PREFER_SHARED": constants.FUNC_CACHE_PREFER_SHARED,
    "CU_CLUSTER_SCHEDULING_POLICY_SPREAD": constants.CLUSTER_SCHEDULING_POLICY_SPREAD,
    "CU_LIMIT_PERSISTING_L2_CACHE_SIZE": constants.LIMIT_PERSISTING_L2_CACHE_SIZE,
    "CU_STREAM_NON_BLOCKING": constants.STREAM_NON_BLOCKING,
    "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL": constants.STREAM_CAPTURE_MODE_THREAD_LOCAL,
    "CU_EVENT_DEFAULT": constants.EVENT_DEFAULT,
    "CU_EVENT_RECORD_EXTERNAL": constants.EVENT_RECORD_EXTERNAL,
    "CU_MEM_ALLOCATION_TYPE_PINNED": constants.MEM_ALLOCATION_TYPE_PINNED,
    "CU_MEM_LOCATION_TYPE_DEVICE": constants.MEM_LOCATION_TYPE_DEVICE,
    "CU_MEM_ACCESS_FLAGS_PROT_READWRITE": constants.MEM_ACCESS_FLAGS_PROT_READWRITE,
    "CU_MEM_ALLOC_GRANULARITY_MINIMUM": constants.MEM_ALLOC_GRANULARITY_MINIMUM,
    "CU_COMPUTEMODE_DEFAULT": constants.COMPUTEMODE_DEFAULT,
    "CUDA_SUCCESS": constants.SUCCESS,
    "CUDA_ERROR_OUT_OF_MEMORY": constants.OUT_OF_MEMORY,
    "CUDA_ERROR_NO_DEVICE": constants.NO_DEVICE,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": constants.LAUNCH_OUT_OF_RESOURCES,
    "CUDA_ERROR_LAUNCH_TIMEOUT": constants.LAUNCH_TIMEOUT,
} | {f"CUDA_ERROR_{word}": code for code, word in constants.KERNEL_FAULTS.items()}
STRUCTURES = {
    constants.LaunchConfig: (
        "CUlaunchConfig",
        {
            "grid_x": "gridDimX",
            "grid_z": "gridDimZ",
            "block_x": "blockDimX",
            "shared_mem_bytes": "sharedMemBytes",
            "stream": "hStream",
            "attrs": "attrs",
            "num_attrs": "numAttrs",
        },
    ),
    constants.LaunchAttribute: ("CUlaunchAttribute", {"id": "id", "value": "value"}),
    constants.LaunchAttributeValue: ("CUlaunchAttributeValue", {"words": "clusterDim"}),
    constants.MemLocation: ("CUmemLocation", {"type": "type", "id": "id"}),
    constants.MemAllocationProp: (
        "CUmemAllocationProp",
        {
            "type": "type",
            "requested_handle_types": "requestedHandleTypes",
            "location": "location",
            "win32_handle_meta_data": "win32HandleMetaData",
            "flags": "allocFlags",
        },
    ),
    constants.MemAccessDesc: ("CUmemAccessDesc", {"location": "location", "flags": "flags"}),
}
C_TYPES = {
    ctypes.c_int: "int",
    ctypes.c_uint: "unsigned int",
    ctypes.c_size_t: "size_t",
    ctypes.c_uint64: "unsigned long long",
    ctypes.c_ubyte: "unsigned char",
    ctypes.c_float: "float",
}

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "built")


def checks() -> list[str]:
    """C static assertions, one for each number, size and offset."""
    expected = dict(PLAIN)
    for kind, prefix in ENUMS.items():
        expected |= {f"{prefix}{member.name}": int(member) for member in kind}
    lines = [f"same({name}, {value});" for name, value in expected.items()]
    # Every member that is used lies at the union's beginning, in words of four bytes.
    for member in ("clusterDim.x", "cooperative", "clusterSchedulingPolicyPreference"):
        lines.append(f"same(offsetof(CUlaunchAttributeValue, {member}), 0);")
        lines.append(f"same(sizeof(((CUlaunchAttributeValue *)0)->{member}), 4);")
    for structure, (name, fields) in STRUCTURES.items():
        lines.append(f"same(sizeof({name}), {ctypes.sizeof(structure)});")
        for ours, theirs in fields.items():
            offset = getattr(structure, ours).offset
            lines.append(f"same(offsetof({name}, {theirs}), {offset});")
    return lines


def compiled(text: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    source = folder / "check.c"
    source.write_text(text)
    return subprocess.run(
        ["cc", f"-I{include_folder()}", *flags, str(source), "-o", str(folder / "check")],
        capture_output=True,
        text=True,
        check=False,
    )


HEAD = (
    "#include <cuda.h>\n#include <stddef.h>\n"
    '#define same(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)\n'
)


def test_numbers_sizes_and_offsets_are_the_headers(tmp_path: Path) -> None:
    lines = checks()
    assert len(lines) > 60
    done = compiled(HEAD + "\n".join(lines), tmp_path, "-c")
    assert done.returncode == 0, done.stderr
    # The check can fail: one number off is seen.
    wrong = HEAD + "same(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 39);\n"
    assert "is not 39" in compiled(wrong, tmp_path, "-c").stderr


def declarations() -> dict[str, list[str]]:
    """Parameter types by function, as the header declares them."""
    text = (include_folder() / "cuda.h").read_text(errors="replace")
    found: dict[str, list[str]] = {}
    for name, parameters in re.findall(r"CUresult CUDAAPI (\w+)\(([^)]*)\);", text):
        listed = [one.strip() for one in " ".join(parameters.split()).split(",")]
        # What stands again further down is the first version of a function, for old programs.
        found.setdefault(name, [] if listed == ["void"] else listed)
    return found


def test_every_function_has_as_many_parameters_of_that_width_as_the_header_says() -> None:
    declared = declarations()
    aliases = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}
    for name, ours in SIGNATURES.items():
        plain = re.sub(r"_v\d+$", "", aliases.get(name, name))
        theirs = declared[plain]
        assert len(ours) == len(theirs), name
        for mine, parameter in zip(ours, theirs, strict=True):
            assert width(parameter) == ctypes.sizeof(mine), f"{name}: {parameter}"


def width(parameter: str) -> int:
    """Bytes of a parameter by its declared type."""
    if "*" in parameter:
        return 8
    kind = parameter.removeprefix("const ").rsplit(" ", 1)[0]
    handles = (
        "CUcontext",
        "CUmodule",
        "CUfunction",
        "CUstream",
        "CUevent",
        "CUgraph",
        "CUgraphExec",
    )
    wide = ("CUdeviceptr", "size_t", "unsigned long long", "CUmemGenericAllocationHandle", *handles)
    if kind in wide:
        return 8
    return 1 if kind == "unsigned char" else 4


OCCUPANCY = r"""
#include <cuda_occupancy.h>
#include <stdio.h>
int main(void) {
  int arch, warps, registers, shared;
  while (scanf("%d %d %d %d", &arch, &warps, &registers, &shared) == 4) {
    cudaOccDeviceProp prop = {0};
    cudaOccFuncAttributes attributes = {0};
    cudaOccDeviceState state = {0};
    cudaOccResult result;
    prop.computeMajor = arch / 10, prop.computeMinor = arch % 10;
    prop.maxThreadsPerBlock = 1024, prop.maxThreadsPerMultiprocessor = 2048;
    prop.regsPerBlock = prop.regsPerMultiprocessor = 65536, prop.warpSize = 32;
    prop.sharedMemPerBlock = 48 << 10, prop.reservedSharedMemPerBlock = 1024;
    prop.sharedMemPerMultiprocessor = (arch == 80 ? 164 : 228) << 10;
    prop.sharedMemPerBlockOptin = (arch == 80 ? 163 : 227) << 10;
    prop.numSms = 132, state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    attributes.maxThreadsPerBlock = 1024, attributes.numRegs = registers;
    attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    attributes.maxDynamicSharedSizeBytes = prop.sharedMemPerBlockOptin;
    attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
    int code = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &prop, &attributes, &state,
                                                       32 * warps, shared);
    printf("%d\n", code ? -code : result.activeBlocksPerMultiprocessor);
  }
  return 0;
}
"""


def test_occupancy_is_what_nvidias_own_header_computes(tmp_path: Path) -> None:
    asked = [
        (arch, warps, registers, shared)
        for arch in (80, 90, 100)
        for warps in (1, 2, 4, 8, 16, 32)
        for registers in (16, 24, 32, 33, 40, 64, 65, 96, 128, 129, 168, 200, 255)
        for shared in (0, 1, 512, 8192, 33000, 65536, 98304, 131072, 166912, 232448)
    ]
    done = compiled(OCCUPANCY, tmp_path, "-w")
    assert done.returncode == 0, done.stderr
    told = subprocess.run(
        [str(tmp_path / "check")],
        input="\n".join(" ".join(map(str, one)) for one in asked),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    differing = [
        (one, int(theirs), ours.blocks)
        for one, theirs in zip(asked, told, strict=True)
        if (
            ours := occupancy.occupancy(
                one[0], num_warps=one[1], registers=one[2], shared_bytes=one[3]
            )
        ).blocks
        != max(int(theirs), 0)
    ]
    assert differing == []
    assert len(asked) == 2340


def test_every_enum_is_checked() -> None:
    kinds = [
        value
        for value in vars(constants).values()
        if isinstance(value, type) and issubclass(value, enum.IntEnum) and value is not enum.IntEnum
    ]
    assert set(kinds) == set(ENUMS)
