"""A 16x16 transpose of 32-bit elements in registers: 64 shuffles.

Two rounds of unpacking inside 128-bit quarters, then two rounds that exchange quarters; on
AVX-512 each shuffle is one instruction."""

from kernelsmith.devices.cpu.codegen_text import Emitter

_LOW = (0, 16, 1, 17)
_HIGH = (2, 18, 3, 19)
_LOW2 = (0, 1, 16, 17)
_HIGH2 = (2, 3, 18, 19)


def _quarters(pattern: tuple[int, ...]) -> list[int]:
    """A pattern inside one quarter repeated for the four quarters."""
    return [4 * q + p for q in range(4) for p in pattern]


def _whole(first: tuple[int, int], second: tuple[int, int]) -> list[int]:
    """Two quarters of the first operand, then two of the second."""
    return [4 * q + i for q in (*first, *(s + 4 for s in second)) for i in range(4)]


def transpose16(em: Emitter, level: int, rows: list[str], elem: str) -> list[str]:
    """Column vectors of 16 row vectors (``<16 x elem>`` operands)."""
    kind = f"<16 x {elem}>"

    def shuffle(a: str, b: str, picks: list[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in picks)
        return em.op(level, f"shufflevector {kind} {a}, {kind} {b}, <16 x i32> <{mask}>")

    t = []
    for i in range(0, 16, 2):
        t += [shuffle(rows[i], rows[i + 1], _quarters(p)) for p in (_LOW, _HIGH)]
    u = []
    for i in range(0, 16, 4):
        for a, b in ((t[i], t[i + 2]), (t[i + 1], t[i + 3])):
            u += [shuffle(a, b, _quarters(p)) for p in (_LOW2, _HIGH2)]
    columns = [""] * 16
    for c in range(4):
        p = shuffle(u[c], u[4 + c], _whole((0, 2), (0, 2)))
        q = shuffle(u[c], u[4 + c], _whole((1, 3), (1, 3)))
        r = shuffle(u[8 + c], u[12 + c], _whole((0, 2), (0, 2)))
        s = shuffle(u[8 + c], u[12 + c], _whole((1, 3), (1, 3)))
        columns[c] = shuffle(p, r, _whole((0, 2), (0, 2)))
        columns[4 + c] = shuffle(q, s, _whole((0, 2), (0, 2)))
        columns[8 + c] = shuffle(p, r, _whole((1, 3), (1, 3)))
        columns[12 + c] = shuffle(q, s, _whole((1, 3), (1, 3)))
    return columns
