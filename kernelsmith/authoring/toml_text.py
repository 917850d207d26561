"""The text of a task file, with comments that say what each part is for."""

import json
import textwrap
from collections.abc import Mapping, Sequence

from kernelsmith.authoring.blocks import Block
from kernelsmith.authoring.draft import Draft
from kernelsmith.model import ArgSpec, Call, OutputSpec
from kernelsmith.numerics.recipes import RECIPES

PROGRAMS = {"cpu": 4, "cuda": 132}
"""Programs of a persistent grid: threads of a small machine, SMs of an H100."""


def render(draft: Draft, blocks: Mapping[str, Sequence[Block]]) -> str:
    """The file; it loads as it is."""
    parts = [_head(draft)]
    parts += ["# " + "-" * 87 + " call forms\n" + _CALLS, *(_call(call) for call in draft.calls)]
    parts.append("# " + "-" * 87 + " reductions\n" + _REDUCTIONS)
    for device in draft.devices:
        parts.append(_device(draft, device))
        timed = False
        for block in blocks[device]:
            note = ""
            if block.weight and not timed:
                timed, note = True, _TIMED
            parts.append(note + case_block(block, device))
    return "\n".join(parts)


def quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")


def _list(values: Sequence[str | int]) -> str:
    return "[" + ", ".join(quoted(v) if isinstance(v, str) else str(v) for v in values) + "]"


def _head(draft: Draft) -> str:
    dims = ", ".join((f"{draft.token_dim} (tokens)", *draft.sizes))
    return f"""\
# A task: what kernelsmith is to make faster. Written by `kernelsmith tasks new`, yours to change;
# `kernelsmith tasks check {draft.name}` says what is missing or unsound. Dimensions: {dims}.

name = {quoted(draft.name)}
summary = {quoted(draft.summary)}
seed = {quoted(draft.seed_file)}  # the reference, beside this file: its bits are the right ones
entries = {_list(draft.entries)}
token_dim = {quoted(draft.token_dim)}  # the dimension whose index is a token

[limits]
min_gain = 0.01  # a winner is faster by more than this
max_regress = 0.03  # and no timed case is slower by more than this
"""


_RECIPES = textwrap.fill(
    ", ".join(RECIPES) + ".",
    100,
    initial_indent="#            ",
    subsequent_indent="#            ",
)
_CALLS = f"""\
# How an entry is called. Forms of one `variant` belong together: their `row` outputs of one name
# must have equal bits for the same token, on both paths and in any batch.
#   args     the entry's parameters in order. kind: tensor, int, float (value or dim), none.
#            dtype "T" is the case's. recipe: how the values are drawn, one of
{_RECIPES}
#   outputs  what the entry returns, in order. class "row": a function of one token (the token
#            dimension comes first). class "batch": a sum over tokens; block = tokens of one step
#            of the sum, carry = the argument that takes the sum of a batch's earlier part,
#            carry_call = the form that is called with it. Without them the gate cannot cut the
#            batch, and lists that as not checked.
#   flops    operations that no implementation can leave out, as [[2, "M", "N"]]: 2*M*N. Optional;
#            a time below what they take is refused as a failed measurement.
"""


_REDUCTIONS = """\
# The sums in the entries, so that the gate finds their order by probing and holds rewrites to it;
# until they are declared `order` is printed as unchecked. If nothing is summed, say so by
# `reductions = []` above [limits]. One block a sum, such as y [M, N] = sum over K of x [M, K] * w:
#
# [[reductions]]
# name = "y_over_k"
# calls = ["train", "infer"]  # call forms that make it
# output = "y"                # where it is read
# over = "K"                  # the dimension that is summed over
# terms = "values"            # or "squares" (v * v), "exps" (exp(v - largest)), "weighted_exps"
# carriers = ["x", "w"]       # arguments whose elements are the terms, each in turn; the rest of
#                             # them is held at one meanwhile. Two dimensions: `over` and another
# ones = []                   # further tensors that are held at one
# zeros = ["bias"]            # and at zero
#
# carry = "dw_carry": a tensor that enters as one more term, the sum of a batch's earlier part.
# index = "target": an integer tensor that picks an element. sizes = { cuda = [4096] }: sizes of
# `over` that are verified term by term, all by default. `kernelsmith order` shows what is found.
"""


def _call(call: Call) -> str:
    args = "".join(f"  {_arg(arg)},\n" for arg in call.args)
    outputs = "".join(f"  {_output(output)},\n" for output in call.outputs)
    return (
        "[[calls]]\n"
        f"name = {quoted(call.name)}\nvariant = {quoted(call.variant)}\n"
        f"entry = {quoted(call.entry)}\npath = {quoted(call.path)}\n"
        f"args = [\n{args}]\noutputs = [\n{outputs}]\n"
    )


def _arg(arg: ArgSpec) -> str:
    parts = [f"name = {quoted(arg.name)}", f"kind = {quoted(arg.kind)}"]
    if arg.kind == "tensor":
        parts += [f"shape = {_list(arg.shape)}", f"dtype = {quoted(arg.dtype)}"]
        parts.append(f"recipe = {quoted(arg.recipe)}")
    elif arg.dim is not None:
        parts.append(f"dim = {quoted(arg.dim)}")
    elif arg.value is not None:
        parts.append(f"value = {arg.value!r}")
    return "{ " + ", ".join(parts) + " }"


def _output(output: OutputSpec) -> str:
    parts = [
        f"name = {quoted(output.name)}",
        f"class = {quoted(output.cls)}",
        f"shape = {_list(output.shape)}",
        f"dtype = {quoted(output.dtype)}",
    ]
    if output.block is not None and output.carry is not None and output.carry_call is not None:
        parts.append(f"block = {output.block}")
        parts.append(f"carry = {quoted(output.carry)}, carry_call = {quoted(output.carry_call)}")
    return "{ " + ", ".join(parts) + " }"


def _device(draft: Draft, device: str) -> str:
    low, high = draft.token_ranges[device]
    ranges = ", ".join(f"{name} = {_list(sizes)}" for name, sizes in draft.sizes.items())
    return f"""\
# {"-" * (97 - len(device))} {device}
# A rewrite must handle every number of tokens in token_range, and the gate draws hidden sizes
# from it and from ranges. A block of cases stands for every combination of what it lists.

[devices.{device}]
num_programs = {PROGRAMS[device]}  # what an entry's last parameter num_programs gets, if it has it
token_range = [{low}, {high}]
ranges = {{ {ranges} }}
"""


_TIMED = """\
# Timed: what your steps spend their time in, at most 12 cases. Weights are shares and sum to 1;
# `kernelsmith tasks import` takes them from a histogram of real calls.
"""


def case_block(block: Block, device: str) -> str:
    """One ``[[devices.DEVICE.cases]]`` of a task file."""
    note = "".join(f"# {line}\n" for line in block.note.splitlines())
    dims = ", ".join(
        f"{name} = {_list(size) if isinstance(size, tuple) else size}"
        for name, size in block.dims.items()
    )
    lines = [
        f"calls = {_list(block.calls)}",
        f"dtypes = {_list(block.dtypes)}",
        f"dims = {{ {dims} }}",
        f"regimes = {_list(block.regimes)}",
    ]
    if block.weight:
        lines.append(f"weight = {block.weight:g}")
    if block.pad:
        lines.append(f"row_stride_pad = {block.pad}")
    if block.role:
        lines.append(f"role = {quoted(block.role)}")
    return f"{note}[[devices.{device}.cases]]\n" + "\n".join(lines) + "\n"
