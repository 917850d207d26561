"""Inputs of a call, drawn from a description: the same bytes in every process.

A description (``model.Inputs``) names for each tensor a *recipe* (what the tensor is) and for the
whole call a *regime* (which differences its values are made to show, see ``recipes_regimes``).
Token tensors are drawn for a base batch; ``rows`` then picks tokens from it, so that a recomposed
batch holds the very same tokens. Row -1 is padding, drawn from another stream.

Recipes: ``token``, ``matrix``, ``vector``, ``offset`` stand alone; ``norm_x``, ``norm_weight``,
``norm_residual``, ``norm_gradient``, ``norm_passing`` and ``norm_rstd`` belong together;
``gate`` goes with ``gate_factor`` (either factor beside it, or a gradient); ``logits`` with
``logits_lse``, ``logits_entropy``, ``logits_dlogprob``, ``logits_dentropy``; ``index`` is a column
of the call's ``logits``, an integer tensor; ``carry`` is an earlier part's float32 sum; ``zeros``
is +0 everywhere.
"""

import numpy as np
import numpy.typing as npt

from kernelsmith.errors import InputError
from kernelsmith.model import Inputs, InputSpec
from kernelsmith.numerics import recipes_gate, recipes_logits, recipes_norm
from kernelsmith.numerics.recipes_float import (
    Bits,
    from_bits,
    from_float64,
    generator,
    to_float64,
)
from kernelsmith.numerics.recipes_regimes import REGIMES

__all__ = ["RECIPES", "REGIME_NAMES", "draw", "from_float64", "to_float64"]

Storage = npt.NDArray[np.generic]
RECIPES = (
    "token",
    "matrix",
    "vector",
    "offset",
    "carry",
    "zeros",
    "norm_x",
    "norm_weight",
    "norm_residual",
    "norm_gradient",
    "norm_passing",
    "norm_rstd",
    "gate",
    "gate_factor",
    "logits",
    "index",
    "logits_lse",
    "logits_entropy",
    "logits_dentropy",
    "logits_dlogprob",
)
REGIME_NAMES = tuple(REGIMES)
# Recipes that look at tensors of an earlier round; all others are of round 0.
_ROUNDS = {
    "norm_gradient": 1,
    "norm_rstd": 1,
    "gate_factor": 1,
    "index": 1,
    "logits_lse": 1,
    "logits_entropy": 1,
    "logits_dlogprob": 2,
}


def draw(inputs: Inputs) -> dict[str, Storage]:
    """Draws every tensor of a call.

    Args:
        inputs: the description; its ``file`` overrides are not looked at here.

    Returns:
        Contiguous storage by name, at each tensor's ``meta.shape``: bfloat16 as uint16, every
        other dtype in its own.

    Raises:
        InputError: an unknown recipe or regime.

    Determinism:
        A function of ``inputs`` alone: Philox streams and IEEE operations, no transcendental
        function. About 5 ns an element.
    """
    if inputs.regime not in REGIMES:
        raise InputError(
            f"unknown input regime {inputs.regime!r}", hint="one of: " + ", ".join(REGIMES)
        )
    # Coupled tensors are drawn after those they depend on, whatever the order of arguments.
    ordered = sorted(inputs.tensors, key=lambda spec: _ROUNDS.get(spec.recipe, 0))
    main: dict[str, Storage] = {}
    for spec in ordered:
        main[spec.name] = _draw_one(inputs, spec, spec.base_shape, "main", main)
    padding: dict[str, Storage] = {}
    out = {}
    for spec in ordered:
        base = main[spec.name]
        if spec.token_axis is None or spec.rows is None:
            out[spec.name] = base
            continue
        rows = np.asarray(spec.rows, np.int64)
        count = int((rows < 0).sum())
        if count:
            shape = _with_axis(spec.base_shape, spec.token_axis, count)
            padding[spec.name] = _draw_one(inputs, spec, shape, "padding", {**main, **padding})
            base = np.concatenate([base, padding[spec.name]], axis=spec.token_axis)
            rows = rows.copy()
            rows[rows < 0] = base.shape[spec.token_axis] - count + np.arange(count)
        out[spec.name] = np.ascontiguousarray(np.take(base, rows, axis=spec.token_axis))
    return out


def _with_axis(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _draw_one(
    inputs: Inputs,
    spec: InputSpec,
    shape: tuple[int, ...],
    stream: str,
    drawn: dict[str, Storage],
) -> Storage:
    """One tensor at ``shape``; ``drawn`` holds the tensors before it in the call."""
    rng = generator(inputs.seed, stream, spec.name, shape, spec.recipe, inputs.regime)
    dtype = spec.meta.dtype
    if spec.recipe == "zeros":
        return from_bits(np.zeros(shape, np.uint32), dtype)
    if spec.recipe == "index":
        return _index(inputs, spec, rng, drawn)
    values = _derived(inputs, spec.recipe, drawn)
    if values is not None:
        return from_float64(values, dtype)
    bits = _bits(inputs, spec.recipe, shape, rng, drawn)
    return from_bits(bits, dtype)


def _index(
    inputs: Inputs, spec: InputSpec, rng: np.random.Generator, drawn: dict[str, Storage]
) -> Storage:
    if not spec.meta.dtype.startswith("int"):
        raise InputError(
            f"recipe 'index' draws integers, and {spec.name} is {spec.meta.dtype}",
            hint='give the tensor dtype = "int64" or "int32"',
        )
    columns = recipes_logits.index(rng, _wide(*_tensor(inputs, "logits", drawn)))
    return columns.astype(np.dtype(spec.meta.dtype))


def _derived(
    inputs: Inputs, recipe: str, drawn: dict[str, Storage]
) -> npt.NDArray[np.float64] | None:
    """Values of a recipe that others decide, None for one that is drawn."""

    def of(name: str) -> npt.NDArray[np.float64]:
        return to_float64(*_tensor(inputs, name, drawn))

    if recipe == "norm_rstd":
        return recipes_norm.rstd(of("norm_x"), _eps(inputs))
    if recipe == "logits_lse":
        return recipes_logits.lse(of("logits"))
    if recipe == "logits_entropy":
        return recipes_logits.entropy(of("logits"))
    there = {spec.recipe for spec in inputs.tensors}
    if recipe == "logits_dlogprob" and inputs.regime == "cancel" and "logits_dentropy" in there:
        return recipes_logits.undoing_gradient(
            of("logits"), of("logits_lse"), of("logits_entropy"), of("logits_dentropy")
        )
    return None


def _bits(
    inputs: Inputs,
    recipe: str,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    drawn: dict[str, Storage],
) -> Bits:
    regime, seed = inputs.regime, inputs.seed
    if recipe in ("token", "matrix", "vector", "offset"):
        return REGIMES[regime](rng, shape, recipe, seed)
    if recipe == "carry":
        return REGIMES["normal"](rng, shape, "vector", seed)
    if recipe == "norm_x":
        return recipes_norm.x(rng, shape, regime, seed, _eps(inputs))
    if recipe == "norm_weight":
        return recipes_norm.weight(rng, shape, regime, seed)
    if recipe == "norm_residual":
        return recipes_norm.residual(rng, shape, regime, seed)
    if recipe == "norm_passing":
        return recipes_norm.passing_gradient(rng, shape, regime, seed)
    if recipe == "norm_gradient":
        x = _wide(*_tensor(inputs, "norm_x", drawn))
        weight = _wide(*_tensor(inputs, "norm_weight", drawn))
        return recipes_norm.gradient(rng, shape, regime, seed, x, weight)
    if recipe == "gate":
        return recipes_gate.gate(rng, shape, regime, seed)
    if recipe == "gate_factor":
        gate = _wide(*_tensor(inputs, "gate", drawn))
        return recipes_gate.factor(rng, shape, regime, seed, gate)
    if recipe == "logits":
        return recipes_logits.logits(rng, shape, regime, seed)
    if recipe in ("logits_dlogprob", "logits_dentropy"):
        return recipes_logits.gradient(rng, shape, regime, seed)
    raise InputError(f"unknown input recipe {recipe!r}", hint="one of: " + ", ".join(RECIPES))


def _tensor(inputs: Inputs, recipe: str, drawn: dict[str, Storage]) -> tuple[Storage, str]:
    for spec in inputs.tensors:
        if spec.recipe == recipe and spec.name in drawn:
            return drawn[spec.name], spec.meta.dtype
    raise InputError(
        f"a recipe needs a tensor drawn by {recipe!r}, and the call has none",
        hint="name that tensor's recipe in the task file",
    )


def _wide(storage: Storage, dtype: str) -> Bits:
    """float32 patterns of storage."""
    if dtype == "bfloat16":
        return storage.astype(np.uint32) << np.uint32(16)
    return storage.astype(np.float32).view(np.uint32)


def _eps(inputs: Inputs) -> float:
    value = dict(inputs.scalars).get("eps")
    return recipes_norm.DEFAULT_EPS if value is None else float(value)
