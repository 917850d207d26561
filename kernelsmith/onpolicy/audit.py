"""The audit of two dumps: one pass, three layers, one verdict.

Layers are asked in order: state (sandbox digests, tool results), token (ids, masks, lengths, raw
tool-call bytes), numeric (log-probs). A layer after the first broken one is ``undecidable``: other
tokens have other log-probs whatever the kernels do. ``broken_layer`` is the first layer in which a
break was *seen*; what was not recorded is said beside it and not ruled out, except that equal ids
rule out the layers before the numeric one.

The verdict is ``off-policy`` where a break was seen, else ``undecidable`` where a fault hides
tokens or nothing was compared, else ``on-policy``: every pair of log-probs bit-equal as stored.
"""

from dataclasses import dataclass
from typing import Literal

from kernelsmith.onpolicy.comparing import Compared, comparisons
from kernelsmith.onpolicy.disagreement import OtherIds, OtherMasks, end_of, other_ids, other_masks
from kernelsmith.onpolicy.distribution import Bin, Distribution
from kernelsmith.onpolicy.evidence import Evidence, FirstDifference, Place, Witness
from kernelsmith.onpolicy.faults import Faults, merged
from kernelsmith.onpolicy.metrics import Figures, Metrics
from kernelsmith.onpolicy.model import LAYERS, Dump, Fault, Header, Layer
from kernelsmith.onpolicy.pairing import Alone
from kernelsmith.onpolicy.trajectory import OtherState, Trajectories
from kernelsmith.onpolicy.watching import Watch

Placed = OtherIds | OtherMasks | OtherState | FirstDifference
Verdict = Literal["on-policy", "off-policy", "undecidable"]
Status = Literal["equal", "broken", "undecidable", "not recorded", "not applicable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What two dumps have to do with each other.

    ``layers`` in the order in which they are asked. ``unseen``: trained tokens that were not
    compared (behind an id that differs, NaN, on one side only). ``share_large``: of the ratios
    that are not 1 those with |log ratio| ≥ 0.1. ``confounded``: the sides name different weights,
    so that a numeric difference says nothing of kernels.
    """

    verdict: Verdict
    broken_layer: Layer | None
    layers: tuple[tuple[Layer, Status], ...]
    figures: Figures
    bins: tuple[Bin, ...]
    evidence: Evidence
    ids: OtherIds | None
    masks: OtherMasks | None
    lengths: Place | None
    state: OtherState | None
    payload: OtherState | None
    faults: tuple[Fault, ...]
    unseen: int
    share_large: float
    confounded: bool
    sampler: Header
    trainer: Header

    @property
    def broken_place(self) -> Place | None:
        """Where the first broken layer broke first; None where none did."""
        found: dict[Layer, tuple[Placed | None, ...]] = {
            "state": (self.state,),
            "token": (self.payload, self.ids, self.masks),
            "numeric": (self.evidence.first,),
        }
        for layer, status in self.layers:
            if status == "broken":
                places = [one.place for one in found[layer] if one is not None]
                if layer == "token" and self.lengths is not None:
                    places.append(self.lengths)
                return min(places, key=lambda place: place.index, default=None)
        return None

    def status(self, layer: Layer) -> Status:
        """What is known of one layer."""
        return dict(self.layers)[layer]


def audit(sampler: Dump, trainer: Dump, *, subset: bool = False) -> Audit:
    """Audits two dumps in one pass over each.

    Args:
        sampler: log-probs as the tokens were sampled.
        trainer: log-probs of the same tokens at the trainer.
        subset: the trainer trains on some of the sequences only; those it lacks are not missed.
    """
    view = _View(subset)
    faults = Faults()
    for met in comparisons(sampler, trainer, faults):
        if isinstance(met, Alone):
            view.alone(met)
        else:
            view.pair(met)
    return view.audit(sampler, trainer, faults)


class _View:
    """All that is collected while the pairs go by."""

    def __init__(self, subset: bool) -> None:
        self._subset = subset
        self._metrics, self._distribution = Metrics(), Distribution()
        self._witness, self._trajectories, self._watch = Witness(), Trajectories(), Watch()
        self._ids: OtherIds | None = None
        self._masks: OtherMasks | None = None
        self._other_sequences = self._other_mask_tokens = 0
        self._unseen = 0
        self._had_ids = self._had_numbers = False
        self._lengths: Place | None = None

    def pair(self, compared: Compared) -> None:
        """Takes one pair."""
        self._trajectories.begins(compared.pair)
        self._tokens(compared)
        self._trajectories.ends(compared.pair, other_tokens=compared.parts)
        self._watch.add(compared)
        self._had_numbers = self._had_numbers or compared.dtypes is not None
        self._unseen += compared.unseen
        self._metrics.add(compared)
        self._distribution.add(compared)
        self._witness.add(compared)

    def _tokens(self, compared: Compared) -> None:
        self._had_ids = self._had_ids or compared.ids
        if compared.first_mask is not None:
            self._other_mask_tokens += compared.masks
            self._masks = self._masks or other_masks(compared)
        if compared.lengths is not None and self._lengths is None:
            self._lengths = end_of(compared)
        if compared.first_id is not None and not compared.out_of_context:
            self._other_sequences += 1
            self._ids = self._ids or other_ids(compared)

    def alone(self, alone: Alone) -> None:
        """Takes what stands on one side only."""
        mask = alone.stretch.turn.mask
        self._unseen += len(alone.stretch.turn) if mask is None else int(mask.sum())
        self._watch.alone(alone, hides=not (self._subset and alone.side == "sampler"))

    def audit(self, sampler: Dump, trainer: Dump, met: Faults) -> Audit:
        """What came of it."""
        figures, evidence = self._metrics.figures(), self._witness.evidence()
        self._watch.end(figures.tokens, sampler.header, trainer.header)
        token = self._token_faults()
        faults = merged(sampler.faults(), trainer.faults(), met.all(), self._watch.faults(), token)
        broken: dict[Layer, bool] = {
            "state": self._trajectories.state is not None,
            "token": bool(token)
            or self._lengths is not None
            or self._trajectories.payload is not None,
            "numeric": figures.not_one > 0,
        }
        recorded: dict[Layer, bool] = {
            "state": self._trajectories.recorded,
            "token": self._had_ids or self._trajectories.payloads_recorded,
            "numeric": self._had_numbers,
        }
        first = next((layer for layer in LAYERS if broken[layer]), None)
        confounded = any(fault.kind == "other_weights" for fault in faults)
        return Audit(
            verdict=_verdict(first, faults),
            broken_layer=None if first == "numeric" and confounded else first,
            layers=_layers(first, recorded),
            figures=figures,
            bins=self._distribution.bins(),
            evidence=evidence,
            ids=self._ids,
            masks=self._masks,
            lengths=self._lengths,
            state=self._trajectories.state,
            payload=self._trajectories.payload,
            faults=faults,
            unseen=self._unseen,
            share_large=self._distribution.share_above(0.1),
            confounded=confounded,
            sampler=sampler.header,
            trainer=trainer.header,
        )

    def _token_faults(self) -> tuple[Fault, ...]:
        found = []
        if self._ids is not None:
            place = self._ids.place
            detail = (
                f"sequence {place.sequence}, turn {place.turn}, token {place.token}: "
                f"id {self._ids.sampler[self._ids.before]} at the sampler, "
                f"{self._ids.trainer[self._ids.before]} at the trainer"
            )
            found.append(_fault("other_ids", detail, place.sampler_place, self._other_sequences))
        if self._masks is not None:
            place = self._masks.place
            detail = f"sequence {place.sequence}, turn {place.turn}, token {place.token}"
            count = self._other_mask_tokens
            found.append(_fault("other_mask", detail, place.sampler_place, count))
        return tuple(found)


def _fault(kind: str, detail: str, place: str, count: int) -> Fault:
    return Fault(kind=kind, side=None, detail=detail, place=place, count=count)


def _verdict(broken: Layer | None, faults: tuple[Fault, ...]) -> Verdict:
    if broken is not None:
        return "off-policy"
    return "undecidable" if any(fault.hides for fault in faults) else "on-policy"


def _layers(broken: Layer | None, recorded: dict[Layer, bool]) -> tuple[tuple[Layer, Status], ...]:
    found: list[tuple[Layer, Status]] = []
    behind = False
    for layer in LAYERS:
        status: Status = "equal" if recorded[layer] else "not recorded"
        if layer == broken:
            status = "broken"
        elif behind:
            status = "undecidable"
        behind = behind or layer == broken
        found.append((layer, status))
    return tuple(found)
