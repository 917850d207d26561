"""The opening: settings that are known to pay, most promising first.

Each item is a set of settings laid over the best candidate so far. Items recognise patterns, not
names of kernels, so they are as good for a user's kernel as for the shipped seeds. The order comes
from measurements on the CPU device (``benchmarks/``); on a GPU, warps, stages and buckets of rows
come before forms that only a CPU cares for.
"""

from collections.abc import Iterator

from kernelsmith.proposers.search.genome import Bucket, Genome, Knob, merged
from kernelsmith.proposers.search.space import Site

Item = tuple[str, Genome]


def items(sites: tuple[Site, ...], row_counts: tuple[int, ...], device: str) -> Iterator[Item]:
    """(note, settings) in the order to try them."""
    bests = [_best(site, row_counts, device) for site in sites]
    everything = merged(*(genome for _, genome in bests))
    if everything:
        yield "all patterns at once", everything
    for site, (note, genome) in zip(sites, bests, strict=True):
        if genome and len(genome) < len(everything):
            yield f"{site.kernel}: {note}", genome
    for site in sites:
        yield from _variants(site, row_counts, device)


def _best(site: Site, row_counts: tuple[int, ...], device: str) -> Item:
    """The settings that promise most on one site."""
    if site.has_dot:
        return "tiles by rows", _dot_buckets(site, row_counts)
    if "columns" in site.forms:
        return "a row in one block", {Knob(site.name, "columns"): "single"}
    return "", {}


def _dot_buckets(site: Site, row_counts: tuple[int, ...]) -> Genome:
    if not site.rows:
        return {}
    tile = next((t for t, size in site.tiles.items() if size == site.rows), "")
    if not tile or tile in site.steps:
        return {}
    genome = {}
    for bound in (1, 2, 4, 8, 16, 32, 64):
        if any(count <= bound for count in row_counts):
            genome[Knob(site.name, tile, Bucket(site.rows, bound))] = str(bound)
    return genome


def _variants(site: Site, row_counts: tuple[int, ...], device: str) -> Iterator[Item]:
    """Single knobs of one site, then pairs."""
    for name, values in site.forms.items():
        for value in values:
            yield f"{site.kernel}: {name} {value}", {Knob(site.name, name): value}
    for name in site.constants:
        if name in site.ordered:
            yield f"{site.kernel}: {name} fitted", {Knob(site.name, name): "fit"}
            continue
        old = int(site.default[name])
        for value in (old // 2, old * 2, old // 4, old * 4, old // 8):
            if value >= 1:
                genome = {Knob(site.name, name): str(value)}
                yield f"{site.kernel}: {name} {value}", genome
    if device != "cpu":
        for option, numbers in (("num_warps", ("2", "4", "8")), ("num_stages", ("2", "3", "4"))):
            for value in numbers:
                if site.default.get(option) != value:
                    yield f"{site.kernel}: {option} {value}", {Knob(site.name, option): value}
