"""The audit's lines of the README's table of figures, from ``results/audit.json``."""

from typing import Any


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
