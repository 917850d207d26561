"""One-spot mutants of the seed ``logprob``: other orders, other formulas, another last column."""

from kernelsmith.gate.probes.mutant import Mutant

LOGPROB = (
    Mutant(
        name="sum of exponentials in the device's order",
        old="tree_sum(exps)",
        new="tl.sum(exps, axis=0)",
        order=True,
    ),
    Mutant(
        name="sum of the entropy in the device's order",
        old="tree_sum(products)",
        new="tl.sum(products, axis=0)",
        order=True,
    ),
    Mutant(
        name="exponential by powers of two",
        old="tl.exp(below)",
        new="tl.exp2(below * 1.4426950408889634)",
    ),
    Mutant(
        name="last column not summed",
        old="exps += e",
        new="exps += tl.where(cols < n_cols - 1, e, 0.0)",
    ),
    Mutant(
        name="products of the entropy by fma",
        old="products += tl.where(e > 0.0, e * below, 0.0)",
        new="products = tl.fma(e, tl.where(e > 0.0, below, 0.0), products)",
    ),
    Mutant(
        name="banned tokens make the entropy NaN",
        old="tl.where(e > 0.0, e * below, 0.0)",
        new="tl.where(inside, e * below, 0.0)",
    ),
    Mutant(name="maximum taken off first", old="chosen - lse", new="(chosen - m) - log_z"),
    Mutant(
        name="backward: gradient multiplied out",
        old="dlogprob * (tl.where(cols == target, 1.0, 0.0) - p)",
        new="tl.where(cols == target, dlogprob, 0.0) - dlogprob * p",
    ),
    Mutant(
        name="backward: entropy's bracket multiplied out",
        old="p * (l + entropy)",
        new="p * l + p * entropy",
    ),
    Mutant(
        name="half as many lanes", old="BLOCK=1024", new="BLOCK=512", everywhere=True, order=True
    ),
)
