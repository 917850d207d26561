"""Seeded exploration after the opening: mutation and crossover of the better candidates."""

import random
from collections.abc import Sequence

from kernelsmith.proposers.search.genome import Bucket, Genome, Knob, merged
from kernelsmith.proposers.search.record import Entry, Record, setting_key
from kernelsmith.proposers.search.space import OPTION_VALUES, Site

_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128)
_WIDTHS = (128, 256, 512, 1024)


def child(
    record: Record, sites: Sequence[Site], base: str, device: str, rng: random.Random
) -> tuple[str, tuple[Entry, ...], dict[Knob, str]]:
    """(note, parents, genome) of a new candidate of ``base``; may repeat an earlier one."""
    parents = [e for e in record.entries if e.base == base and _fit_to_breed(e)]
    first = _pick(record, parents, rng)
    if len(parents) > 2 and rng.random() < 0.25:
        second = _pick(record, [p for p in parents if p.id != first.id], rng)
        genome = _crossed(first.genome, second.genome, rng)
        return "crossover", (first, second), genome
    genome = merged(first.genome)
    for _ in range(1 + (rng.random() < 0.5) + (rng.random() < 0.2)):
        genome = _mutated(genome, sites, device, record, rng)
    return "mutation", (first,), genome


def _fit_to_breed(entry: Entry) -> bool:
    return entry.status == "ACCEPTED" or (
        entry.status in ("NOT_FASTER", "REGRESSES") and entry.gain > 1.0
    )


def _pick(record: Record, parents: Sequence[Entry], rng: random.Random) -> Entry:
    """By gain, and against parents that have many children already."""
    top = max(p.gain for p in parents)
    weights = [
        (max(p.gain, 0.01) / top) ** 4 / (1 + record.children.get(p.id, 0)) ** 0.5 for p in parents
    ]
    return rng.choices(parents, weights)[0]


def _crossed(first: Genome, second: Genome, rng: random.Random) -> dict[Knob, str]:
    """Each site's settings from one of the two; within a site, half of the other's on top."""
    genome: dict[Knob, str] = {}
    for site in sorted({k.site for k in (*first, *second)}):
        one, other = (first, second) if rng.random() < 0.5 else (second, first)
        genome.update({k: v for k, v in one.items() if k.site == site})
        if rng.random() < 0.3:
            genome.update({k: v for k, v in other.items() if k.site == site and rng.random() < 0.5})
    return merged(genome)


def _mutated(
    genome: Genome, sites: Sequence[Site], device: str, record: Record, rng: random.Random
) -> dict[Knob, str]:
    site = rng.choice(list(sites))
    own = [k for k in genome if k.site == site.name]
    if own and rng.random() < 0.2:
        dropped = rng.choice(own)
        return {k: v for k, v in genome.items() if k != dropped}
    for _ in range(20):
        knob, value = _setting(genome, site, device, rng)
        key = setting_key(knob, value)
        if key in record.banned or rng.random() < 1 - 0.5 ** record.suspect.get(key, 0):
            continue
        return merged(genome, {knob: value})
    return merged(genome)


def _setting(genome: Genome, site: Site, device: str, rng: random.Random) -> tuple[Knob, str]:
    names = [*site.constants, *site.forms]
    if device != "cpu" or not names:
        names += list(OPTION_VALUES)
    name = rng.choice(names)
    knob = Knob(site.name, name, _bucket(genome, site, rng))
    if name in site.forms:
        return knob, rng.choice([*site.forms[name], "off"])
    if name in OPTION_VALUES:
        return knob, rng.choice(OPTION_VALUES[name])
    if name in site.ordered and rng.random() < 0.8:
        return knob, "fit"
    usual = genome.get(Knob(site.name, name), site.default[name])
    now = genome.get(knob, usual)
    old = int(site.default[name]) if now == "fit" else int(now)
    value = old * rng.choice((2, 4)) if rng.random() < 0.5 else old // rng.choice((2, 4))
    return knob, str(min(max(value, 1), 1024))


def _bucket(genome: Genome, site: Site, rng: random.Random) -> Bucket | None:
    """Mostly a bucket that is there, sometimes a new one."""
    there = sorted({k.bucket for k in genome if k.site == site.name and k.bucket is not None})
    if there and rng.random() < 0.5:
        return rng.choice(there)
    if rng.random() >= 0.4:
        return None
    if there and there[0].dim != site.rows:
        return Bucket(there[0].dim, rng.choice(_WIDTHS))
    return Bucket(site.rows, rng.choice(_BOUNDS)) if site.rows else None
