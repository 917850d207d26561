"""What a model may be told of a failure: an allow-list.

The gate's messages are written for people. Those of checks on declared cases are passed on as they
are, to the session whose candidate it is. Of all others, and to all other sessions, only parts
that are known by form are passed on: which check, call form and output, the kind of thing that
failed; never a drawn shape, a seed, a place on this machine, or text that a candidate wrote.
"""

import re

from kernelsmith.model import Task

MESSAGE_MAX_CHARS = 700
DECLARED = frozenset(
    {
        "policy",
        "trace",
        "compile",
        "witness",
        "parity.train",
        "parity.infer",
        "order",
        "latency",
    }
)
"""Checks that look at declared cases alone."""
WRITTEN = frozenset({"policy", "trace", "compile", "witness"})
"""Checks whose messages may quote the candidate."""

KINDS = {
    "policy": "outside the language of candidates",
    "trace": "the host code does not make a plan like the seed's",
    "compile": "a kernel does not compile",
    "witness": "the IR says what it may not, or what the seed's does not",
    "parity.train": "other bits than the seed's on the train path",
    "parity.infer": "other bits than the seed's on the infer path",
    "cross_path": "the same token has other bits in another batch or on the other path",
    "determinism": "the same call has other bits when repeated under other conditions",
    "memory": "reads or writes memory that it must not",
    "order": "a declared sum is made in another order than the seed's",
    "latency": "plainly not faster in one timing session",
    "declared_range": "not every row count of the declared range is handled",
    "confirm": "not confirmed on what is drawn after submission",
}
_BITS = re.compile(
    r"case (?P<case>\S+), output (?P<output>\w+): \d+ of \d+ elements differ, first at "
    r"\[[\d, ]*\]: expected \S+ \(\S+\), actual \S+ \(\S+\), (?:\d+ ulp apart|NaN)"
)
_RULE = re.compile(
    r"(?:a gain above \d|against [0-9a-f]{16}: |gain \d|all \d+ timed cases run the same machine "
    r"code|runs the same code as [0-9a-f]{16})[\w %.,:;()\-]*"
)
_OBSERVED = re.compile(
    r"case \S+: (?:(?:race|out of bounds|unwritten|atomics that do not commute): )?"
    r"program [\d(), ]+ of \w+ [^:]* at line \d+"
)
"""What an observed run found; those are of declared cases."""
_PARTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"programs shuffled, pointers \d+ bytes off",
        r"program order (?:descending|shuffled)",
        r"pointers \d+ bytes off",
        r"programs on \d+ threads",
        r"padded rows(?= of \w+,|,)",
        r"beside another process",
        r"other poison, scratch left by an earlier call",
        r"scratch left by an earlier call",
        r"memory all (?:zero|0xFF)",
        r"poison 2",
        r"reads memory that this call did not write",
        r"wrote past (?:scratch|\w+)",
        r"writes outside outputs",
        r"\d+ bytes of scratch, at most \d+ are allowed",
        r"adds floats atomically",
        r"atomics that do not commute",
        r"(?:race|out of bounds|unwritten)(?=: program)",
        r"between two rows",
        r"waits in the loop",
        r"never leaves the loop",
        r"was still in the loop",
        r"(?<=at )line \d+",
        r"permuted|prefill|chunk \d of 3|decode of \d+|one token",
        r"cut in front of a? ?token",
        r"in a timed replay",
        r"run for real",
        r"died of SIG[A-Z]+",
        r"did not end within [\d.]+ s",
        r"\d+ ulp apart",
    )
)


def message(task: Task, check: str, text: str, *, own: bool) -> str:
    """One line about a failure.

    Args:
        check: that failed; "" if none did.
        text: the gate's message.
        own: whether it goes to the session whose candidate it is.
    """
    if not check and not text:
        return ""
    text = one_line(text)
    if check in DECLARED and (own or _is_known(task, check, text)):
        return text
    if own and _OBSERVED.match(text) and _names_declared(task, text):
        return text
    if check == "confirm" and _RULE.fullmatch(text) and _names_declared(task, text):
        return text
    return _by_parts(task, check, text)


def one_line(text: str, most_chars: int = MESSAGE_MAX_CHARS) -> str:
    """Printable, on one line, without places in a file system, cut to a length."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    text = re.sub(r"(?<![\w.])/(?:[\w.+\-]+/)+(?=[\w.+\-])", "…/", text)
    return text if len(text) <= most_chars else text[:most_chars] + " … (cut)"


def _is_known(task: Task, check: str, text: str) -> bool:
    if check in WRITTEN:
        return False
    found = _BITS.fullmatch(text)
    if found:
        return found["case"] in {case.id for case in task.cases}
    return bool(_RULE.fullmatch(text)) and _names_declared(task, text)


def _names_declared(task: Task, text: str) -> bool:
    """Whether every case that is named is one of the task's."""
    declared = {case.id for case in task.cases}
    return all(name.rstrip(":") in declared for name in re.findall(r"\bcase (\S+)", text))


def _by_parts(task: Task, check: str, text: str) -> str:
    kind = KINDS.get(check, f"failed {check}" if check.isidentifier() else "it failed")
    parts = []
    forms = "|".join(re.escape(call.name) for call in task.calls)
    if forms:
        derived = re.search(rf"> ({forms}),", text)
        form = derived or re.search(rf"(?<![\w.])({forms})\.(?:bf16|fp16|fp32|fp64)\b", text)
        if form:
            parts.append(f"call form {form[1]}")
    outputs = {spec.name for call in task.calls for spec in call.outputs}
    named = re.search(r"\boutputs? (\w+)", text)
    if named and named[1] in outputs:
        parts.append(f"output {named[1]}")
    rest = text
    for pattern in _PARTS:
        found = pattern.search(rest)
        if found:
            parts.append(found.group())
            rest = rest[: found.start()] + rest[found.end() :]
    return f"{kind}: {', '.join(parts)}" if parts else kind
