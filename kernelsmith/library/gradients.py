"""How gradients of an op are wired: proposed from its call forms, kept only if they are right.

``backward`` takes tensors by names of its own. Which of the forward call's arguments and outputs
they are, and whose gradients it returns, is proposed from names, shapes and dtypes; then the seed
is asked. In float32, outputs of the forward call are weighted by drawn gradients and each tensor
argument is moved a little, both ways, in drawn directions: what ``backward`` returns for it must
tell how the weighted sum moves. A wrong wiring is off by as much as there is to see; rounding by a
thousandth of it. What cannot be told apart so is not wired.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelsmith import cases as forms
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.plans import output_meta
from kernelsmith.gate.subject import Ask, Outcome, Subject
from kernelsmith.model import ArgSpec, Call, Case, Inputs, OutputSpec, Task
from kernelsmith.numerics import recipes

Array = np.ndarray[Any, np.dtype[Any]]
Take = tuple[str, str]
DTYPE = "float32"
REGIME = "normal"
STEP = 2.0**-7
"""How far arguments are moved, in units of their own size: far enough that float32 shows it."""
DIRECTIONS = 3
TOLERANCE = 0.02
MOST_PROPOSALS = 64
SEED = 20_260_702


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A forward call form, a form of backward for it, and a case of each at the same sizes."""

    forward: Call
    backward: Call
    forward_case: Case
    backward_case: Case


def derive(bench: Bench, seed: Subject) -> dict[str, Any] | str:
    """The wiring as ``package._gradients`` takes it, or why there is none.

    Every forward call form of training must have a form of backward that is right for all of its
    arguments; there may be several, for gradients of more or of fewer outputs.
    """
    ahead, behind = _forms(bench.task)
    if not behind:
        return "no call form takes dNAME, the gradient of an output NAME of another"
    if len({call.entry for call in ahead}) != 1:
        return "there is not one forward entry for training"
    variants: list[dict[str, Any]] = []
    for call in ahead:
        backs = sorted(
            (back for back in behind if _gradients(call, back)),
            key=lambda back: (-len(_gradients(call, back)), back.name),
        )
        wired = [_try(bench, seed, call, back) for back in backs]
        right = [each for each in wired if not isinstance(each, str)]
        if not right:
            return str(wired[0]) if wired else f"no call form takes gradients of {call.name}"
        fullest = set(right[0]["differentiable"])
        variants += [each for each in right if set(each["differentiable"]) <= fullest]
    return {"forward": ahead[0].entry, "variants": variants}


def _forms(task: Task) -> tuple[list[Call], list[Call]]:
    """Training's call forms: those that go ahead, and those that take gradients of them. Forms
    that take the sums of an earlier part are left aside."""
    carried = {spec.carry for call in task.calls for spec in call.outputs if spec.carry}
    whole = [
        call
        for call in task.calls
        if call.path == "train"
        and not any(arg.name in carried and arg.kind != "none" for arg in call.args)
    ]
    behind = [back for back in whole if any(_gradients(call, back) for call in whole)]
    return [call for call in whole if call not in behind], behind


def _try(bench: Bench, seed: Subject, ahead: Call, back: Call) -> dict[str, Any] | str:
    """One wiring, if it is right."""
    task = bench.task
    strangers = {f"d{spec.name}" for call in _forms(task)[0] for spec in call.outputs} - {
        f"d{spec.name}" for spec in ahead.outputs
    }
    if any(arg.name in strangers and arg.kind == "tensor" for arg in back.args):
        return f"{back.name} takes gradients that {ahead.name} does not have"
    own = forms.forms_of(task)
    cases = [case for case in own.get((back.name, DTYPE), ()) if _fits(task, case)]
    if not cases:
        return f"{back.name} has no case in {DTYPE} to try its gradients on"
    like = min(cases, key=lambda case: [size for _, size in case.dims])
    dims = {**dict(like.dims), task.token_dim: min(5, max(2, task.token_range[1]))}
    pair = Pair(
        forward=ahead,
        backward=back,
        forward_case=forms.call_for(task, ahead.name, DTYPE, dims, REGIME),
        backward_case=forms.call_for(task, back.name, DTYPE, dims, REGIME),
    )
    return _wire(bench, seed, pair)


def _fits(task: Task, case: Case) -> bool:
    return task.token_dim in dict(case.dims)


def _gradients(ahead: Call, back: Call) -> dict[str, str]:
    """Arguments of ``back`` that are gradients of outputs of ``ahead``: name -> output."""
    outputs = {f"d{spec.name}": spec for spec in ahead.outputs}
    return {
        arg.name: outputs[arg.name].name
        for arg in back.args
        if arg.kind == "tensor"
        and arg.name in outputs
        and (arg.shape, arg.dtype) == (outputs[arg.name].shape, outputs[arg.name].dtype)
    }


def _proposals(pair: Pair) -> Iterator[dict[str, Take]] | str:
    """Ways to give ``backward`` its arguments, likeliest first."""
    arriving = _gradients(pair.forward, pair.backward)
    known: list[ArgSpec | OutputSpec] = [*pair.forward.args, *pair.forward.outputs]
    choices: list[list[Take]] = []
    for arg in pair.backward.args:
        if arg.kind == "none":
            choices.append([("none", "")])
        elif arg.name in arriving:
            choices.append([("gradient", arriving[arg.name])])
        elif arg.kind in ("int", "float"):
            choices.append(
                [("saved", one.name) for one in pair.forward.args if one.name == arg.name]
            )
        else:
            alike = [
                one.name
                for one in known
                if getattr(one, "kind", "tensor") == "tensor"
                and (one.shape, one.dtype) == (arg.shape, arg.dtype)
            ]
            alike.sort(key=lambda name: name != arg.name)  # stable: same name first
            choices.append([("saved", name) for name in alike])
        if not choices[-1]:
            return f"{pair.backward.name} takes {arg.name}, which {pair.forward.name} does not have"
    names = [arg.name for arg in pair.backward.args]
    ways = itertools.islice(itertools.product(*choices), MOST_PROPOSALS)
    return (dict(zip(names, way, strict=True)) for way in ways)


def _wire(bench: Bench, seed: Subject, pair: Pair) -> dict[str, Any] | str:
    proposals = _proposals(pair)
    if isinstance(proposals, str):
        return proposals
    trial = _try_forward(bench, seed, pair)
    if isinstance(trial, str):
        return trial
    for takes in proposals:
        returned = _go_back(bench, seed, pair, takes, trial)
        if isinstance(returned, str):
            return returned
        gives = {name: _giver(pair, name, moves, returned) for name, moves in trial.moves.items()}
        if all(giver is not None for giver in gives.values()):
            return _wiring(
                pair, takes, {name: str(giver) for name, giver in gives.items() if giver}
            )
    return (
        f"what {pair.backward.name} returns is not how the outputs of {pair.forward.name} move "
        "with its arguments, whichever of its tensors are kept for it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What the forward call showed. ``known``: arguments and outputs by name; ``weights``: the
    drawn gradients by output; ``moves``: argument -> (direction, change of the weighted sum)."""

    known: Mapping[str, Array]
    weights: Mapping[str, Array]
    moves: Mapping[str, Sequence[tuple[Array, float]]]


def _try_forward(bench: Bench, seed: Subject, pair: Pair) -> Trial | str:
    case, call, task = pair.forward_case, pair.forward, bench.task
    inputs = forms.inputs_for(task, case, SEED)
    drawn = {name: np.asarray(value) for name, value in recipes.draw(inputs).items()}
    moved = [spec.name for spec in inputs.tensors if spec.meta.dtype == DTYPE]
    random = np.random.default_rng(SEED)
    steps: list[tuple[str, Array]] = []
    for name in moved:
        size = float(np.sqrt(np.mean(np.square(drawn[name], dtype=np.float64)))) or 1.0
        for _ in range(DIRECTIONS):
            direction: Array = random.standard_normal(drawn[name].shape) * (size * STEP)
            steps.append((name, direction))
    asks = [_ask("here", case, inputs, {})]
    ends: list[tuple[Array, Array]] = []
    for number, (name, direction) in enumerate(steps):
        up = (drawn[name].astype(np.float64) + direction).astype(np.float32)
        down = (drawn[name].astype(np.float64) - direction).astype(np.float32)
        ends.append((up, down))
        asks.append(_ask(f"up{number}", case, inputs, {name: up}))
        asks.append(_ask(f"down{number}", case, inputs, {name: down}))
    outputs = _run(bench, seed, asks, call)
    if isinstance(outputs, str):
        return outputs
    weights = {
        name: np.asarray(random.standard_normal(outputs[0][name].shape), np.float32)
        for name in _gradients(call, pair.backward).values()
    }
    moves: dict[str, list[tuple[Array, float]]] = {name: [] for name in moved}
    for number, ((name, _), (up, down)) in enumerate(zip(steps, ends, strict=True)):
        before, after = outputs[2 + 2 * number], outputs[1 + 2 * number]
        change = sum(
            float(np.sum(weight.astype(np.float64) * (after[out].astype(np.float64) - before[out])))
            for out, weight in weights.items()
        )
        moves[name].append((up.astype(np.float64) - down, change))
    return Trial(known={**drawn, **outputs[0]}, weights=weights, moves=moves)


def _go_back(
    bench: Bench, seed: Subject, pair: Pair, takes: Mapping[str, Take], trial: Trial
) -> dict[str, Array] | str:
    inputs = forms.inputs_for(bench.task, pair.backward_case, SEED)
    given = {
        name: trial.weights[source] if kind == "gradient" else trial.known[source]
        for name, (kind, source) in takes.items()
        if kind == "gradient" or (kind == "saved" and source in trial.known)
    }
    found = _run(bench, seed, [_ask("back", pair.backward_case, inputs, given)], pair.backward)
    return found if isinstance(found, str) else found[0]


def _giver(
    pair: Pair, argument: str, moves: Sequence[tuple[Array, float]], returned: Mapping[str, Array]
) -> str | None:
    """The output of ``backward`` that is the gradient of an argument; "" where the argument has
    none, because nothing moves with it; None where no output explains what was seen."""
    spec = next(arg for arg in pair.forward.args if arg.name == argument)
    alike = [out for out in pair.backward.outputs if out.shape == spec.shape]
    alike.sort(key=lambda out: out.name != f"d{argument}")
    for out in alike:
        gradient = returned[out.name].astype(np.float64)
        scale = float(np.linalg.norm(gradient)) * float(
            np.mean([np.sqrt(np.mean(direction**2)) for direction, _ in moves])
        )
        if np.isfinite(scale) and all(
            abs(float(np.sum(gradient * direction)) - change) <= TOLERANCE * scale
            for direction, change in moves
        ):
            return out.name
    return "" if all(change == 0.0 for _, change in moves) else None


def _wiring(pair: Pair, takes: Mapping[str, Take], gives: Mapping[str, str]) -> dict[str, Any]:
    kinds = {"tensor": "tensor", "none": "none", "int": "number", "float": "number"}
    return {
        "call": pair.forward.name,
        "forward": pair.forward.entry,
        "backward": pair.backward.entry,
        "args": [arg.name for arg in pair.forward.args],
        "kinds": [kinds[arg.kind] for arg in pair.forward.args],
        "outputs": [spec.name for spec in pair.forward.outputs],
        "differentiable": sorted(_gradients(pair.forward, pair.backward).values()),
        "takes": {name: list(take) for name, take in takes.items()},
        "returns": [spec.name for spec in pair.backward.outputs],
        "gives": dict(gives),
    }


def _ask(key: str, case: Case, inputs: Inputs, values: Mapping[str, Array]) -> Ask:
    """One run; ``values`` in place of what would be drawn."""
    files = tuple((f"{key}-{name}.bin", value.tobytes()) for name, value in values.items())
    names = {name: file for name, (file, _) in zip(values, files, strict=True)}
    tensors = tuple(replace(spec, file=names.get(spec.name)) for spec in inputs.tensors)
    return Ask(key=key, case=case, inputs=replace(inputs, tensors=tensors), files=files)


def _run(
    bench: Bench, seed: Subject, asks: Sequence[Ask], call: Call
) -> list[dict[str, Array]] | str:
    """Outputs by name of each run, or how the seed failed."""
    found = bench.prepare(seed, [asks[0].case])
    done = found if found.status is not None else bench.execute(seed, asks)
    if isinstance(done, Outcome):
        return f"the seed fails while its gradients are tried: {done.message}"
    shown = []
    for execution in done:
        by_name = {}
        for spec, data in zip(call.outputs, execution.outputs, strict=True):
            meta = output_meta(spec, asks[0].case)
            if meta.dtype == "bfloat16":
                return f"output {spec.name} of {call.name} is {meta.dtype} whatever goes in"
            by_name[spec.name] = np.frombuffer(data, np.dtype(meta.dtype)).reshape(meta.shape)
        shown.append(by_name)
    return shown
