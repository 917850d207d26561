"""What the machine tells of itself, from files as kernels write them."""

from pathlib import Path

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.watch import cgroup
from kernelsmith.watch.patience import Patience
from kernelsmith.watch.room import MIB, Rooms, memory_bytes
from kernelsmith.watch.throttle import Throttle

V1 = "9:memory:/box\n2:cpuacct,cpu:/box\n0::/\n"


def write(path: Path, text: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path


@pytest.mark.parametrize(
    ("told", "made", "found"),
    [
        ("0::/user/run\n", ["user/run"], "user/run"),
        ("0::/of/the/host\n", [], "."),  # a container's own root
        (V1, ["memory/box"], "memory/box"),
        (V1, ["memory"], "memory"),
        ("2:cpu:/\n", ["cpu"], None),
    ],
)
def test_the_memory_controller_is_found_in_either_version(
    tmp_path: Path, told: str, made: list[str], found: str | None
) -> None:
    root = tmp_path / "cgroup"
    for folder in made:
        (root / folder).mkdir(parents=True)
    if told.startswith("0::"):
        write(root / "cgroup.controllers", "cpu memory")
    process = write(tmp_path / "self", told.rstrip())
    assert cgroup.folder("memory", process, root) == (found and root / found)


def test_memory_left_is_the_least_of_machine_and_group(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", "MemTotal: 900 kB\nMemAvailable: 600 kB")
    empty = tmp_path / "none"
    assert memory_bytes(meminfo, empty) == 600 << 10
    write(tmp_path / "v2/memory.max", 500 << 10)
    write(tmp_path / "v2/memory.current", 450 << 10)
    write(tmp_path / "v2/memory.stat", f"anon 1\ninactive_file {100 << 10}")
    assert memory_bytes(meminfo, tmp_path / "v2") == 150 << 10
    write(tmp_path / "v2/memory.max", "max")
    assert memory_bytes(meminfo, tmp_path / "v2") == 600 << 10
    write(tmp_path / "v1/memory.limit_in_bytes", 500 << 10)
    write(tmp_path / "v1/memory.usage_in_bytes", 450 << 10)
    assert memory_bytes(meminfo, tmp_path / "v1") == 50 << 10
    assert memory_bytes(empty, empty) is None


@pytest.mark.parametrize(
    ("database", "spool", "memory", "says"),
    [
        (999, 999, 9999, ""),
        (999, 999, None, ""),
        (255, 999, 9999, "255 MiB left for the database in db, 256 MiB are needed"),
        (999, 100, 9999, "100 MiB left for the spool in spool, 512 MiB are needed"),
        (999, 999, 500, "500 MiB of memory left, 512 MiB are needed"),
    ],
)
def test_what_there_is_too_little_of_is_said(
    database: int, spool: int, memory: int | None, says: str
) -> None:
    free = {Path("db"): database, Path("spool"): spool}
    rooms = Rooms(
        database=Path("db"),
        spool=Path("spool"),
        free=lambda folder: free[folder] * MIB,
        memory=lambda: memory and memory * MIB,
    )
    assert rooms.shortage() == says


def test_a_disk_that_cannot_be_asked_is_no_room(tmp_path: Path) -> None:
    assert "cannot be asked" in Rooms(database=tmp_path / "gone", memory=lambda: None).shortage()


class Machine:
    """A machine's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.set()
        self.throttle = Throttle(group=folder / "cpu", cpus=folder / "cpus", stat=folder / "stat")

    def set(
        self, *, held_us: int = 0, heat: int = 0, stolen: int = 0, ticks: int = 0, mhz: int = 3000
    ) -> None:
        write(self.folder / "cpu/cpu.stat", f"nr_throttled 1\nthrottled_usec {held_us}")
        write(self.folder / "cpus/cpu0/thermal_throttle/core_throttle_count", heat)
        write(self.folder / "cpus/cpu1/cpufreq/scaling_cur_freq", mhz * 1000)
        write(self.folder / "stat", f"cpu {ticks - stolen} 0 0 0 0 0 0 {stolen} 7 7\ncpu0 1")

    def session(self, **after: int) -> list[str]:
        before = self.throttle.read()
        self.set(**after)
        return self.throttle.since(before)


def test_each_way_to_be_slowed_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.session(ticks=100, stolen=4) == []
    assert machine.session(ticks=200, stolen=24, held_us=250_000, heat=2) == [
        "the control group held processes back for 0.25 s",
        "the processor was throttled for heat 2 times",
        "the host took 20% of the processors' time",
    ]
    assert machine.session(ticks=300, stolen=24, held_us=250_000, heat=2, mhz=2900) == []
    told = machine.session(ticks=400, stolen=24, held_us=250_000, heat=2, mhz=1800)
    assert told == ["the processor ran at 1800 MHz, before at 3000"]


def test_the_first_version_of_control_groups_counts_in_nanoseconds(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    write(tmp_path / "cpu/cpu.stat", "throttled_time 0")
    before = machine.throttle.read()
    write(tmp_path / "cpu/cpu.stat", "throttled_time 1500000000")
    held = "the control group held processes back for 1.50 s"
    assert machine.throttle.since(before) == [held]


def test_a_gpus_clocks_are_told_from_what_its_session_said(tmp_path: Path) -> None:
    throttle = Machine(tmp_path).throttle
    facts = {"state_before": {"throttled": []}, "state_after": {"throttled": ["power cap"]}}
    said = throttle.since(throttle.read(), facts)
    assert said == ["the GPU's clocks were held down: power cap"]


def test_a_machine_that_tells_nothing_is_not_blamed(tmp_path: Path) -> None:
    throttle = Throttle(group=None, cpus=tmp_path / "no", stat=tmp_path / "no")
    assert throttle.since(throttle.read(), {"state_after": {}}) == []


def test_patience_ends_with_one_clear_line() -> None:
    patience = Patience()
    assert [patience.bear("no GPU"), patience.bear("no GPU")] == [10.0, 60.0]
    with pytest.raises(InfrastructureError, match="3 times in a row: no GPU") as caught:
        patience.bear("no GPU")
    assert "kernelsmith resume" in (caught.value.hint or "")
    patience.sound()
    assert patience.bear("no GPU") == 10.0
