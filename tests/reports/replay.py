"""One job, and others who act ahead of any of its calls of the store: every such history, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from paimon_engine import Table
from tests.support.faulty_storage import FaultyStorage
from tests.support.world import World


def histories(
    prepare: Callable[[], World], job: Callable[[Table], Any], others: Callable[[Table], Any]
) -> Iterator[tuple[World, Any]]:
    """The world after each history, and what the job gave: without others, then with them ahead of its n-th call."""
    world = prepare()
    yield world, job(world.table())
    number, came = 0, True
    while came:
        world, came = prepare(), False
        beside = world.table()

        def act(_verb: str, _path: str, beside: Table = beside) -> None:
            nonlocal came
            came = True
            others(beside)

        store = FaultyStorage(world.inner)
        table = world.through(store).table()
        store.arm(number, act=act)
        outcome = job(table)
        store.arm(None)
        if came:
            yield world.through(world.inner), outcome
        number += 1


def keys_of(table: Table, **at: Any) -> list[int]:
    return sorted(table.to_arrow(["k"], **at)["k"].to_pylist())
