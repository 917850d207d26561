"""``docs/escapes.md`` from the results of ``benchmarks/night/escapes.py``."""

from collections.abc import Iterable
from typing import Any

from tests.sandbox.escapes_try import SANDBOXES

HEAD = """# Ways out of the sandboxes

Written by `make proof-night` from `tests/sandbox/escapes/`; do not edit. Each way is tried as a
real job in a real worker, behind the whole wall. In a **trace** job it is what a candidate's own
Python would do if the policy let it through. In the **other** jobs (compiling for the CPU and for a
GPU, running, timing) no candidate's Python exists; there it stands for a compiler or a launcher
that machine code has taken over. A way is tried by Python that raises what stopped it; then the
host looks at its own secret, file, process and sockets, at the template, and at processes and files
that are left.

Tried on {written_at} as {user} ({cores} cores, Linux {kernel}): {counts}. Jobs that run on a GPU
have no system-call filter and no limit of address space (see the [threat model](threat-model.md));
what they may do was not tried here: there is no GPU.

What stops a way is named by the error it got (`EPERM` is most often the system-call filter,
`EACCES` Landlock or the filter, `ENOENT` that nothing of that name is there), or by the limit that
ended it; limits are small here, so that a bomb that is not stopped does no harm. What "the host
says" is the verdict or the error of the job, as a log has it. The process wall shares the host's
namespaces: there many ways are stopped by one wall where bubblewrap and Docker have two or three.
"""


def render(document: dict[str, Any]) -> str:
    """The whole page."""
    rows = document["rows"]
    counts = []
    for name in SANDBOXES:
        own = [row for row in rows if row["sandbox"] == name]
        blocked = sum(row["state"] == "blocked" for row in own)
        if own:
            counts.append(f"{name} stopped {blocked} of {len(own)}")
    machine = document["machine"]
    head = HEAD.format(
        written_at=document["written_at"][:10],
        user="root" if machine["user"] == "root" else "an ordinary user",
        cores=machine["cores"],
        kernel=machine["kernel"],
        counts=", ".join(counts),
    )
    left = document["left"]
    before = f"\nNot tried since the walls' code changed last: {left} of these.\n" if left else ""
    missing = before + "".join(
        f"\nNot tried: {name} ({why}).\n" for name, why in sorted(document["missing"].items())
    )
    return "\n".join([head + missing, _open(rows), *_groups(rows), _said(rows)])


def _open(rows: list[dict[str, Any]]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["state"] == "open":
            where = f"{row['sandbox']}: {row['kind']}"
            found.setdefault((row["name"], row["why_open"]), []).append(where)
    lines = [[name, _by_sandbox(where), why] for (name, why), where in found.items()]
    if not lines:
        return "## Open\n\nNothing that was tried got out.\n"
    return "## Open\n\nWhat no wall stops, and why.\n\n" + _table(["way", "where", "why"], lines)


def _by_sandbox(where: Iterable[str]) -> str:
    kinds: dict[str, list[str]] = {}
    for one in where:
        sandbox, _, kind = one.partition(": ")
        kinds.setdefault(sandbox, []).append(kind)
    return "; ".join(f"{sandbox} ({', '.join(own)})" for sandbox, own in kinds.items())


def _groups(rows: list[dict[str, Any]]) -> list[str]:
    columns = [(sandbox, kind) for sandbox in SANDBOXES for kind in ("trace", "other")]
    head = ["way", *(f"{sandbox}: {kind}" for sandbox, kind in columns)]
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        groups.setdefault(row["group"], {}).setdefault(row["name"], []).append(row)
    parts = []
    for group, ways in groups.items():
        lines = [[name, *(_cell(own, *column) for column in columns)] for name, own in ways.items()]
        parts.append(f"## {group.capitalize()}\n\n" + _table(head, lines))
    return parts


def _cell(rows: list[dict[str, Any]], sandbox: str, kind: str) -> str:
    own = [row for row in rows if row["sandbox"] == sandbox]
    own = [row for row in own if (row["kind"] == "trace") == (kind == "trace")]
    if not own:
        return "—"
    opened = [row["kind"] for row in own if row["state"] == "open"]
    if opened:
        return "**open**" + (f" ({', '.join(opened)})" if len(opened) < len(own) else "")
    return "; ".join(dict.fromkeys(_how(row["how"]) for row in own))


def _how(text: str) -> str:
    """One that is short: numbers that hang on the machine's pace left out."""
    _, share, rest = text.partition("took more than its share: ")
    if share:
        return "limit: " + " ".join(
            word for word in rest.split(",")[0].split() if not word.isdigit()
        )
    return text if len(text) <= 60 else text[:59] + "…"


def _said(rows: list[dict[str, Any]]) -> str:
    """What the host says, by way and kind of job, of the strongest wall that was tried."""
    lines = []
    strongest = {(row["name"], row["kind"] == "trace"): row for row in rows}
    for (name, is_trace), row in strongest.items():
        kind = "trace" if is_trace else row["kind"]
        lines.append([name, f"{row['sandbox']}, {kind}", f"`{row['reported'].replace('`', '')}`"])
    return "## What the host says\n\n" + _table(["way", "where", "said"], lines)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |\n" for line in lines
    )
