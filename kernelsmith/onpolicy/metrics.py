"""Figures about the importance ratio of every token, in one pass and float64.

Legend: s, t a token's log-prob at the sampler and at the trainer; d = t − s the log ratio;
r = exp d the importance ratio; E the mean over compared tokens, E_q that over sequences q. Where
bits are equal d is exactly 0 and r exactly 1. Tokens with an infinite log-prob on one side have
r = 0 or ∞: they are counted in ``not_one`` and ``infinite``, stand in min and max, and are left out
of every mean, which says nothing of them.

Sources: verl ``verl/trainer/ppo/rollout_corr_helper.py``, ``compute_offpolicy_metrics``; prime-rl
``src/prime_rl/trainer/rl/loss.py``; TorchTitan ``torchtitan/experiments/rl``, the loss's
``bit_wise/*``; slime ``slime/backends/megatron_utils/loss.py``; estimators k1 and k3: J. Schulman,
"Approximating KL Divergence" (2020). verl, prime-rl and slime compute them in the log-probs' own
float32, where exp d − d − 1 loses all digits below |d| ≈ 1e-4; the formulas are the same.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from kernelsmith.onpolicy.comparing import Compared
from kernelsmith.onpolicy.storage import Floats
from kernelsmith.onpolicy.sums import Sum

CLAMP = 20.0
"""χ² clamps log ratios to ±20, as verl does (``SAFETY_BOUND``), so that it stays a number."""
TITAN_DIFFERENT = 1e-6
"""Above this |d| TorchTitan calls a token different."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFigures:
    """What is known of one turn's tokens: how many, how many whose ratio is not 1, E d, max |d|."""

    turn: int
    tokens: int
    not_one: int
    mean_log_ratio: float
    max_abs_log_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All figures of two dumps. None where no token was compared.

    - ``not_one``: tokens whose bits differ; ``zero_signs`` those of them that are −0 beside +0
      (their r is 1, their bits are not the same); ``infinite`` those with r = 0 or ∞.
    - ``ratio_mean`` = E r, ``ratio_min``, ``ratio_max``; ``ratio_mean_less_one`` = E (r − 1), exact
      where ``ratio_mean`` rounds to 1; ``log_ratio_min``, ``log_ratio_max`` of d, likewise.
      TorchTitan ``loss/ratio_mean``.
    - ``k1`` = E (s − t): verl ``kl``, slime ``mismatch_kl``.
    - ``k3`` = E (r − d − 1): verl ``k3_kl``, prime-rl ``mismatch_kl``, slime ``mismatch_k3_kl``.
    - ``chi2_token`` = E r² − 1, ``chi2_seq`` = E_q (∏r)² − 1: verl, log ratios clamped to ±20.
    - ``sampler_ppl``, ``trainer_ppl`` = E_q exp(−mean of s, of t): verl ``rollout_ppl``,
      ``training_ppl``.
    - ``ppl_ratio`` = E_q exp(mean s − mean t), ``log_ppl_diff`` = E_q (mean s − mean t),
      ``log_ppl_abs_diff``: verl.
    - ``diff_mean`` = E d (signed), ``diff_max`` = max |d|: TorchTitan ``bit_wise/logprob_diff``.
    - ``abs_diff`` = E |d|; ``abs_diff_by_sequence`` = E_q mean |d|: slime
      ``train_rollout_logprob_abs_diff``.
    - ``share_different`` = not_one / tokens; ``share_over_1e6`` = tokens with |d| > 1e-6 / tokens:
      TorchTitan ``bit_wise/ratio_tokens_different/mean``.
    """

    tokens: int
    sequences: int
    not_one: int
    zero_signs: int
    infinite: int
    ratio_mean: float | None
    ratio_mean_less_one: float | None
    ratio_min: float | None
    ratio_max: float | None
    log_ratio_min: float | None
    log_ratio_max: float | None
    k1: float | None
    k3: float | None
    chi2_token: float | None
    chi2_seq: float | None
    sampler_ppl: float | None
    trainer_ppl: float | None
    ppl_ratio: float | None
    log_ppl_diff: float | None
    log_ppl_abs_diff: float | None
    diff_mean: float | None
    diff_max: float | None
    abs_diff: float | None
    abs_diff_by_sequence: float | None
    share_different: float | None
    share_over_1e6: float | None
    by_turn: tuple[TurnFigures, ...] = ()


def k3_terms(log_ratio: Floats) -> Floats:
    """exp d − d − 1 without its cancellation: below 1e-3 by the series d²/2 + d³/6 + d⁴/24 + …,
    whose sixth term is under one part in 1e16 there."""
    d = log_ratio
    with np.errstate(over="ignore"):
        series = d * d * (1 / 2 + d * (1 / 6 + d * (1 / 24 + d * (1 / 120 + d / 720))))
        return np.where(np.abs(d) < 1e-3, series, np.expm1(d) - d)


@dataclass(slots=True, kw_only=True)
class _OfSequence:
    """Sums of one sequence while it is being read."""

    tokens: int = 0
    sampler: float = 0.0
    trainer: float = 0.0
    log_ratio: float = 0.0
    abs_log_ratio: float = 0.0


@dataclass(slots=True, kw_only=True)
class _OfTurn:
    tokens: int = 0
    finite: int = 0
    not_one: int = 0
    largest: float = 0.0
    log_ratio: Sum = field(default_factory=Sum)


class Metrics:
    """Collects figures pair by pair. Memory: a few numbers a turn number and an open sequence."""

    def __init__(self) -> None:
        self._tokens = self._not_one = self._zero_signs = self._over = 0
        self._finite = self._sequences = 0
        self._low, self._high, self._largest = math.inf, -math.inf, 0.0
        self._sums: defaultdict[str, Sum] = defaultdict(Sum)
        self._turns: defaultdict[int, _OfTurn] = defaultdict(_OfTurn)
        self._open: defaultdict[str, _OfSequence] = defaultdict(_OfSequence)

    def add(self, compared: Compared) -> None:
        """Takes one pair's tokens."""
        if not len(compared.at):
            return
        d, differs = compared.log_ratio, ~compared.same
        finite = np.isfinite(d)
        known = d[finite]
        size = np.abs(d)
        self._tokens += len(d)
        self._finite += len(known)
        self._not_one += int(np.count_nonzero(differs))
        self._zero_signs += int(np.count_nonzero(differs & (d == 0.0)))
        self._over += int(np.count_nonzero(size > TITAN_DIFFERENT))
        self._low, self._high = min(self._low, float(d.min())), max(self._high, float(d.max()))
        self._largest = max(self._largest, float(size.max()))
        if known.any():  # all-zero terms change no sum
            clamped = np.clip(known, -CLAMP, CLAMP)
            with np.errstate(over="ignore"):
                self._sums["less_one"].add(np.expm1(known))
            self._sums["d"].add(known)
            self._sums["abs"].add(np.abs(known))
            self._sums["k3"].add(k3_terms(known))
            self._sums["chi2"].add(np.expm1(2.0 * clamped))
        self._add_turns(compared, d, finite)
        self._add_sequence(compared, finite, known)

    def _add_turns(self, compared: Compared, d: Floats, finite: np.ndarray) -> None:
        for number in np.unique(compared.turns):
            here = compared.turns == number
            turn = self._turns[int(number)]
            turn.tokens += int(np.count_nonzero(here))
            turn.finite += int(np.count_nonzero(here & finite))
            turn.not_one += int(np.count_nonzero(here & ~compared.same))
            turn.largest = max(turn.largest, float(np.abs(d[here]).max()))
            turn.log_ratio.add(d[here & finite])

    def _add_sequence(self, compared: Compared, finite: np.ndarray, known: Floats) -> None:
        name = compared.pair.sampler.turn.sequence
        running = self._open[name]
        running.tokens += len(known)
        running.sampler += float(compared.sampler[finite].sum())
        running.trainer += float(compared.trainer[finite].sum())
        running.log_ratio += float(known.sum())
        running.abs_log_ratio += float(np.abs(known).sum())
        if compared.pair.last:
            self._close(self._open.pop(name))

    def _close(self, sequence: _OfSequence) -> None:
        if not sequence.tokens:
            return
        self._sequences += 1
        s, t = sequence.sampler / sequence.tokens, sequence.trainer / sequence.tokens
        mean = sequence.log_ratio / sequence.tokens
        clamped = min(CLAMP, max(-CLAMP, sequence.log_ratio))
        self._sums["chi2_seq"].add_one(math.expm1(2.0 * clamped))
        self._sums["sampler_ppl"].add_one(exp(-s))
        self._sums["trainer_ppl"].add_one(exp(-t))
        self._sums["ppl_less_one"].add_one(exp_less_one(-mean))
        self._sums["log_ppl"].add_one(-mean)
        self._sums["log_ppl_abs"].add_one(abs(mean))
        self._sums["abs_by_sequence"].add_one(sequence.abs_log_ratio / sequence.tokens)

    def figures(self) -> Figures:
        """The figures of all that was taken; sequences that are open are closed."""
        for name in list(self._open):
            self._close(self._open.pop(name))
        any_token = self._tokens > 0
        return Figures(
            tokens=self._tokens,
            sequences=self._sequences,
            not_one=self._not_one,
            zero_signs=self._zero_signs,
            infinite=self._tokens - self._finite,
            ratio_mean=self._mean("less_one", self._finite, 1.0),
            ratio_mean_less_one=self._mean("less_one", self._finite),
            ratio_min=exp(self._low) if any_token else None,
            ratio_max=exp(self._high) if any_token else None,
            log_ratio_min=self._low if any_token else None,
            log_ratio_max=self._high if any_token else None,
            k1=self._mean("d", self._finite, sign=-1.0),
            k3=self._mean("k3", self._finite),
            chi2_token=self._mean("chi2", self._finite),
            chi2_seq=self._mean("chi2_seq", self._sequences),
            sampler_ppl=self._mean("sampler_ppl", self._sequences),
            trainer_ppl=self._mean("trainer_ppl", self._sequences),
            ppl_ratio=self._mean("ppl_less_one", self._sequences, 1.0),
            log_ppl_diff=self._mean("log_ppl", self._sequences),
            log_ppl_abs_diff=self._mean("log_ppl_abs", self._sequences),
            diff_mean=self._mean("d", self._finite),
            diff_max=self._largest if any_token else None,
            abs_diff=self._mean("abs", self._finite),
            abs_diff_by_sequence=self._mean("abs_by_sequence", self._sequences),
            share_different=self._not_one / self._tokens if any_token else None,
            share_over_1e6=self._over / self._tokens if any_token else None,
            by_turn=self._by_turn(),
        )

    def _mean(self, name: str, count: int, plus: float = 0.0, sign: float = 1.0) -> float | None:
        # `+ 0.0`: of equal dumps a mean is 0, never −0.
        return plus + sign * self._sums[name].value / count + 0.0 if count else None

    def _by_turn(self) -> tuple[TurnFigures, ...]:
        return tuple(
            TurnFigures(
                turn=number,
                tokens=turn.tokens,
                not_one=turn.not_one,
                mean_log_ratio=turn.log_ratio.value / turn.finite if turn.finite else 0.0,
                max_abs_log_ratio=turn.largest,
            )
            for number, turn in sorted(self._turns.items())
        )


def exp(value: float) -> float:
    """exp, with ∞ where float64 ends."""
    return math.exp(value) if value < 709.7 else math.inf


def exp_less_one(value: float) -> float:
    """exp − 1, with ∞ where float64 ends."""
    return math.expm1(value) if value < 709.7 else math.inf
