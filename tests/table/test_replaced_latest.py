"""A rollback, after which another commit gets the id of the latest snapshot, while an action reads that one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.action_table import ACTIONS
from paimon_engine.actions.compact import Compact
from tests.support.meddling import Meddling
from tests.support.world import World


class _Meddled:
    """A store that lets somebody else act before the next manifest is read."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.act: Callable[[], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, path: str) -> bytes:
        if self.act is not None and "/manifest/manifest-" in path and "/manifest-list-" not in path:
            act, self.act = self.act, None
            act()
        data: bytes = self._inner.read(path)
        return data


@pytest.mark.parametrize("when", ["it plans", "it commits"])
def test_a_compaction_goes_on_with_the_snapshot_that_has_the_same_id_now(when: str) -> None:
    world = World()
    world.create(keys=("k",), by=(), bucket=1)
    for number in range(4):
        world.write({1: number})
    store = _Meddled(world.inner)
    slow = world.beside(store)
    handle = slow.handle

    def replace() -> None:
        world.table().rollback(snapshot=world.table().latest_snapshot_id() - 1)
        world.write({7: 70})

    def be_replaced() -> None:
        world.write({5: 5})
        store.act = replace

    if when == "it plans":
        store.act = replace
    executor = slow.executor if when == "it plans" else Meddling(be_replaced, env=slow.env)
    result = ACTIONS["compact"].run(Context(handle, executor), Compact(full=True))

    assert result.status == "committed"
    assert store.act is None
    assert world.table().files().num_rows <= 2
    assert dict(zip(*world.table().to_arrow(columns=["k", "v"]).to_pydict().values(), strict=True)) in (
        {1: 2, 7: 70},
        {1: 3, 7: 70},
    )
