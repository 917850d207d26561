"""One-spot mutants of the seed ``swiglu``: another formula of the same function, ulp for ulp."""

from kernelsmith.gate.probes.mutant import Mutant

SWIGLU = (
    Mutant(
        name="sigmoid by powers of two",
        old="tl.exp(0.0 - gate)",
        new="tl.exp2((0.0 - gate) * 1.4426950408889634)",
    ),
    Mutant(
        name="sigmoid from the other side",
        old="tl.div_rn(1.0, 1.0 + tl.exp(0.0 - gate))",
        new="1.0 - tl.div_rn(1.0, 1.0 + tl.exp(gate))",
    ),
    Mutant(
        name="gate divided at once",
        old="y = (gate * s) * up",
        new="y = tl.div_rn(gate, 1.0 + tl.exp(0.0 - gate)) * up",
    ),
    Mutant(name="sigmoid times up first", old="(gate * s) * up", new="gate * (s * up)"),
    Mutant(
        name="silu rounded before up",
        old="y = (gate * s) * up",
        new="y = (gate * s).to(y_ptr.dtype.element_ty).to(tl.float32) * up",
    ),
    Mutant(
        name="last column left out",
        old="inside = cols < n_cols",
        new="inside = cols < n_cols - 1",
    ),
    Mutant(
        name="backward: derivative with the sigmoid taken out",
        old="s + silu * (1.0 - s)",
        new="s * (1.0 + gate * (1.0 - s))",
    ),
    Mutant(
        name="backward: derivative by fma",
        old="s + silu * (1.0 - s)",
        new="tl.fma(silu, 1.0 - s, s)",
    ),
    Mutant(
        name="backward: up times derivative first",
        old="(dy * up) * (s + silu * (1.0 - s))",
        new="dy * (up * (s + silu * (1.0 - s)))",
    ),
    Mutant(
        name="backward: dy times gate first", old="dup = dy * silu", new="dup = (dy * gate) * s"
    ),
)
