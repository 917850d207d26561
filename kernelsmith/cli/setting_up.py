"""Commands before a run: ``doctor`` and ``tasks``."""

from typing import Annotated, Any

import typer

from kernelsmith import config, wiring
from kernelsmith.cli import database_health, options, printing, tasks_import, tasks_new
from kernelsmith.errors import InputError, TaskError
from kernelsmith.model import Task

EXIT_MISSING = 3


def doctor(
    context: typer.Context,
    gate: Annotated[
        bool, typer.Option("--gate", help="Also run the gate's proof of itself.")
    ] = False,
    proposer: Annotated[str | None, typer.Option(help="search, agent or search,agent.")] = None,
    device: options.Device = None,
    sandbox: options.Sandbox = None,
    task_folders: options.TaskFolders = None,
    db: database_health.Flag = False,
    named: database_health.Named = None,
    to: database_health.To = None,
    no_backup: database_health.NoBackup = False,
    build_image: Annotated[
        bool, typer.Option("--build-image", help="First build the Docker sandbox's image.")
    ] = False,
    base: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="What to build it on; a slim Python.")
    ] = None,
    mount_python: Annotated[
        bool,
        typer.Option("--mount-python", help="Leave Python out: show this machine's in it."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """What is here, what will be used, what is missing."""
    from kernelsmith import checkup

    if not build_image and (base is not None or mount_python):
        raise InputError(
            "--base and --mount-python say how to build", hint="add --build-image to build"
        )
    database_health.require_db(db, named, to, no_backup)
    settings = config.load()
    if db:
        if gate or build_image:
            raise InputError("--db looks at the lineage alone", hint="leave the other option out")
        path = named or settings.db
        database_health.examine(path, to, backup=not no_backup, as_json=as_json)
        return
    if build_image:
        image = wiring.build_image(base, mount_python=mount_python, notice=_tell)
        _tell(f"{image.name} {image.digest} ({image.kind}, on {image.base})")
    report = checkup.examine(
        context.obj,
        device=options.chosen("--device", device, settings.device),
        sandbox=options.chosen("--sandbox", sandbox, settings.sandbox),
        proposer=options.chosen("--proposer", proposer, settings.proposer),
        agent=settings.agent,
        task_folders=options.folders(task_folders, settings),
        db=settings.db,
        gate=gate,
    )
    if as_json:
        printing.document("doctor", checkup.fields(report))
    else:
        _show(report)
    if not report.ok:
        raise typer.Exit(EXIT_MISSING)


def _tell(line: str) -> None:
    printing.say(printing.err(), line)


def _show(report: Any) -> None:
    console = printing.out()
    database_health.show_checks(console, report.checks)
    if report.gate is not None:
        proof = report.gate
        words = ", ".join(
            f"{proof[kind]['rejected']} of {proof[kind]['tried']} {kind} rejected"
            for kind in ("cheats", "mutants")
            if proof[kind]["tried"]
        )
        words += "".join(f", {each} unchecked" for each in proof["unchecked"])
        words += f", seed: {proof['seed']}, in {proof['seconds']} s"
        told = ", ".join(f"{name} {count}" for name, count in proof["checks"].items())
        words += f"; by check: {told}"
        console.print(f"✓ {'gate':<10} {words}", style="green", markup=False)
    words = "ready: kernelsmith run " if report.ok else "not ready"
    console.print(words + (" ".join(report.tasks) if report.ok else ""), markup=False)


def tasks_app() -> typer.Typer:
    """The group ``tasks``; alone it lists."""
    app = typer.Typer(help="What can be made faster.", invoke_without_command=True)
    app.callback()(_tasks)
    app.command("list")(list_tasks)
    app.command("show")(show_task)
    app.command("check")(check_tasks)
    app.command("new")(tasks_new.new_task)
    app.command("import")(tasks_import.import_trace)
    return app


def _tasks(
    context: typer.Context,
    task_folders: options.TaskFolders = None,
    as_json: options.AsJson = False,
) -> None:
    if context.invoked_subcommand is None:
        list_tasks(context, task_folders, as_json)
    elif task_folders or as_json:
        word = context.invoked_subcommand
        raise InputError(
            f"options of `tasks {word}` stand behind {word}",
            hint=f"`kernelsmith tasks {word} --json --tasks DIR`",
        )


def list_tasks(
    context: typer.Context,
    task_folders: options.TaskFolders = None,
    as_json: options.AsJson = False,
) -> None:
    """All tasks, with those that do not load."""
    found = context.obj.list_tasks(options.folders(task_folders, config.load()))
    if as_json:
        fields = [
            {
                "task": each.name,
                "path": each.path.as_posix(),
                "shipped": each.shipped,
                "summary": each.summary,
                "cases": dict(each.cases),
                "problem": each.problem or None,
            }
            for each in found
        ]
        printing.document("tasks", {"tasks": fields})
        return
    console = printing.out()
    for each in found:
        if each.problem:
            console.print(f"{each.name:<12} {each.problem}", style="red", markup=False)
            continue
        cases = ", ".join(f"{count} on {device}" for device, count in each.cases)
        console.print(f"{each.name:<12} {each.summary} (cases: {cases})", markup=False)


def show_task(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TASK")],
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    task_folders: options.TaskFolders = None,
    as_json: options.AsJson = False,
) -> None:
    """A task's entries, outputs, cases and seed."""
    folders = options.folders(task_folders, config.load())
    task = context.obj.load_task(name, context.obj.device_name(device), folders)
    if as_json:
        printing.document("task", {"task": task})
        return
    console = printing.out()
    console.print(f"{task.name}  {task.summary}  (on {task.device})", markup=False)
    lo, hi = task.token_range
    console.print(f"tokens {task.token_dim} from {lo} to {hi}", markup=False)
    console.print(
        f"a winner is over {task.min_gain:.0%} faster, no case over {task.max_regress:.0%} slower",
        markup=False,
    )
    for call in task.calls:
        outputs = ", ".join(f"{each.name} ({each.cls})" for each in call.outputs)
        words = f"  {call.path:<6} {call.name:<16} {call.entry} → {outputs}"
        console.print(words, markup=False)
    _show_sums(console, task)
    timed = [case for case in task.cases if case.weight > 0]
    console.print(f"{len(task.cases)} cases, {len(timed)} of them timed:", markup=False)
    for case in timed:
        console.print(f"  {case.weight:5.3f}  {case.id}  {case.role}", markup=False)


def _show_sums(console: Any, task: Task) -> None:
    """The sums whose order the gate finds by probing."""
    if not task.reductions:
        said = "nothing is summed" if task.reductions == () else "no sum is declared"
        console.print(f"{said}: `order` is unchecked", markup=False)
        return
    for one in task.reductions:
        words = f"  sum    {one.name:<16} {one.output} over {one.over}, {one.terms} in "
        words += " or ".join(one.carriers) + (f", and {one.carry}" if one.carry else "")
        console.print(words, markup=False)


def check_tasks(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TASK...", help="All when none is named.")
    ] = None,
    task_folders: options.TaskFolders = None,
    as_json: options.AsJson = False,
) -> None:
    """Read tasks and say what is wrong with them, without running anything."""
    from kernelsmith import catalog
    from kernelsmith.authoring.checks import check

    folders = options.folders(task_folders, config.load())
    found = {name: check(name, folders) for name in names or catalog.tasks(folders)}
    broken = [name for name, findings in found.items() if any(f.level == "error" for f in findings)]
    if as_json:
        fields = [{"task": name, "findings": findings} for name, findings in found.items()]
        printing.document("tasks_check", {"ok": not broken, "tasks": fields})
    else:
        for name, findings in found.items():
            for each in findings:
                hint = f" (hint: {each.hint})" if each.hint else ""
                print(f"{name}: {each.level}: {each.message}{hint}")
    if broken:
        raise TaskError(
            f"{len(broken)} task(s) with errors: {', '.join(broken)}",
            hint="each is named above with what to do about it",
        )
