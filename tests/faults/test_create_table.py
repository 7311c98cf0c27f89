"""A table is made completely or not at all, whichever call of the store fails; a second attempt makes it or finds it."""

from __future__ import annotations

from paimon_engine.errors import ConflictError, PaimonError
from tests.support.faulty_storage import DOWN, WAYS, FaultyStorage
from tests.support.world import World
from tests.support.world.check import assert_sound, clean


def _calls() -> tuple[tuple[str, str], ...]:
    world = World()
    counted = FaultyStorage(world.inner)
    counted.arm(None)
    world.through(counted).create(keys=("p", "k"), bucket=1)
    return tuple(counted.calls)


def test_a_table_is_made_completely_or_not_at_all() -> None:
    calls = _calls()
    assert any(verb == "create" for verb, _ in calls)

    for number, (verb, path) in enumerate(calls):
        for way in (*WAYS[verb], DOWN):
            print(verb, path, way)
            _try(number, way)


def _try(number: int, way: str) -> None:
    world = World()
    faulty = FaultyStorage(world.inner)
    faulty.arm(number, way)
    first = _create(world.through(faulty))
    world.through(world.inner)
    again = _create(world)

    assert (first, again) in {("made", "there"), ("error", "made"), ("error", "there")}
    if way in ("no reply, done", "repeated"):
        assert first == "made"
    assert_sound(world.handle)
    world.write({1: 1})
    assert world.table().to_arrow()["v"].to_pylist() == [1]
    clean(world)
    assert world.table().to_arrow()["v"].to_pylist() == [1]


def _create(world: World) -> str:
    try:
        world.create(keys=("p", "k"), bucket=1)
    except ConflictError:
        return "there"
    except PaimonError:
        return "error"
    return "made"
