"""The scripts by name, and how a request finds its reply."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kernelsmith.errors import InputError
from kernelsmith.rehearsal import LABEL, oddities, stories, variants
from kernelsmith.rehearsal.asked import Asked
from kernelsmith.rehearsal.quirks import NIGHT, Plan
from kernelsmith.rehearsal.replies import Reply, Text
from kernelsmith.rehearsal.stories import Story

Tale = Callable[[str], Story]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """``sessions``: what the sessions of each task tell, by ordinal; ``later``: those after
    them. ``plan``: troubles on the wire."""

    name: str
    sessions: tuple[Tale, ...]
    later: Tale
    plan: Plan


_NIGHT_SESSIONS = (
    partial(stories.winning, brief=False),
    stories.testing,
    oddities.stumbling,
    oddities.refusing,  # 3
    oddities.overflowing,
    oddities.reading,  # 5
    oddities.rambling,
)

SCRIPTS: Mapping[str, Script] = {
    "night": Script(name="night", sessions=_NIGHT_SESSIONS, later=oddities.idle, plan=NIGHT),
    "minute": Script(
        name="minute",
        sessions=(partial(stories.winning, brief=True),),
        later=oddities.idle,
        plan={},
    ),
}


def script(name: str) -> Script:
    """A script by name.

    Raises:
        InputError: there is none of that name.
    """
    if name not in SCRIPTS:
        raise InputError(f"no script {name!r}", hint=f"scripts: {', '.join((*SCRIPTS, 'zero'))}")
    return SCRIPTS[name]


def require_played(tasks: Sequence[str]) -> None:
    """Refuses tasks that no script knows.

    Raises:
        InputError: one is not played.
    """
    for task in tasks:
        if task not in variants.VARIANTS:
            known = " or ".join(variants.VARIANTS)
            raise InputError(f"the script does not play {task!r}", hint=f"tasks: {known}")


def reply_to(played: Script, asked: Asked) -> Reply:
    """The reply: the session's story is told from its start, with the feedback on record."""
    if asked.task not in variants.VARIANTS:
        what = f"This server plays {' and '.join(variants.VARIANTS)}: {LABEL}."
        return Reply(parts=(Text(what),), stop_reason="end_turn")
    ordinal = asked.session
    tale = played.sessions[ordinal] if ordinal < len(played.sessions) else played.later
    story = tale(asked.task)
    try:
        reply = next(story)
        for feedback in asked.feedback:
            reply = story.send(feedback)
    except StopIteration:
        reply = stories.finish(f"({LABEL}) The story is told.", "the script has no more to say")
    return reply
