"""``benchmarks/gpu_check.py``: a stage that fails, hangs or crashes is recorded, the rest runs."""

import importlib.util
import json
import shutil
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cuda.stand_in import Fake

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_check", BENCHMARKS / "gpu_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    return module


def stages_of(folder: Path, script: ModuleType, **bodies: str) -> dict[str, Any]:
    """Stages with these bodies, each run as the script runs its own."""
    (folder / "gpu").mkdir()
    (folder / "gpu" / "__init__.py").touch()
    found = {}
    for name, body in bodies.items():
        text = f"def {name}(dry_run, keep):\n{textwrap.indent(body, '    ')}\n"
        (folder / "gpu" / f"{name}.py").write_text(text)
    source = (BENCHMARKS / "gpu_check.py").read_text()
    table = "".join(
        f'    Stage(name="{name}", module="gpu.{name}", limit_s=3.0),\n' for name in bodies
    )
    begin, end = source.index("STAGES = ("), source.index("WHOLE_S = ")
    copy = folder / "gpu_check.py"
    end_of_grace = source[end:].replace("GRACE_S = 8.0", "GRACE_S = 1.0")
    copy.write_text(f"{source[:begin]}STAGES = (\n{table})\n{end_of_grace}")
    spec = importlib.util.spec_from_file_location("gpu_check_copy", copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check_copy"] = module
    spec.loader.exec_module(module)
    out = folder / "record.json"
    found["exit"] = module.main(["--dry-run", "--out", str(out)])
    found["record"] = json.loads(out.read_text())
    return found


def test_a_bad_stage_is_recorded_and_the_rest_goes_on(tmp_path: Path, script: ModuleType) -> None:
    found = stages_of(
        tmp_path,
        script,
        fails='keep({"tile": 1})\nraise ValueError("no such tile")',
        hangs='import time\nkeep({"tile": 2})\ntime.sleep(60)',
        deaf="import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'keep({"tile": 3})\ntime.sleep(60)',
        dies='import os\nkeep({"tile": 4})\nos.abort()',
        off='return {"wrong": ["the sum"]}',
        works='return {"figure": 1}',
    )
    assert found["exit"] == 1
    record = found["record"]
    told = {one["stage"]: one for one in record["stages"]}
    assert told["fails"]["status"] == "failed"
    assert told["fails"]["error"] == "ValueError: no such tile"
    assert told["hangs"]["status"] == "out of time"
    assert told["dies"]["status"] == "crashed"
    assert told["dies"]["exit"] == -6
    assert told["works"]["result"] == {"figure": 1}
    # What a stage had found by its end is not lost with it.
    cut = [told[name]["result"] for name in ("fails", "hangs", "deaf", "dies")]
    assert cut == [{"tile": number} for number in (1, 2, 3, 4)]
    assert told["deaf"]["status"] == "out of time"
    assert (told["off"]["status"], script.wrong(told["off"])) == ("done", ["the sum"])
    assert record["what"].startswith("DRY RUN")


def test_the_stages_fit_into_eight_minutes_and_are_there(script: ModuleType) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        for stage in script.STAGES:
            module = importlib.import_module(stage.module)
            assert callable(getattr(module, stage.name))
    finally:
        sys.path.remove(str(BENCHMARKS))
    assert script.WHOLE_S < 480
    searching = next(stage for stage in script.STAGES if stage.name == "search")
    assert searching.limit_s > 180


def test_a_dry_run_of_what_is_quick(tmp_path: Path, script: ModuleType) -> None:
    out = tmp_path / "record.json"
    names = "driver,faults,gemm_bits"
    assert script.main(["--dry-run", "--only", names, "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert [one["stage"] for one in record["stages"]] == names.split(",")
    results = {one["stage"]: one["result"] for one in record["stages"]}
    assert results["driver"]["add"]["differ"] == 0
    assert [one["status"] for one in results["faults"]["jobs"]] == [
        *("sound", "CRASH", "sound", "TIMEOUT", "sound")
    ]
    assert results["gemm_bits"]["one_class_everywhere"] is True


def test_what_a_gpu_runs_walks_through_on_a_stand_in(
    tmp_path: Path, built: Fake, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It loads real cubins and does nothing with them: every figure is wrong, no step is missing.
    shutil.copy(built.path, tmp_path / "libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    out = tmp_path / "record.json"
    assert script.main(["--only", "driver,faults", "--out", str(out)]) == 1
    record = json.loads(out.read_text())
    driver, faults = (one["result"] for one in record["stages"])
    assert [one["kernel"] for one in driver["kernels"]] == ["elementwise", "row_sum", "matmul"]
    assert driver["add"]["differ"] > 0
    assert faults["driver"]["guard_page_bytes"] == 2 << 20
    assert faults["driver"]["fault"].startswith("none")
    assert "unnoticed" in faults["wrong"][0]
    # Behind the wall too the driver is found, and a job's whole way gone.
    assert {one["status"] for one in faults["jobs"]} == {"wrong output"}


def test_the_committed_dry_run_says_what_it_is() -> None:
    record = json.loads((BENCHMARKS / "results" / "gpu_check_dry_run.json").read_text())
    assert record["what"] == "DRY RUN on a CPU: nothing here is of a GPU"
    assert {one["status"] for one in record["stages"]} == {"done"}
