"""An audit for machines: the JSON contract, and JUnit for a CI."""

import re
from collections.abc import Sequence
from dataclasses import fields as names_of
from typing import Any
from xml.etree import ElementTree

from kernelsmith.onpolicy.audit import Audit
from kernelsmith.onpolicy.hints import hints
from kernelsmith.onpolicy.metrics import Figures
from kernelsmith.onpolicy.model import FAULTS, Fault

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold: a name of a sequence may hold anything."""
_ELSEWHERE = (
    "tokens",
    "sequences",
    "not_one",
    "zero_signs",
    "infinite",
    "by_turn",
    "ratio_mean",
    "ratio_mean_less_one",
    "ratio_min",
    "ratio_max",
    "log_ratio_min",
    "log_ratio_max",
)


def fields(found: Audit) -> dict[str, Any]:
    """The fields of ``audit --json``: what design promises, then more. Numbers that JSON has not
    (∞) are made strings by the printer."""
    figures, first = found.figures, found.evidence.first
    epochs = {"sampler": found.sampler.epoch, "trainer": found.trainer.epoch}
    return {
        "verdict": found.verdict,
        "broken_layer": found.broken_layer,
        "tokens": figures.tokens,
        "ratio": {
            "not_one": figures.not_one,
            "mean": figures.ratio_mean,
            "min": figures.ratio_min,
            "max": figures.ratio_max,
            "first_index": None if first is None else first.place.index,
            "mean_less_one": figures.ratio_mean_less_one,
            "log_min": figures.log_ratio_min,
            "log_max": figures.log_ratio_max,
            "zero_signs": figures.zero_signs,
            "infinite": figures.infinite,
            "first": first,
            "by_turn": figures.by_turn,
            "histogram": found.bins,
        },
        "device": _one(found.sampler.device, found.trainer.device),
        "epoch": _one(epochs["sampler"], epochs["trainer"]),
        "epochs": epochs,
        "layers": dict(found.layers),
        "sequences": figures.sequences,
        "unseen": found.unseen,
        "metrics": metrics(figures),
        "ids": found.ids,
        "masks": found.masks,
        "state": found.state,
        "payload": found.payload,
        "faults": [fault_fields(fault) for fault in found.faults],
        "hints": hints(found),
    }


def metrics(figures: Figures) -> dict[str, Any]:
    """All figures but those that stand elsewhere, by name (see :class:`Figures`)."""
    names = (field.name for field in names_of(Figures) if field.name not in _ELSEWHERE)
    return {name: getattr(figures, name) for name in names}


def fault_fields(fault: Fault) -> dict[str, Any]:
    """A fault with what its kind says."""
    return {
        "kind": fault.kind,
        "says": FAULTS[fault.kind],
        "side": fault.side,
        "count": fault.count,
        "place": fault.place,
        "detail": fault.detail,
        "hides": fault.hides,
    }


def _one(a: str | None, b: str | None) -> str | None:
    """What both say, or the only one that says anything; both where they differ."""
    if a is None or b is None or a == b:
        return a if a is not None else b
    return f"{a} | {b}"


def junit(found: Sequence[tuple[str, Audit]]) -> str:
    """A JUnit document: a suite a comparison, a case a layer and one for the evidence.

    A broken layer fails; one of which nothing is known is skipped, with why; faults that hide
    tokens are an error.
    """
    root = ElementTree.Element("testsuites")
    for name, one in found:
        cases = [_case(name, layer, status, one) for layer, status in one.layers]
        cases.append(_evidence(name, one))
        tags = [child.tag for case in cases for child in case]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"kernelsmith audit: {name}",
            tests=str(len(cases)),
            failures=str(tags.count("failure")),
            errors=str(tags.count("error")),
            skipped=str(tags.count("skipped")),
        )
        suite.extend(cases)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_NOT_XML.sub("�", text)}\n'


def _case(suite: str, layer: str, status: str, found: Audit) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"audit.{suite}", name=layer)
    if status == "broken":
        told = [f"{hint.explanation}: {hint.evidence}" for hint in hints(found)]
        message = f"{found.figures.not_one} of {found.figures.tokens} ratios are not 1"
        failure = ElementTree.SubElement(case, "failure", type=layer)
        failure.set("message", message if layer == "numeric" else f"the {layer} layer is broken")
        failure.text = "\n".join(told)
    elif status != "equal":
        ElementTree.SubElement(case, "skipped", message=status)
    return case


def _evidence(suite: str, found: Audit) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"audit.{suite}", name="evidence")
    hiding = [fault for fault in found.faults if fault.hides]
    if hiding and found.verdict == "undecidable":
        error = ElementTree.SubElement(case, "error", type="undecidable")
        error.set("message", f"{FAULTS[hiding[0].kind]}: {hiding[0].detail}"[:300])
    if found.faults:
        out = ElementTree.SubElement(case, "system-out")
        out.text = "\n".join(line_of(fault) for fault in found.faults)
    return case


def line_of(fault: Fault) -> str:
    """A fault in one line."""
    side = f" ({fault.side})" if fault.side else ""
    many = f" ×{fault.count:,}" if fault.count > 1 else ""
    where = f" [{fault.place}]" if fault.place else ""
    return f"{fault.kind}{many}{side}: {FAULTS[fault.kind]}: {fault.detail}{where}"
