"""The rules of design: sizes, names, one way of imports, and what the repository may speak of."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for folder in ("kernelsmith", "seed_kernels", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
PACKAGE = [path for path in SOURCES if path.is_relative_to(ROOT / "kernelsmith")]
BANNED = re.compile(r"manager|handler|helper|utils?$|common$|misc$|solution|reward", re.IGNORECASE)


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


@pytest.mark.parametrize("path", SOURCES, ids=ids(SOURCES))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400, "over 400 lines"
    assert not [line for line in text.splitlines() if len(line) > 100], "over 100 columns"
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in functions(ast.parse(text))
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > 70
    }
    assert not long, f"over 70 lines: {long}"


@pytest.mark.parametrize("path", PACKAGE, ids=ids(PACKAGE))
def test_package_names_and_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body, "no module docstring"
    names = [node.name for node in functions(tree)]
    names += [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert not [name for name in [*names, path.stem] if BANNED.search(name)]
    undocumented = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not undocumented, f"public, without a docstring: {undocumented}"


INHERITANCE_ALLOWED = re.compile(
    r"Error$|^Protocol$|^(Base|DeclarativeBase)$|BaseBackend|DriverBase|BaseModel|Exception"
    r"|GPUDriver|NodeVisitor|CSTTransformer|CSTVisitor|TorchDispatchMode|TorchFunctionMode"
    r"|NamedTuple|Enum|TypedDict|Structure|Mixin|Group|Generic|Record|_Strict|Model$"
    r"|^Formatter$|^WatchedFileHandler$"
)


@pytest.mark.parametrize("path", PACKAGE, ids=ids(PACKAGE))
def test_no_inheritance_but_errors_orm_protocols_and_required_bases(path: Path) -> None:
    bases = [
        ast.unparse(base).split("[")[0].split(".")[-1]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    ]
    assert not [base for base in bases if not INHERITANCE_ALLOWED.search(base)]


def test_repository_speaks_of_the_project_alone() -> None:
    # A hidden folder's name, not a schema's such as kernelsmith.library/1.
    hidden = "(^|[^A-Za-z0-9_])[.]librar" + "y/"
    pattern = "|".join(["/wor" + "k/", "/roo" + "t/", hidden, "pypi[.]or" + "g"])
    found = subprocess.run(
        ["git", "grep", "-nE", pattern, "--", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode > 1:
        pytest.skip("not a git checkout")
    assert found.stdout == ""
