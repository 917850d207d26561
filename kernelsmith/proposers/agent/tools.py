"""The tools of one session. What they cost is the gate's time; what they answer is text.

A tool's own refusal is a reply with ``is_error`` that says how to mend the call. Nothing here shows
hidden cases, seeds of inputs, the database or this machine, nor text that another author wrote.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelsmith.errors import EvidenceError, InfrastructureError, StorageError
from kernelsmith.model import Candidate, Look, LookKind, Task, ToolDone, new_candidate
from kernelsmith.ports import Judged
from kernelsmith.proposers.agent import briefing, inputs, limits, redact, sources, texts
from kernelsmith.proposers.agent.desk import Desk, View
from kernelsmith.proposers.agent.inputs import RefusedError
from kernelsmith.proposers.agent.tool_list import NOTE_MAX_CHARS, TOOLS_JSON

__all__ = ["TOOLS_JSON", "ToolReply", "Toolbox"]

UNSHOWN = frozenset({"POLICY", "DUPLICATE", "UNJUDGED"})
"""Verdicts on sources that the policy did not let pass, or did not see: not shown to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """A tool's result. ``finished``: why the session ends with it; "" if it does not."""

    text: str
    is_error: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    finished: str = ""


@dataclass(slots=True, kw_only=True)
class Mine:
    """A candidate of this session. ``kept`` whether its bits were; ``checked`` the answer to its
    check; ``measured`` answers by incumbent; ``judged`` the answer to its submission."""

    source: str
    base: str
    kept: bool
    checked: str
    measured: dict[str, str] = field(default_factory=dict)
    judged: str = ""
    looked: Look | None = None


class Toolbox:
    """A session's tools and what they have found so far.

    Args:
        task: the session's.
        session_id: goes into the origin of its candidates.
        parent: the candidate that the session was given to improve.
        desk: the way to the gate.
        normal_hash: equal for two sources that are the same program.
    """

    def __init__(
        self,
        task: Task,
        session_id: str,
        parent: Candidate,
        desk: Desk,
        normal_hash: Callable[[str], str],
    ) -> None:
        self.task = task
        self.session_id = session_id
        self.parent = parent
        self._desk = desk
        self._normal_hash = normal_hash
        self._mine: dict[str, Mine] = {}
        self._by_hash: dict[str, str] = {}
        self._seed_us: dict[str, float] = {}

    async def run(self, tool_use_id: str, name: str, tool_input: Mapping[str, Any]) -> ToolReply:
        """Runs one tool.

        Raises:
            EvidenceError, StorageError: the run cannot go on.
        """
        try:
            given = inputs.valid(name, tool_input)
            match name:
                case "get_task":
                    return self._get_task()
                case "read_source":
                    return self._read_source(given["name"])
                case "check":
                    return await self._check(tool_use_id, given)
                case "measure":
                    return await self._measure(given["candidate"])
                case "submit":
                    return await self._submit(tool_use_id, given["candidate"], given["note"])
                case "read_ir":
                    return await self._read_ir(given)
                case "lineage":
                    view = self._view()
                    seed, incumbent = view.seed, view.incumbent
                    return ToolReply(text=texts.lineage(self.task, seed, incumbent, view.history))
            reason = redact.one_line(given["reason"], NOTE_MAX_CHARS) or "finished"
            return ToolReply(text="The session ends.", finished=reason, facts={"reason": reason})
        except RefusedError as refused:
            return ToolReply(text=str(refused), is_error=True, facts=refused.facts)
        except StorageError:
            raise
        except InfrastructureError:
            return ToolReply(
                text="The machine failed on this twice; the candidate is not to blame, but it is "
                "not looked at again. Go on with something else.",
                is_error=True,
                facts={"machine": "failed"},
            )

    def replay(self, name: str, tool_input: Mapping[str, Any], done: ToolDone) -> None:
        """Takes in a recorded result; runs nothing.

        Raises:
            EvidenceError: what is on record does not give the candidate that it names.
        """
        facts = done.facts
        candidate = str(facts.get("candidate", ""))
        match name:
            case "check" if facts.get("new"):
                source, base = self._source_of(tool_input, base_id=str(facts["base"]))
                self._learn(source, base, kept=bool(facts["kept"]), checked=done.text)
                if candidate not in self._mine:
                    raise EvidenceError(
                        f"session {self.session_id}: the recorded check of {candidate} does not "
                        "give its source again",
                        hint="was the database edited?",
                    )
            case "measure" if candidate in self._mine and facts.get("new"):
                mine = self._mine[candidate]
                mine.measured[str(facts["against"])] = done.text
                mine.kept = bool(facts["kept"])
                if not mine.kept:
                    mine.checked = done.text
                self._seed_us.update(facts.get("seed_us", {}))
            case "submit" if candidate in self._mine and "status" in facts:
                self._mine[candidate].judged = done.text

    # ------------------------------------------------------------------------------ what to read

    def _view(self) -> View:
        return self._desk.view(self.task.name)

    def _get_task(self) -> ToolReply:
        view = self._view()
        facts = limits.facts_of(self.task.device)
        found = limits.limits_of(self.task, facts, self._seed_us)
        says = limits.peaks(self.task.device, facts).says
        lines = [
            briefing.task(self.task),
            limits.table(found, says),
            f"Seed {view.seed.id}, parent {self.parent.id}, incumbent {view.incumbent.id}.",
        ]
        return ToolReply(text="\n".join(lines))

    def _read_source(self, name: str) -> ToolReply:
        candidate, text = self._named(name)
        what = "the seed, whole" if candidate.id == self._view().seed.id else "code alone"
        if candidate.id in self._mine:
            what = "yours"
        return ToolReply(
            text=texts.source(candidate, text, what), facts={"candidate": candidate.id}
        )

    def _named(self, name: str) -> tuple[Candidate, str]:
        """A candidate and its text as this session sees it, by name or id."""
        view = self._view()
        known = {"seed": view.seed, "parent": self.parent, "incumbent": view.incumbent}
        candidate = known.get(name)
        status = "ACCEPTED" if candidate is not None else ""
        if candidate is None and name in self._mine:
            candidate = self._candidate(name, "", "")
        if candidate is None:
            candidate, status = _find(view, self.parent, name)
        if candidate.id in self._mine:
            return candidate, self._mine[candidate.id].source
        if status in UNSHOWN:
            raise RefusedError(f"{candidate.id} is {status}: its source is not shown.")
        try:
            return candidate, sources.as_seen(candidate, view.seed)[0]
        except sources.UnreadableError as error:
            raise RefusedError(f"The source of {candidate.id} is not shown: {error}.") from None

    # ------------------------------------------------------------------------------- what to run

    def _source_of(self, given: Mapping[str, Any], base_id: str = "") -> tuple[str, str]:
        """The source that a check is about, and the id of what it is built on."""
        if given.get("source"):
            return str(given["source"]), self.parent.id
        candidate, text = self._named(base_id or str(given["base"]))
        return inputs.edited(text, given["edits"], candidate.id), candidate.id

    async def _check(self, tool_use_id: str, given: Mapping[str, Any]) -> ToolReply:
        source, base = self._source_of(given)
        inputs.require_size(source)
        normal_hash = self._normal_hash(source)
        own = self._by_hash.get(normal_hash)
        if own is not None:
            mine = self._mine[own]
            text = f"The same program as {own}, which you checked before:\n{mine.checked}"
            return ToolReply(
                text="\n".join(part for part in (text, mine.judged) if part),
                is_error=not mine.kept,
                facts={"candidate": own, "kept": mine.kept, "again": True},
            )
        self._refuse_repeat(normal_hash)
        candidate = new_candidate(
            source,
            self.task.name,
            author="agent",
            parents=(base,),
            origin=f"{self.session_id}/{tool_use_id}",
        )
        look = await self._desk.look(candidate, "bits")
        text = texts.bits(self.task, look)
        self._learn(source, base, kept=look.status is None, checked=text)
        facts = {"candidate": candidate.id, "base": base, "new": True, **_facts(look)}
        return ToolReply(text=text, is_error=look.status is not None, facts=facts)

    def _refuse_repeat(self, normal_hash: str) -> None:
        known = self._desk.seen(self.task.name, normal_hash)
        if known is None:
            return
        view = self._view()
        if known == view.seed.id:
            raise RefusedError("This is the seed's own program; nothing was run.", repeats=known)
        judged = next((one for one in view.history if one.candidate.id == known), None)
        came = "it still waits for its verdict"
        if judged is not None:
            why = redact.message(self.task, judged.check, judged.message, own=False)
            came = f"{judged.status}, {why}" if why else str(judged.status)
        raise RefusedError(
            f"This is the same program as {known}: {came}. Nothing was run; change what the "
            "program does, not how it is written.",
            repeats=known,
        )

    def _learn(self, source: str, base: str, *, kept: bool, checked: str) -> None:
        candidate = new_candidate(source, self.task.name, author="agent")
        self._mine[candidate.id] = Mine(source=source, base=base, kept=kept, checked=checked)
        self._by_hash[self._normal_hash(source)] = candidate.id

    async def _measure(self, candidate_id: str) -> ToolReply:
        mine = self._require_kept(candidate_id)
        against = self._view().incumbent.id
        if against in mine.measured:
            text = f"Measured before against the same incumbent:\n{mine.measured[against]}"
            facts = {"candidate": candidate_id, "against": against, "kept": True, "again": True}
            return ToolReply(text=text, facts=facts)
        look = await self._look(candidate_id, "time")
        if look.against == self._view().seed.id:
            self._seed_us.update(look.against_us)
        limited = {
            one.case: f"{one.limit}, floor {max(one.bytes_us, one.flops_us):.1f} us"
            for one in limits.limits_of(self.task, limits.facts_of(self.task.device))
        }
        text = texts.times(self.task, look, limited)
        mine.measured[look.against] = text
        mine.kept = bool(look.gains)
        if not mine.kept:
            mine.checked = text
        facts = {"candidate": candidate_id, "against": look.against, "new": True, **_facts(look)}
        facts["kept"] = mine.kept
        if look.gains:
            facts |= {"gain_warm": look.gain_warm, "gain_cold": look.gain_cold}
            facts["seed_us"] = dict(self._seed_us)
        return ToolReply(text=text, is_error=not look.gains, facts=facts)

    async def _submit(self, tool_use_id: str, candidate_id: str, note: str) -> ToolReply:
        mine = self._require_kept(candidate_id)
        if mine.judged:
            raise RefusedError(f"{candidate_id} was submitted before:\n{mine.judged}")
        candidate = self._candidate(candidate_id, note, tool_use_id)
        judged: Judged = await self._desk.submit(candidate)
        mine.judged = texts.verdict(self.task, judged)
        facts = {
            "candidate": candidate_id,
            "status": judged.status,
            "gain_vs_seed": judged.gain_vs_seed,
            "check": judged.check,
        }
        return ToolReply(text=mine.judged, is_error=judged.status == "DUPLICATE", facts=facts)

    async def _read_ir(self, given: Mapping[str, Any]) -> ToolReply:
        candidate_id = given["candidate"]
        mine = self._require_mine(candidate_id)
        look = mine.looked or await self._look(candidate_id, "code")
        if not look.kernels:
            raise RefusedError(texts.bits(self.task, look), candidate=candidate_id)
        mine.looked = look
        names = [texts.kernel_name(look.kernels, at) for at in range(len(look.kernels))]
        order = texts.for_timed_cases(self.task, look.kernels)
        kernel = given.get("kernel") or names[order[0]]
        fits = [
            i for i in (*order, *range(len(names))) if kernel in (names[i], names[i].split("#")[0])
        ]
        if not fits:
            has = _few([names[i] for i in order])
            raise RefusedError(f"{candidate_id} has no kernel of that name; it has: {has}.")
        at = fits[0]
        return ToolReply(
            text=texts.code(self.task, look.kernels, at, given["what"]),
            facts={"candidate": candidate_id, "kernel": names[at]},
        )

    async def _look(self, candidate_id: str, kind: LookKind) -> Look:
        return await self._desk.look(self._candidate(candidate_id, "", ""), kind)

    def _candidate(self, candidate_id: str, note: str, tool_use_id: str) -> Candidate:
        mine = self._mine[candidate_id]
        parents = (self._on_record(mine.base),)
        candidate = new_candidate(mine.source, self.task.name, author="agent", parents=parents)
        return replace(
            candidate,
            note=redact.one_line(note, NOTE_MAX_CHARS),
            origin=f"{self.session_id}/{tool_use_id}" if tool_use_id else "",
        )

    def _on_record(self, candidate_id: str) -> str:
        """The nearest ancestor that the lineage holds: what was only checked is not in it."""
        view = self._view()
        held = {one.candidate.id for one in view.history if one.status != "DUPLICATE"}
        while candidate_id not in held and candidate_id in self._mine:
            candidate_id = self._mine[candidate_id].base
        return candidate_id

    def _require_mine(self, candidate_id: str) -> Mine:
        if candidate_id not in self._mine:
            own = f"it knows {_few(list(self._mine))}" if self._mine else "nothing was checked yet"
            raise RefusedError(f"No such candidate in this session: check it first ({own}).")
        return self._mine[candidate_id]

    def _require_kept(self, candidate_id: str) -> Mine:
        mine = self._require_mine(candidate_id)
        if not mine.kept:
            raise RefusedError(
                f"{candidate_id} failed its check: mend it and check again.\n{mine.checked}",
                candidate=candidate_id,
            )
        return mine


def _find(view: View, parent: Candidate, name: str) -> tuple[Candidate, str]:
    for one in (view.seed, parent):
        if one.id == name:
            return one, "ACCEPTED"
    for judged in view.history:
        if judged.candidate.id == name:
            return judged.candidate, judged.status
    raise RefusedError(
        'No such source: name "seed", "parent", "incumbent", an id that lineage shows, or one that '
        "check returned."
    )


def _facts(look: Look) -> dict[str, Any]:
    """Of a look, for people."""
    failed = texts.failing(look.checks)
    return {
        "kept": look.status is None,
        "status": look.status,
        "check": failed.name if failed else "",
        "message": redact.one_line(failed.message) if failed else "",
        "seconds": round(look.seconds, 3),
    }


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[-8:])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
