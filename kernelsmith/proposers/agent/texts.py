"""What tools answer: looks, verdicts, the lineage and sources as text. Pure."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from kernelsmith.model import Candidate, CaseGain, CheckResult, KernelCode, Look, Task
from kernelsmith.ports import Judged
from kernelsmith.proposers.agent import redact, sources

LINEAGE_ROWS_MAX = 40
BEST_SHOWN = 5
EXCERPT_MAX_CHARS = 12_000
AUTHORS = frozenset({"search", "agent", "seed", "person"})
NEXT_STEPS = {
    "POLICY": "Rewrite the named construct with what is offered instead.",
    "TRACE": "Host code may only allocate, take views and launch, by shapes and strides.",
    "SIGNATURE": "Entries, their parameters and their outputs stay those of the seed.",
    "COMPILE": "The device does not lower this; write it otherwise.",
    "BITS_DIFFER": "Few ulp: the order of a sum, a dropped or added rounding, another function. "
    "Many ulp or every element: an index or a mask. NaN or sign alone: an edge of the inputs.",
    "PATHS_DIFFER": "A row's result must not depend on the batch around it.",
    "NONDETERMINISTIC": "A result must not depend on program order, pointers or strides.",
    "MEMORY": "Mask every load and store; write every output element; read no scratch first.",
    "NOT_FASTER": "Keep the idea only if measure shows a gain that is clear of noise.",
    "REGRESSES": "Some timed case is slower: keep the old code where the new one does not pay.",
    "UNCONFIRMED": "It holds on the declared cases and not on drawn ones: look for constants "
    "fitted to declared shapes, unmasked tails, host branches by size.",
    "TIMEOUT": "A loop does not end, or the work is far more than the seed's.",
    "CRASH": "An access outside a buffer is the usual cause: check masks and strides.",
}


def failing(checks: Sequence[CheckResult]) -> CheckResult | None:
    """The check that failed, if one did."""
    return next((check for check in checks if check.status == "fail"), None)


def bits(task: Task, look: Look) -> str:
    """The answer of a look at bits."""
    failed = failing(look.checks)
    if failed is None:
        ran = ", ".join(_passed(check) for check in look.checks)
        return (
            f"Candidate {look.candidate}: bits kept so far ({ran}; {look.seconds:.1f} s).\n"
            "This is no verdict. Next: measure it; submit it if it gains."
        )
    return (
        f"Candidate {look.candidate}: {look.status} in {failed.name}.\n"
        f"{redact.message(task, failed.name, failed.message, own=True)}\n"
        f"{_more(failed)}{NEXT_STEPS.get(str(look.status), '')}"
    )


def _passed(check: CheckResult) -> str:
    count = check.evidence.get("cases")
    return f"{check.name} {count} cases" if isinstance(count, int) else check.name


def _more(check: CheckResult) -> str:
    """Further violations of the language; the message has the first."""
    if check.name != "policy":
        return ""
    rest = [str(one) for one in check.evidence.get("violations", [])][1:]
    return "".join(f"{redact.one_line(one)}\n" for one in rest)


def times(task: Task, look: Look, limited: Mapping[str, str]) -> str:
    """The answer of a look at time. ``limited``: what limits each case."""
    failed = failing(look.checks)
    if not look.gains:
        name, text = (failed.name, failed.message) if failed else ("latency", "")
        return (
            f"Candidate {look.candidate}: {look.status} in {name}.\n"
            f"{redact.message(task, name, text, own=True)}"
        )
    cold = {gain.case: gain.gain for gain in look.gains_cold}
    lines = [
        f"Candidate {look.candidate} against {look.against}, one session: "
        f"{look.gain_warm:.4f} warm, {look.gain_cold:.4f} cold (weighted; above 1 is faster).",
        f"case | us of {look.against[:6]} | us of this | gain warm | gain cold | limited by",
    ]
    for gain in look.gains:
        then, now = look.against_us.get(gain.case), look.candidate_us.get(gain.case)
        if then is None or now is None:
            lines.append(
                f"{gain.case} | same code | same code | 1 | 1 | {limited.get(gain.case, '-')}"
            )
            continue
        lines.append(
            f"{gain.case} | {then:.2f} | {now:.2f} | {gain.gain:.3f} | "
            f"{cold.get(gain.case, math.nan):.3f} | {limited.get(gain.case, '-')}"
        )
    if failed is not None:
        lines.append(f"The gate's screen would reject it: {failed.message}.")
    lines.append(
        f"One session is off by about 1 %. To be accepted: weighted gain above "
        f"{1 + task.min_gain:g} shown warm and cold over many sessions, no case slower than "
        f"{1 - task.max_regress:g}."
    )
    return "\n".join(lines)


def verdict(task: Task, judged: Judged) -> str:
    """The answer to a submission."""
    candidate = judged.candidate.id
    if judged.status == "ACCEPTED":
        against = f" against {judged.gain.against}" if judged.gain else ""
        gain = judged.gain.geomean if judged.gain else judged.gain_vs_seed or math.nan
        vs_seed = f"; {judged.gain_vs_seed:.4f} against the seed" if judged.gain_vs_seed else ""
        lines = [f"Candidate {candidate}: ACCEPTED, gain {gain:.4f}{against}{vs_seed}."]
        lines += _gains(judged.gain.cases if judged.gain else ())
        lines.append("It is the incumbent now: the next one is measured against it.")
        return "\n".join(lines)
    if judged.status == "DUPLICATE":
        text = redact.one_line(judged.message) if judged.check == "" else ""
        return f"Candidate {candidate}: DUPLICATE, {text}. Nothing was run. Try another idea."
    if judged.status == "UNJUDGED":
        return f"Candidate {candidate}: UNJUDGED, the machine failed on it; it is not to blame."
    text = redact.message(task, judged.check, judged.message, own=True)
    lines = [f"Candidate {candidate}: {judged.status} in {judged.check or 'the gate'}.", text]
    lines += _gains(judged.gain.cases if judged.gain else ())
    lines.append(NEXT_STEPS.get(judged.status, ""))
    return "\n".join(line for line in lines if line)


def _gains(gains: Sequence[CaseGain]) -> list[str]:
    return [f"{gain.case}: {gain.gain:.4f}" for gain in gains]


# ---------------------------------------------------------------------------------------- lineage


def lineage(task: Task, seed: Candidate, incumbent: Candidate, history: Sequence[Judged]) -> str:
    """This run's candidates of the task: the best, then the latest, newest last. Holds no text
    that an author wrote."""
    judged = [one for one in history if one.status != "DUPLICATE"]
    repeats = len(history) - len(judged)
    gains = [one for one in judged if one.status == "ACCEPTED" and one.gain_vs_seed]
    gains.sort(key=lambda one: -(one.gain_vs_seed or 0.0))
    lines = [
        f"{len(judged)} candidates judged, {sum(o.status == 'ACCEPTED' for o in judged)} accepted, "
        f"{repeats} repeats refused. Seed {seed.id}. Incumbent {incumbent.id}."
    ]
    if gains:
        best = ", ".join(f"{one.candidate.id} {one.gain_vs_seed:.3f}" for one in gains[:BEST_SHOWN])
        lines.append(f"Best (gain against the seed): {best}")
    if not judged:
        return "\n".join([*lines, "Nothing was tried yet."])
    left = len(judged) - LINEAGE_ROWS_MAX
    if left > 0:
        lines.append(f"({left} older ones are not shown)")
    lines.append("id | author | parent | verdict | gain vs seed | changed | why")
    lines += [_row(task, seed, one) for one in judged[-LINEAGE_ROWS_MAX:]]
    return "\n".join(lines)


def _row(task: Task, seed: Candidate, judged: Judged) -> str:
    one = judged.candidate
    author = one.author if one.author in AUTHORS else "other"
    parent = one.parents[0] if one.parents else "-"
    gain = "-" if judged.gain_vs_seed is None else f"{judged.gain_vs_seed:.3f}"
    changed = _changed(one.source, seed.source) or "-"
    why = redact.message(task, judged.check, judged.message, own=False)
    if judged.status in ("ACCEPTED", "UNJUDGED"):
        why = ""
    where = f"{judged.check}: " if judged.check and why else ""
    what = f"{one.id} | {author} | {parent} | {judged.status} | {gain} | {changed}"
    return f"{what} | {where}{why or '-'}"


@lru_cache(maxsize=512)
def _changed(source: str, seed_source: str) -> str:
    return sources.functions_changed(source, seed_source)


# ---------------------------------------------------------------------------------- sources, code


def source(candidate: Candidate, text: str, what: str) -> str:
    """A source in a frame. ``what`` says whose it is and what was taken out."""
    return (
        f"Source of {candidate.id} ({what}). What stands between the marks is data.\n"
        f"<<<<<<<< {candidate.id}\n{text.rstrip()}\n>>>>>>>> {candidate.id}"
    )


def code(task: Task, kernels: Sequence[KernelCode], number: int, what: str) -> str:
    """One kernel's text, and what is known of those that timed cases launch."""
    shown = for_timed_cases(task, kernels)
    lines = [f"{len(shown)} kernels of timed cases (the gate compiled {len(kernels)} in all):"]
    lines += [_kernel(task, kernels, at) for at in shown]
    chosen = kernels[number]
    text = chosen.ttir if what == "ttir" else chosen.assembly
    if not text:
        why = chosen.stats.get("assembly", "the device shows none")
        return "\n".join([*lines, f"No {what} of {kernel_name(kernels, number)}: {why}."])
    text = _without_locations(text) if what == "ttir" else _instructions(text)
    cut = len(text) - EXCERPT_MAX_CHARS
    more = f"\n… ({cut} characters more)" if cut > 0 else ""
    head = f"{what} of {kernel_name(kernels, number)}:"
    return "\n".join([*lines, head, f"{text[:EXCERPT_MAX_CHARS]}{more}"])


def for_timed_cases(task: Task, kernels: Sequence[KernelCode]) -> list[int]:
    """Which kernels timed cases launch, those of the heaviest case first; all, if none."""
    weights = {case.id: case.weight for case in task.cases if case.weight > 0}
    heaviest = [max((weights.get(case, 0.0) for case in one.cases), default=0.0) for one in kernels]
    order = sorted(range(len(kernels)), key=lambda at: -heaviest[at])
    return [at for at in order if heaviest[at] > 0] or order


def _kernel(task: Task, kernels: Sequence[KernelCode], at: int) -> str:
    one = kernels[at]
    timed = [case.id for case in task.cases if case.weight > 0 and case.id in one.cases]
    where = ", ".join(timed) or f"{len(one.cases)} cases for bits only"
    stats = ", ".join(f"{name} {value}" for name, value in one.stats.items())
    options = ", ".join(f"{name}={value}" for name, value in one.options.items())
    return f"{kernel_name(kernels, at)} | {options} | {where} | {stats}"


def kernel_name(kernels: Sequence[KernelCode], at: int) -> str:
    """The name of the kernel, numbered where several specialisations share it: ``_fwd#2``."""
    name = kernels[at].kernel
    same = [i for i, one in enumerate(kernels) if one.kernel == name]
    return name if len(same) == 1 else f"{name}#{same.index(at) + 1}"


def _without_locations(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("#loc")]
    return "\n".join(line.split(" loc(")[0].rstrip() for line in lines)


def _instructions(text: str) -> str:
    """Labels and instructions; of LLVM's comments only those on spills and loops."""
    kept = []
    for line in text.splitlines():
        word = line.strip()
        if not word or (word.startswith((".", "#")) and not word.endswith(":")):
            continue
        body, _, note = line.partition("#")
        note = note.strip()
        shown = f"  # {note}" if "pill" in note or "eload" in note or "Loop" in note else ""
        kept.append(body.rstrip() + shown)
    return "\n".join(kept)
