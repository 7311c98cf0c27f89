"""Messages that several jobs commit, at once or after a rollback: their rows are there once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from paimon_engine import CommitMessage, ConflictError, Table
from tests.reports.replay import histories, keys_of
from tests.support.world import World, rows_of
from tests.support.world.check import assert_sound

KEYED = pytest.mark.parametrize("keys", [("p", "k"), ()], ids=["keyed", "append"])


def made(keys: Sequence[str]) -> World:
    world = World()
    world.create(keys=keys, bucket=1 if keys else -1)
    world.write({1: 1})
    return world


@KEYED
def test_two_jobs_that_commit_the_same_messages(keys: Sequence[str]) -> None:
    messages: list[CommitMessage] = []

    def prepare() -> World:
        world = made(keys)
        messages[:] = world.table().prepare_write(rows_of({2: 2}))
        return world

    def by(user: str) -> Callable[[Table], str]:
        return lambda table: table.commit(messages, commit_user=user).status

    outcomes = set()
    for world, outcome in histories(prepare, by("one"), by("other")):
        outcomes.add(outcome)
        assert_sound(world.handle)
        assert keys_of(world.table()) == [1, 2]
    assert outcomes == {"committed", "already_done"}


@KEYED
@pytest.mark.parametrize("later", [0, 1, 3])
def test_a_rollback_before_the_messages_were_committed_the_first_time(keys: Sequence[str], later: int) -> None:
    world = made(keys)
    world.write({3: 3})
    world.write({4: 4})
    messages = world.table().prepare_write(rows_of({2: 2}))
    world.table().rollback(snapshot=1)
    table = world.table()
    assert table.commit(messages, commit_user="one").status == "committed"
    for number in range(later):
        world.write({5 + number: 0})

    assert world.table().commit(messages, commit_user="other").status == "already_done"

    assert keys_of(world.table()) == [1, 2, *(5 + number for number in range(later))]
    assert_sound(world.handle)


@KEYED
def test_after_a_rollback_of_their_commit_files_may_be_gone(keys: Sequence[str]) -> None:
    world = made(keys)
    messages = world.table().prepare_write(rows_of({2: 2}))
    world.table().commit(messages, commit_user="one")
    world.table().rollback(snapshot=1)

    with pytest.raises(ConflictError, match="deleted"):
        world.table().commit(messages, commit_user="other")

    assert keys_of(world.table()) == [1]
