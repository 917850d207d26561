"""Row counts at which launches do not go on as before are found; regular launches have none."""

from collections.abc import Callable

import numpy as np
import pytest

from kernelsmith.gate.irregular import boundaries, numbers
from kernelsmith.model import Case, Launch, LaunchArg, Plan

Grid = Callable[[int], int]


def steps(
    grid: Grid, argument: Callable[[int], int] = lambda m: m
) -> list[tuple[Case, tuple[int, ...]]]:
    found = []
    for tokens in range(301):
        case = Case(
            id=f"M={tokens}",
            call="infer",
            dtype="bfloat16",
            dims=(("M", tokens),),
            regime="normal",
            weight=0.0,
        )
        launch = Launch(
            plan_class="c",
            plan_class_unaligned="c",
            grid=(grid(tokens), 1, 1),
            args=(LaunchArg(kind="i32", value=argument(tokens)),),
        )
        plan = Plan(buffers=(), launches=(launch,) if grid(tokens) else (), outputs=())
        found.append((case, numbers(plan)))
    return found


def rows(found: list[Case]) -> list[int]:
    return [case.dim("M") for case in found]


@pytest.mark.parametrize(
    "grid",
    [lambda m: -(-m // 16), lambda m: m, lambda m: -(-m // 128) * 8, lambda m: min(-(-m // 8), 4)],
    ids=["tiles", "rows", "tiles of two dims", "persistent"],
)
def test_a_regular_grid_is_only_looked_at_where_it_begins(grid: Grid) -> None:
    assert set(rows(boundaries(steps(grid)))) <= {0, 1, 2, 8, 9, 16, 17, 24, 25, 128, 129, 256, 257}


def test_both_sides_of_a_dispatch_boundary_are_looked_at() -> None:
    found = rows(boundaries(steps(lambda m: m if m <= 32 else -(-m // 16))))
    assert {32, 33} <= set(found)


def test_a_grid_that_is_wrong_at_one_row_count_is_found() -> None:
    found = rows(boundaries(steps(lambda m: -(-m // 16) - (m == 211))))
    assert 211 in found


def test_an_argument_that_is_wrong_at_one_row_count_is_found() -> None:
    found = rows(boundaries(steps(lambda m: -(-m // 16), lambda m: m - (m == 211))))
    assert 211 in found


def test_a_step_that_comes_back_every_sixteen_rows_is_looked_at() -> None:
    found = rows(boundaries(steps(lambda m: m - (m % 16 == 12))))
    assert {12, 13} & set(found)
    drawn = boundaries(steps(lambda m: m - (m % 16 == 12)), np.random.default_rng(3))
    assert any(count % 16 == 12 for count in rows(drawn))
