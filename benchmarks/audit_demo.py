"""What ``kernelsmith audit --demo`` shows on this machine: ``python benchmarks/audit_demo.py``.

Runs it once in a process of its own and writes ``results/audit_demo.json`` with the machine's
facts; ``python benchmarks/figures.py`` then writes the tables of docs/guides/audit.md. A CPU's
bits.
"""

import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from figures import RESULTS

from kernelsmith.devices.cpu.epoch import cpu_facts


def main() -> None:
    load, begun = os.getloadavg()[0], time.monotonic()
    command = [str(Path(sys.executable).parent / "kernelsmith"), "audit", "--demo", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)  # of this one alone, whatever ran before it
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    document = {
        "schema": "kernelsmith.benchmark.audit_demo/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "cpu": cpu_facts()[0],
            "python": platform.python_version(),
            "transformers": version("transformers"),
            "load_1m_before": load,
        },
        "seconds": round(time.monotonic() - begun, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_rss_bytes": used.ru_maxrss * 1024,
        "demo": json.loads(out),
    }
    (RESULTS / "audit_demo.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
