"""Where two ways through one model part: the first module whose output has other bits.

Hooks keep every module's output, on the unmodified model, while a sequence is decoded and while it
stands in a packed forward. Modules are compared in the order in which they run; a module sees only
what came before it, so the first that differs is where it begins.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelsmith.onpolicy import demo_model
from kernelsmith.onpolicy.demo_model import Rollout

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The first output that differs. ``module`` in the model's own names, ``what`` the operation;
    ``equal_before``: outputs that were compared before it, all equal at every position;
    ``positions`` of ``of`` at which it differs, ``first`` the first; ``max_abs``: the largest
    difference."""

    module: str
    what: str
    equal_before: int
    positions: int
    of: int
    first: int
    max_abs: float


def origin(
    model: Any, batch: Sequence[Rollout], row: int, pack: Sequence[Rollout]
) -> Origin | None:
    """Where decoding row ``row`` of ``batch`` parts from the packed forward; None: nowhere, every
    module's output is equal."""
    import torch

    rollout = batch[row]
    with kept(model) as decoded:
        demo_model.decode(
            model,
            [each.prompt for each in batch],
            [each.name for each in batch],
            demo_model.feeding(batch),
        )
    with kept(model) as forward, torch.no_grad():
        demo_model.packed(model, pack)
    padding = max(len(each.prompt) for each in batch) - len(rollout.prompt)
    start = sum(len(each.ids) for each in pack[: pack.index(rollout)])
    size = len(rollout.ids) - 1  # the last token is not fed back
    return parting(
        {name: _row(pieces, row)[padding : padding + size] for name, pieces in decoded.items()},
        {name: _row(pieces, 0)[start : start + size] for name, pieces in forward.items()},
    )


def parting(ours: Mapping[str, "Tensor"], theirs: Mapping[str, "Tensor"]) -> Origin | None:
    """The first output [positions, …] whose bits differ, in the order of ``ours``."""
    for number, (name, one) in enumerate(ours.items()):
        other = theirs[name]
        differs = (_bits(one) != _bits(other)).reshape(len(one), -1).any(1)
        if differs.any():
            return Origin(
                module=name,
                what=_operation(name),
                equal_before=number,
                positions=int(differs.sum()),
                of=len(one),
                first=int(differs.nonzero()[0, 0]),
                max_abs=float((one.double() - other.double()).abs().max()),
            )
    return None


ATTENTION = "self_attn.attention"
"""What lies between the projections and ``o_proj``: no module of its own."""


@contextmanager
def kept(model: Any) -> Iterator[dict[str, list["Tensor"]]]:
    """Every module's outputs by name, in the order in which they first came."""
    outputs: dict[str, list[Tensor]] = {}
    hooks = []

    def keep(name: str, found: Any) -> None:
        for number, each in enumerate(found if isinstance(found, tuple) else (found,)):
            outputs.setdefault(f"{name}[{number}]" if number else name, []).append(each.detach())

    for name, module in model.named_modules():
        if list(module.children()):
            continue
        if name.endswith("o_proj"):
            attention = name.replace("self_attn.o_proj", ATTENTION)
            hooks.append(
                module.register_forward_pre_hook(lambda _, given, n=attention: keep(n, given[0]))
            )
        hooks.append(module.register_forward_hook(lambda _, __, out, n=name: keep(n, out)))
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def _row(pieces: list["Tensor"], row: int) -> "Tensor":
    """One sequence's outputs [positions, …] of those that came step by step. Rotary tables are the
    same for every row where all rows stand at the same positions, and come once."""
    import torch

    return torch.cat([piece[row if row < len(piece) else 0] for piece in pieces])


def _bits(values: "Tensor") -> "Tensor":
    import torch

    return values.contiguous().view(torch.int16 if values.element_size() == 2 else torch.int32)


_OPERATIONS = {
    "attention": "attention",
    "norm": "RMSNorm",
    "layernorm": "RMSNorm",
    "proj": "matrix product",
    "head": "matrix product",
    "tokens": "embedding",
    "emb": "rotary table",
    "fn": "activation",
}


def _operation(name: str) -> str:
    last = name.rpartition(".")[2].partition("[")[0].rpartition("_")[2]
    return _OPERATIONS.get(last, last)
