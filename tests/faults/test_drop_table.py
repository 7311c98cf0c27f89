"""A table whose deletion fails at any call of the store is still a table, or nothing is left of it."""

from __future__ import annotations

import pytest

from paimon_engine.errors import ConflictError, StorageError
from paimon_engine.meta.paths import TablePaths
from paimon_engine.table.state.handle import latest_schema_id
from paimon_engine.table.state.warehouse import delete_table
from tests.support.faulty_storage import DOWN, WAYS, FaultyStorage
from tests.support.world import World


@pytest.mark.parametrize("is_object_store", [True, False])
def test_what_a_failed_deletion_leaves_can_be_deleted_by_the_next(is_object_store: bool) -> None:
    world, counted = _made(is_object_store)
    counted.arm(None)
    delete_table(counted, world.root)
    assert list(world.inner.walk(world.root)) == []

    for number, (verb, path) in enumerate(counted.calls):
        for way in (*WAYS[verb], DOWN):
            print(verb, path, way)
            world, faulty = _made(is_object_store)
            faulty.arm(number, way)
            try:
                delete_table(faulty, world.root)
            except StorageError:
                left = [info.path for info in world.inner.walk(world.root)]
                assert not left or latest_schema_id(world.env, TablePaths(world.root)) is not None
                delete_table(world.inner, world.root)
            assert list(world.inner.walk(world.root)) == []


def _made(is_object_store: bool) -> tuple[World, FaultyStorage]:
    world = World()
    world.create(keys=("p", "k"), bucket=1)
    world.write({1: 1})
    world.table().create_tag("t")
    world.table().create_branch("b", tag="t")
    faulty = FaultyStorage(world.inner)
    faulty.is_object_store = is_object_store
    return world, faulty


def test_remains_of_a_table_do_not_become_part_of_a_new_one() -> None:
    """As another program leaves them, whose deletion begins with the schemas."""
    world, _ = _made(False)
    world.inner.delete_tree(f"{world.root}/schema")

    for directory in ("snapshot", "tag", "branch"):
        with pytest.raises(ConflictError, match=f"has no schema, but .*/{directory}/.*: it is left of a table"):
            world.create(keys=("p", "k"), bucket=1)
        world.inner.delete_tree(f"{world.root}/{directory}")
    world.create(keys=("p", "k"), bucket=1)
    assert world.table().to_arrow().num_rows == 0
