"""Vetted jit functions for seeds and candidates: the few whose order of operations is a contract.

``tl.sum`` leaves its order to the compiler: it depends on the number of warps, the tile, pointer
alignment and the Triton release. A kernel that must give the same bits everywhere writes its
order down, and this is the vocabulary to do it in.
"""

import triton
import triton.language as tl


@triton.jit
def tree_sum(x):  # type: ignore[no-untyped-def]
    """Sums a tile over its last axis as a balanced tree of adjacent pairs.

    Level by level element 2i is added to element 2i+1, so for eight elements the result is
    ``((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7))``. The order is part of the contract and
    does not depend on warps, layout, device or Triton release.

    Args:
        x: Tile of shape [N] or [R, N], N a power of two. It is summed in its own dtype, so cast
            to float32 before the call.

    Returns:
        A scalar for [N], a tile of shape [R] for [R, N].

    Determinism:
        N - 1 additions in the order above; no product, so nothing a compiler could contract.
    """
    tl.static_assert(len(x.shape) == 1 or len(x.shape) == 2, "tree_sum takes a 1-D or 2-D tile")
    if len(x.shape) == 1:
        # Twenty levels reach the largest tile that Triton allows, 2**20 elements.
        for _ in tl.static_range(20):
            if x.shape[0] > 1:
                left, right = tl.split(tl.reshape(x, (x.shape[0] // 2, 2)))
                x = left + right
        x = tl.reshape(x, ())
    else:
        for _ in tl.static_range(20):
            if x.shape[1] > 1:
                left, right = tl.split(tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))
                x = left + right
        x = tl.reshape(x, (x.shape[0],))
    return x
