"""``python -m kernelsmith.worker ROLE SPOOL_DIR [SETTINGS_JSON]``: a warm template."""

import json
import sys
from pathlib import Path

from kernelsmith.worker.template import Settings, serve


def main(arguments: list[str]) -> int:
    """Serves jobs until standard input ends."""
    if len(arguments) not in (2, 3):
        print("usage: python -m kernelsmith.worker ROLE SPOOL_DIR [SETTINGS_JSON]", file=sys.stderr)
        return 2
    settings = Settings(**json.loads(arguments[2])) if len(arguments) == 3 else Settings()
    serve(arguments[0], Path(arguments[1]), settings)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
