"""Each wall alone: what the others would also stop is stopped by it."""

import os
import platform
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import kernelsmith
from kernelsmith.errors import MissingError
from kernelsmith.sandbox import bubblewrap, paths
from kernelsmith.sandbox.process import landlock_abi, open_process
from kernelsmith.sandbox.spool import open_spool

REPOSITORY = Path(kernelsmith.__file__).parent.parent


def inside_bubblewrap(code: str) -> str:
    """Runs Python behind bubblewrap without the worker's own filter; returns what it printed."""
    try:
        program = bubblewrap.find_program()
        problem = bubblewrap.trial(program)
    except MissingError as error:
        problem = error.message
    if problem:
        pytest.skip(f"bubblewrap: {problem}")
    spool = open_spool()
    python = [sys.executable, *paths.PYTHON_FLAGS, "-S", "-c", textwrap.dedent(code)]
    try:
        done = subprocess.run(
            [*bubblewrap.wall_arguments(program, spool.path), "--", *python],
            env={"SECRET": "abc"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        spool.close()
    return done.stdout + done.stderr


def inside_landlock(code: str, tmp_path: Path) -> str:
    if not landlock_abi():
        pytest.skip("this kernel has no Landlock")
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    wall = f"""
    from pathlib import Path
    from kernelsmith.worker import wall_landlock
    wall_landlock.restrict(
        read=[Path(p) for p in {[sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64"]!r}],
        write=[Path({str(allowed)!r})],
    )
    """
    script = textwrap.dedent(wall) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    return done.stdout + done.stderr


def test_bubblewrap_shows_an_almost_empty_file_system():
    said = inside_bubblewrap("import os; print(sorted(os.listdir('/')))")
    for name in ("home", "var", "media", "srv", "opt", "boot"):
        assert f"'{name}'" not in said or str(Path(sys.base_prefix)).startswith(f"/{name}/")


def test_bubblewrap_shows_of_the_checkout_only_the_package():
    said = inside_bubblewrap(f"import os; print(sorted(os.listdir({str(REPOSITORY)!r})))")
    assert "'kernelsmith'" in said
    assert "'pyproject.toml'" not in said
    assert "'tests'" not in said


def test_bubblewrap_is_read_only_but_for_spool_and_tmp():
    said = inside_bubblewrap("""
        import os, sys
        for place in ('/', '/usr', '/dev', '/proc', sys.prefix, '/spool', '/tmp'):
            try:
                open(os.path.join(place, 'x'), 'w').close()
                print('wrote', place)
            except OSError as error:
                print('refused', place)
    """)
    wrote = [line.split()[1] for line in said.splitlines() if line.startswith("wrote")]
    assert wrote == ["/spool", "/tmp"]


def test_bubblewrap_limits_the_private_tmp():
    said = inside_bubblewrap("""
        import os
        descriptor = os.open('/tmp/x', os.O_CREAT | os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, 1 << 30)
            print('grew')
        except OSError as error:
            print('refused', error.strerror)
    """)
    assert said.startswith("refused")


def test_bubblewrap_has_no_network_and_one_process_tree():
    said = inside_bubblewrap("""
        import os, socket
        print([name for _, name in socket.if_nameindex()])
        try:
            socket.create_connection(('1.1.1.1', 53), timeout=1)
            print('connected')
        except OSError as error:
            print('refused')
        print(sum(name.isdigit() for name in os.listdir('/proc')))
    """)
    interfaces, refused, processes = said.splitlines()[:3]
    assert interfaces == "['lo']"
    assert refused == "refused"
    assert int(processes) <= 2


def test_bubblewrap_has_no_capabilities_no_root_and_no_environment():
    said = inside_bubblewrap("""
        import os
        print(os.getuid(), [line for line in open('/proc/self/status') if 'CapEff' in line])
        print(sorted(os.environ))
    """)
    assert said.startswith("65534 ['CapEff:\\t0000000000000000\\n']")
    assert "SECRET" not in said


def test_bubblewrap_shows_a_package_that_lies_in_tmp(tmp_path):
    inside_bubblewrap("")
    if not tmp_path.is_relative_to("/tmp"):
        pytest.skip("temporary files do not lie in /tmp")
    copy = tmp_path / "kernelsmith"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "kernelsmith", copy, ignore=ignore)
    ask = """
        import subprocess, sys
        from kernelsmith.sandbox import bubblewrap
        from pathlib import Path
        wall = bubblewrap.wall_arguments(bubblewrap.find_program(), Path(sys.argv[1]))
        code = "import kernelsmith; print(kernelsmith.__file__)"
        subprocess.run([*wall, "--", sys.executable, "-P", "-c", code])
    """
    spool = open_spool()
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", textwrap.dedent(ask), str(spool.path)],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        spool.close()
    assert done.stdout.strip() == str(copy / "__init__.py"), done.stderr


def test_landlock_alone_hides_files_and_refuses_writing(tmp_path):
    (tmp_path / "runs.db").write_text("secret")
    said = inside_landlock(
        f"""
        import os
        print(open({str(tmp_path / "allowed" / "y")!r}, "w").write("yes"))
        for what in (
            lambda: open({str(tmp_path / "runs.db")!r}).read(),
            lambda: open({str(tmp_path / "x")!r}, "w"),
            lambda: open({str(REPOSITORY / "pyproject.toml")!r}).read(),
            lambda: os.listdir("/proc"),
            lambda: os.unlink({str(tmp_path / "runs.db")!r}),
        ):
            try:
                what()
                print("ESCAPED")
            except PermissionError:
                print("refused")
        """,
        tmp_path,
    )
    assert said.split() == ["3", *["refused"] * 5]


def inside_filter(kind: str, code: str, tmp_path: Path) -> str:
    """Runs Python under the system-call filter alone."""
    script = f"from kernelsmith.worker import wall_seccomp\nwall_seccomp.install({kind!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", script + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    return done.stdout + done.stderr


TRY_ALL = """
import os, socket, subprocess, threading
def attempt(name, what):
    try:
        what()
        print("did", name)
    except OSError:
        print("refused", name)
attempt("write", lambda: open("x", "w").close())
attempt("program", lambda: os.posix_spawn("/bin/true", ["true"], {}))
attempt("fork", lambda: os.fork() or os._exit(0))
attempt("socket", socket.socket)
attempt("link", lambda: os.symlink("a", "b"))
attempt("kill", lambda: os.kill(os.getppid(), 0))
attempt("group", lambda: os.setpgid(0, 0))
thread = threading.Thread(target=lambda: print("did thread"))
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")
@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        ("trace", "thread"),
        ("run", "write thread"),
        ("time", "write thread"),
        ("compile", "write fork thread"),
        ("compile_gpu", "write program fork thread"),
    ],
)
def test_the_filter_alone_allows_what_a_kind_of_job_needs(kind, allowed, tmp_path):
    said = inside_filter(kind, TRY_ALL, tmp_path)
    assert [line[4:] for line in said.splitlines() if line.startswith("did")] == allowed.split()
    assert said.count("\n") == 8


def test_a_process_wall_without_landlock_says_so():
    sandbox = open_process(landlock=False)
    assert sandbox.describe()["landlock_abi"] == 0
    sandbox.close()
