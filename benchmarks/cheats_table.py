"""``docs/cheats.md`` from the results of ``benchmarks/cheats.py``."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

HEAD = """# Cheats

Written by `make proof-cheats` from {count} files under `tests/adversarial/`; do not edit. Each is a
candidate that wants a verdict it has not earned, as a model under pressure or a hostile author
would write it. The file holds what it changes of its task's seed, and says in its first lines
what it exploits and which check must stop it.
The mechanisms are those by which judges of kernels were fooled in public, each with a disguised
variant, and what only this gate invites.

Every file was judged on the CPU device ({cpu}, {cores} cores, {written_at}), in bubblewrap. What
policy refuses was judged a second time **without policy**: the wall behind it then had to hold.
Beside the verdict the runner looks at canaries on the host: a file with a secret, one to be
changed, a folder to be written to, a process, a port, a variable of the environment.
**{effects}** of {count} touched one.

`latency` stands for a cheat whose Python ran in the front end, changed nothing outside, and left
kernels that compile to the seed's own code, or that are no faster: there was nothing to gain. A
`NOT_FASTER` in `confirm` says that no wall but the clock was left. Walks end with the checks about
bits unless a file asks for confirm or for time; a wall that comes first hides those behind it.
"""


def render(document: dict[str, Any]) -> str:
    """The whole page."""
    cheats = document["cheats"]
    effects = sum(
        bool(one["with_policy"]["effects"] or one["without_policy"]["effects"]) for one in cheats
    )
    machine = document["machine"]
    parts = [
        HEAD.format(
            count=len(cheats),
            cpu=machine["device"]["cpu"],
            cores=machine["cores"],
            written_at=document["written_at"][:10],
            effects=effects or "None",
        ),
        _walls(cheats),
        _gaps(cheats),
        _mechanisms(cheats, document["mechanisms"]),
        _files(cheats),
    ]
    return "\n".join(parts)


def _walls(cheats: list[dict[str, Any]]) -> str:
    on = Counter(_wall(one, "with_policy") for one in cheats)
    off = Counter(_wall(one, "without_policy") for one in cheats)
    rows = [
        [wall, str(on[wall] or "—"), str(off[wall] or "—")]
        for wall in sorted({*on, *off}, key=lambda wall: (-on[wall], -off[wall], wall))
    ]
    return "## First walls\n\n" + _table(["check: status", "with policy", "without policy"], rows)


def _gaps(cheats: list[dict[str, Any]]) -> str:
    rows = [[_link(one), one["exploits"], one["gap"]] for one in cheats if one["gap"]]
    if not rows:
        return "## Gaps\n\nNone of these files was accepted.\n"
    return "## Gaps\n\nWhat is accepted, and why.\n\n" + _table(["file", "exploits", "why"], rows)


def _mechanisms(cheats: list[dict[str, Any]], mechanisms: list[dict[str, Any]]) -> str:
    rows = []
    for one in mechanisms:
        own = [cheat for cheat in cheats if one["number"] in cheat["mechanisms"]]
        walls = Counter(cheat["with_policy"]["check"] for cheat in own)
        behind = Counter(cheat["without_policy"]["check"] for cheat in own)
        rows.append(
            [
                str(one["number"]),
                one["title"] + (f" — {one['note']}" if one.get("note") else ""),
                str(len(own)),
                str(sum(bool(cheat["disguise_of"]) for cheat in own)),
                _counts(walls),
                _counts(behind),
            ]
        )
    head = ["", "mechanism", "files", "disguised", "stopped by", "without policy"]
    return "## By mechanism\n\n" + _table(head, rows)


def _files(cheats: list[dict[str, Any]]) -> str:
    rows = [
        [
            _link(one),
            ", ".join(map(str, one["mechanisms"])),
            one["exploits"],
            _wall(one, "with_policy"),
            _wall(one, "without_policy"),
        ]
        for one in cheats
    ]
    head = ["file", "mechanisms", "exploits", "first wall", "without policy"]
    return "## Files\n\n" + _table(head, rows)


def _wall(one: dict[str, Any], which: str) -> str:
    return f"{one[which]['check']}: {one[which]['status']}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


def _link(one: dict[str, Any]) -> str:
    path = f"{one['task']}/{one['name']}"
    return f"[{path}](../tests/adversarial/{path}.toml)"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
