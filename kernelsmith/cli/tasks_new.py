"""``kernelsmith tasks new``: a task of one's own kernel."""

import dataclasses
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith.cli import options, printing
from kernelsmith.errors import InputError

if TYPE_CHECKING:
    from kernelsmith.authoring.questions import Asker, Question
    from kernelsmith.authoring.writing import Written
    from kernelsmith.catalog import Finding

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the task: lower case, a-z0-9_.")]
From = Annotated[
    Path, typer.Option("--from", metavar="FILE", help="A Triton module; read, never run.")
]
To = Annotated[Path, typer.Option(metavar="DIR", help="Where the task and the seed go.")]
Entries = Annotated[
    list[str] | None,
    typer.Option(help="An entry; default all public functions that launch. Repeatable."),
]
Paths = Annotated[
    list[str] | None,
    typer.Option(metavar="ENTRY=PATH", help="train, infer or train,infer. Repeatable."),
]
Args = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[ENTRY:]NAME=SPEC",
        help="T[M,N], float32[M], T[M,N]? (may be None), 1e-6, M or none. Repeatable.",
    ),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[ENTRY:]NAME=SPEC",
        help="row:T[M,N] or batch:float32[N]:block=32:carry=dw_carry. Repeatable.",
    ),
]
Returns = Annotated[
    list[str] | None,
    typer.Option(metavar="ENTRY=NAMES", help="Names of what it returns, in order. Repeatable."),
]
Dims = Annotated[
    list[str] | None,
    typer.Option(metavar="DIM=SIZES", help="N=128,1024: the most used first. Repeatable."),
]
TokenDim = Annotated[
    str | None, typer.Option(metavar="DIM", help="The dimension that counts tokens.")
]
Tokens = Annotated[
    str | None, typer.Option(metavar="LOW:HIGH", help="Token counts of a call, as 0:300.")
]
Dtypes = Annotated[
    str | None, typer.Option(help="bfloat16, float16, float32, the most used first.")
]
Devices = Annotated[str | None, typer.Option(help="cpu, cuda or cpu,cuda.")]
Summary = Annotated[str | None, typer.Option(help="One line on what it computes.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing: take what the file itself says.")]
Force = Annotated[bool, typer.Option("--force", help="Write over files.")]


def new_task(
    name: Name,
    file: From,
    to: To = Path("tasks"),
    entry: Entries = None,
    path: Paths = None,
    arg: Args = None,
    output: Outputs = None,
    returns: Returns = None,
    dim: Dims = None,
    token_dim: TokenDim = None,
    tokens: Tokens = None,
    dtype: Dtypes = None,
    device: Devices = None,
    summary: Summary = None,
    yes: Yes = False,
    force: Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a task of a Triton file: asks on a terminal, or takes flags. The file is not run."""
    from kernelsmith.authoring import draft, facts, writing
    from kernelsmith.authoring.checks import check
    from kernelsmith.authoring.questions import Inquiry
    from kernelsmith.wiring import read_source

    _require_name(name)
    source = read_source(file)
    seed_file = f"{name}.py"
    writing.require_free(to, (f"{name}.toml", seed_file), file, force=force)
    known = facts.read_seed(source, str(file))
    entries = draft.choose_entries(known, entry or (), str(file))
    repeated = (("path", path), ("arg", arg), ("output", output), ("returns", returns))
    given = {
        key: text
        for flag, values in (*repeated, ("dim", dim))
        for key, text in _keyed(f"--{flag}", values).items()
    }
    single = (("token-dim", token_dim), ("tokens", tokens), ("dtype", dtype), ("device", device))
    given |= {f"--{flag} ": value for flag, value in single if value is not None}
    asking = not yes and not as_json and sys.stdin is not None and sys.stdin.isatty()
    inquiry = Inquiry(given=given, asker=_asker() if asking else None)
    made = draft.make_draft(name, seed_file, known, entries, inquiry)
    if summary is not None:
        made = dataclasses.replace(made, summary=" ".join(summary.split()))
    written = writing.write(to, made, writing.task_text(made, source), file, source)
    _tell(name, written, inquiry.assumed, check(name, (to,)), as_json)


def _tell(
    name: str,
    written: "Written",
    assumed: Sequence[str],
    findings: Sequence["Finding"],
    as_json: bool,
) -> None:
    if as_json:
        files = {"task": written.task.as_posix(), "seed": written.seed.as_posix()}
        fields = {"task": name, "files": files, "assumed": assumed, "findings": findings}
        printing.document("tasks_new", fields)
        return
    console = printing.out()
    printing.say(console, f"wrote {written.task} and {written.seed}")
    for line in assumed:
        printing.say(console, f"assumed {line}")
    troubles = [each for each in findings if each.level != "ok"]
    for each in troubles:
        printing.say(console, f"{each.level}: {each.message} (hint: {each.hint})")
    where = f"{name} --tasks {shlex.quote(str(written.task.parent))}"
    printing.say(console, f"next: kernelsmith tasks check {where}")
    if not any(each.level == "error" for each in troubles):
        printing.say(console, f"then: kernelsmith run {where}")


def _require_name(name: str) -> None:
    from kernelsmith import catalog

    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise InputError(f"no task can be named {name!r}", hint="lower case: my_kernel")
    shipped = catalog.tasks()
    if name in shipped:
        raise InputError(
            f"{name} is a task that kernelsmith ships", hint="give yours a name of its own"
        )


def _keyed(flag: str, values: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for value in values or ():
        key, equals, text = value.partition("=")
        if not equals or not key.strip() or not text.strip():
            raise InputError(
                f"{flag} {value!r} has no NAME=…", hint=f"`kernelsmith tasks new --help` on {flag}"
            )
        word = f"{flag} {key.strip()}="
        if word in found:
            raise InputError(f"{word} is given twice", hint="say it once")
        found[word] = text.strip()
    return found


def _asker() -> "Asker":
    def ask(question: "Question", trouble: str) -> str:
        if trouble:
            printing.say(printing.err(), f"  {trouble}", "red")
        why = f" ({question.why})" if question.why else ""
        return str(typer.prompt(f"{question.text}{why}", default=question.proposal, err=True))

    return ask
