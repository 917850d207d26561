"""What PTX and machine code of a kernel do that can part bits, counted.

Nothing here decides by itself: ``tl.dot`` in float32 is a chain of FFMA by its meaning and ``exp``
is ``ex2.approx`` on a GPU. :func:`beyond` names what a kernel does that its seed does not.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

_FLOAT = r"(?:f16|f16x2|bf16|bf16x2|f32|f32x2|f64)"
# A line of PTX: an optional predicate, the opcode with its dotted suffixes.
_PTX = re.compile(r"^\s*(?:@!?%?\w+\s+)?([a-z][\w]*(?:\.[\w:]+)*)(?=[\s;])", re.MULTILINE)
# A line of SASS: its address, an optional predicate, the opcode with its dotted suffixes.
_SASS = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]\s+)?([A-Z][A-Z0-9_]*(?:\.[\w]+)*)")
_ATOMIC = re.compile(rf"^(?:atom|red)\b.*\.{_FLOAT}(?:\.|$)")
_FMA = re.compile(rf"^(?:fma|mad)\b.*\.{_FLOAT}$")
_PACKED = re.compile(r"x2(?:\.|$)")
_FLOAT_OP = re.compile(rf"\.{_FLOAT}(?:\.|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """Static counts of instructions; a packed one (f32x2) counts twice.

    In PTX: ``float_atomics`` (atom, red), ``ftz`` (subnormals flushed), ``approx`` (approximations
    of the GPU's own), ``fma`` (products and sums rounded at once), ``adds`` of floats, ``barriers``
    of a block. In machine code: ``sass_ffma``, ``sass_hfma`` (packed halves), ``sass_mma`` (tensor
    cores), ``sass_local`` (loads and stores of local memory: spills, indexed arrays),
    ``sass_atomics`` of any type.
    """

    float_atomics: int
    ftz: int
    approx: int
    fma: int
    adds: int
    barriers: int
    sass_ffma: int
    sass_hfma: int
    sass_mma: int
    sass_local: int
    sass_atomics: int
    opcodes: tuple[tuple[str, int], ...]

    def facts(self) -> dict[str, int]:
        """The counts, JSON-able."""
        found = asdict(self)
        del found["opcodes"]
        return found


# Where a count above the seed's means that bits can differ, or that registers did not suffice.
TELLING = {
    "float_atomics": "float atomics add in whatever order programs run",
    "ftz": "flushes subnormals to zero",
    "approx": "uses approximations of the GPU's own",
    "fma": "rounds products and sums at once",
    "sass_ffma": "its machine code rounds products and sums at once",
    "sass_hfma": "its machine code computes in 16 bits",
    "sass_local": "loads and stores local memory (spills)",
    "stack_bytes": "uses local memory (spills)",
}


def lint(ptx: str, sass: str = "") -> Lint:
    """Counts in PTX text and, if given, in what ``nvdisasm`` prints."""
    ops = Counter(match[1] for match in _PTX.finditer(_without_comments(ptx)))
    machine = Counter(match[1] for match in _SASS.finditer(sass))
    floats = {name: count for name, count in ops.items() if _FLOAT_OP.search(name)}

    def sum_of(names: Iterable[str]) -> int:
        return sum(ops[name] * (2 if _PACKED.search(name) else 1) for name in names)

    def heads(*wanted: str) -> int:
        return sum(n for name, n in machine.items() if name.split(".")[0] in wanted)

    interesting = {
        name: count
        for name, count in floats.items()
        if ".ftz" in name or ".approx" in name or _ATOMIC.search(name) or _FMA.search(name)
    }
    return Lint(
        float_atomics=sum_of(name for name in ops if _ATOMIC.search(name)),
        ftz=sum_of(name for name in ops if ".ftz" in name),
        approx=sum_of(name for name in ops if ".approx" in name),
        fma=sum_of(name for name in floats if _FMA.search(name)),
        adds=sum_of(name for name in floats if re.match(r"(?:add|sub)\b", name)),
        barriers=sum_of(n for n in ops if re.match(r"(?:bar|barrier)\.(?:cta\.)?sync\b", n)),
        sass_ffma=heads("FFMA", "FFMA2", "FFMA32I"),
        sass_hfma=heads("HFMA2", "HFMA2_MMA", "HADD2", "HMUL2"),
        sass_mma=heads("HMMA", "IMMA", "HGMMA", "IGMMA", "QGMMA", "DMMA", "UTCHMMA", "UTCQMMA"),
        sass_local=heads("LDL", "STL"),
        sass_atomics=heads("ATOM", "ATOMG", "RED", "REDG"),
        opcodes=tuple(sorted(interesting.items())),
    )


def beyond(kernel: Mapping[str, int], seed: Iterable[Mapping[str, int]]) -> dict[str, str]:
    """What ``kernel`` does that no kernel of its seed does at all: name of the count -> why it
    matters. Counts themselves may differ: a candidate unrolls or fuses.

    Args:
        kernel: counts as :meth:`Lint.facts` names them, and ``stack_bytes``; 0 may be left out.
        seed: the same of each of the seed's kernels.
    """
    known = {name for one in seed for name, count in one.items() if count}
    return {name: why for name, why in TELLING.items() if kernel.get(name) and name not in known}


def _without_comments(ptx: str) -> str:
    return re.sub(r"//[^\n]*", "", ptx)
