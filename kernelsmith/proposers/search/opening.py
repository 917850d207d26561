"""The opening: settings that are known to pay, most promising first.

Each item is a set of settings laid over the best candidate so far. Items recognise patterns, not
names of kernels, so they are as good for a user's kernel as for the shipped seeds. The order for
the CPU device comes from measurements on it; on a GPU, warps, stages and tiles by rows come before
forms that only a CPU cares for.
"""

from collections.abc import Callable, Iterator, Sequence

from kernelsmith.proposers.search.genome import Bucket, Genome, Knob, merged
from kernelsmith.proposers.search.space import Site

Item = tuple[str, Genome]
Ranked = tuple[int, str, Genome]
RowCounts = Callable[[Site], tuple[int, ...]]

# A tile of rows pays while few of a row's operands are live at once, and not for narrow rows.
_ROW_OPERANDS = 2
_NARROW = 256
_MIN_DOT_STEP = 16
_LATER = 4
_FEW_ROWS = 16
_SHORT_BLOCK = 256
# (rows up to, rows a tile): a tile that is mostly padding costs as much as a full one, and tiles of
# 8 or 16 rows turn their weights in registers, without packing them first.
_TILES_BY_ROWS = ((1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (112, 8))


def items(
    sites: tuple[Site, ...], row_counts: RowCounts, device: str, entries: tuple[str, ...]
) -> Iterator[Item]:
    """(note, settings) in the order to try them.

    Args:
        sites: of the program to rewrite.
        row_counts: gives the row counts of the timed cases that reach a site.
        device: "cpu" or "cuda".
        entries: of the task; what only other functions launch comes later, since fewer of the
            timed calls reach it.
    """
    bests = [_best(site, row_counts(site), device) for site in sites]
    everything = merged(*(genome for _, genome in bests))
    if everything:
        yield "all patterns at once", everything
    for site, (note, genome) in zip(sites, bests, strict=True):
        if genome and len(genome) < len(everything):
            yield f"{site.kernel}: {note}", genome
    ranked: list[Ranked] = []
    for site in sites:
        own = [*(_dot_variants(site, row_counts(site)) if site.has_dot else _row_variants(site))]
        own += [*_tile_variants(site), *_options(site, device)]
        later = 0 if set(site.functions) & set(entries) else _LATER
        ranked += [(rank + later, note, genome) for rank, note, genome in own]
    for _, note, genome in sorted(ranked, key=lambda item: item[0]):
        yield note, genome


def _best(site: Site, counts: tuple[int, ...], device: str) -> Item:
    """The settings that promise most on one site."""
    if site.has_dot:
        return "tiles by rows, longer inner blocks", merged(
            _buckets(site, counts), _inner_blocks(site, counts)
        )
    if "columns" in site.forms and site.ordered and not _sums_rows(site):
        if site.row_operands > _ROW_OPERANDS:
            return "narrow rows in one block", _narrow_rows(site)
        if site.sums > 1:
            return "rows in registers", _rows_in_registers(site)
        return "rows in one block", merged({Knob(site.name, "columns"): "single"}, _row_tile(site))
    if "columns" in site.forms and device == "cpu":
        return "short blocks of columns", _short_blocks(site)
    return "", {}


def _rows_in_registers(site: Site) -> Genome:
    """Loops over blocks written out, and one block for rows that fit one. A tile of several rows
    pays only where one accumulator is live, since more of them leave the nearest cache."""
    found = _width(site)
    columns = {Knob(site.name, "columns"): "static"}
    if found is not None:
        columns[Knob(site.name, "columns", Bucket(*found))] = "single"
    return columns


def _short_blocks(site: Site) -> Genome:
    """Shorter blocks for loops that sum nothing: lanes beyond the row cost as much as any other."""
    tile = next(iter(site.steps & site.constants.keys()), "")
    if not tile or int(site.default[tile]) <= _SHORT_BLOCK:
        return {}
    return {Knob(site.name, tile): str(_SHORT_BLOCK)}


def _sums_rows(site: Site) -> bool:
    return any(site.tiles.get(tile) == site.rows for tile in site.ordered)


def _buckets(site: Site, counts: tuple[int, ...]) -> Genome:
    """Shorter tiles of rows for launches that calls with few rows reach; those that only long
    batches reach keep their tile, which pays for packing both operands."""
    tile = next((t for t, size in site.tiles.items() if size == site.rows), "")
    if not site.rows or not tile or tile in site.steps:
        return {}
    full = int(site.default[tile])
    if min(counts, default=full) > _FEW_ROWS:
        return {}
    return {
        Knob(site.name, tile, Bucket(site.rows, bound)): str(length)
        for bound, length in _TILES_BY_ROWS
        if min(counts) <= bound < full
    }


def _inner_blocks(site: Site, counts: tuple[int, ...]) -> Genome:
    """Twice the step along the inner dimension, four times where few rows share a weight; where
    that dimension is the rows, the longest step that pads the timed row counts least."""
    step = next(iter(site.steps & site.constants.keys()), "")
    if not step:
        return {}
    old = int(site.default[step])
    if site.tiles.get(step) != site.rows:
        longer = 4 if min(counts, default=old) <= _FEW_ROWS else 2
        return {Knob(site.name, step): str(longer * old)}
    sizes = [old >> shift for shift in range(8) if old >> shift >= _MIN_DOT_STEP] or [old]
    best = min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))
    return {} if best == old else {Knob(site.name, step): str(best)}


def _row_tile(site: Site) -> Genome:
    """Four rows a program, narrow rows excepted."""
    if "rows" not in site.forms:
        return {}
    genome = {Knob(site.name, "rows"): "4"}
    found = _width(site)
    if found is not None:
        genome[Knob(site.name, "rows", Bucket(found[0], _NARROW))] = "off"
    return genome


def _width(site: Site) -> tuple[str, int] | None:
    """(name of the row's length, block it is summed in), where the host code has the name."""
    for tile in sorted(site.ordered):
        if site.tiles.get(tile) in site.dims:
            return site.tiles[tile], int(site.default[tile])
    return None


def _narrow_rows(site: Site) -> Genome:
    """One fitted block for rows of at most half a block; with many operands a full row in one
    block gains nothing over two loops."""
    found = _width(site)
    if found is None:
        return {}
    width, block = found
    return {Knob(site.name, "columns", Bucket(width, block // 2)): "single"}


def _row_variants(site: Site) -> Iterator[Ranked]:
    """Single forms of kernels without a dot."""
    order = [
        (1, "columns", ("single",)),
        (2, "rows", ("4",)),
        (3, "programs", ("8",)),
        (5, "columns", ("static",)),
        (6, "rows", ("8", "2")),
        (7, "programs", ("4", "16", "persistent", "2")),
        (8, "rows", ("16",)),
        (4, "unroll", ("on",)),
    ]
    yield from _forms(site, order)


def _dot_variants(site: Site, counts: tuple[int, ...]) -> Iterator[Ranked]:
    """Parts of the best, and single forms, of kernels with a dot."""
    parts = [
        ("tiles by rows", _buckets(site, counts)),
        ("inner blocks", _inner_blocks(site, counts)),
    ]
    for note, genome in parts:
        if genome:
            yield 0, f"{site.kernel}: {note}", genome
    order = [
        (4, "load_b", ("transposed",)),
        (4, "order", ("columns",)),
        (6, "load_a", ("transposed",)),
        (6, "programs", ("4", "persistent", "2", "8", "16")),
    ]
    yield from _forms(site, order)
    step = next(iter(site.steps & site.constants.keys()), "")
    if "dot" in site.forms and step and _buckets(site, counts):
        bucket = Bucket(site.rows, 1)
        genome = {Knob(site.name, "dot", bucket): "fma"}
        yield 7, f"{site.kernel}: an explicit chain for one row", genome


def _forms(site: Site, order: Sequence[tuple[int, str, tuple[str, ...]]]) -> Iterator[Ranked]:
    for rank, name, values in order:
        for value in values:
            if value in site.forms.get(name, ()):
                yield rank, f"{site.kernel}: {name} {value}", {Knob(site.name, name): value}


def _tile_variants(site: Site) -> Iterator[Ranked]:
    """Other lengths of one tile constant."""
    for name in site.constants:
        if name in site.ordered:
            yield 5, f"{site.kernel}: {name} fitted", {Knob(site.name, name): "fit"}
            continue
        old = int(site.default[name])
        lengths = [(4, old // 2), (5, old // 4), (6, old // 8), (7, old * 2), (8, old * 4)]
        if site.has_dot:
            longest = 2 if name in site.steps else 8
            lengths = [(3, old // 2), (3, old * 2), (5, old // 4), (6, old // 8)]
            lengths.append((longest, old * 4))
        for rank, value in lengths:
            if 1 <= value <= 4096:
                yield rank, f"{site.kernel}: {name} {value}", {Knob(site.name, name): str(value)}


def _options(site: Site, device: str) -> Iterator[Ranked]:
    """Launch options; the CPU device compiles the same code whatever they are."""
    if device == "cpu":
        return
    for option, values in (("num_warps", ("4", "8", "2")), ("num_stages", ("3", "4", "2"))):
        for value in values:
            if site.default.get(option) != value:
                yield 2, f"{site.kernel}: {option} {value}", {Knob(site.name, option): value}
