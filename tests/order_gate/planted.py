"""Rewrites of ``linear`` that sum in another order, all of them or here and there."""

import textwrap

LOOP = "    for start in range(0, k_size, BLOCK_K):\n"


def loop_of(source: str) -> tuple[str, str, str]:
    """The seed in three: up to the loop over k, its body, and what follows."""
    head, _, rest = source.partition(LOOP)
    body, mark, tail = rest.partition("    if HAS_BIAS:\n")
    assert mark
    return head, body, mark + tail


def with_loop(source: str, loop: str) -> str:
    """The seed with another loop; ``BODY`` in it stands for the body, as far in as it is said."""
    head, body, tail = loop_of(source)
    lines = []
    for line in textwrap.dedent(loop).strip("\n").split("\n"):
        if line.strip() == "BODY":
            lines.append(textwrap.indent(textwrap.dedent(body), line[: line.index("BODY")]))
        else:
            lines.append(line)
    return head + textwrap.indent("\n".join(lines), "    ").rstrip() + "\n" + tail


def replaced(source: str, old: str, new: str) -> str:
    assert old in source, old
    return source.replace(old, new)


def tiles(source: str, size: int) -> str:
    """Square tiles of another size: another kernel with the seed's order."""
    for dim in ("m", "n", "k"):
        source = source.replace(f"triton.cdiv({dim}_size, 128)", f"triton.cdiv({dim}_size, {size})")
    return replaced(replaced(source, "BLOCK_M=128", f"BLOCK_M={size}"), "BLOCK_N=128",
                    f"BLOCK_N={size}")  # fmt: skip


def split_in_two(source: str) -> str:
    """The first and the second half of k in accumulators of their own, added at the end."""
    return with_loop(
        source,
        """
        half = tl.cdiv(tl.cdiv(k_size, BLOCK_K), 2) * BLOCK_K
        for start in range(0, half, BLOCK_K):
            BODY
        first = acc
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(half, k_size, BLOCK_K):
            BODY
        acc = first + acc
        """,
    )


def backwards(source: str, where: str = "tile >= 0") -> str:
    """Blocks of k from the last to the first, in programs or cases of which ``where`` holds."""
    return with_loop(
        source,
        f"""
        last = (tl.cdiv(k_size, BLOCK_K) - 1) * BLOCK_K
        turned = {where}
        for step in range(0, k_size, BLOCK_K):
            start = tl.where(turned, last - step, step)
            BODY
        """,
    )


def in_turns(source: str) -> str:
    """Even and odd blocks of k in accumulators of their own, added at the end."""
    return with_loop(
        source,
        """
        for start in range(0, k_size, 2 * BLOCK_K):
            BODY
        even = acc
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(BLOCK_K, k_size, 2 * BLOCK_K):
            BODY
        acc = even + acc
        """,
    )


def pairs_of_tokens(source: str) -> str:
    """db: the sum over a block's rows by ``tl.sum`` instead of a tree of adjacent pairs."""
    return replaced(source, "acc += tree_sum(a)", "acc += tl.sum(a, axis=1)")
