#!/usr/bin/env bash
# Builds the wheel, installs it into a venv of its own and uses it from a folder outside the checkout.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/../.." && pwd)
outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
"$checkout/.venv/bin/python" -m build --wheel --no-isolation --outdir "$outside/dist" "$checkout" >"$outside/build.log" 2>&1 \
  || { cat "$outside/build.log"; exit 1; }
"$checkout/.venv/bin/python" -m venv "$outside/venv"
# The dependencies are the checkout's own (a .pth, not a second download); kernelsmith is the wheel's.
"$checkout/.venv/bin/python" - "$outside/venv" <<'PY'
import pathlib, sys, sysconfig
site = next(pathlib.Path(sys.argv[1]).glob("lib/python*/site-packages"))
(site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
PY
"$outside/venv/bin/python" -m pip install -q --no-deps --no-index --force-reinstall "$outside"/dist/*.whl
cd "$outside"
where=$(venv/bin/python -c 'import kernelsmith; print(kernelsmith.__file__)')
case "$where" in "$outside"/*) ;; *) echo "kernelsmith came from $where, not from the wheel"; exit 1 ;; esac
venv/bin/kernelsmith tasks list
venv/bin/kernelsmith doctor || test $? = 3
venv/bin/kernelsmith gate "$checkout/seed_kernels/rms_norm.py" --task rms_norm --json >verdict.json || test $? = 1
venv/bin/python - <<'PY'
import json
verdict = json.load(open("verdict.json"))
assert verdict["status"] == "NOT_FASTER", verdict["status"]
print("wheel outside the checkout: the seed is judged", verdict["status"])
PY
