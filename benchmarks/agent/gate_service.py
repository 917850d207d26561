"""The gate's first look at bits behind a Unix socket, so that OpenEvolve's evaluator can ask it.

    python benchmarks/agent/gate_service.py TASK SOCKET

A connection sends a source and ends its side; back comes ``{"status": ..., "seconds": ...}``. One
source at a time: a run of kernelsmith has one gate as well. Prints "ready" once the seed's bits are
known; serves until its standard input ends.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kernelsmith import wiring
from kernelsmith.gate.judge import Gate
from kernelsmith.model import new_candidate, seed_candidate

LOOK = ("policy", "trace", "compile", "parity.train", "parity.infer")


def open_gate(name: str) -> tuple[Gate, Any]:
    """A gate as a run has it, the seed's bits known; and its sandbox, to be closed after it."""
    wires = wiring.real()
    device = wires.device(wires.device_name("auto"))
    sandbox = wires.sandbox("auto", True)
    task = wires.load_task(name, device.name, ())
    gate = Gate(task, device, sandbox, secrets.randbits(128))
    gate.judge_bits(seed_candidate(task), LOOK)
    return gate, sandbox


def main(name: str, path: Path) -> None:
    gate, sandbox = open_gate(name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(64)
    threading.Thread(target=_until_input_ends, args=(gate, sandbox), daemon=True).start()
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            _answer(gate, connection)


def _answer(gate: Gate, connection: socket.socket) -> None:
    source = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    began_s = time.monotonic()
    verdict = gate.judge_bits(new_candidate(source, gate.task.name, author="agent"), LOOK)
    answer = {"status": verdict.status, "seconds": time.monotonic() - began_s}
    connection.sendall(json.dumps(answer).encode())


def _until_input_ends(gate: Gate, sandbox: Any) -> None:
    sys.stdin.read()
    gate.close()
    sandbox.close()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
