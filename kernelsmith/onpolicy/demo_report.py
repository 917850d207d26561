"""The demonstration for machines and for people: JSON fields, lines for a terminal."""

from typing import Any

from kernelsmith.onpolicy import demo_model, remedies, report, text
from kernelsmith.onpolicy.demo import STOCK, Demonstration, Pairing
from kernelsmith.onpolicy.remedies import Remedy


def fields(found: Demonstration) -> dict[str, Any]:
    """For ``audit --demo --json``: ``stock`` as ``audit`` gives it, ``remedies``, and what stands
    beside them."""
    return {
        "stock": report.fields(found.stock),
        "remedies": [_remedy(found, remedy) for remedy in found.remedies],
        "pairings": [_pairing(pairing) for pairing in found.pairings],
        "model": {"class": "Qwen3ForCausalLM", "seed": demo_model.SEED, **demo_model.SHAPE},
        "device": found.device,
        "epoch": found.epoch,
    }


def _remedy(found: Demonstration, remedy: Remedy) -> dict[str, Any]:
    told = remedies.fields(remedy)
    recompute = remedy.name == "recompute"
    told["cost"] = {
        "forwards": int(recompute),
        "over_update": found.cost.forward_over_update if recompute else 0.0,
        "over_rollout": found.cost.forward_over_rollout if recompute else 0.0,
    }
    if recompute:
        told["left"]["loss_ratio_not_one"] = {
            "same_pack": found.again.figures.not_one,
            "two_packs": found.two_packs.figures.not_one,
            "one_each": found.one_each.figures.not_one,
        }
    return told


def _pairing(pairing: Pairing) -> dict[str, Any]:
    figures = pairing.audit.figures
    return {
        "dtype": pairing.dtype,
        "attention": pairing.attention,
        "sampler": pairing.sampler,
        "trainer": pairing.trainer,
        "verdict": pairing.audit.verdict,
        "tokens": figures.tokens,
        "not_one": figures.not_one,
        "ratio_min": figures.ratio_min,
        "ratio_max": figures.ratio_max,
        "max_abs_log_ratio": figures.diff_max,
        "followed": pairing.followed,
        "origin": pairing.origin,
    }


def lines(found: Demonstration) -> list[str]:
    """The demonstration for a terminal."""
    shape = demo_model.SHAPE
    return [
        text.headline(found.stock),
        f"an unmodified Qwen3ForCausalLM of transformers, random weights (seed {demo_model.SEED}), "
        f"{shape['num_hidden_layers']} layers of {shape['hidden_size']}; {found.epoch}",
        f"sampler: KV cache, four sequences alone and four in a ragged batch; trainer: one packed "
        f"forward of the same ids; {' with '.join(STOCK)} attention",
        "",
        *text.lines(found.stock),
        "",
        "the same ids in two ways through one model, and where they part",
        *_aligned([_pairing_words(pairing) for pairing in found.pairings]),
        "",
        *remedies.HEADING,
        *(f"  {remedies.line(remedy)}" for remedy in found.remedies),
        *(f"  {line}" for line in _recompute_lines(found)),
    ]


def _pairing_words(pairing: Pairing) -> tuple[str, ...]:
    figures, begins = pairing.audit.figures, pairing.origin
    where = ""
    if begins is not None:
        where = (
            f"begins at {begins.module} ({begins.what}), {begins.positions} of {begins.of} "
            f"positions; the {begins.equal_before} outputs before it are equal"
        )
    elif pairing.followed:
        where = "every module's output is equal"
    largest = "" if not figures.not_one else f"at most {figures.diff_max:.2g} in log-prob"
    return (
        f"{pairing.dtype} {pairing.attention}",
        f"{pairing.sampler} beside {pairing.trainer}",
        f"{figures.not_one} of {figures.tokens} not 1" if figures.not_one else "all exactly 1",
        largest,
        where,
    )


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _recompute_lines(found: Demonstration) -> list[str]:
    cost, again, one_each = found.cost, found.again.figures, found.one_each.figures
    return [
        f"recompute: the ratio that its loss sees is not 1 for {again.not_one} of {again.tokens} "
        f"tokens in the same pack, for {found.two_packs.figures.not_one} in two packs, for "
        f"{one_each.not_one} where each sequence has a forward of its own",
        f"recompute: costs one forward more, {cost.forward_over_update:.2f} of an update, "
        f"{cost.forward_over_rollout:.3f} of the rollout (CPU, this run); the others none while "
        "each rollout is trained on once",
    ]
