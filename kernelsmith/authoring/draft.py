"""Drafts a task of a seed: asks what has to be known and puts it together. Writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.authoring import proposals, spelling
from kernelsmith.authoring.facts import TASK_NAME, Entry, Parameter, SeedFacts
from kernelsmith.authoring.forms import Described, call_forms, returned_by
from kernelsmith.authoring.questions import Inquiry, Question
from kernelsmith.authoring.spelling import Argument
from kernelsmith.errors import InputError
from kernelsmith.model import Call

DEVICES = ("cpu", "cuda")
USUAL_TOKENS = {"cpu": "0:300", "cuda": "0:2048"}
PATHS = ("train", "infer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A task to be written. ``sizes``: what each dimension but the token's may be, the most used
    first; ``strided``: every tensor of two or more dimensions is read by its strides."""

    name: str
    summary: str
    seed_file: str
    entries: tuple[str, ...]
    calls: tuple[Call, ...]
    token_dim: str
    token_ranges: Mapping[str, tuple[int, int]]
    sizes: Mapping[str, tuple[int, ...]]
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]
    strided: bool


def choose_entries(facts: SeedFacts, named: Sequence[str], file: str) -> tuple[Entry, ...]:
    """The entries that a task is of.

    Raises:
        InputError: the file has none, or not the one that was named, or a name no task can say.
    """
    known = {entry.name: entry for entry in facts.entries}
    for name in named:
        if name not in known:
            raise InputError(
                f"{file} has no public function {name!r} that launches a kernel",
                hint="entries: " + (", ".join(known) or "none"),
            )
    if not known:
        quiet = ", ".join(facts.quiet) or "none"
        raise InputError(
            f"{file} has no entry: no public function launches a kernel "
            f"(kernels: {', '.join(facts.kernels) or 'none'}; other public functions: {quiet})",
            hint="write a function, in no class, such as forward_train(x, ...) that allocates its "
            "outputs with x.new_empty(...), launches kernel[grid](...) and returns them",
        )
    chosen = [known[name] for name in dict.fromkeys(named)] if named else list(known.values())
    for entry in chosen:
        arguments = entry.function.args
        if (
            not entry.parameters
            or arguments.posonlyargs
            or arguments.kwonlyargs
            or (arguments.vararg or arguments.kwarg)
        ):
            raise InputError(
                f"{entry.name} of {file}: an entry takes plain parameters, one at least",
                hint="write them out as in forward(x, weight, eps), without *, / and **",
            )
        for name in (entry.name, *(each.name for each in entry.parameters)):
            if not TASK_NAME.fullmatch(name):
                raise InputError(
                    f"{entry.name} of {file}: a task cannot name {name!r}",
                    hint="entries and their parameters are lower case: x, dy, row_max",
                )
    return tuple(chosen)


def make_draft(
    name: str, seed_file: str, facts: SeedFacts, entries: Sequence[Entry], inquiry: Inquiry
) -> Draft:
    """The draft that the answers give.

    Raises:
        InputError: an answer that does not read, fits nothing, or is missing.
    """
    described: list[Described] = []
    for entry in entries:
        described.append(_describe(entry, _known(described), inquiry))
    token_dim = _token_dim(described, inquiry)
    calls: list[Call] = []
    for each in described:
        calls += call_forms(each, token_dim, calls, inquiry)
    sizes = _sizes(calls, token_dim, inquiry)
    dtypes = inquiry.answer(
        ("--dtype ",),
        Question(
            flag="--dtype ",
            text="dtypes of the cases, the most used first",
            proposal="bfloat16,float32",
            why="usual",
        ),
        lambda text: tuple(dict.fromkeys(spelling.float_dtype(part) for part in text.split(","))),
    )
    devices = inquiry.answer(
        ("--device ",),
        Question(
            flag="--device ", text="devices with cases", proposal="cpu,cuda", why="all there are"
        ),
        _devices,
    )
    ranges = _ranges(devices or (), token_dim, inquiry)
    inquiry.require_all()
    wide = [
        parameter
        for each in described
        for parameter in each.entry.parameters
        if len(each.args[parameter.name].shape) > 1
    ]
    return Draft(
        name=name,
        summary=facts.summary or f"{name}, brought from {seed_file}",
        seed_file=seed_file,
        entries=tuple(entry.name for entry in entries),
        calls=tuple(calls),
        token_dim=token_dim,
        token_ranges=ranges,
        sizes=sizes,
        dtypes=dtypes or (),
        devices=devices or (),
        strided=all(parameter.strided for parameter in wide),
    )


def _known(described: Sequence[Described]) -> dict[str, tuple[str, str]]:
    """(text, why) of names that earlier entries take or return: a later one means the same."""
    found: dict[str, tuple[str, str]] = {}
    for each in described:
        for name, argument in each.args.items():
            if argument.kind != "none":
                found.setdefault(name, (spelling.written(argument), f"as in {each.entry.name}"))
        for output in returned_by(each, ()) or ():
            shape = output.tensor.shape if output.tensor is not None else None
            if output.tensor is not None and shape is not None and None not in shape:
                known = tuple(size for size in shape if size is not None)
                text = spelling.shown(known, output.tensor.dtype)
                found.setdefault(output.name, (text, f"as {each.entry.name} returns it"))
    return found


def _describe(entry: Entry, known: Mapping[str, tuple[str, str]], inquiry: Inquiry) -> Described:
    proposal, why = proposals.paths(entry)
    flag = f"--path {entry.name}="
    paths = inquiry.answer(
        (flag,),
        Question(
            flag=flag,
            text=f"path of {entry.name}: train, infer or both",
            proposal=proposal,
            why=why,
        ),
        _paths,
    )
    args = {}
    for parameter in entry.parameters:
        found = _argument(entry, parameter, known, inquiry)
        args[parameter.name] = found or spelling.Argument(kind="none")
    return Described(entry=entry, paths=paths or (), args=args)


def _argument(
    entry: Entry,
    parameter: Parameter,
    known: Mapping[str, tuple[str, str]],
    inquiry: Inquiry,
) -> Argument | None:
    proposal, why = proposals.argument(entry, parameter)
    if not why and parameter.name in known:
        proposal, why = known[parameter.name]
        mark = "?" if parameter.optional and parameter.tensor else ""
        proposal = proposal.replace("?", "").replace("@", f"{mark}@", 1)
        proposal += mark if "@" not in proposal else ""
    own, shared = f"--arg {entry.name}:{parameter.name}=", f"--arg {parameter.name}="
    kind = "shape and dtype of" if parameter.tensor else "value of"
    may = " (may be None)" if parameter.optional else ""
    question = Question(
        flag=own, text=f"{kind} {parameter.name}{may} in {entry.name}", proposal=proposal, why=why
    )
    return inquiry.answer((own, shared), question, spelling.argument)


def _paths(text: str) -> tuple[str, ...]:
    words = text.replace("both", "train,infer").split(",")
    found = tuple(dict.fromkeys(word.strip() for word in words))
    if not set(found) <= set(PATHS):
        raise InputError(f"{text!r} is no path", hint="write train, infer or train,infer")
    return found


def _devices(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if not set(found) <= set(DEVICES):
        raise InputError(f"{text!r} is no device", hint="write cpu, cuda or cpu,cuda")
    return found


def _token_dim(described: Sequence[Described], inquiry: Inquiry) -> str:
    first = [
        (each.entry.name, name, argument.shape[0])
        for each in described
        for name, argument in each.args.items()
        if argument.shape and isinstance(argument.shape[0], str)
    ]
    entry, name, dim = first[0] if first else ("", "", "M")
    why = f"the first dimension of {name} in {entry}" if first else ""
    known = {str(size) for each in described for a in each.args.values() for size in a.shape}

    def read(text: str) -> str:
        if first and text.strip() not in known:
            raise InputError(
                f"no argument has a dimension {text!r}", hint="dimensions: " + ", ".join(known)
            )
        return text.strip()

    question = Question(
        flag="--token-dim ", text="the dimension that counts tokens", proposal=str(dim), why=why
    )
    return inquiry.answer(("--token-dim ",), question, read) or "M"


def _sizes(calls: Sequence[Call], token_dim: str, inquiry: Inquiry) -> dict[str, tuple[int, ...]]:
    shapes = [arg.shape for call in calls for arg in call.args]
    shapes += [output.shape for call in calls for output in call.outputs]
    dims = [arg.dim for call in calls for arg in call.args if arg.dim is not None]
    names = [dim for shape in shapes for dim in shape if isinstance(dim, str)] + dims
    last = {shape[-1] for shape in shapes if shape}
    found = {}
    for name in dict.fromkeys(names):
        if name == token_dim:
            continue
        flag = f"--dim {name}="
        question = Question(
            flag=flag,
            text=f"sizes of {name}, the most used first",
            proposal="1024" if name in last else "16",
            why="a common size; name yours",
        )
        found[name] = inquiry.answer((flag,), question, spelling.sizes) or (1,)
    return found


def _ranges(devices: Sequence[str], token_dim: str, inquiry: Inquiry) -> dict[str, tuple[int, int]]:
    found = {}
    for device in devices:
        question = Question(
            flag="--tokens ",
            text=f"fewest and most {token_dim} (tokens of a call) on {device}",
            proposal=USUAL_TOKENS[device],
            why=f"usual on {device}",
        )
        found[device] = inquiry.answer(("--tokens ",), question, spelling.token_range) or (0, 1)
    return found
