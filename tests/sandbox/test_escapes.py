"""Candidate Python that tries to get out, as if the policy did not exist: each way is blocked."""

import os
import textwrap
from pathlib import Path

import pytest

import kernelsmith

from .conftest import submit

REPOSITORY = Path(kernelsmith.__file__).parent.parent


def blocked(worker, body: str) -> str:
    """Runs ``body`` inside an entry; it must raise. Returns the failure's message."""
    source = "def forward(x):\n" + textwrap.indent(body, "    ")
    source += "\n    raise AssertionError('ESCAPED')\n"
    failure = submit(worker, source).failure
    assert failure is not None
    assert failure.status == "TRACE"
    assert "ESCAPED" not in failure.message
    return failure.message


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"])
def test_no_socket_can_be_made(frontend, family):
    message = blocked(frontend, f"import socket; socket.socket(socket.{family})")
    assert "PermissionError" in message


def test_the_checkout_around_the_package_cannot_be_read(frontend):
    for name in ("pyproject.toml", "seed_kernels/linear.py", "tests/test_house_rules.py"):
        message = blocked(frontend, f"open({str(REPOSITORY / name)!r}).read()")
        assert "PermissionError" in message or "FileNotFoundError" in message


def test_files_of_the_home_folder_and_of_the_current_one_cannot_be_read(frontend, tmp_path):
    for place in (tmp_path / "runs.db", Path.home() / ".bashrc", Path("/etc/passwd")):
        if not place.exists() and place.parent == tmp_path:
            place.write_text("secret")
        message = blocked(frontend, f"open({str(place)!r}).read()")
        assert "PermissionError" in message or "FileNotFoundError" in message


def test_nothing_can_be_written_anywhere(frontend, tmp_path):
    for place in ("/tmp/x", "/dev/shm/x", "x", str(tmp_path / "x"), str(REPOSITORY / "x")):
        message = blocked(frontend, f"open({place!r}, 'w')")
        assert "PermissionError" in message or "FileNotFoundError" in message
    assert not list(tmp_path.iterdir())


def test_an_existing_file_of_the_host_cannot_be_changed(frontend, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for body in (
        f"import os; os.truncate({str(victim)!r}, 0)",
        f"import os; os.unlink({str(victim)!r})",
        f"import os; os.rename({str(victim)!r}, {str(tmp_path / 'moved')!r})",
        f"import os; os.chmod({str(victim)!r}, 0o777)",
        f"import os; os.open({str(victim)!r}, os.O_RDWR)",
    ):
        blocked(frontend, body)
    assert victim.read_text() == "kept"


def test_the_environment_holds_nothing_of_the_host(frontend, monkeypatch):
    monkeypatch.setenv("SECRET_API_KEY", "abc")
    source = "import os\ndef forward(x):\n    raise ValueError(sorted(os.environ))\n"
    failure = submit(frontend, source).failure
    assert failure is not None
    assert "TRITON_CACHE_DIR" in failure.message
    assert "SECRET" not in failure.message


def test_other_processes_cannot_be_seen(frontend):
    body = f"""
    import os
    seen = [name for name in os.listdir('/proc') if name.isdigit()]
    raise ValueError(f'sees {{len(seen)}} and the host: {{"{os.getpid()}" in seen}}')
    """
    failure = submit(frontend, f"def forward(x):\n{body}").failure
    assert failure is not None
    few = [f"sees {count} and the host: False" for count in range(1, 5)]
    assert "PermissionError" in failure.message or any(text in failure.message for text in few)


@pytest.mark.parametrize("target", ["os.getppid()", "1", "-1", "0"])
def test_no_other_process_can_be_signalled(frontend, target):
    assert "PermissionError" in blocked(frontend, f"import os; os.kill({target}, 9)")


def test_a_fork_bomb_does_not_fork_once(frontend):
    for body in (
        "import os; os.fork()",
        "import subprocess; subprocess.run(['/bin/true'])",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
        "import os; os.execv('/bin/true', ['true'])",
        "import os; os.setsid()",
    ):
        assert "PermissionError" in blocked(frontend, body)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ptrace", 101),
        ("process_vm_readv", 310),
        ("mount", 165),
        ("unshare", 272),
        ("bpf", 321),
        ("io_uring_setup", 425),
        ("memfd_create", 319),
        ("keyctl", 250),
        ("shmget", 29),
    ],
)
def test_dangerous_system_calls_fail_with_eperm(frontend, name, number):
    body = f"""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    code = libc.syscall({number}, 0, 0, 0, 0, 0, 0)
    raise ValueError(f'code {{code}} errno {{ctypes.get_errno()}}')
    """
    failure = submit(frontend, f"def forward(x):\n{body}").failure
    assert failure is not None
    assert "code -1 errno 1" in failure.message, name


def test_links_cannot_be_made_in_the_spool(frontend):
    assert "PermissionError" in blocked(frontend, "import os; os.symlink('/etc/passwd', 'link')")
    assert "PermissionError" in blocked(frontend, "import os; os.link('job.pkl', 'result.json')")


def test_no_descriptor_of_host_or_template_is_inherited(frontend):
    body = """
    import os, stat
    found = []
    for number in range(256):
        try:
            state = os.fstat(number)
        except OSError:
            continue
        kind = 'file' if stat.S_ISREG(state.st_mode) else 'null'
        if stat.S_ISFIFO(state.st_mode) or stat.S_ISSOCK(state.st_mode):
            kind = 'pipe'
        found.append(kind)
    raise ValueError(' '.join(sorted(found)))
    """
    failure = submit(frontend, f"def forward(x):\n{body}").failure
    assert failure is not None
    assert failure.message.endswith("ValueError: file file null null null")


def test_a_flood_of_output_ends_at_the_limit(frontend):
    body = """
    import os
    for number in range(3, 256):
        try:
            while True:
                os.write(number, b'x' * (1 << 20))
        except OSError as error:
            if error.errno != 9:
                raise
    """
    failure = submit(frontend, f"def forward(x):\n{body}").failure
    assert failure is not None
    assert failure.status == "CRASH"
    assert "before it answered" in failure.message


def test_an_answer_written_by_the_candidate_is_not_believed(frontend):
    body = """
    import os
    for number in range(3, 256):
        try:
            os.write(number, b'{"plans": {}, "classes": {}, "failure": null}')
        except OSError:
            pass
    os._exit(0)
    """
    failure = submit(frontend, f"def forward(x):\n{body}").failure
    assert failure is not None
    assert failure.status == "CRASH"
    assert failure.where == "" or "plans" in failure.where or failure.where == "the call"


def test_memory_beyond_the_limit_is_refused(frontend):
    assert "MemoryError" in blocked(frontend, "bytearray(5 << 30)")
