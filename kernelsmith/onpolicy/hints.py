"""Which explanations fit what two dumps show. A hint names its evidence; none is a verdict."""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.onpolicy.audit import Audit
from kernelsmith.onpolicy.disagreement import OtherIds

_LITTLE = 0.05
"""Kernels move log-probs by little: at most this share of the differing tokens by 0.1 or more."""
_FEW = 0.05
"""At most this share of the sequences is called few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """An explanation that fits, what it is read from, and where to look first."""

    kind: str
    explanation: str
    evidence: str
    look_at: str


def hints(found: Audit) -> tuple[Hint, ...]:
    """All explanations that fit, of the first broken layer first."""
    return (*_state(found), *_token(found), *_other_policy(found), *_numeric(found))


def _state(found: Audit) -> Iterator[Hint]:
    state = found.state
    if state is None:
        return
    what = "a tool's result" if state.what == "results" else "the sandbox's state"
    yield Hint(
        kind="state",
        explanation="the environment was not the same: what follows has another context",
        evidence=f"{what} first differs in sequence {state.place.sequence}, turn "
        f"{state.place.turn}: {_short(state.sampler)} beside {_short(state.trainer)}",
        look_at="pauses, migrations and resumes of the sandbox; time, network and randomness in "
        "tools",
    )


def _token(found: Audit) -> Iterator[Hint]:
    if found.payload is not None:
        one = found.payload
        yield Hint(
            kind="reformatted",
            explanation="a tool call was written again in other bytes",
            evidence=f"raw bytes of call {one.number} of turn {one.place.turn}, sequence "
            f"{one.place.sequence}: {_short(one.sampler)} beside {_short(one.trainer)}",
            look_at="a harness or client that parses and re-serialises calls; keep the raw bytes",
        )
    if found.ids is not None:
        yield _ids(found.ids)
    masks = found.masks
    if masks is not None:
        moved = (
            ""
            if masks.shifted is None
            else f"; there it is the sampler's, moved {_by(masks.shifted)}"
        )
        yield Hint(
            kind="masks",
            explanation="the two sides do not train on the same tokens",
            evidence=f"sequence {masks.place.sequence}, turn {masks.place.turn}, token "
            f"{masks.place.token}: {masks.only_sampler:,} tokens of that record only the sampler's "
            f"mask has, {masks.only_trainer:,} only the trainer's{moved}",
            look_at="how tool results and templates are masked; an off-by-one of shifted targets",
        )


def _ids(ids: OtherIds) -> Hint:
    place = (
        f"sequence {ids.place.sequence}, turn {ids.place.turn}, token {ids.place.token}: "
        f"…{list(ids.sampler)} beside …{list(ids.trainer)}"
    )
    where = (
        "in tokens that are trained on"
        if ids.trained
        else "in masked tokens, which the environment or a template put there"
    )
    if ids.rejoin is None:
        return Hint(
            kind="other tokens",
            explanation="the sequences part and do not come together again",
            evidence=f"{place}, {where}; no common stretch within sight",
            look_at="another draw of the sampler, another prompt, or sequences paired wrongly",
        )
    ours, theirs = ids.rejoin
    evidence = (
        f"{place}, {where}; {ours} ids of the sampler stand where the trainer has {theirs}, and "
        "those behind them are equal again"
    )
    if ours != theirs and ours and theirs:
        return Hint(
            kind="retokenised",
            explanation="the same text may have been tokenised again",
            evidence=evidence,
            look_at="chat templates and decode-encode round trips; give ids, not text, to the "
            "trainer",
        )
    if ours != theirs:
        return Hint(
            kind="put in" if theirs else "left out",
            explanation=f"the trainer has ids {'more' if theirs else 'fewer'} than the sampler",
            evidence=evidence,
            look_at="templates that add or strip tokens: begin and end of turn, thinking, "
            "whitespace",
        )
    return Hint(
        kind="replaced",
        explanation="some ids were replaced in place",
        evidence=f"{place}, {where}; {ours} ids differ, those behind them are equal again",
        look_at="special tokens, padding, truncation of the vocabulary",
    )


def _other_policy(found: Audit) -> Iterator[Hint]:
    if not found.confounded:
        return
    fault = next(fault for fault in found.faults if fault.kind == "other_weights")
    yield Hint(
        kind="weights",
        explanation="the policies differ: a ratio other than 1 is then what it should be",
        evidence=f"{fault.detail} ({fault.place})",
        look_at="staleness: how many updates lie between sampling and training",
    )


def _numeric(found: Audit) -> Iterator[Hint]:
    figures, seen = found.figures, found.evidence
    if not figures.not_one:
        return
    if figures.zero_signs == figures.not_one:
        yield Hint(
            kind="sign of zero",
            explanation="every ratio is 1 as a number; the bits are not the same",
            evidence=f"all {figures.not_one:,} differing tokens are −0 beside +0",
            look_at="how a certain token's log-prob of 0 comes about: x − x beside −(log 1)",
        )
        return
    yield from _storage(found)
    yield from _shifted(found)
    share = figures.not_one / figures.tokens
    everywhere = seen.differing == seen.sequences
    many = f"{figures.not_one:,} of {figures.tokens:,} tokens in {seen.differing:,} of " + (
        f"{seen.sequences:,} sequences"
    )
    large = f"{100 * found.share_large:.3g} % of them by 0.1 or more"
    yield from _few_sequences(found)
    yield from _later_turns(found)
    if everywhere and share >= 0.1:
        if found.share_large <= _LITTLE:
            yield Hint(
                kind="kernels",
                explanation="other kernels on the two sides: other reduction orders or roundings",
                evidence=f"{many} differ, {large}",
                look_at="attention, matmul and normalisation kernels, batch shapes, the log-softmax"
                "'s dtype",
            )
        else:
            yield Hint(
                kind="another distribution",
                explanation="too much for rounding: another distribution on the two sides",
                evidence=f"{many} differ, {large}",
                look_at="temperature or top-p applied on one side, stale weights, a shifted "
                "alignment, another prompt",
            )
    elif share < 0.01 and figures.not_one <= 100:
        yield Hint(
            kind="single tokens",
            explanation="a few tokens among equal ones",
            evidence=many + _first_place(found),
            look_at="what is special there: block and page boundaries, preemption, a fault of "
            "memory or transport",
        )


def _storage(found: Audit) -> Iterator[Hint]:
    for dtype, equal in found.evidence.rounded:
        if equal == found.figures.not_one - found.figures.infinite and equal:
            yield Hint(
                kind="storage",
                explanation=f"one side may have been rounded to {dtype} before it was stored",
                evidence=f"all {equal:,} differing tokens are equal once both are rounded to "
                f"{dtype}",
                look_at="casts between the log-softmax and the dump; store what was computed",
            )
            return


def _shifted(found: Audit) -> Iterator[Hint]:
    for by, equal in found.evidence.shifted:
        if equal >= 8 and equal >= found.figures.not_one // 2:
            yield Hint(
                kind="shifted",
                explanation="log-probs stand beside those of their neighbours",
                evidence=f"{equal:,} of {found.figures.not_one:,} differing tokens have the "
                f"log-prob that the trainer's dump has {_by(by)}",
                look_at="logits at position i speak of token i + 1: shift one side",
            )


def _few_sequences(found: Audit) -> Iterator[Hint]:
    seen = found.evidence
    if seen.sequences < 4 or seen.differing > max(1, int(_FEW * seen.sequences)):
        return
    named = ", ".join(f"{name} ({bad:,} of {all_:,} tokens)" for name, bad, all_ in seen.named)
    yield Hint(
        kind="few sequences",
        explanation="these sequences were computed in other company: padding, batch composition, "
        "another worker",
        evidence=f"{seen.differing:,} of {seen.sequences:,} sequences differ: {named}; the others "
        "are bit-equal",
        look_at="how they were batched and padded, and on which replica",
    )


def _later_turns(found: Audit) -> Iterator[Hint]:
    seen = found.evidence
    if not seen.several_turns or not seen.first_turns:
        return
    first = seen.first_turns[0][0]
    before = [turn for turn in found.figures.by_turn if turn.turn < first]
    if first < 1 or not before:
        return
    equal = sum(turn.tokens for turn in before)
    yield Hint(
        kind="later turns",
        explanation=f"something happened before turn {first}: a prefix cache, a resumed or moved "
        "state",
        evidence=f"all {equal:,} tokens of turns before turn {first} are bit-equal; from their "
        f"first difference on {found.figures.not_one:,} of {seen.after:,} tokens differ",
        look_at="prefix-cache hits, KV transfers and preemptions between turns",
    )


def _first_place(found: Audit) -> str:
    first = found.evidence.first
    if first is None:
        return ""
    return f"; the first is token {first.place.index} (sequence {first.place.sequence})"


def _by(tokens: int) -> str:
    many = abs(tokens)
    return f"{many} token{'' if many == 1 else 's'} {'later' if tokens > 0 else 'earlier'}"


def _short(digest: str | None) -> str:
    if digest is None:
        return "nothing"
    return digest if len(digest) <= 19 else f"{digest[:16]}…"
