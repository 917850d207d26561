"""What the device refuses, with the words it refuses with, one kernel each. A listed kernel must
raise; when its op is lowered the listing fails, and goes."""

from typing import Any

from tests.conformance.case import Case
from tests.conformance.tiles import one, tile, to

_LIBRARY = "from triton.language.extra import libdevice\n"
# op: (body, preamble, a part of the message)
ROWS: dict[str, tuple[str, str, str]] = {
    "dot_scaled": (
        'h = tl.broadcast_to(a[:, None], (32, 32)).to(tl.bfloat16)\n'
        'y = tl.sum(tl.dot_scaled(h, None, "bf16", h, None, "bf16"), axis=1)', "",
        "op tt.dot_scaled at ",
    ),
    "inline_asm_elementwise": (
        'y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [a], tl.float32, True, 1)', "",
        "op tt.elementwise_inline_asm at ",
    ),
    "libdevice.fast_expf": ("y = libdevice.fast_expf(a)", _LIBRARY, "__nv_fast_expf"),
    "libdevice.j0": ("y = libdevice.j0(a)", _LIBRARY, "__nv_j0f"),
    "libdevice.add_rz": ("y = libdevice.add_rz(a, a)", _LIBRARY, "__nv_fadd_rz"),
}  # fmt: skip


def cases() -> list[Case]:
    def never(*_: Any) -> Any:
        raise AssertionError("a refused kernel has no answer")

    return [
        tile("refused", op, body, never, one("fp32", (32,)), out=to("fp32", 32),
             preamble=preamble)
        for op, (body, preamble, _) in ROWS.items()
    ]  # fmt: skip


def refusal(case: Case) -> str:
    """Words that the refusal must have, or "" for what must run."""
    return ROWS[case.ops[0]][2] if case.family == "refused" else ""
