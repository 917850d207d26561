"""What people send in is one series: a judgement that somebody cuts off has spent its allowance."""

from pathlib import Path

import pytest

from kernelsmith import loop
from kernelsmith.lineage import standings
from kernelsmith.lineage.past import PERSON
from kernelsmith.lineage.store import open_store
from kernelsmith.model import Candidate
from tests.loop import fakes
from tests.loop.test_loop import setup_for


def test_a_losing_submission_that_its_author_interrupts_counts_for_the_next(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "runs.db")
    seen = []
    for _ in range(3):
        judge = fakes.FakeJudge()

        def cut(candidate: Candidate) -> bool:
            raise KeyboardInterrupt

        judge.fails = cut
        payload = {**fakes.run_payload((fakes.make_task(),)), "proposer": PERSON}
        run_id = store.append("", "run", payload)
        setup = setup_for(store, judge, run_id=run_id)
        with pytest.raises(KeyboardInterrupt):
            loop.run(setup)
        seen.append(judge.judged[0][2])
    assert seen == [0, 1, 2]
    with store.database.reading() as connection:
        assert standings.confirms_by_hand(connection, "toy") == 3
        assert standings.confirms_by_hand(connection, "toy", besides=run_id) == 2
    store.close()
