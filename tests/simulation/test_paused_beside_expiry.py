"""A job that pauses at any of its calls, while others commit and expire all snapshots that it has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paimon_engine import OutcomeUnknownError, Table
from tests.reports.replay import histories, keys_of
from tests.support.world import World, rows_of


def overwrite_and_expire(table: Table) -> None:
    table.write(rows_of({1: 0}))
    table.write(rows_of({2: 0}), overwrite={})
    table.expire_snapshots(retain_max=1)


def compact_and_expire(table: Table) -> None:
    table.write(rows_of({9: 0}))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)


def empty() -> World:
    world = World()
    world.create(by=(), snapshot__num_retained__min=1)
    return world


def write(table: Table) -> str:
    try:
        return table.write(rows_of({7: 0})).status
    except OutcomeUnknownError:
        return "unknown"


@pytest.mark.parametrize("rows_before", [0, 2])
def test_a_writer_takes_nothing_away_that_later_snapshots_build_on(rows_before: int) -> None:
    def prepare() -> World:
        world = empty()
        for number in range(rows_before):
            world.write({100 + number: 0})
        return world

    alone, *beside = histories(prepare, write, overwrite_and_expire)

    assert alone[1] == "committed"
    assert len(beside) > 15
    for world, status in beside:
        table = world.table()
        # Its row was overwritten, or came after that.
        assert keys_of(table) in ([2], [2, 7]), status
        assert table.verify(depth="rows").problems == ()
    assert {status for _, status in beside} <= {"committed", "unknown"}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("job", [Table.remove_unexisting_manifests, Table.remove_unexisting_files])
def test_a_repair_finds_nothing_missing_in_what_others_expire(job: Callable[..., Any], dry_run: bool) -> None:
    def prepare() -> World:
        world = empty()
        for number in range(4):
            world.write({number: 0})
        return world

    found = list(histories(prepare, lambda table: job(table, dry_run=dry_run).status, compact_and_expire))

    assert len(found) > 5
    assert {status for _, status in found} == {"noop"}
