"""What teams do about a ratio that is not 1, weighed on two dumps: what is left, what is hidden.

Legend: r = exp(t − s) the importance ratio of a token, s its log-prob at the sampler, t at the
trainer (:mod:`kernelsmith.onpolicy.metrics`); w the weight that a remedy gives the token's
gradient. An unbiased gradient wants w = r.

- *recompute*: old log-probs are computed anew by the trainer, so that the loss sees t / t. w = 1.
  PPO as it is usually implemented (verl: ``old_log_prob`` with ``bypass_mode=false``).
- *truncate* (TIS): w = min(r, C), C = 2. F. Yao, L. Liu et al., "Your Efficient RL Framework
  Secretly Brings You Off-Policy RL Training" (2025), https://fengyao.notion.site/off-policy-rl;
  verl ``rollout_is=token``, ``rollout_is_threshold=2.0`` (``rollout_corr_helper.py``: clamp(max=C),
  log ratios clamped to ±20 first).
- *mask* (IcePop): w = r if 0.5 ≤ r ≤ 5, else 0: the token is dropped. Ling Team, "Every Step
  Evolves" (2025), arXiv 2510.18855, M(k) of its objective, α = 0.5 and β = 5; verl
  ``rollout_is_threshold="0.5_5.0"``.

No remedy changes a bit of either dump: what differed differs still (``not_one``). What they do is
put it elsewhere, and here stands where:

- *hidden*: Σ|w − 1|, the mismatch that went into weights, where the ratio of the loss no longer
  shows it, and how many tokens were clipped or dropped.
- *left*: Σ|r − w|, what the gradient is still wrong by.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernelsmith.onpolicy.comparing import Compared, comparisons
from kernelsmith.onpolicy.faults import Faults
from kernelsmith.onpolicy.metrics import CLAMP
from kernelsmith.onpolicy.model import Dump
from kernelsmith.onpolicy.pairing import Alone
from kernelsmith.onpolicy.storage import Floats
from kernelsmith.onpolicy.sums import Sum

Name = Literal["recompute", "truncate", "mask"]

TRUNCATE_AT = 2.0
MASK_BELOW, MASK_ABOVE = 0.5, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What one remedy does to the tokens of two dumps.

    ``clipped``: tokens whose weight is not their ratio, cut to C or dropped (recompute weighs
    none, so it clips none). ``weight_mean``, ``weight_min``, ``weight_max``: of w. ``effective``:
    the share of tokens that would tell as much unweighted, (Σw)² / (n Σw²) (Kish; verl
    ``rollout_is_eff_sample_size``). ``not_one``: tokens whose bits differ, before as after.
    None where no token was compared.
    """

    name: Name
    tokens: int
    not_one: int
    clipped: int
    sum_abs_weight_less_one: float
    sum_abs_ratio_less_weight: float
    weight_mean: float | None
    weight_min: float | None
    weight_max: float | None
    effective: float | None

    @property
    def clipped_fraction(self) -> float | None:
        """Share of tokens that were clipped or dropped."""
        return self.clipped / self.tokens if self.tokens else None


def truncated(ratio: Floats, at: float = TRUNCATE_AT) -> Floats:
    """TIS: min(r, C)."""
    return np.minimum(ratio, at)


def masked(ratio: Floats, below: float = MASK_BELOW, above: float = MASK_ABOVE) -> Floats:
    """IcePop: r within [below, above], else 0."""
    return np.where((ratio >= below) & (ratio <= above), ratio, 0.0)


def _unweighted(ratio: Floats) -> Floats:
    return np.ones_like(ratio)


_WEIGHTS: dict[Name, Callable[[Floats], Floats]] = {
    "recompute": _unweighted,
    "truncate": truncated,
    "mask": masked,
}


def weighed(sampler: Dump, trainer: Dump) -> tuple[Remedy, ...]:
    """What each remedy leaves and hides on two dumps, in one pass over each. Tokens are those that
    an audit compares."""
    remedies = Remedies()
    for met in comparisons(sampler, trainer, Faults()):
        if not isinstance(met, Alone):
            remedies.add(met)
    return remedies.found()


class Remedies:
    """Weighs all remedies pair by pair, in one pass and bounded memory.

    Ratios are those of log ratios clamped to ±20 (verl's ``SAFETY_BOUND``), so that a token that
    one side holds impossible leaves the sums numbers.
    """

    def __init__(self) -> None:
        self._tokens = self._not_one = 0
        self._sums = {name: _Sums() for name in _WEIGHTS}

    def add(self, compared: Compared) -> None:
        """Takes one pair's tokens."""
        if not len(compared.at):
            return
        ratio = np.exp(np.clip(compared.log_ratio, -CLAMP, CLAMP))
        self._tokens += len(ratio)
        self._not_one += int(np.count_nonzero(~compared.same))
        for name, weigh in _WEIGHTS.items():
            self._sums[name].add(ratio, weigh(ratio), name != "recompute")

    def found(self) -> tuple[Remedy, ...]:
        """Each remedy on all that was taken."""
        return tuple(
            self._sums[name].remedy(name, self._tokens, self._not_one) for name in _WEIGHTS
        )


class _Sums:
    """Running sums of one remedy."""

    def __init__(self) -> None:
        self._clipped = 0
        self._low, self._high = np.inf, -np.inf
        self._hidden, self._left, self._weight, self._square = Sum(), Sum(), Sum(), Sum()

    def add(self, ratio: Floats, weight: Floats, weighs: bool) -> None:
        if weighs:
            self._clipped += int(np.count_nonzero(weight != ratio))
        self._low = min(self._low, float(weight.min()))
        self._high = max(self._high, float(weight.max()))
        self._hidden.add(np.abs(weight - 1.0))
        self._left.add(np.abs(ratio - weight))
        self._weight.add(weight)
        self._square.add(weight * weight)

    def remedy(self, name: Name, tokens: int, not_one: int) -> Remedy:
        total, square = self._weight.value, self._square.value
        return Remedy(
            name=name,
            tokens=tokens,
            not_one=not_one,
            clipped=self._clipped,
            sum_abs_weight_less_one=self._hidden.value,
            sum_abs_ratio_less_weight=self._left.value,
            weight_mean=total / tokens if tokens else None,
            weight_min=self._low if tokens else None,
            weight_max=self._high if tokens else None,
            effective=total * total / (tokens * square) if square else None,
        )


def fields(remedy: Remedy) -> dict[str, Any]:
    """A remedy for JSON."""
    return {
        "name": remedy.name,
        "tokens": remedy.tokens,
        "left": {
            "dumps_not_one": remedy.not_one,
            "sum_abs_ratio_less_weight": remedy.sum_abs_ratio_less_weight,
        },
        "hidden": {
            "clipped": remedy.clipped,
            "clipped_fraction": remedy.clipped_fraction,
            "sum_abs_weight_less_one": remedy.sum_abs_weight_less_one,
        },
        "weight": {
            "mean": remedy.weight_mean,
            "min": remedy.weight_min,
            "max": remedy.weight_max,
            "effective": remedy.effective,
        },
    }


HEADING = (
    "remedies on these two dumps: they change no bit, they move the mismatch",
    "  (r: a token's ratio; w: the weight that its gradient gets, where r would be right)",
)
_RULES = {"recompute": "w = 1", "truncate": "TIS: w = min(r, 2)", "mask": "IcePop: r in [0.5, 5]"}


def line(remedy: Remedy) -> str:
    """A remedy in one line."""
    return (
        f"{remedy.name:<10} {_RULES[remedy.name]:<22} hidden: Σ|w − 1| "
        f"{remedy.sum_abs_weight_less_one:.4g}, {remedy.clipped:,} of {remedy.tokens:,} clipped; "
        f"left: Σ|r − w| {remedy.sum_abs_ratio_less_weight:.4g}"
    )
