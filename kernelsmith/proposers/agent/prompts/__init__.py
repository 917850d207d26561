"""What a model is told before it begins: versioned files, put together by device and release.

``system`` is the same for all sessions of a run on one task; ``opening`` is the first message of
one session. Both go on record as they were sent, with the hash of the files they came from.
"""

import ast
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import metadata, resources
from typing import Any

from kernelsmith.model import AgentSettings, Candidate, Task, language
from kernelsmith.proposers.agent import briefing, limits, sources, texts
from kernelsmith.proposers.agent.desk import View

VERSION = 1
"""Of how the files are put together; the files themselves are hashed."""
SOURCE_MAX_CHARS = 32_000
FACTS = ("cpu", "level", "cpus", "gpu", "arch")
"""What of the device's facts is worth telling."""


def system(task: Task, device_facts: Mapping[str, Any], settings: AgentSettings) -> tuple[str, str]:
    """The system prompt and the hash of all prompt files.

    Args:
        task: of the session; its device and limits matter here, its content comes in the opening.
        device_facts: see ``Device.describe``.
        settings: how long a session may be.
    """
    triton = _triton()
    words = {
        "min_gain": f"{task.min_gain:.0%}",
        "max_regress": f"{task.max_regress:.0%}",
        "turns": str(settings.turns_max),
        "stale": str(settings.stale_submissions),
        "level": str(device_facts.get("level", "this CPU")),
        "triton": triton,
        **_language(),
    }
    device = "cpu" if task.device == "cpu" else "cuda"
    sums = "sums_from_3_8.md" if _release(triton) >= (3, 8) else "sums_to_3_7.md"
    names = (
        "role.md",
        "language.md",
        "bits.md",
        f"bits_{device}.md",
        sums,
        f"pays_{device}.md",
        "reading.md",
    )
    facts = ", ".join(f"{name} {device_facts[name]}" for name in FACTS if name in device_facts)
    about = f"Device: {task.device}" + (f" ({facts})" if facts else "") + f"; Triton {triton}."
    parts = [_filled(name, words) for name in names]
    return "\n\n".join([*parts, about]), files_hash()


def opening(task: Task, parent: Candidate, view: View, ordinal: int) -> str:
    """The first message of a session. Its first line is
    ``Task: <name>. Session: <ordinal>. Parent: <candidate id>.``"""
    facts = limits.facts_of(task.device)
    found = limits.limits_of(task, facts)
    gains = {one.candidate.id: one.gain_vs_seed for one in view.history}
    gain = gains.get(parent.id)
    if parent.id == view.seed.id:
        said = " (the seed)"
    else:
        said = "" if gain is None else f" (gain {gain:.3f} against the seed)"
    words = {
        "task": briefing.task(task),
        "limits": limits.table(found, limits.peaks(task.device, facts).says),
        "lineage": texts.lineage(task, view.seed, view.incumbent, view.history),
        "parent": parent.id,
        "gain": said,
        "incumbent": view.incumbent.id,
        "source": _source(parent, view.seed),
    }
    first = f"Task: {task.name}. Session: {ordinal}. Parent: {parent.id}."
    return f"{first}\n\n{_filled('opening.md', words)}"


@cache
def files_hash() -> str:
    """SHA-256 over names and contents of all prompt files, and how they are put together."""
    digest = hashlib.sha256(f"kernelsmith prompts {VERSION}\0".encode())
    for name in file_names():
        digest.update(f"{name}\0{_text(name)}\0".encode())
    return digest.hexdigest()


@cache
def file_names() -> tuple[str, ...]:
    """The prompt files."""
    found = (entry.name for entry in resources.files(__package__).iterdir())
    return tuple(sorted(name for name in found if name.endswith(".md")))


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _filled(name: str, words: Mapping[str, str]) -> str:
    """The file with ``{{word}}`` filled in, in one pass: what is filled in is not read again."""
    parts = _text(name).split("{{")
    filled = [parts[0]]
    for part in parts[1:]:
        word, _, rest = part.partition("}}")
        filled += [words[word], rest]
    return "".join(filled).strip()


def _source(parent: Candidate, seed: Candidate) -> str:
    try:
        text, what = sources.as_seen(parent, seed)
    except sources.UnreadableError as error:
        return f"The source of {parent.id} is not shown: {error}."
    if len(text) > SOURCE_MAX_CHARS:
        return f"The source of {parent.id} is long: read_source shows it."
    return texts.source(parent, text, what)


def _triton() -> str:
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return "not installed"


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


@cache
def _language() -> Mapping[str, str]:
    """The policy's tables in words."""

    def listed(names: frozenset[str], sep: str = " ") -> str:
        return sep.join(sorted(names))

    floats = frozenset(name for name in language.TL_VALUES if "float8" not in name)
    return {
        "lang": _lang(),
        "decorator": listed(language.JIT_DECORATOR_KEYWORDS, ", "),
        "tl_calls": listed(language.TL_CALLS),
        "tl_values": listed(floats),
        "tensor_methods": " ".join(f".{name}" for name in sorted(language.TENSOR_METHODS)),
        "jit_attributes": " ".join(f".{name}" for name in sorted(language.JIT_ATTRIBUTES)),
        "jit_builtins": listed(language.JIT_BUILTINS),
        "host_attributes": " ".join(f".{name}" for name in sorted(language.HOST_ATTRIBUTES)),
        "host_methods": " ".join(f".{name}" for name in sorted(language.HOST_METHODS)),
        "host_calls": listed(language.HOST_CALLS, ", "),
        "host_builtins": listed(language.HOST_BUILTINS, ", "),
        "options": listed(language.LAUNCH_OPTIONS, ", "),
    }


def _lang() -> str:
    """The vetted functions of ``kernelsmith.lang``, read without importing it."""
    text = resources.files("kernelsmith").joinpath("lang.py").read_text(encoding="utf-8")
    names = [
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    return f"`from kernelsmith.lang import {', '.join(names)}`"
