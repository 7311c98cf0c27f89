"""A deletion that moves its files aside is held up at each of its calls, while others restore or empty quarantines.

Each file that was there must lie whole in its place or in a quarantine from which a restore brings it back, and the
table must be sound once everything is restored a day later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from paimon_engine.errors import PaimonError
from paimon_engine.table.check.table_check import check_table
from tests.support.faulty_storage import FaultyStorage
from tests.support.naive_reach import unreached
from tests.support.scenarios import HOUR_MS, ROOT, World, compacted, littered

_ALONE: Mapping[str, Any] = {"quarantine": True, "parallelism": 1}
MOVERS: Mapping[str, tuple[Callable[[World], None], Callable[[World], Any]]] = {
    "expire": (
        compacted,
        lambda w: w.table().expire_snapshots(retain_max=2, retain_min=1, older_than=w.now_ms, **_ALONE),
    ),
    "delete a tag": (compacted, lambda w: w.table().delete_tag("middle", **_ALONE)),
    "remove orphans": (littered, lambda w: w.table().remove_orphan_files(w.now_ms - HOUR_MS, **_ALONE)),
}


class _Trial:
    """A world before its deletion, and the same one through a store that holds the deletion up."""

    def __init__(self, mover: str) -> None:
        prepare, self.deed = MOVERS[mover]
        self.world = World()
        prepare(self.world)
        if prepare is compacted:
            self.world.table().expire_snapshots(retain_max=5, retain_min=1, older_than=self.world.now_ms)
        self.world.now_ms += HOUR_MS
        self.files, self.now_ms = dict(self.world.inner._files), self.world.now_ms
        self.faulty = FaultyStorage(self.world.inner)
        self.latest = self.world.table().to_arrow().sort_by("k")

    def run(self, at: int | None, meanwhile: Callable[[World], Any] = lambda _world: None) -> int:
        """The number of calls of the deletion, held up ahead of call `at`."""
        world = self.world
        world.inner._files, world.now_ms = dict(self.files), self.now_ms

        def act(_verb: str, _path: str) -> None:
            self.faulty.act = self.faulty.fail_at = None
            world.through(world.inner)
            world.now_ms += 1
            meanwhile(world)
            world.now_ms += 1

        self.faulty.arm(at, act=act)
        with suppress(PaimonError):
            self.deed(world.through(self.faulty))
        world.through(world.inner)
        return len(self.faulty.calls)

    def missing(self) -> set[str]:
        """Files that lie neither in their place nor in a quarantine, whole."""
        now = self.world.inner._files
        aside: dict[str, list[bytes]] = {}
        for path, (data, _) in now.items():
            if path.startswith(f"{ROOT}/quarantine/"):
                _, _, inside = path.removeprefix(f"{ROOT}/quarantine/").partition("/")
                aside.setdefault(inside, []).append(data)
        for data in aside.get("moved.json", []):
            for inside, text in json.loads(data)["roots"].items():
                aside.setdefault(inside, []).append(text.encode())
        before = {path[len(ROOT) + 1 :]: data for path, (data, _) in self.files.items()}
        return {
            path
            for path, data in before.items()
            if path.startswith(("p=", "manifest/", "index/", "snapshot/snapshot-", "tag/"))
            and now.get(f"{ROOT}/{path}", (b"", 0))[0] != data
            and data not in aside.get(path, [])
        }


def _restore(world: World) -> None:
    for item in reversed(world.table().quarantines()):
        with suppress(PaimonError):
            world.table().restore(item["quarantine"])


def _empty(world: World) -> None:
    """Of what has roots in its list only the files go: it is a wish to lose these."""
    for item in world.table().quarantines():
        world.table().empty_quarantine(item["quarantine"])


def _later(world: World) -> None:
    world.now_ms += 25 * HOUR_MS
    _restore(world)


@pytest.mark.parametrize("mover", MOVERS)
def test_a_deletion_held_up_beside_a_restore_loses_nothing(mover: str) -> None:
    trial = _Trial(mover)
    lost: dict[int, Any] = {}
    calls = trial.run(None)
    verbs = list(trial.faulty.calls)
    for at in range(calls):
        trial.run(at, _restore)
        if gone := trial.missing():
            lost[at] = (verbs[at], "missing", sorted(gone))
            continue
        _later(trial.world)
        try:
            unreached(trial.world.inner, ROOT)
        except AssertionError as error:
            lost[at] = (verbs[at], str(error))
            continue
        if problems := check_table(trial.world.handle()):
            lost[at] = (verbs[at], problems)
        elif trial.world.table().to_arrow().sort_by("k") != trial.latest:
            lost[at] = (verbs[at], "other rows")
        elif left := trial.world.table().quarantines():
            lost[at] = (verbs[at], "left", left)
    assert not lost, "\n".join(f"{at}: {what}" for at, what in lost.items())
