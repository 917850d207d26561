"""The evaluator that OpenEvolve loads: ``evaluate(program_path)``. Runs in OpenEvolve's venv.

``BENCH_GATE``: a Unix socket of ``gate_service.py`` that judges the source; without it nothing is
judged. ``BENCH_STAMPS``: a file that gets one line, the clock, for each evaluation that ended.
"""

import json
import os
import socket
import time
from pathlib import Path


def evaluate(program_path: str) -> dict[str, float]:
    gate = os.environ.get("BENCH_GATE", "")
    score = _asked(gate, Path(program_path).read_bytes()) if gate else 0.0
    stamps = os.open(os.environ["BENCH_STAMPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(stamps, f"{time.monotonic():.6f} {score}\n".encode())
    finally:
        os.close(stamps)
    return {"combined_score": score}


def _asked(gate: str, source: bytes) -> float:
    """1.0: the bits are the seed's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(gate)
        connection.sendall(source)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return 1.0 if json.loads(answer)["status"] == "ACCEPTED" else 0.0
