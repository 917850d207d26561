"""The kept TTIR of three Triton releases: it parses, it has every op, and the release at hand still
prints what is kept of it."""

import random

import pytest
import triton

from kernelsmith.devices.cpu.ttir_ops import KNOWN_OPS
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.devices.cpu.versions import TESTED_TRITON
from kernelsmith.errors import CompileError
from tests.conformance.corpus import printed, read, representatives

KEPT = read()
DRAWN = 25
SEED = 3


def test_every_kept_text_parses_and_what_is_refused_is_named() -> None:
    for name, texts in KEPT.items():
        for text in set(texts.values()):
            if name.startswith("refused/"):
                with pytest.raises(CompileError):
                    parse(text)
            else:
                assert parse(text).kernel.name, name


def test_every_release_is_kept_and_has_its_kernels() -> None:
    for release in TESTED_TRITON:
        assert sum(release in texts for texts in KEPT.values()) > 150
    wanted = {case.id for case in representatives(triton.__version__)}
    assert wanted == {name for name, texts in KEPT.items() if triton.__version__ in texts}


def test_the_corpus_holds_most_ops_of_the_list() -> None:
    text = "\n".join(text for texts in KEPT.values() for text in texts.values())
    missing = {op for op in KNOWN_OPS if op not in text}
    assert len(missing) < len(KNOWN_OPS) // 3, sorted(missing)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_this_release_prints_what_is_kept_of_it() -> None:
    cases = representatives(triton.__version__)
    for case in random.Random(SEED).sample(cases, DRAWN):
        assert printed(case) == KEPT[case.id][triton.__version__], case.id
