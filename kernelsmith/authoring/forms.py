"""The call forms of an entry: with and without what may be None, and those that go on with sums."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernelsmith.authoring import proposals, spelling
from kernelsmith.authoring.facts import TASK_NAME, Entry
from kernelsmith.authoring.host_walk import Returned, Tensor, returned
from kernelsmith.authoring.questions import Inquiry, Question
from kernelsmith.authoring.spelling import Argument, Output
from kernelsmith.errors import InputError
from kernelsmith.model import ArgSpec, Call, OutputSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An entry, its paths and its arguments."""

    entry: Entry
    paths: tuple[str, ...]
    args: Mapping[str, Argument]


def call_forms(
    each: Described, token_dim: str, before: Sequence[Call], inquiry: Inquiry
) -> list[Call]:
    """Call forms of an entry: plain, one for each optional argument, and forms that continue the
    sums of a batch's earlier part."""
    optional = [name for name, argument in each.args.items() if argument.optional]
    taken = {call.name for call in before}
    cache: dict[str, Output] = {}
    plain = _outputs(each, (), token_dim, cache, inquiry)
    carries = {output.carry for _, output in plain if output.carry}
    carries |= {name for name in optional if name.endswith("_carry")}
    found: list[Call] = []
    for given in (None, *[name for name in optional if name not in carries]):
        present = () if given is None else (given,)
        outputs = plain if given is None else _outputs(each, present, token_dim, cache, inquiry)
        for path in each.paths:
            name = _call_name(each, path, given, taken)
            taken.add(name)
            call = _form(each, name, given or "plain", path, present, outputs, token_dim)
            carried = tuple(output.carry for _, output in outputs if output.carry)
            if not carried:
                found.append(call)
                continue
            for argument in carried:
                if not each.args.get(argument, Argument(kind="none")).optional:
                    raise InputError(
                        f"{each.entry.name}: the carry {argument!r} is no argument that may be "
                        "None",
                        hint=f"--arg {each.entry.name}:{argument}=float32[…]? and a parameter "
                        "that the code asks for None",
                    )
            continued = tuple(
                replace(output, carry_call=f"{name}_carry") if output.carry else output
                for output in call.outputs
            )
            taken.add(f"{name}_carry")
            found.append(replace(call, outputs=continued))
            later = _form(
                each, f"{name}_carry", call.variant, path, (*present, *carried), outputs, token_dim
            )
            found.append(replace(later, outputs=continued))
    return found


def _call_name(each: Described, path: str, variant: str | None, taken: set[str]) -> str:
    short = re.sub(r"^forward(_|$)", "", each.entry.name)
    if len(each.paths) > 1:
        name = f"{short}_{path}" if short else path
    else:
        name = short or path
    name = f"{variant}_{name}" if variant else name
    return name if name not in taken else f"{name}_of_{each.entry.name}"


def _form(
    each: Described,
    name: str,
    variant: str,
    path: str,
    present: Sequence[str],
    outputs: Sequence[tuple[str, Output]],
    token_dim: str,
) -> Call:
    return Call(
        name=name,
        variant=variant,
        entry=each.entry.name,
        path="train" if path == "train" else "infer",
        args=tuple(
            _spec(arg, argument, arg in present, token_dim) for arg, argument in each.args.items()
        ),
        outputs=tuple(
            OutputSpec(
                name=out,
                cls=output.cls,
                shape=output.shape,
                dtype=output.dtype,
                block=output.block,
                carry=output.carry,
            )
            for out, output in outputs
        ),
    )


def _spec(name: str, argument: Argument, given: bool, token_dim: str) -> ArgSpec:
    if argument.kind == "none" or (argument.optional and not given):
        return ArgSpec(name=name, kind="none")
    if argument.kind == "dim":
        return ArgSpec(name=name, kind="int", dim=argument.dim)
    if argument.kind != "tensor":
        return ArgSpec(name=name, kind=argument.kind, value=argument.value)
    drawn = proposals.recipe(argument.shape, argument.dtype, name, token_dim)
    drawn = "carry" if name.endswith("_carry") else drawn
    return ArgSpec(
        name=name,
        kind="tensor",
        shape=argument.shape,
        dtype=argument.dtype,
        recipe=argument.recipe or drawn,
    )


def returned_by(each: Described, present: Sequence[str]) -> tuple[Returned, ...] | None:
    """What the entry returns with these optional arguments; None where the walk cannot tell."""
    arguments: dict[str, Tensor | None] = {}
    for name, argument in each.args.items():
        if argument.kind == "none" or (argument.optional and name not in present):
            arguments[name] = None
        elif argument.kind == "tensor":
            arguments[name] = Tensor(shape=argument.shape, dtype=argument.dtype)
    return returned(each.entry.function, arguments, each.entry.host)


def _outputs(
    each: Described,
    present: Sequence[str],
    token_dim: str,
    cache: dict[str, Output],
    inquiry: Inquiry,
) -> list[tuple[str, Output]]:
    """Outputs of an entry called with these optional arguments. ``cache`` keeps the answers."""
    entry = each.entry
    walked = returned_by(each, present)
    told = {one.name: one.tensor for one in walked or ()}
    flag = f"--returns {entry.name}="
    if flag in inquiry.given or walked is None:
        names = inquiry.answer(
            (flag,),
            Question(
                flag=flag,
                text=f"names of what {entry.name} returns, in order",
                proposal=",".join(told) or "y",
                why="",
            ),
            lambda text: tuple(part.strip() for part in text.split(",")),
        )
    else:
        names = tuple(one.name for one in walked)
    if len(set(names or ())) != len(names or ()):
        raise InputError(
            f"{entry.name} returns {', '.join(names or ())}: two outputs of one name",
            hint=f"return them from different locals, or name them: {flag}y,row_max",
        )
    for name in names or ():
        if name not in cache:
            cache[name] = _output(each, name, told.get(name), token_dim, inquiry) or Output(
                cls="batch", shape=(), dtype="T"
            )
    return [(name, cache[name]) for name in names or ()]


def _output(
    each: Described, name: str, tensor: Tensor | None, token_dim: str, inquiry: Inquiry
) -> Output | None:
    if not TASK_NAME.fullmatch(name):
        raise InputError(
            f"{each.entry.name} returns {name!r}, which a task cannot name",
            hint="return locals in lower case: y, row_max",
        )
    proposal, why = f"row:T[{token_dim}]", ""
    if tensor is not None and tensor.shape is not None and None not in tensor.shape:
        shape = tuple(size for size in tensor.shape if size is not None)
        cls, why = proposals.output_class(shape, token_dim)
        proposal = f"{cls}:{spelling.shown(shape, tensor.dtype)}"
        if cls == "batch" and f"{name}_carry" in each.args:
            # The block of the sum is nowhere to be read: a person has to say it.
            proposal, why = f"{proposal}:block=32:carry={name}_carry", ""
    own, shared = f"--output {each.entry.name}:{name}=", f"--output {name}="
    question = Question(
        flag=own, text=f"class, dtype and shape of output {name} of {each.entry.name}",
        proposal=proposal, why=why,
    )  # fmt: skip
    return inquiry.answer((own, shared), question, spelling.output)
