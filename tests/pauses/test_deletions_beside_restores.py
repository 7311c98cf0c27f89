"""A deletion that quarantines its files is paused at each of its calls, while others restore or empty quarantines.

Each earlier file must be complete at its original path or in a quarantine from which it can be restored, and the table
must be valid once everything is restored a day later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.actions.tags import DeleteTag
from paimon_engine.errors import PaimonError
from tests.support.world import HOUR_MS, ROOT, World
from tests.support.world.check import assert_sound, rows
from tests.support.world.rehearsal import Rehearsal
from tests.support.world.scenarios import Scenario, compacted, littered

_ALONE: Mapping[str, Any] = {"quarantine": True, "parallelism": 1}


def _compacted(world: World) -> None:
    compacted(world)
    world.table().expire_snapshots(retain_max=5, retain_min=1, older_than=world.now_ms)


MOVERS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "expire",
            _compacted,
            lambda w: w.run(ExpireSnapshots(retain_max=2, retain_min=1, older_than=w.now_ms, **_ALONE)),
        ),
        Scenario("delete a tag", _compacted, lambda w: w.run(DeleteTag("middle", **_ALONE))),
        Scenario("remove orphans", littered, lambda w: w.run(RemoveOrphanFiles(w.now_ms - HOUR_MS, **_ALONE))),
    )
}


class _Trial(Rehearsal):
    """A deletion that is paused while others act."""

    def run(self, at: int, meanwhile: Callable[[World], Any]) -> None:
        """The deletion, paused before call `at`."""
        self.reset()

        def act(_verb: str, _path: str) -> None:
            self.faulty.act = self.faulty.fail_at = None
            self.world.now_ms += 1
            meanwhile(self.world.beside())
            self.world.now_ms += 1

        self.attempt(fail_at=at, act=act)

    def missing(self) -> set[str]:
        """Files that are complete neither at their original path nor in a quarantine."""
        now = self.world.inner.dump()
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


def _restore_and_empty(world: World) -> None:
    _restore(world)
    for item in world.table().quarantines():
        world.table().empty_quarantine(item["quarantine"])


def _later(world: World) -> None:
    world.now_ms += 25 * HOUR_MS
    _restore(world)


def _harm(trial: _Trial) -> str | None:
    """What is wrong a day later, when everything is restored that can be."""
    world = trial.world
    _later(world)
    try:
        assert_sound(world.handle)
    except AssertionError as error:
        return str(error)
    if rows(world.table()) != trial.before.rows["main"]:
        return "other rows"
    return f"left: {left}" if (left := world.table().quarantines()) else None


@pytest.mark.parametrize("mover", MOVERS)
def test_a_deletion_paused_during_a_restore_loses_nothing(mover: str) -> None:
    trial = _Trial(MOVERS[mover])
    wrong: list[str] = []
    for at in range(len(trial.calls)):
        trial.run(at, _restore)
        call = trial.calls[at]
        if gone := trial.missing():
            wrong.append(f"{at} {call}: missing {sorted(gone)}")
        elif harm := _harm(trial):
            wrong.append(f"{at} {call}: {harm}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mover", MOVERS)
def test_a_deletion_paused_while_its_quarantine_is_restored_and_emptied_breaks_no_version(mover: str) -> None:
    trial = _Trial(MOVERS[mover])
    wrong: list[str] = []
    for at in range(len(trial.calls)):
        trial.run(at, _restore_and_empty)
        if harm := _harm(trial):
            wrong.append(f"{at} {trial.calls[at]}: {harm}")
    assert not wrong, "\n".join(wrong)


def _before_a_file_is_deleted_in_its_place(trial: _Trial) -> int:
    home = f"{ROOT}/manifest/"
    return next(at for at, (verb, path) in enumerate(trial.calls) if verb == "delete" and path.startswith(home))


def test_what_may_still_be_moved_is_reported_and_deleted_a_day_later() -> None:
    trial = _Trial(MOVERS["expire"])
    messages: list[tuple[str, ...]] = []
    names: list[str] = []

    def restore_and_empty(world: World) -> None:
        names.append(world.table().quarantines()[0]["quarantine"])
        result = world.table().restore(names[0])
        assert result.status == "restored"
        messages.append(result.left)
        emptied = world.table().empty_quarantine(names[0])
        assert emptied.status == "stopped"
        messages.append(emptied.stopped)

    trial.run(_before_a_file_is_deleted_in_its_place(trial), restore_and_empty)

    assert "restore the quarantine again a day later" in messages[0][0]
    assert "empty it again a day later" in messages[1][0]
    table = trial.world.table()
    assert [item["quarantine"] for item in table.quarantines()] == names
    trial.world.now_ms += 24 * HOUR_MS
    assert table.restore(names[0]).left == ()
    assert table.quarantines() == []
