"""``python -m kernelsmith.worker.supervisor ROLE SPOOL ORDERS ANSWERS SETTINGS_JSON``: process 1 of
a container.

It starts the warm template and carries jobs to it: an order is a file that the host renames into
ORDERS (which nobody in the container can write), an answer a sealed letter in ANSWERS (which the
template's children cannot reach, where the kernel has Landlock, and cannot forge, where it has
not). It collects what other processes leave behind, ends what outlives its job, and ends the
container when the template ends or the host is gone. Standard library only.
"""

import contextlib
import json
import os
import select
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelsmith import letters
from kernelsmith.letters import Arrivals
from kernelsmith.worker import wall, wall_landlock

TICK_S = 0.5
READ_BYTES = 1 << 16
LOG = "template.log"
MAX_LOG_BYTES = 1 << 16
MAX_WORDS_CHARS = 300
EXIT_ENDED, EXIT_NO_HOST = 1, 3
# Of these a job gets what its settings name.
CLOSED = (Path("/proc"), Path("/sys"), Path("/dev"), Path("/tmp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Folders that the host sees too."""

    spool: Path
    orders: Path
    answers: Path


@dataclass(slots=True, kw_only=True)
class Template:
    """The process that runs jobs, with the pipes to it."""

    pid: int
    orders: int
    answers: int
    log: int
    pending: bytes = b""


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """What it holds. ``asked``: the letter that the template's next line answers."""

    key: bytes
    host: int
    places: Places
    folder: int
    template: Template
    arrivals: Arrivals
    asked: str = letters.READY
    done: set[str] = field(default_factory=set)


def main(arguments: list[str]) -> int:
    """Serves until told to end, or the template or the host is gone."""
    if len(arguments) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    role, spool, orders, answers, settings = arguments
    places = Places(spool=Path(spool), orders=Path(orders), answers=Path(answers))
    if role == "trial":
        return _trial(places)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(EXIT_ENDED))
    # A job of the same user must read neither the key in this memory nor this process's files.
    wall.forbid_dumps()
    host = os.open(places.orders / letters.HOST, os.O_RDONLY | os.O_CLOEXEC)
    if not letters.is_held(host):
        print(
            "the host's lock cannot be seen from here: another machine's file, or its host is gone",
            file=sys.stderr,
        )
        return EXIT_NO_HOST
    alive = letters.hold(places.answers / letters.ALIVE)
    supervisor = _begin(role, places, host, json.loads(settings))
    try:
        return _serve(supervisor)
    finally:
        os.close(alive)


def _begin(role: str, places: Places, host: int, settings: dict[str, Any]) -> Supervisor:
    key = (places.orders / letters.KEY).read_bytes()
    # The watch stands before the first look, so that nothing arrives unseen between the two.
    arrivals = letters.arrivals(places.orders)
    template = _start(role, places, settings)
    arrivals.poll.register(template.answers, select.POLLIN)
    return Supervisor(
        key=key,
        host=host,
        places=places,
        folder=os.open(places.answers, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),
        template=template,
        arrivals=arrivals,
    )


def _start(role: str, places: Places, settings: dict[str, Any]) -> Template:
    """The template, with the environment that the host names and nothing of this container's."""
    own = dict(settings["template"])
    # Not what one job might leave for the next, and not what the host is spoken to with.
    kept = {places.spool, places.orders.parent, places.answers.parent, *CLOSED}
    own["read"] = [
        *own.get("read", []),
        *(f"/{name}" for name in os.listdir("/") if Path("/", name) not in kept),
    ]
    flags = own.get("python_flags", [])
    command = [sys.executable, *flags, "-m", "kernelsmith.worker", role, str(places.spool)]
    orders_out, orders_in = os.pipe()
    answers_out, answers_in = os.pipe()
    log = os.open(places.answers / LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    pid = os.posix_spawn(
        sys.executable,
        [*command, json.dumps(own)],
        settings["environment"],
        file_actions=[
            (os.POSIX_SPAWN_DUP2, orders_out, 0),
            (os.POSIX_SPAWN_DUP2, answers_in, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ],
    )
    os.close(orders_out)
    os.close(answers_in)
    return Template(pid=pid, orders=orders_in, answers=answers_out, log=log)


def _serve(own: Supervisor) -> int:
    told = False
    while True:
        _collect()
        if not letters.is_held(own.host):
            return EXIT_NO_HOST
        for name in _orders(own):
            own.arrivals.found(told)
            own.asked = name
            own.done.add(name)
            with contextlib.suppress(BrokenPipeError):  # its end shows below
                os.write(own.template.orders, name.encode() + b"\n")
        told = own.arrivals.wait(TICK_S)
        lines = _lines(own.template)
        if lines is None:
            _post(own, letters.ENDED, json.dumps({"words": _last_words(own.template)}).encode())
            return EXIT_ENDED
        for line in lines:
            _end_others(own.template.pid)
            _post(own, own.asked, line)


def _orders(own: Supervisor) -> list[str]:
    """Jobs that are ordered and were not yet taken."""
    there = os.listdir(own.places.orders)
    named = {name.removesuffix(letters.ORDER) for name in there if name.endswith(letters.ORDER)}
    own.done &= named  # the host removes an order when it has the answer
    return sorted(named - own.done)


def _post(own: Supervisor, name: str, text: bytes) -> None:
    letters.post(own.folder, f"{name}{letters.ANSWER}", letters.seal(own.key, name, text))
    if os.fstat(own.template.log).st_size > MAX_LOG_BYTES:
        os.ftruncate(own.template.log, 0)


def _lines(template: Template) -> list[bytes] | None:
    """What the template has said by now; None: it has ended, or says what no template says."""
    waiting = select.poll()
    waiting.register(template.answers, select.POLLIN)
    if not waiting.poll(0):
        return []
    data = os.read(template.answers, READ_BYTES)
    template.pending += data
    *lines, template.pending = template.pending.split(b"\n")
    return lines if data and len(template.pending) < READ_BYTES else None


def _last_words(template: Template) -> str:
    size = os.fstat(template.log).st_size
    text = os.pread(template.log, MAX_LOG_BYTES, max(0, size - MAX_LOG_BYTES))
    lines = [line.strip() for line in text.decode("utf-8", "replace").split("\n")]
    return next((line for line in reversed(lines) if line), "")[:MAX_WORDS_CHARS]


def _collect() -> None:
    """Reaps whatever has ended: process 1 inherits all orphans."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end_others(template: int) -> None:
    """Kills what outlives its job. In a container of its own there is nobody else to be hit."""
    if os.getpid() != 1:
        return
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, template):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)


def _trial(places: Places) -> int:
    """Says what is here, for the host that tries whether a container can stand."""
    with contextlib.suppress(FileNotFoundError):
        os.close(letters.hold(places.spool / "trial"))
    facts = {
        "python": sys.version.split()[0],
        "user": os.getuid(),
        "landlock_abi": wall_landlock.abi(),
        "host_lock": letters.is_held(os.open(places.orders / letters.HOST, os.O_RDONLY)),
    }
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
