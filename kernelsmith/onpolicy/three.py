"""Three runs: two rollouts of the same prompts and weights, then the trainer's forward on A's ids.

A beside B asks the state (does the environment answer the same acts in the same way?), then the
tokens (does the sampler draw the same?), then the log-probs (does it compute the same?). A beside C
asks the tokens (was the trainer given A's ids?) and the log-probs (does the trainer compute what
the sampler did?). The first broken layer is named; layers behind it are ``undecidable``.

A provider that gives no ids or no log-probs leaves state and bytes: the layers that it leaves out
are ``not applicable``, and no verdict of on-policy comes of what was not seen.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelsmith.onpolicy.audit import Audit, Status, Verdict, audit
from kernelsmith.onpolicy.evidence import Place
from kernelsmith.onpolicy.faults import merged
from kernelsmith.onpolicy.model import LAYERS, Dump, Fault, Layer

Opened = Callable[[], Dump]
"""Opens a dump anew: A is read twice."""

_CUT = ("truncated", "malformed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Three:
    """What three runs say. ``rollouts``: A beside B. ``forward``: A beside C, None without a C.

    ``broken_in``: the comparison that broke the layer.
    """

    verdict: Verdict
    broken_layer: Layer | None
    broken_in: str | None
    layers: tuple[tuple[Layer, Status], ...]
    rollouts: Audit
    forward: Audit | None
    notes: tuple[str, ...]

    @property
    def comparisons(self) -> tuple[tuple[str, Audit], ...]:
        """Both comparisons by name."""
        return _comparisons(self.rollouts, self.forward)

    @property
    def broken_place(self) -> Place | None:
        """Where the first broken layer broke first."""
        return (
            None if self.broken_in is None else dict(self.comparisons)[self.broken_in].broken_place
        )


def three(a: Opened, b: Opened, c: Opened | None) -> Three:
    """Audits three runs.

    Args:
        a: the first rollout's dump.
        b: the second's, of the same prompts and weights.
        c: the trainer's log-probs of A's ids; None where a provider gives nothing to compute on.
    """
    rollouts = _parted(_tolerant(audit(a(), b())))
    forward = None if c is None else audit(a(), c())
    compared = _comparisons(rollouts, forward)
    broken: list[tuple[Layer, str]] = [
        (layer, name)
        for layer in LAYERS
        for name, found in compared
        if found.status(layer) == "broken"
    ]
    layer, where = broken[0] if broken else (None, None)
    layers = tuple((one, _status(one, layer, rollouts, forward)) for one in LAYERS)
    confounded = any(found.confounded for _, found in compared)
    faults = merged(*(found.faults for _, found in compared))
    return Three(
        verdict=_verdict(layer, layers, faults),
        broken_layer=None if layer == "numeric" and confounded else layer,
        broken_in=where,
        layers=layers,
        rollouts=rollouts,
        forward=forward,
        notes=tuple(_notes(layers, rollouts, forward)),
    )


def _comparisons(rollouts: Audit, forward: Audit | None) -> tuple[tuple[str, Audit], ...]:
    both = (("A beside B", rollouts), ("A beside C", forward))
    return tuple((name, found) for name, found in both if found is not None)


def _tolerant(found: Audit) -> Audit:
    """Two rollouts without log-probs are no fault: their numeric layer is not applicable."""
    if found.status("numeric") != "not recorded":
        return found
    return replace(found, faults=tuple(one for one in found.faults if one.kind != "empty"))


def _parted(found: Audit) -> Audit:
    """Two whole rollouts of which one has turns that the other lacks went different ways: that is
    the token layer's, unless the state broke before."""
    kinds = {fault.kind for fault in found.faults}
    if "missing_sequence" not in kinds or kinds & set(_CUT) or found.broken_layer in LAYERS[:2]:
        return found
    layers: dict[Layer, Status] = {**dict(found.layers), "token": "broken"}
    layers["numeric"] = "undecidable"
    return replace(found, verdict="off-policy", broken_layer="token", layers=tuple(layers.items()))


def _status(layer: Layer, broken: Layer | None, rollouts: Audit, forward: Audit | None) -> Status:
    if broken is not None and layer == broken:
        return "broken"
    if broken is not None and LAYERS.index(layer) > LAYERS.index(broken):
        return "undecidable"
    ours = rollouts.status(layer)
    if ours == "not recorded":
        return "not recorded" if layer == "state" else "not applicable"
    if layer == "numeric" and (forward is None or forward.status(layer) == "not recorded"):
        return "not recorded"  # two rollouts alone say nothing of the trainer
    return "equal"


def _verdict(
    broken: Layer | None, layers: tuple[tuple[Layer, Status], ...], faults: tuple[Fault, ...]
) -> Verdict:
    if broken is not None:
        return "off-policy"
    unknown = any(layer != "state" and status != "equal" for layer, status in layers)
    if unknown or any(fault.hides for fault in faults):
        return "undecidable"
    return "on-policy"


def _notes(
    layers: tuple[tuple[Layer, Status], ...], rollouts: Audit, forward: Audit | None
) -> list[str]:
    status = dict(layers)
    notes = []
    if status["state"] == "not recorded":
        notes.append("no run has digests of state or tool results: the state was not looked at")
    if status["token"] == "not applicable":
        notes.append("the provider gives no token ids: tokens are not applicable, bytes are")
    if status["numeric"] == "not applicable":
        notes.append("the provider gives no log-probs: the numeric layer is not applicable")
    if forward is None:
        notes.append("there is no third run: the trainer was not asked")
    elif status["token"] == "equal" and forward.status("token") == "not recorded":
        notes.append("run C has no token ids: that they are A's was not looked at")
    early = rollouts.figures.not_one
    if status["token"] == "broken" and early:
        notes.append(
            f"before the tokens of A and B part {early:,} of {rollouts.figures.tokens:,} log-probs "
            "differ already: the sampler does not compute the same twice"
        )
    return notes
