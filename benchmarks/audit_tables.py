"""The audit's tables: its lines of the README's table from ``results/audit.json``, those of
docs/guides/audit.md from ``results/audit_demo.json``."""

import json
from pathlib import Path
from typing import Any

DEMO = Path(__file__).resolve().parent / "results" / "audit_demo.json"


def figures(document: Any) -> list[tuple[str, str]]:
    """Of each format's largest dump: the flipped bit, the time, the memory beside a smaller one."""
    found = []
    for name, growth in document["growth"].items():
        rows = [row for row in document["rows"] if row["format"] == name]
        row = next(row for row in reversed(rows) if row["flipped_index"] is not None)
        where = "found" if row["found_index"] == row["flipped_index"] else "NOT FOUND"
        tokens = f"{row['tokens'] / 1e6:.0f} million tokens ({name})"
        found.append(
            (
                f"`audit`, one flipped bit among {tokens}: place, time on a busy CPU, peak memory, "
                f"to that with {growth['tokens']:.0f}× fewer tokens",
                f"{where}, {row['seconds']:.0f} s, {row['peak_rss_mib']:.0f} MiB, "
                f"{growth['peak_rss']:.2f}×",
            )
        )
    return found


def pairings() -> str:
    """Every pairing: how many ratios are not 1, how far, and where it begins."""
    document = json.loads(DEMO.read_text())
    demo = document["demo"]
    rows = [
        f"Measured {document['date'][:10]}, {document['machine']['cpu']}, transformers "
        f"{document['machine']['transformers']}, {demo['epoch']}.",
        "",
        "| dtype, attention | pairing | ratios not 1 | largest difference | where it begins |",
        "|---|---|---|---|---|",
    ]
    for one in demo["pairings"]:
        count = f"{one['not_one']} of {one['tokens']}" if one["not_one"] else "none"
        largest = f"{one['max_abs_log_ratio']:.2g}" if one["not_one"] else "–"
        rows.append(
            f"| {one['dtype']}, {one['attention']} | {one['sampler']} beside {one['trainer']} "
            f"| {count} | {largest} | {_where(one)} |"
        )
    return "\n".join(rows) + "\n"


def _where(one: dict[str, Any]) -> str:
    begins = one["origin"]
    if begins is not None:
        return (
            f"`{begins['module'].removeprefix('model.')}` ({begins['what']}), at "
            f"{begins['positions']} of {begins['of']} positions"
        )
    return "nowhere: every output is equal" if one["followed"] else ""


def remedies() -> str:
    """What each remedy left and hid."""
    demo = json.loads(DEMO.read_text())["demo"]
    rows = ["| remedy | left, Σ\\|r − w\\| | hidden, Σ\\|w − 1\\| | clipped |", "|---|---|---|---|"]
    for one in demo["remedies"]:
        rows.append(
            f"| {one['name']} | {one['left']['sum_abs_ratio_less_weight']:.3g} | "
            f"{one['hidden']['sum_abs_weight_less_one']:.3g} | {one['hidden']['clipped']} of "
            f"{one['tokens']} |"
        )
    recompute = next(one for one in demo["remedies"] if one["name"] == "recompute")
    again, cost = recompute["left"]["loss_ratio_not_one"], recompute["cost"]
    rows += [
        "",
        f"After recompute the loss's ratio is not 1 for {again['same_pack']} of "
        f"{recompute['tokens']} tokens where the trainer packs the same sequences again, and for "
        f"{again['two_packs']} where the second forward has them in two packs, "
        f"{again['one_each']} where it takes one at a time. The forward cost "
        f"{cost['over_update']:.2f} of an update (forward and backward) and "
        f"{cost['over_rollout']:.3f} of the rollout, on this CPU, within one run.",
    ]
    return "\n".join(rows) + "\n"


BLOCKS = {"audit-demo": pairings, "audit-remedies": remedies}
