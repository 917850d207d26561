"""Every name of ``triton.language`` in Triton 3.6.0, 3.7.1 and 3.9.0, and what this device does
with it. For people and documents: the lowering itself goes by the ops of :mod:`ttir_ops`.

Lines are ``name | since | becomes | example | note``. ``lowered``: machine code. ``free``: nothing
is left of it in machine code (types, constants, hints, what happens while a kernel is read).
``refused``: a ``CompileError`` that names op and line. A test compiles every example under the
Triton at hand: Triton source in which ``x``, ``y`` are float32, ``i`` int32, ``u`` uint32 and ``m``
int1 of 64 elements, ``a`` is 16x16 float32 and ``h`` the same in bfloat16, ``p`` and ``q`` point to
float32 and int32, ``n`` is an int32, ``first`` a function of two values; it gives ``r``, or stores.
"""

from dataclasses import dataclass

_TABLE = """
PropagateNan | | free | r = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL) |
TRITON_MAX_TENSOR_NUMEL | | free | r = x + tl.TRITON_MAX_TENSOR_NUMEL |
abs | | lowered | r = tl.abs(x) + tl.abs(i) |
add | | lowered | r = tl.add(x, y) |
advance | | lowered | | block pointers: not in Triton 3.9
aggregate_replace | 3.9.0 | free | | a copy of a Python-side struct
arange | | lowered | r = tl.arange(64, 128) | any start
argmax | | lowered | r = tl.argmax(a, 1) + tl.argmax(a, 0, tie_break_left=False) | ties: below
argmin | | lowered | r = tl.argmin(a, 1) + tl.argmin(a, 0, tie_break_left=False) |
associative_scan | | lowered | r = tl.associative_scan(a, 1, first, reverse=True) | a left fold
assume | | free | tl.assume(n > 0); r = x |
atomic_add | | lowered | r = tl.atomic_add(p + i, x, mask=m) | what the gate lets pass: ADR 0012
atomic_and | | lowered | r = tl.atomic_and(q + i, i) |
atomic_cas | | lowered | r = tl.atomic_cas(q + i, i, i + 1) |
atomic_load | 3.9.0 | lowered | r = tl.atomic_load(q + i) |
atomic_max | | lowered | r = tl.atomic_max(q + i, i) |
atomic_min | | lowered | r = tl.atomic_min(q + i, i) |
atomic_or | | lowered | r = tl.atomic_or(q + i, i) |
atomic_poll | 3.9.0 | lowered | r = x + tl.atomic_poll(q, n).to(tl.float32) |
atomic_store | 3.9.0 | lowered | tl.atomic_store(q + i, i) |
atomic_xchg | | lowered | r = tl.atomic_xchg(q + i, i) |
atomic_xor | | lowered | r = tl.atomic_xor(q + i, i) |
bfloat16 | | free | r = x.to(tl.bfloat16) | arithmetic in float32, rounded after each op
bitonic_merge | | lowered | r = tl.bitonic_merge(x) |
block_type | | free | |
broadcast | | lowered | r = tl.broadcast(x, y)[0] |
broadcast_to | | lowered | r = tl.broadcast_to(x[:, None], (64, 4)) |
cast | | lowered | r = tl.cast(x, tl.int32) + tl.cast(x, tl.int32, bitcast=True) |
cat | | lowered | r = tl.cat(x, y, can_reorder=True) | never reorders
cdiv | | lowered | r = tl.cdiv(i, n) |
ceil | | lowered | r = tl.ceil(x) |
clamp | | lowered | r = tl.clamp(x, -1.0, 1.0) |
condition | | free | |
const | | free | |
constexpr | | free | |
constexpr_type | | free | |
core | | free | |
cos | | lowered | r = tl.cos(x) |
cumprod | | lowered | r = tl.cumprod(a, 0, reverse=True) | a left fold
cumsum | | lowered | r = tl.cumsum(a, 1) + tl.cumsum(a > 0, 0) | a left fold
debug_barrier | | free | tl.debug_barrier(); r = x | a program is one thread
device_assert | | lowered | tl.device_assert(i >= 0, "negative"); r = x |
device_print | | lowered | tl.device_print("x", x); r = x |
div_rn | | lowered | r = tl.div_rn(x, y) |
dot | | lowered | r = tl.dot(a, a) | one fma a k, ascending; two and three dimensions
dot_scaled | | refused | r = tl.dot_scaled(h, None, "bf16", h, None, "bf16") |
dtype | | free | |
erf | | lowered | r = tl.erf(x) |
exp | | lowered | r = tl.exp(x) |
exp2 | | lowered | r = tl.exp2(x) |
expand_dims | | lowered | r = tl.expand_dims(x, (0, 2)) |
expect_zero | 3.9.0 | lowered | r = tl.expect_zero(x, m) |
extra | | free | | of libdevice: what has an op here (tanh, pow, ...); the rest is refused
fdiv | | lowered | r = tl.fdiv(x, y) |
flip | | lowered | r = tl.flip(x, 0) + tl.flip(a, 1)[:, None, :].reshape(256).sum() |
float16 | | free | r = x.to(tl.float16) | arithmetic in float32, rounded after each op
float32 | | free | r = i.to(tl.float32) |
float64 | | free | r = x.to(tl.float64) |
float8e4b15 | | free | r = x.to(tl.float8e4b15) |
float8e4b8 | | free | r = x.to(tl.float8e4b8) |
float8e4nv | | free | r = x.to(tl.float8e4nv) |
float8e5 | | free | r = x.to(tl.float8e5) |
float8e5b16 | | free | r = x.to(tl.float8e5b16) |
floor | | lowered | r = tl.floor(x) |
fma | | lowered | r = tl.fma(x, y, x) |
full | | lowered | r = tl.full((4, 8, 2), 1.5, tl.float32) |
gather | | lowered | r = tl.gather(a, i.reshape(4, 16).to(tl.int8), 0) | index modulo the axis
histogram | | lowered | r = tl.histogram(i, 16, mask=m) | none outside of the bins
inline_asm_elementwise | | refused | tl.inline_asm_elementwise("", "=r,r", [i], tl.int8, False, 1) |
int1 | | free | r = x.to(tl.int1) |
int16 | | free | r = i.to(tl.int16) |
int32 | | free | r = x.to(tl.int32) |
int64 | | free | r = i.to(tl.int64) |
int8 | | free | r = i.to(tl.int8) |
interleave | | lowered | r = tl.interleave(x, y) |
join | | lowered | r = tl.join(a, a + 1) |
load | | lowered | r = tl.load(p + i, mask=m, other=1.0) |
load_tensor_descriptor | | lowered | | see make_tensor_descriptor
log | | lowered | r = tl.log(x) |
log2 | | lowered | r = tl.log2(x) |
make_block_ptr | | lowered | | block pointers: not in Triton 3.9
make_tensor_descriptor | | lowered | r = tl.make_tensor_descriptor(p, [8], [1], [8]).load([0]) |
map_elementwise | | lowered | r = tl.map_elementwise(first, x, y) | pack: consecutive elements
math | | free | r = tl.math.exp2(x) |
max | | lowered | r = tl.max(a, 1) + tl.max(a, 0, return_indices=True)[0] |
max_constancy | | free | r = tl.max_constancy(i, 1) |
max_contiguous | | free | r = tl.max_contiguous(i, 64) |
maximum | | lowered | r = tl.maximum(x, y) + tl.maximum(i, n) |
min | | lowered | r = tl.min(a, 1) + tl.min(a, 0, return_indices=True)[0] |
minimum | | lowered | r = tl.minimum(x, y) + tl.minimum(i, n) |
mul | | lowered | r = tl.mul(x, y) |
multiple_of | | free | r = tl.multiple_of(i, 1) |
num_programs | | lowered | r = x + tl.num_programs(1) |
pair_uniform_to_normal | | lowered | r = tl.pair_uniform_to_normal(x, y)[0] |
permute | | lowered | r = tl.permute(x.reshape(2, 4, 8), (2, 0, 1)) | any rank
philox | | lowered | r = tl.philox(7, i, i, i, i)[0] |
philox_impl | | lowered | r = tl.philox_impl(u, u, u, u, u, u)[0] |
pi32_t | | free | |
pointer_type | | free | |
program_id | | lowered | r = x + tl.program_id(0) |
rand | | lowered | r = tl.rand(7, i) |
rand4x | | lowered | r = tl.rand4x(7, i)[3] |
randint | | lowered | r = tl.randint(7, i) |
randint4x | | lowered | r = tl.randint4x(7, i)[3] |
randn | | lowered | r = tl.randn(7, i) |
randn4x | | lowered | r = tl.randn4x(7, i)[3] |
random | | free | |
range | | lowered | for k in tl.range(0, n, num_stages=2): tl.store(p + k, 1.0) |
ravel | | lowered | r = tl.ravel(a, can_reorder=True) | never reorders
reduce | | lowered | r = tl.reduce(a, 1, first) | any region; the order is below
reduce_or | | lowered | r = tl.reduce_or(i.reshape(8, 8), 0) |
reshape | | lowered | r = tl.reshape(a, (4, 1, 64), can_reorder=True) | never reorders
rsqrt | | lowered | r = tl.rsqrt(x) |
sigmoid | | lowered | r = tl.sigmoid(x) |
sin | | lowered | r = tl.sin(x) |
slice | | free | |
softmax | | lowered | r = tl.softmax(x) |
sort | | lowered | r = tl.sort(a, descending=True) |
split | | lowered | r = tl.split(x.reshape(4, 8, 2))[1] |
sqrt | | lowered | r = tl.sqrt(x) |
sqrt_rn | | lowered | r = tl.sqrt_rn(x) |
squeeze | 3.7.1 | lowered | r = tl.squeeze(x[:, None], 1) |
standard | | free | |
static_assert | | free | tl.static_assert(a.shape[0] == 16); r = x |
static_print | | free | |
static_range | | free | for k in tl.static_range(3): tl.store(p + k, 1.0) |
store | | lowered | tl.store(p + i, x, mask=m) |
store_tensor_descriptor | | lowered | | see make_tensor_descriptor
str_to_ty | | free | |
sub | | lowered | r = tl.sub(x, y) |
sum | | lowered | r = tl.sum(a, 1) + tl.sum(a > 0, 0) |
swizzle2d | | lowered | r = tl.swizzle2d(i // 8, i % 8, 8, 8, 4)[1] |
target_info | | free | |
tensor | | free | |
tensor_descriptor | | free | |
tensor_descriptor_type | | free | |
to_tensor | 3.7.1 | lowered | r = x + tl.to_tensor(2.0) |
topk | | lowered | r = tl.topk(a, 4) |
trans | | lowered | r = tl.trans(a) + tl.trans(a, 1, 0) | any rank
tuple | | free | |
tuple_type | | free | |
uint16 | | free | r = i.to(tl.uint16) |
uint32 | | free | r = i.to(tl.uint32) // 3 |
uint64 | | free | r = i.to(tl.uint64) |
uint8 | | free | r = i.to(tl.uint8) |
uint_to_uniform_float | | lowered | r = tl.uint_to_uniform_float(u) |
umulhi | | lowered | r = tl.umulhi(i, n) |
unsqueeze | 3.7.1 | lowered | r = tl.unsqueeze(x, -1) |
view | | lowered | r = tl.view(a, (64, 4)) | never reorders
void | | free | |
where | | lowered | r = tl.where(m[:, None] & (tl.arange(0, 2) > 0)[None, :], x[:, None], 0.0) |
xor_sum | | lowered | r = tl.xor_sum(i.reshape(8, 8), 1) |
zeros | | lowered | r = tl.zeros((8, 4), tl.float16) |
zeros_like | | lowered | r = tl.zeros_like(a) |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageName:
    """One name of ``triton.language``. ``since``: the first of the three releases that has it."""

    name: str
    since: str
    becomes: str
    example: str
    note: str


def language() -> tuple[LanguageName, ...]:
    """The table, in alphabetical order."""
    rows = []
    for line in _TABLE.strip().splitlines():
        name, since, becomes, example, note = (part.strip() for part in _cells(line))
        since = since or "3.6.0"
        rows.append(
            LanguageName(name=name, since=since, becomes=becomes, example=example, note=note)
        )
    return tuple(rows)


def _cells(line: str) -> list[str]:
    """Name, since, becomes, example, note; an example may hold ``|``."""
    name, since, becomes, rest = line.split(" |", 3)
    example, _, note = rest.rpartition("|")
    return [name, since, becomes, example, note]
