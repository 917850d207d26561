"""Why a candidate is believed to have the seed's bits and its gain: what each check compared.

The words come from the evidence on record and from nothing else. A count that is not there is
said to be missing, never assumed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kernelsmith.model import CheckResult

MISSING = "passed, but what it compared is not on record"


def words(check: CheckResult) -> str:
    """What one check showed, in a sentence."""
    if check.status == "unchecked":
        return f"not checked: {check.message or 'nothing is known about it'}"
    if check.status == "fail":
        return check.message
    say = _SAY.get(check.name)
    try:
        return MISSING if say is None else say(check.evidence)
    except (KeyError, TypeError, ValueError):
        return MISSING


def is_missing(check: CheckResult) -> bool:
    """Whether a passed check left no evidence to read."""
    return check.status == "pass" and words(check) == MISSING


def _policy(_evidence: Mapping[str, Any]) -> str:
    return "the source uses nothing but the language of candidates"


def _trace(evidence: Mapping[str, Any]) -> str:
    return (
        f"{evidence['calls']:,} calls, run on tensors without data, make {evidence['launches']:,} "
        f"launches in {evidence['plan_classes']:,} plan classes and nothing else"
    )


def _compile(evidence: Mapping[str, Any]) -> str:
    return (
        f"all {evidence['plan_classes']:,} plan classes compile, to {evidence['objects']:,} objects"
    )


def _witness(evidence: Mapping[str, Any]) -> str:
    sums = ", ".join(evidence["accumulators"]["candidate"]) or "nothing"
    differences = "; ".join(evidence["differences"]) or "no difference"
    decides = "no branch, bound, address or choice of sums hangs on a loaded float"
    if "as_the_seed" in evidence:
        decides = f"as the seed it {', '.join(evidence['as_the_seed'])}"
    return (
        f"the IR of {len(evidence['kernels']):,} kernels, read and not run: it sums in {sums}; "
        f"{decides}; beside the seed's: {differences}"
    )


def _parity(evidence: Mapping[str, Any], path: str) -> str:
    return (
        f"{evidence['elements']:,} output elements in {evidence['cases']:,} cases {path}: "
        "each has the seed's bytes"
    )


def _cross_path(evidence: Mapping[str, Any]) -> str:
    text = (
        f"{evidence['pairs']:,} batches made up in other ways, {evidence['cuts']:,} cut in two: "
        "a token's bytes do not hang on its batch or its path"
    )
    apart = evidence["not_applicable"]
    return f"{text}; not comparable: {'; '.join(apart)}" if apart else text


def _determinism(evidence: Mapping[str, Any]) -> str:
    return f"{evidence['runs']:,} runs again, same bytes: {', '.join(evidence['repeats'])}"


def _memory(evidence: Mapping[str, Any]) -> str:
    return (
        f"{evidence['runs']:,} runs over other contents of memory, same bytes "
        f"({', '.join(evidence['ways'])}); no canary touched, no input changed"
    )


def _order(evidence: Mapping[str, Any]) -> str:
    sums = evidence["verified"]
    queries = sum(one["queries"] for one in sums.values())
    told = f"{len(sums):,} declared sums made in the seed's order ({queries:,} queries)"
    if evidence["cases_of_seed_code"]:
        told += f", {evidence['cases_of_seed_code']:,} cases by the seed's own code"
    hidden = evidence["unreachable"]
    return f"{told}; not seen: {', '.join(hidden)}" if hidden else told


def _latency(evidence: Mapping[str, Any]) -> str:
    return f"{evidence['gain_warm']:.3f}x in one session: a screen, which accepts nothing"


def _declared_range(evidence: Mapping[str, Any]) -> str:
    low, high = evidence["token_range"]
    beyond = evidence["classes_beyond_cases"]
    more = f"; {beyond:,} plan classes that no case takes compile too" if beyond else ""
    return f"every row count from {low} to {high} traced ({evidence['traced']:,} calls){more}"


def _confirm(evidence: Mapping[str, Any]) -> str:
    return (
        f"{len(evidence['hidden']):,} hidden shapes, drawn after the source was frozen, and "
        f"{evidence['walked']:,} calls over the declared row counts and sizes: same bytes; "
        f"{evidence['real']:,} calls on real tensors make the traced launches; "
        f"faster in {evidence['sessions']:,} sessions at a chance of error of "
        f"{evidence['alpha']:.2g} (number {evidence['k']:,} to come this far)"
    )


_SAY: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "policy": _policy,
    "trace": _trace,
    "compile": _compile,
    "witness": _witness,
    "parity.train": lambda evidence: _parity(evidence, "of training, gradients included"),
    "parity.infer": lambda evidence: _parity(evidence, "of inference"),
    "cross_path": _cross_path,
    "determinism": _determinism,
    "memory": _memory,
    "order": _order,
    "latency": _latency,
    "declared_range": _declared_range,
    "confirm": _confirm,
}
