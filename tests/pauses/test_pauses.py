"""Actions are paused while a clean-up runs; see `trial`. All calls of all actions: `python -m tests.pauses`."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Sequence

import pytest

from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.errors import ConflictError, PaimonError
from tests.pauses.trial import CLEAN_UPS, WRITING, Pause, pauses, run_pause
from tests.support.faulty_storage import DOWN, FaultyStorage
from tests.support.world import World, rows_of
from tests.support.world.check import assert_sound, look
from tests.support.world.reach import unreached
from tests.support.world.rehearsal import Rehearsal
from tests.support.world.scenarios import BY_NAME, keyed

SEED = random.randrange(1 << 30) if os.environ.get("PAIMON_TEST_EXPLORE") == "1" else 7
PAUSES = 1


def _before_snapshot(stage: Rehearsal) -> int:
    return next(
        number for number, (verb, path) in enumerate(stage.calls) if verb == "create" and "/snapshot/snapshot-" in path
    )


@pytest.mark.parametrize("name", WRITING)
def test_an_action_paused_during_a_clean_up_is_refused_or_readable(name: str):
    chance = random.Random(f"{name} {SEED}")
    stage = Rehearsal(BY_NAME[name])

    for pause in chance.sample(list(pauses(stage)), PAUSES):
        print(pause, stage.calls[pause.number])
        run_pause(stage, pause)


@pytest.mark.parametrize("clean_up", CLEAN_UPS)
@pytest.mark.parametrize("name", ["append rows", "compact fully", "analyze"])
def test_a_commit_paused_just_before_it_publishes_is_not_acknowledged_without_its_files(name: str, clean_up: str):
    stage = Rehearsal(BY_NAME[name])

    outcome = run_pause(stage, Pause(_before_snapshot(stage), clean_up))

    # A compaction plans again by itself; and a clean-up sees by the store's clock that the files are young.
    assert outcome == ("succeeded" if name == "compact fully" or clean_up == "old times" else "ConflictError")


def test_postponed_rows_whose_new_files_a_clean_up_took_are_distributed_again():
    stage = Rehearsal(BY_NAME["compact postponed rows"])

    assert run_pause(stage, Pause(_before_snapshot(stage), "deleted")) == "succeeded"

    assert look(stage.world).rows == stage.after.rows


def test_a_metadata_commit_paused_for_a_day_is_not_acknowledged_without_its_files():
    stage = Rehearsal(BY_NAME["roll back as the latest"])

    assert run_pause(stage, Pause(_before_snapshot(stage), "another engine")) == "ConflictError"


@pytest.mark.parametrize("part", ["/bucket-", "/manifest/"])
def test_a_file_on_its_way_out_of_a_quarantine_is_not_taken_with_both_its_copies(part: str):
    stage = Rehearsal(BY_NAME["restore quarantines"])
    calls = enumerate(stage.calls)
    between = next(
        number for number, (verb, path) in calls if verb == "delete" and "/quarantine/" in path and part in path
    )

    run_pause(stage, Pause(between, "deleted"))


@pytest.mark.parametrize("old", [False, True])
def test_a_clean_up_paused_anywhere_leaves_what_a_writer_commits_meanwhile(old: bool):
    """The other way round: at each call of a clean-up, a write begins and ends."""
    world = World()
    keyed(world)
    world.inner.overwrite(f"{world.root}/p=a/bucket-0/data-lost.parquet", b"lost")
    world.now_ms += 1
    files, now_ms = world.inner.dump(), world.now_ms

    def clean(fail_at: int | None) -> FaultyStorage:
        world.inner.load(files)
        world.now_ms = now_ms
        faulty = FaultyStorage(world.inner)
        cleaner = world.beside(faulty)
        table = cleaner.handle

        def write(_verb: str, _path: str) -> None:
            faulty.act = faulty.fail_at = None
            world.now_ms += -1 if old else 1
            world.table().write(rows_of({11: 11}), commit_user="meanwhile")

        faulty.arm(fail_at, act=write)
        cleaner.run(RemoveOrphanFiles(older_than=now_ms), "clean-up", table=table)
        return faulty

    for number in range(len(clean(None).calls))[::5]:
        clean(number)
        assert_sound(world.handle)
        assert 11 in world.table().to_arrow()["k"].to_pylist()


def test_files_that_were_prepared_before_a_clean_up_stay_if_they_are_committed_during_it():
    """They are as old as orphans and no version names them, until the commit."""
    world = World()
    keyed(world)
    messages = world.table().prepare_write(rows_of({11: 11}))
    world.inner.overwrite(f"{world.root}/p=a/bucket-0/data-lost.parquet", b"lost")
    world.now_ms += 1
    files, now_ms = world.inner.dump(), world.now_ms
    newest = world.table().latest_snapshot_id()

    def clean(fail_at: int | None) -> tuple[FaultyStorage, bool]:
        world.inner.load(files)
        world.now_ms = now_ms
        faulty, is_committed = FaultyStorage(world.inner), False
        cleaner = world.beside(faulty)

        def commit(_verb: str, _path: str) -> None:
            nonlocal is_committed
            faulty.act = faulty.fail_at = None
            world.now_ms += 1
            with contextlib.suppress(ConflictError):
                is_committed = world.table().commit(messages, commit_user="meanwhile").status == "committed"

        faulty.arm(fail_at, act=commit)
        cleaner.run(RemoveOrphanFiles(now_ms, confirm_latest_snapshot=newest), "clean-up", table=cleaner.handle)
        return faulty, is_committed

    outcomes = []
    for number in range(0, len(clean(None)[0].calls), 4):
        is_committed = clean(number)[1]
        outcomes.append(is_committed)
        assert_sound(world.handle)
        assert (11 in world.table().to_arrow()["k"].to_pylist()) is is_committed
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize("times", [1, 2])
def test_a_clean_up_during_an_expiry_searches_again_if_a_snapshot_was_deleted_meanwhile(times: int):
    world = World()
    keyed(world)
    world.table().delete_tag("middle")
    lost = f"{world.root}/p=a/bucket-0/data-lost.parquet"
    world.inner.overwrite(lost, b"lost")
    world.now_ms += 1
    world.table().write(rows_of({11: 11}))
    world.now_ms += 1
    faulty = FaultyStorage(world.inner)
    due = list(range(1, times + 1))

    def expire(verb: str, path: str) -> None:
        if due and verb == "read" and path.endswith(f"/snapshot/snapshot-{due[0]}"):
            newest = world.table().latest_snapshot_id() or 0
            world.table().expire_snapshots(retain_max=newest - due.pop(0), retain_min=1, older_than=world.now_ms)

    faulty.arm(0, DOWN, act=expire)

    result = world.beside(faulty).run(RemoveOrphanFiles(world.now_ms), "clean-up")

    assert due == []
    assert (result.status, result.stopped) == ("deleted", ())
    assert not world.inner.exists(lost)
    assert unreached(world.inner, world.root) == set()


def test_a_commit_whose_files_are_in_the_plan_of_a_dead_clean_up_is_refused_until_the_next_one():
    stage = Rehearsal(BY_NAME["append rows"])
    world = stage.world
    stage.reset()

    def dies(_verb: str, _path: str) -> None:
        stage.faulty.act = stage.faulty.fail_at = None
        world.now_ms += 1
        dying = FaultyStorage(world.inner)

        class Dead(BaseException):
            pass

        def die(paths: Sequence[str]) -> None:
            if not all("/deletion/orphans/" in path for path in paths):
                raise Dead
            world.inner.delete(paths)

        dying.delete = die
        with pytest.raises(Dead):
            newest = world.beside().table().latest_snapshot_id()
            world.beside(dying).run(RemoveOrphanFiles(world.now_ms, confirm_latest_snapshot=newest), "clean-up")

    stage.faulty.arm(_before_snapshot(stage), act=dies)
    world.through(stage.faulty)
    with pytest.raises(ConflictError, match="run it again"):
        stage.scenario.act(world)
    world.through(world.inner)
    plans = [info.path for info in world.inner.walk(f"{world.root}/deletion/orphans")]
    assert len(plans) == 1

    stage.act()
    world.now_ms += 1
    world.run(RemoveOrphanFiles(older_than=world.now_ms))

    assert list(world.inner.walk(f"{world.root}/deletion/orphans")) == []
    assert assert_sound(world.handle) == set()


def test_a_dry_run_blocks_no_commit():
    stage = Rehearsal(BY_NAME["remove orphan files"])
    stage.reset()
    before = stage.world.inner.dump()

    result = stage.world.run(RemoveOrphanFiles(stage.world.now_ms, dry_run=True))

    assert result.files_deleted > 0
    assert stage.world.inner.dump() == before


def test_a_damaged_plan_is_named_and_stops_only_commits_that_would_need_it():
    stage = Rehearsal(BY_NAME["append rows"])
    world = stage.world
    stage.reset()
    plan = f"{world.root}/deletion/orphans/1.json"
    world.inner.overwrite(plan, b"{")

    world.write({20: 20})
    with pytest.raises(PaimonError, match="is not a valid plan of a clean-up"):
        world.run(RemoveOrphanFiles(older_than=world.now_ms))
