"""SwiGLU, the gated activation of a feed-forward layer, forward and backward.

    s    = 1 / (1 + exp(0 - gate))
    silu = gate * s
    y    = round(silu * up)

    dup   = round(dy * silu)
    dgate = round((dy * up) * (s + silu * (1 - s)))

``round`` is the cast to the dtype of gate (bfloat16 or float32, to nearest even); all other
arithmetic is float32, every operation rounded by itself in the order of the brackets, the
division correctly rounded, ``exp`` the device's. ``exp`` of a gate below -88.7 overflows to
infinity and makes s zero, so y is then a zero; a gate of minus infinity gives NaN.

Nothing is summed and nothing saved: backward recomputes s from gate. Rows are tokens; gate and up
may be the two halves of one buffer. ``forward_train`` and ``forward_infer`` give the same bits,
whatever else is in the batch.
"""

import triton
import triton.language as tl


@triton.jit
def _forward(
    gate_ptr, up_ptr, y_ptr, gate_stride, up_stride, y_stride, n_cols, BLOCK: tl.constexpr
):
    """y of one row. Program ``i`` owns row ``i`` and takes its columns in blocks of BLOCK."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        gate = tl.load(gate_ptr + row * gate_stride + cols, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(up_ptr + row * up_stride + cols, mask=inside, other=0.0).to(tl.float32)
        s = tl.div_rn(1.0, 1.0 + tl.exp(0.0 - gate))
        y = (gate * s) * up
        tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    dy_ptr,
    gate_ptr,
    up_ptr,
    dgate_ptr,
    dup_ptr,
    dy_stride,
    gate_stride,
    up_stride,
    dgate_stride,
    dup_stride,
    n_cols,
    BLOCK: tl.constexpr,
):
    """dgate and dup of one row. Program ``i`` owns row ``i``, in blocks of BLOCK columns."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        dy = tl.load(dy_ptr + row * dy_stride + cols, mask=inside, other=0.0).to(tl.float32)
        gate = tl.load(gate_ptr + row * gate_stride + cols, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(up_ptr + row * up_stride + cols, mask=inside, other=0.0).to(tl.float32)
        s = tl.div_rn(1.0, 1.0 + tl.exp(0.0 - gate))
        silu = gate * s
        dgate = (dy * up) * (s + silu * (1.0 - s))
        dup = dy * silu
        tl.store(
            dgate_ptr + row * dgate_stride + cols,
            dgate.to(dgate_ptr.dtype.element_ty),
            mask=inside,
        )
        tl.store(dup_ptr + row * dup_stride + cols, dup.to(dup_ptr.dtype.element_ty), mask=inside)


def forward_train(gate, up):
    """Forward of a training step; backward needs nothing but the arguments.

    Args:
        gate: [M, N] of dtype T (bfloat16 or float32); rows may be strided, columns are contiguous.
        up: [M, N] of dtype T, as gate.

    Returns:
        ``(y,)``: [M, N] of dtype T.
    """
    n_rows = gate.shape[0]
    n_cols = gate.shape[1]
    y = gate.new_empty((n_rows, n_cols))
    _forward[(n_rows,)](
        gate,
        up,
        y,
        gate.stride(0),
        up.stride(0),
        y.stride(0),
        n_cols,
        BLOCK=4096,
        num_warps=8,
    )
    return (y,)


def forward_infer(gate, up):
    """Forward of prefill and decode: bit for bit as ``forward_train``.

    Args:
        gate: [M, N] of dtype T (bfloat16 or float32); rows may be strided, columns are contiguous.
        up: [M, N] of dtype T, as gate.

    Returns:
        ``(y,)``: [M, N] of dtype T.
    """
    n_rows = gate.shape[0]
    n_cols = gate.shape[1]
    y = gate.new_empty((n_rows, n_cols))
    _forward[(n_rows,)](
        gate,
        up,
        y,
        gate.stride(0),
        up.stride(0),
        y.stride(0),
        n_cols,
        BLOCK=4096,
        num_warps=8,
    )
    return (y,)


def backward(dy, gate, up):
    """Gradients of the loss by gate and up.

    Args:
        dy: [M, N] of dtype T, gradient of y.
        gate: [M, N] of dtype T, as forward took it.
        up: [M, N] of dtype T, as forward took it.

    Returns:
        ``(dgate, dup)``: [M, N] of dtype T, functions of one token.
    """
    n_rows = gate.shape[0]
    n_cols = gate.shape[1]
    dgate = gate.new_empty((n_rows, n_cols))
    dup = gate.new_empty((n_rows, n_cols))
    _backward[(n_rows,)](
        dy,
        gate,
        up,
        dgate,
        dup,
        dy.stride(0),
        gate.stride(0),
        up.stride(0),
        dgate.stride(0),
        dup.stride(0),
        n_cols,
        BLOCK=4096,
        num_warps=8,
    )
    return dgate, dup
