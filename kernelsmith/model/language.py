"""The language of candidates: every name that one may use, and the hints that refusals give.

Pure tables. The gate refuses by them (``gate/policy``), the agent is told of them.

Names of ``triton.language`` are those that exist in Triton 3.6.0, 3.7.1 and 3.9.0 alike and are
pure functions of tensors. What is left out, and why: ``tl.math``/``tl.core``/``tl.extra`` and other
submodules (they lead to Python's own modules and to inline assembly; ``tl.div_rn``, ``tl.sqrt_rn``,
``tl.fma``, ``tl.erf`` are there at the top level), ``tl.assume`` (a false promise is undefined
behaviour), device prints and asserts, barriers, tensor descriptors (they need a host allocator),
``map_elementwise`` and inline assembly. Atomics are in: which of them may stay is for the gate's
determinism check to say, which sees their types and addresses.
"""

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TL_CALLS = _names(
    """
    program_id num_programs arange zeros zeros_like full cat join split interleave reshape
    view ravel trans permute expand_dims broadcast broadcast_to flip cast load store where
    dot dot_scaled sum max min argmax argmin reduce xor_sum cumsum cumprod associative_scan
    histogram gather sort topk softmax abs ceil floor exp exp2 log log2 sin cos sqrt sqrt_rn
    rsqrt sigmoid erf fma fdiv div_rn umulhi maximum minimum clamp cdiv rand randn randint
    rand4x randn4x randint4x philox swizzle2d multiple_of max_contiguous max_constancy
    static_assert constexpr atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor
    atomic_xchg atomic_cas
    """
)
TL_VALUES = _names(
    """
    int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
    float8e4nv float8e5 float8e4b15 float8e4b8 float8e5b16
    """
)
TL_COMBINE = frozenset({"reduce", "associative_scan"})
TL_KEYWORDS = _names(
    """
    mask other axis dim dims keep_dims dtype bitcast fp_downcast_rounding input_precision
    allow_tf32 max_num_imprecise_acc out_dtype acc eviction_policy cache_modifier combine_fn
    reverse descending return_indices return_indices_tie_break_left propagate_nan
    can_reorder ieee_rounding shape value num_stages loop_unroll_factor flatten
    disallow_acc_multi_buffer disable_licm warp_specialize n_rounds num_bins k start end
    step min max volatile sem scope
    """
)
TL_STRING_KEYWORDS = frozenset(
    {"input_precision", "eviction_policy", "cache_modifier", "fp_downcast_rounding", "sem", "scope"}
)
TENSOR_METHODS = _names(
    """
    to cast reshape view ravel trans permute split expand_dims broadcast_to flip gather sum
    max min argmax argmin xor_sum cumsum cumprod abs ceil floor exp exp2 log log2 sin cos
    sqrt sqrt_rn rsqrt sigmoid softmax sort erf cdiv logical_and logical_or
    """
)
JIT_ATTRIBUTES = frozenset({"dtype", "element_ty", "type", "shape", "T", "primitive_bitwidth"})
JIT_BUILTINS = frozenset({"range", "min", "max", "len", "int", "float"})

HOST_ATTRIBUTES = frozenset({"shape", "dtype", "ndim", "T", "mT"})
HOST_METHODS = _names(
    """
    stride size numel dim element_size is_contiguous new_empty view reshape t transpose
    permute unsqueeze squeeze expand narrow select flatten unflatten unbind split chunk
    swapaxes movedim
    """
)
HOST_STAR_METHODS = frozenset({"new_empty", "view", "reshape", "expand", "permute"})
HOST_METHOD_KEYWORDS = frozenset({"dtype", "dim", "size", "start_dim", "end_dim", "sizes", "start"})
HOST_BUILTINS = frozenset({"range", "min", "max", "len", "int", "abs", "tuple", "sum", "divmod"})
TORCH_DTYPES = _names(
    """
    bfloat16 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool
    float8_e4m3fn float8_e5m2
    """
)
HOST_CALLS = frozenset({"torch.empty_like", "triton.cdiv", "triton.next_power_of_2"})

LAUNCH_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})
# What Triton's backends and ``JITFunction.run`` read from a launch's keywords, in any version: a
# parameter of such a name, passed by keyword, would reach the compiler as an option.
OPTION_NAMES = LAUNCH_OPTIONS | _names(
    """
    grid warmup debug instrumentation_mode warp_size ptx_version ptx_options ir_override
    enable_fp_fusion enable_reflect_ftz launch_cooperative_grid launch_pdl clc sched4reg
    supported_fp8_dtypes deprecated_fp8_dot_operand_dtypes default_dot_input_precision
    allowed_dot_input_precisions max_num_imprecise_acc_default extern_libs backend_name
    sanitize_overflow arch fpsan_homomorphic_casts min_shared_mem waves_per_eu schedule_hint
    matrix_instr_nonkdim kpack allow_flush_denorm llvm_fn_attrs wgp_cu_mode device
    device_type stream
    """
)
JIT_DECORATOR_KEYWORDS = frozenset(
    {"noinline", "do_not_specialize", "do_not_specialize_on_alignment"}
)

IMPORT_ROOTS = ("torch", "triton", "tl")
RESERVED = frozenset(IMPORT_ROOTS) | JIT_BUILTINS | HOST_BUILTINS
SHORT_STRING = re.compile(r"\.?[A-Za-z0-9_]{0,32}\Z")
FLOAT_STRINGS = frozenset({"inf", "-inf", "+inf", "nan", "infinity", "-infinity"})

# What to say for constructs that people and models reach for. Keys are names as written.
TL_HINTS = {
    "tl.math": "use the top-level name, such as tl.exp, tl.fma, tl.erf, tl.div_rn or tl.sqrt_rn",
    "tl.extra": "use the functions of triton.language, such as tl.exp or tl.erf",
    "tl.core": "use the functions of triton.language",
    "tl.standard": "use the top-level name, such as tl.sum or tl.softmax",
    "tl.random": "use the top-level name, such as tl.rand or tl.philox",
    "tl.assume": "use tl.multiple_of or tl.max_contiguous; bounds belong in masks",
    "tl.static_print": "remove it; a candidate does not print",
    "tl.device_print": "remove it; a candidate does not print",
    "tl.device_assert": "use tl.static_assert on constexprs, or masks",
    "tl.debug_barrier": "remove it; a kernel's programs are independent",
    "tl.inline_asm_elementwise": "use the functions of triton.language",
    "tl.map_elementwise": "use elementwise functions of triton.language and tl.where",
    "tl.make_block_ptr": "use pointer arithmetic with tl.arange, tl.load and tl.store",
    "tl.make_tensor_descriptor": "use pointer arithmetic with tl.arange, tl.load and tl.store",
    "tl.pointer_type": "pass a pointer of that type as an argument",
}
HOST_ATTRIBUTE_HINTS = {
    "device": "allocate with x.new_empty(...) or torch.empty_like(x)",
    "is_meta": "read only .shape, .stride(), .dtype and declared integers",
    "data_ptr": "pass the tensor itself to the kernel",
    "item": "read values inside a kernel",
    "tolist": "read values inside a kernel",
    "contiguous": "pass the strides to the kernel, or copy in a kernel",
    "to": "cast inside a kernel, and allocate with x.new_empty(..., dtype=...)",
    "new_zeros": "allocate with x.new_empty(...) and write zeros in a kernel",
    "zero_": "write zeros in a kernel",
    "copy_": "copy in a kernel",
    "warmup": "launch with kernel[grid](...)",
    "run": "launch with kernel[grid](...)",
}
HOST_CALL_HINTS = {
    "torch.empty": "allocate with x.new_empty(...) or torch.empty_like(x)",
    "torch.zeros": "allocate with x.new_empty(...) and write zeros in a kernel",
    "torch.zeros_like": "allocate with torch.empty_like(x) and write zeros in a kernel",
    "triton.autotune": "choose constants at the launch by shape, with if/else in host code",
    "triton.heuristics": "choose constants at the launch by shape, with if/else in host code",
    "triton.Config": "choose constants at the launch by shape, with if/else in host code",
}
