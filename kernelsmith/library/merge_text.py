"""The text of a merged module: the winners' functions renamed apart, and the dispatch."""

import ast
from collections.abc import Mapping, Sequence

from kernelsmith.library import merge_choice, merge_parts
from kernelsmith.library.merge_choice import Split, Tree
from kernelsmith.library.merge_parts import Parts
from kernelsmith.model import Task

TAG_CHARACTERS = 6
IMPORTS = "import torch\nimport triton\nimport triton.language as tl"


def source(task: Task, read: Mapping[str, Parts], trees: Mapping[str, Tree]) -> str:
    """The module's text: equal arguments, equal bytes.

    Args:
        read: the winners that the trees lead to, in order, by id.
        trees: entry -> which winner for which shapes.
    """
    needed = {name: _needed(read[name], name, trees) for name in read}
    names = _names(task, read, needed, trees)
    imported = {
        each
        for name, own in needed.items()
        for each in read[name].imported
        if any(each in _mentions(read[name], part) for part in own)
    }
    lang = f"\n\nfrom {merge_parts.LANG} import {', '.join(sorted(imported))}" if imported else ""
    docstring = _docstring(next(iter(read.values())).docstring, list(read))
    blocks = [f"{docstring}\n\n{IMPORTS}{lang}"]
    done: set[str] = set()
    for name, own in needed.items():
        for part in own:
            program = read[name].parts[part].program
            if program not in done:
                done.add(program)
                blocks.append(merge_parts.written(read[name], part, names[name]))
    for entry in task.entries:
        if isinstance(trees[entry], Split):
            blocks.append(_dispatch(entry, read, names, trees[entry]))
    return "\n\n\n".join(blocks) + "\n"


def _needed(parts: Parts, name: str, trees: Mapping[str, Tree]) -> list[str]:
    entries = [entry for entry, found in trees.items() if name in merge_choice.leaves(found)]
    reached = {each for entry in entries for each in merge_parts.reached(parts, entry)}
    return [each for each in parts.parts if each in reached]


def _names(
    task: Task,
    read: Mapping[str, Parts],
    needed: Mapping[str, list[str]],
    trees: Mapping[str, Tree],
) -> dict[str, dict[str, str]]:
    """winner -> old name -> new name. A name keeps to itself where it means one program alone."""
    used = [(name, part) for name, own in needed.items() for part in own]
    programs: dict[str, dict[str, str]] = {}
    for name, part in used:
        programs.setdefault(part, {}).setdefault(read[name].parts[part].program, name)
    taken = {each for parts in read.values() for each in parts.imported}
    taken.update(each for name, part in used for each in read[name].parts[part].bound)
    new: dict[str, str] = {}
    busy = taken | set(programs) | set(task.entries)
    for part, owners in programs.items():
        found = trees.get(part)
        kept = None if isinstance(found, Split) or part in taken else next(iter(owners))
        if isinstance(found, str):
            kept = read[found].parts[part].program
        elif len(owners) > 1:
            kept = None
        for program, owner in owners.items():
            new[program] = part if program == kept else _tagged(part, owner, busy)
            busy.add(new[program])
    return {
        name: {part: new[read[name].parts[part].program] for part in own}
        for name, own in needed.items()
    }


def _tagged(part: str, owner: str, busy: set[str]) -> str:
    for count in range(TAG_CHARACTERS, len(owner)):
        if f"{part}_{owner[:count]}" not in busy:
            return f"{part}_{owner[:count]}"
    return f"{part}_{owner}"


def _mentions(parts: Parts, part: str) -> set[str]:
    return {each.id for each in ast.walk(parts.parts[part].node) if isinstance(each, ast.Name)}


def _docstring(text: str, used: Sequence[str]) -> str:
    told = (
        f"Merged from {', '.join(used)}: each entry takes, by shape, the one\n"
        "that was fastest on the timed cases next to it."
    )
    if len(text) > 6 and text.startswith('"""') and text.endswith('"""'):
        return f'{text[:-3].rstrip()}\n\n{told}\n"""'
    return f'"""{told}\n"""'


def _dispatch(
    entry: str, read: Mapping[str, Parts], names: Mapping[str, Mapping[str, str]], found: Tree
) -> str:
    """An entry that asks for the shape and calls a winner's."""
    parts = read[merge_choice.leaves(found)[0]]
    node = merge_parts.function(parts, entry)
    keyword_only = {each.arg for each in node.args.kwonlyargs}
    given = ", ".join(
        f"{each.arg}={each.arg}" if each.arg in keyword_only else each.arg
        for each in merge_parts.parameters(node)
    )
    lines = [f"def {entry}({ast.unparse(node.args)}):"]
    if ast.get_docstring(node) is not None:
        lines.append("    " + (ast.get_source_segment(parts.source, node.body[0]) or ""))

    def write(part: Tree, indent: str) -> None:
        if isinstance(part, str):
            lines.append(f"{indent}return {names[part][entry]}({given})")
            return
        lines.append(f"{indent}if {part.test}:")
        write(part.then, indent + "    ")
        write(part.other, indent)

    write(found, "    ")
    return "\n".join(lines)
