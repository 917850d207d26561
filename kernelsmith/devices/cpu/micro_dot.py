"""The inner loops of ``tl.dot`` as LLVM IR text: float32 tiles, lanes along n.

Every output element is one chain of fused multiply-adds with k ascending, starting from the
accumulator, so these functions give the bits of the plain triple loop whatever their blocking:
lanes, rows and columns are independent of each other.

A tile of ``b`` whose memory is contiguous along k (a weight [N, K] used as [K, N]) is turned in
registers, 16 rows by 16 words at a time, instead of being gathered element by element.

``attributes`` is an attribute group of the module ("#0") for the function to carry.

Shapes: acc [BM, BN], a [BM, BK], b [BK, BN]; dense, float32, 64-byte aligned, no two overlapping.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

LANES = 16
_WORDS = f"<{LANES} x i32>"
_FLOATS = f"<{LANES} x float>"
_FMA = f"@llvm.fma.v{LANES}f32"
DECLARATIONS = {f"llvm.fma.v{LANES}f32": f"{_FLOATS} {_FMA}({_FLOATS}, {_FLOATS}, {_FLOATS})"}

#: k steps that one turned 16 x 16 block of words covers, by the element type of b.
CHUNK = {"bf16": 32, "f32": 16}
_ITEM_BYTES = {"bf16": 2, "f32": 4}
#: Rows of acc that :func:`dot_rows` keeps in registers beside a turned block.
_ROWS = 8


def fits(bm: int, bk: int, bn: int, item: str) -> bool:
    """Whether :func:`dot_rows` and :func:`pack_rows` take these tiles (powers of two)."""
    return item in CHUNK and bn % LANES == 0 and bk % CHUNK[item] == 0 and bm >= 1


def dot_rows(
    name: str,
    bm: int,
    bk: int,
    bn: int,
    item: str,
    attributes: str = "",
    *,
    a_turned: bool = False,
) -> str:
    """``void name(ptr acc, ptr a, ptr b, i64 b_row_bytes)``: acc += a @ b, where ``b`` is the
    memory of a [BN, BK] matrix of ``item`` with the given distance between rows.

    Best for few rows (bm <= 32): b is turned once for every 8 rows of a. With ``a_turned``,
    a is laid out [BK, BM].
    """
    rows = min(bm, _ROWS)
    a_m, a_k = (1, bm) if a_turned else (bk, 1)
    text = _Text()
    text.raw(
        f"define internal void @{name}(ptr noalias %acc, ptr noalias %a, ptr noalias readonly %b, "
        f"i64 %row_bytes) {attributes} {{"
    )
    with _loops(text, ("m", bm, rows), ("n", bn, LANES)):
        acc = text.element("%acc", "%m", bn, "%n")
        a = text.element("%a", "%m", a_m)
        row = text.bytes("%b", "%n", "%row_bytes")
        places = [text.offset(acc, m * bn) for m in range(rows)]
        sums = [text.load(_FLOATS, place, 64) for place in places]

        def chunk(sums: list[str]) -> list[str]:
            at_k = text.element(a, "%k", a_k)
            start = text.op(f"mul i64 %k, {_ITEM_BYTES[item]}")
            words = text.op(f"getelementptr i8, ptr {row}, i64 {start}")
            for step, b in enumerate(_turned(text, words, item)):
                factors = [
                    text.broadcast(text.offset(at_k, m * a_m + step * a_k)) for m in range(rows)
                ]
                sums = [text.fma(x, b, c) for x, c in zip(factors, sums, strict=True)]
            return sums

        results = _k_loop(text, "n", bk, CHUNK[item], sums, chunk)
        for place, value in zip(places, results, strict=True):
            text.do(f"store {_FLOATS} {value}, ptr {place}, align 64")
    return text.end()


def pack_rows(name: str, bk: int, bn: int, item: str, attributes: str = "") -> str:
    """``void name(ptr dst, ptr b, i64 b_row_bytes)``: dst [BK, BN] float32 from the memory of a
    [BN, BK] matrix of ``item``."""
    text = _Text()
    text.raw(
        f"define internal void @{name}(ptr noalias %dst, ptr noalias readonly %b, "
        f"i64 %row_bytes) {attributes} {{"
    )
    with _loops(text, ("n", bn, LANES), ("k", bk, CHUNK[item])):
        dst = text.element("%dst", "%k", bn, "%n")
        row = text.bytes("%b", "%n", "%row_bytes")
        start = text.op(f"mul i64 %k, {_ITEM_BYTES[item]}")
        words = text.op(f"getelementptr i8, ptr {row}, i64 {start}")
        for step, b in enumerate(_turned(text, words, item)):
            place = text.offset(dst, step * bn)
            text.do(f"store {_FLOATS} {b}, ptr {place}, align 64")
    return text.end()


def dot_tile(
    name: str, bm: int, bk: int, bn: int, attributes: str = "", *, a_turned: bool = False
) -> str:
    """``void name(ptr acc, ptr a, ptr b)``: acc += a @ b, all dense float32. With ``a_turned``,
    a is laid out [BK, BM]."""
    rows = min(bm, 8)
    a_m, a_k = (1, bm) if a_turned else (bk, 1)
    columns = min(bn // LANES, 2 if rows == 8 else 4)
    text = _Text()
    text.raw(
        f"define internal void @{name}(ptr noalias %acc, ptr noalias readonly %a, "
        f"ptr noalias readonly %b) {attributes} {{"
    )
    tiles = [(m, n) for m in range(rows) for n in range(columns)]
    with _loops(text, ("n", bn, LANES * columns), ("m", bm, rows)):
        acc = text.element("%acc", "%m", bn, "%n")
        a = text.element("%a", "%m", a_m)
        b = text.op("getelementptr float, ptr %b, i64 %n")
        places = [text.offset(acc, m * bn + LANES * n) for m, n in tiles]
        sums = [text.load(_FLOATS, place, 64) for place in places]

        def step(sums: list[str]) -> list[str]:
            at_k = text.element(a, "%k", a_k)
            row = text.element(b, "%k", bn)
            loaded = [text.load(_FLOATS, text.offset(row, LANES * n), 64) for n in range(columns)]
            factors = [text.broadcast(text.offset(at_k, m * a_m)) for m in range(rows)]
            return [
                text.fma(factors[m], loaded[n], value)
                for (m, n), value in zip(tiles, sums, strict=True)
            ]

        results = _k_loop(text, "m", bk, 1, sums, step)
        for place, value in zip(places, results, strict=True):
            text.do(f"store {_FLOATS} {value}, ptr {place}, align 64")
    return text.end()


class _Text:
    """Lines of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def raw(self, line: str) -> None:
        self.lines.append(line)

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def op(self, instruction: str) -> str:
        self.count += 1
        self.do(f"%v{self.count} = {instruction}")
        return f"%v{self.count}"

    def load(self, type_: str, place: str, align: int) -> str:
        return self.op(f"load {type_}, ptr {place}, align {align}")

    def offset(self, base: str, elements: int) -> str:
        return self.op(f"getelementptr float, ptr {base}, i64 {elements}") if elements else base

    def element(self, base: str, row: str, stride: int, column: str = "0") -> str:
        """Address of [row, column] of a float32 matrix with ``stride`` columns."""
        start = self.op(f"mul i64 {row}, {stride}")
        place = self.op(f"getelementptr float, ptr {base}, i64 {start}")
        return (
            place if column == "0" else self.op(f"getelementptr float, ptr {place}, i64 {column}")
        )

    def bytes(self, base: str, row: str, row_bytes: str) -> str:
        start = self.op(f"mul i64 {row}, {row_bytes}")
        return self.op(f"getelementptr i8, ptr {base}, i64 {start}")

    def broadcast(self, place: str) -> str:
        one = self.load("float", place, 4)
        first = self.op(f"insertelement {_FLOATS} poison, float {one}, i64 0")
        zeros = f"<{LANES} x i32> zeroinitializer"
        return self.op(f"shufflevector {_FLOATS} {first}, {_FLOATS} poison, {zeros}")

    def fma(self, x: str, y: str, z: str) -> str:
        return self.op(f"call {_FLOATS} {_FMA}({_FLOATS} {x}, {_FLOATS} {y}, {_FLOATS} {z})")

    def shuffle(self, a: str, b: str, lanes: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.op(f"shufflevector {_WORDS} {a}, {_WORDS} {b}, <{LANES} x i32> <{mask}>")

    def end(self) -> str:
        return "\n".join([*self.lines, "  ret void", "}"])


@contextmanager
def _loops(text: _Text, *levels: tuple[str, int, int]) -> Iterator[None]:
    """Loops ``for name in range(0, size, step)`` around what is written inside the ``with``
    block, outermost first; every size is at least 1."""
    text.raw("entry:")
    before = "entry"
    for name, _, _ in levels:
        text.do(f"br label %{name}.head")
        text.raw(f"{name}.head:")
        text.do(f"%{name} = phi i64 [0, %{before}], [%{name}.next, %{name}.latch]")
        before = f"{name}.head"
    yield
    for name, size, step in reversed(levels):
        text.do(f"br label %{name}.latch")
        text.raw(f"{name}.latch:")
        _advance(text, name, size, step)


def _k_loop(
    text: _Text,
    around: str,
    size: int,
    step: int,
    sums: list[str],
    body: Callable[[list[str]], list[str]],
) -> list[str]:
    """A loop over ``%k`` directly inside the loop ``around``, which carries ``sums`` through
    ``body``; returns their values after it."""
    text.do("br label %k.head")
    text.raw("k.head:")
    text.do(f"%k = phi i64 [0, %{around}.head], [%k.next, %k.head]")
    for index, value in enumerate(sums):
        text.do(f"%s{index} = phi {_FLOATS} [{value}, %{around}.head], [%t{index}, %k.head]")
    for index, value in enumerate(body([f"%s{index}" for index in range(len(sums))])):
        # A name for the next trip; the cast is none in machine code.
        text.do(f"%t{index} = bitcast {_FLOATS} {value} to {_FLOATS}")
    _advance(text, "k", size, step)
    return [f"%t{index}" for index in range(len(sums))]


def _advance(text: _Text, name: str, size: int, step: int) -> None:
    text.do(f"%{name}.next = add nuw nsw i64 %{name}, {step}")
    text.do(f"%{name}.more = icmp ult i64 %{name}.next, {size}")
    text.do(f"br i1 %{name}.more, label %{name}.head, label %{name}.end")
    text.raw(f"{name}.end:")


def _turned(text: _Text, words: str, item: str) -> list[str]:
    """The next :data:`CHUNK` rows of b as float vectors over n, from 16 rows of 16 words that lie
    ``%row_bytes`` apart. bfloat16 comes two to a word: the even k in its low half."""
    rows = []
    for index in range(LANES):
        start = text.op(f"mul i64 %row_bytes, {index}")
        place = text.op(f"getelementptr i8, ptr {words}, i64 {start}")
        rows.append(text.load(_WORDS, place, _ITEM_BYTES[item]))
    found = []
    for word in _transpose(text, rows):
        if item == "f32":
            found.append(word)
        else:
            found.append(text.op(f"shl {_WORDS} {word}, splat (i32 16)"))
            found.append(text.op(f"and {_WORDS} {word}, splat (i32 -65536)"))
    return [text.op(f"bitcast {_WORDS} {word} to {_FLOATS}") for word in found]


# Shuffles that x86 does in one instruction: words or word pairs of two vectors interleaved within
# each 128-bit quarter, then whole quarters.
_LOW = [x for q in range(0, 16, 4) for x in (q, q + 16, q + 1, q + 17)]
_HIGH = [x for q in range(0, 16, 4) for x in (q + 2, q + 18, q + 3, q + 19)]
_LOW_PAIR = [x for q in range(0, 16, 4) for x in (q, q + 1, q + 16, q + 17)]
_HIGH_PAIR = [x for q in range(0, 16, 4) for x in (q + 2, q + 3, q + 18, q + 19)]
_FRONT = [*range(8), *range(16, 24)]
_BACK = [*range(8, 16), *range(24, 32)]
_EVEN = [*range(4), *range(8, 12), *range(16, 20), *range(24, 28)]
_ODD = [*range(4, 8), *range(12, 16), *range(20, 24), *range(28, 32)]


def _transpose(text: _Text, rows: Sequence[str]) -> list[str]:
    """A 16 x 16 block of words turned: 64 shuffles."""
    quads = []
    for group in range(0, LANES, 4):
        a, b, c, d = rows[group : group + 4]
        low_ab, low_cd = text.shuffle(a, b, _LOW), text.shuffle(c, d, _LOW)
        high_ab, high_cd = text.shuffle(a, b, _HIGH), text.shuffle(c, d, _HIGH)
        quads.append(
            [
                text.shuffle(low_ab, low_cd, _LOW_PAIR),
                text.shuffle(low_ab, low_cd, _HIGH_PAIR),
                text.shuffle(high_ab, high_cd, _LOW_PAIR),
                text.shuffle(high_ab, high_cd, _HIGH_PAIR),
            ]
        )
    # quads[g][j], quarter q: rows 4g .. 4g+3 at column 4q + j.
    columns = [""] * LANES
    for j in range(4):
        a, b, c, d = (quads[group][j] for group in range(4))
        front_ab, front_cd = text.shuffle(a, b, _FRONT), text.shuffle(c, d, _FRONT)
        back_ab, back_cd = text.shuffle(a, b, _BACK), text.shuffle(c, d, _BACK)
        columns[j] = text.shuffle(front_ab, front_cd, _EVEN)
        columns[4 + j] = text.shuffle(front_ab, front_cd, _ODD)
        columns[8 + j] = text.shuffle(back_ab, back_cd, _EVEN)
        columns[12 + j] = text.shuffle(back_ab, back_cd, _ODD)
    return columns
