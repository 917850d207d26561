"""``python -m kernelsmith.rehearsal``: the server as a process of its own, until it is ended."""

import argparse
import signal
from pathlib import Path

from kernelsmith.loopback import serving
from kernelsmith.rehearsal import LABEL
from kernelsmith.rehearsal.delivery import Delivery
from kernelsmith.rehearsal.server import application


def main() -> None:
    """Serves until SIGINT or SIGTERM. The first line on stdout ends in the base URL."""
    parser = argparse.ArgumentParser(prog="python -m kernelsmith.rehearsal", description=LABEL)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--script", default="night", help="night, minute or zero")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="before the first byte")
    parser.add_argument("--gzip", action="store_true", help="for clients that accept it")
    parser.add_argument("--odd-chunks", type=int, metavar="SEED", help="pieces at odd places")
    parser.add_argument("--log", type=Path, metavar="FILE", help="one JSON line a request")
    given = parser.parse_args()
    delivery = Delivery(
        latency_s=given.latency_ms / 1000,
        gzip=given.gzip,
        odd_chunks=given.odd_chunks,
        log=given.log,
    )
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # the server's thread takes none either
    with serving(application(given.script, delivery), port=given.port) as base_url:
        print(f"{LABEL}: {given.script} at {base_url}", flush=True)
        signal.sigwait(ends)


if __name__ == "__main__":
    main()
