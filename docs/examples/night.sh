#!/bin/sh
# A night that survives its machine: goes on with the newest run where it was cut, else begins one.
#
#     night.sh TASK... [OPTIONS of `kernelsmith run`]
#
# A newest run that is paused, interrupted or failed, and began less than MAX_AGE_H hours ago, is
# resumed; so the same command serves the first start, a restart and a requeued job. The options
# are those of a new run: what must hold for a resumed one too (log, metrics, summary, database)
# belongs in kernelsmith.toml. The exit code is kernelsmith's own.
set -eu
: "${KERNELSMITH:=kernelsmith}"
: "${MAX_AGE_H:=20}"
export MAX_AGE_H

unfinished() {
  $KERNELSMITH runs --json 2>/dev/null | python3 -c '
import datetime, json, os, sys
try:
    run = json.load(sys.stdin)["runs"][0]
except (ValueError, IndexError):  # no database yet, or no run
    sys.exit()
began = datetime.datetime.fromisoformat(run["started_at"].replace("Z", "+00:00"))
age = datetime.datetime.now(datetime.timezone.utc) - began
young = age < datetime.timedelta(hours=float(os.environ["MAX_AGE_H"]))
if young and run["state"] in ("paused", "interrupted", "failed"):
    print(run["id"])
'
}

run="$(unfinished)"
if [ -n "$run" ]; then
  exec $KERNELSMITH resume "$run"
fi
exec $KERNELSMITH run "$@"
