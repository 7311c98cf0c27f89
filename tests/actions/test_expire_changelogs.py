"""Changelogs that outlive their snapshots: which are kept and which are deleted, with which files, also if others act meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest

from paimon_engine.errors import InvalidArgumentError, NotFoundError, StorageError
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.removal.retention import Retention, choose_expired_changelogs
from paimon_engine.table.state.changelogs import changelog_ids
from paimon_engine.table.state.snapshots import read_snapshot
from tests.support.storage_events import Event, EventStorage
from tests.support.world import HOUR_MS
from tests.support.world.made_up import ROOT, History

LONG = {"changelog.num-retained.min": "20", "snapshot.num-retained.min": "1"}
INPUT = {**LONG, "changelog-producer": "input"}
SHORTER = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1 ms",
    "changelog.num-retained.max": "4",
    "changelog.time-retained": "9 d",
}

# Commit n is made at hour n. `latest` is the latest snapshot; the rest is as for snapshots.
CHOICES = """
name                                  ids           latest max min older limit consumers  expired
none there                            -             9      -   1   99    50    -          -
the newest always stays               1,2,3         4      -   1   99    50    -          1,2
young ones stay                       1,2,3         4      -   1   1     50    -          -
as old as their own commits           1,2,3,4       5      -   1   3     50    -          1,2
snapshots count for the least         1,2,3,4       6      -   4   99    50    -          1,2
snapshots count for the most          1,2,3,4       6      4   1   0     50    -          1,2
a consumer keeps what it will read    1,2,3,4       6      1   1   99    50    2          1
a consumer of a snapshot keeps none   1,2,3,4       6      1   1   99    50    5          1,2,3
one run has a limit                   1,2,3,4       6      1   1   99    2     -          1,2
a gap                                 1,4,5         9      1   1   99    50    -          1,4
"""


def _numbers(text: str) -> list[int]:
    return [] if text == "-" else [int(part) for part in text.split(",")]


@pytest.mark.parametrize(
    "cells", [pytest.param(line[38:].split(), id=line[:38].strip()) for line in CHOICES.strip().splitlines()[1:]]
)
def test_which_changelogs_are_deleted(cells: list[str]) -> None:
    ids, latest, most, least, older, limit, consumers, expired = cells
    retention = Retention(None if most == "-" else int(most), int(least), int(older) * HOUR_MS, int(limit))
    times = {number: number * HOUR_MS for number in _numbers(ids)}

    choice = choose_expired_changelogs(
        times, int(latest), retention, consumers={f"c{number}": number for number in _numbers(consumers)}
    )

    assert choice.expired == tuple(_numbers(expired))


def test_lists_that_a_changelog_does_not_need_go_before_all_other_files() -> None:
    """Java expires a changelog with all that its lists name, as long as they are there, also what snapshots need."""
    store = EventStorage()
    history = History(INPUT, storage=store).write("a").write("b").compact("c").write("d").write("e")
    snapshots = [read_snapshot(history.handle, number) for number in range(1, 5)]
    lists = {one for item in snapshots for one in (item.base_manifest_list, item.delta_manifest_list)}
    gone: list[str] = []
    store.before = lambda event: gone.append(event[1].rpartition("/")[2]) if event[0] == "delete" else None

    result = history.expire(retain_max=1)

    assert result.kept_changelogs == (1, 2, 3, 4)
    deleted = [name for name in gone if name.startswith("manifest-") or ".orc" in name]
    assert set(deleted[: len(lists)]) == lists
    assert len(deleted) > len(lists)
    history.assert_exact()


def test_a_run_that_finishes_an_expiry_deletes_lists_of_changelogs_first() -> None:
    store = EventStorage()
    history = History(INPUT, storage=store).write("a").write("b").compact("c").write("d").write("e")
    snapshots = [read_snapshot(history.handle, number) for number in range(1, 5)]
    lists = {one for item in snapshots for one in (item.base_manifest_list, item.delta_manifest_list)}
    gone: list[str] = []

    def dies(event: Event) -> None:
        if event[0] == "delete" and "/manifest/" in event[1]:
            raise StorageError("the process has died")

    store.before = dies
    history.expire(retain_max=1)
    store.before = lambda event: gone.append(event[1].rpartition("/")[2]) if event[0] == "delete" else None
    history.expire(retain_max=1)

    deleted = [name for name in gone if name.startswith("manifest-") or ".orc" in name]
    assert set(deleted[: len(lists)]) == lists
    assert len(deleted) > len(lists)
    history.assert_exact()


def test_a_changelog_has_what_its_snapshot_had() -> None:
    history = History(LONG).write("a").write("b").write("c")
    before = history.storage.read(f"{ROOT}/snapshot/snapshot-1")

    result = history.expire(retain_max=1)

    assert (result.expired_snapshots, result.kept_changelogs, result.expired_changelogs) == ((1, 2), (1, 2), ())
    assert history.storage.read(f"{ROOT}/changelog/changelog-1") == before
    assert history.storage.read(f"{ROOT}/changelog/LATEST") == b"2"
    assert history.storage.read(f"{ROOT}/changelog/EARLIEST") == b"1"
    history.assert_exact()


def test_without_changelog_files_the_written_files_are_kept_and_compacted_ones_are_deleted() -> None:
    history = History(LONG).write("a").write("b").compact("c").write("d").compact("e").write("f")

    result = history.expire(retain_max=1)

    assert result.kept_changelogs == (1, 2, 3, 4, 5)
    assert history.names() == {"a", "b", "d", "e", "f"}
    history.assert_exact()


def test_with_changelog_files_these_are_kept_and_data_is_deleted() -> None:
    history = History(INPUT).write("a").write("b").compact("c").write("d")

    history.expire(retain_max=1)

    assert history.names() == {"changelog-a", "changelog-b", "changelog-d", "c", "d"}
    history.assert_exact()


@pytest.mark.parametrize("options", [LONG, INPUT], ids=["none", "input"])
def test_changelogs_are_deleted_with_what_only_they_kept(options: dict[str, str]) -> None:
    history = History(options).write("a").write("b").compact("c").write("d").compact("e").write("f")
    history.expire(retain_max=1)

    planned = history.expire_changelogs(retain_max=2, dry_run=True)
    done = history.expire_changelogs(retain_max=2)
    rest = history.expire_changelogs(delete_all=True)

    assert planned.status == "dry_run"
    assert (planned.expired_changelogs, planned.deleted) == (done.expired_changelogs, done.deleted)
    assert done.expired_changelogs == (1, 2, 3, 4)
    assert rest.expired_changelogs == (5,)
    assert (rest.earliest_changelog_id, rest.latest_changelog_id) == (None, None)
    assert not list(history.storage.walk(f"{ROOT}/changelog"))
    assert history.names() == {"e", "f"} | ({"changelog-f"} if options is INPUT else set())
    history.assert_exact()


def test_expiring_snapshots_expires_changelogs_too_and_never_writes_those_that_would_be_deleted() -> None:
    storage = EventStorage()
    history = History(SHORTER, storage=storage)
    for number in range(9):
        history.write(f"w{number}")
    written: list[str] = []
    storage.before = lambda event: written.append(event[1]) if event[0] == "overwrite" else None

    first = history.expire()
    history.write("x").write("y")
    second = history.expire()

    assert (first.expired_snapshots, first.kept_changelogs) == ((1, 2, 3, 4, 5, 6, 7), (6, 7))
    assert first.expired_changelogs == (1, 2, 3, 4, 5)
    assert not [path for path in written if path.endswith("changelog-5")]
    assert (second.kept_changelogs, second.expired_changelogs) == ((8, 9), (6, 7))
    assert changelog_ids(history.handle) == [8, 9]
    history.assert_exact()


def test_consumers_keep_changelogs() -> None:
    history = History(LONG).write().write().write().write().write()
    history.expire(retain_max=1)
    history.storage.overwrite(f"{ROOT}/consumer/consumer-job", b'{"nextSnapshot": 2}')

    some = history.expire_changelogs(retain_max=1)
    all_of_them = history.expire_changelogs(delete_all=True)

    assert (some.expired_changelogs, all_of_them.expired_changelogs) == ((1,), ())
    assert "consumer 'job'" in some.stopped[0]
    assert "consumer 'job'" in all_of_them.stopped[0]


@pytest.mark.parametrize(
    "fields", [{"retain_max": 0}, {"retain_max": 1, "retain_min": 2}, {"limit": 0}, {"delete_all": True, "limit": 1}]
)
def test_contradictions_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        History(LONG).write().expire_changelogs(**fields)


def test_a_table_without_changelogs_has_none_to_expire() -> None:
    assert History().expire_changelogs().status == "noop"
    assert History().write().write().expire_changelogs(delete_all=True).status == "noop"


def test_once_options_keep_no_changelogs_all_of_them_may_be_deleted_and_leave_nothing() -> None:
    history = History(LONG).write("a").write("b").compact("c").write("d").write("e")
    history.expire(retain_max=3)
    history.set_options({"changelog.num-retained.min": "1"})
    history.compact("f").write("g")

    history.expire(retain_max=1)
    assert changelog_ids(history.handle) == [1, 2]
    history.assert_sound()
    history.expire_changelogs(delete_all=True)

    assert history.names() == {"f", "g"}
    history.assert_exact()


# ── tags, rollback, branches ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [LONG, INPUT], ids=["none", "input"])
def test_a_tag_and_a_changelog_of_one_commit_each_keep_their_own(options: dict[str, str]) -> None:
    history = History(options).write("a").write("b")
    history.tag("t")
    history.compact("c").write("d").write("e")
    history.expire(retain_max=1)
    history.assert_sound()

    history.delete_tag("t")

    history.assert_sound()
    history.expire_changelogs(delete_all=True)
    assert history.names() == {"c", "d", "e"} | ({"changelog-e"} if options is INPUT else set())
    history.assert_exact()


@pytest.mark.parametrize("options", [LONG, INPUT], ids=["none", "input"])
def test_a_rollback_takes_the_changelogs_beyond_it(options: dict[str, str]) -> None:
    history = History(options).write("a").write("b")
    history.tag("t")
    history.compact("c").write("d").compact("e").write("f")
    history.expire(retain_max=1)

    result = history.rollback(tag="t")

    assert result.removed_changelogs == (3, 4, 5)
    assert changelog_ids(history.handle) == [1, 2]
    assert history.storage.read(f"{ROOT}/changelog/LATEST") == b"2"
    assert {"a", "b"} <= history.names() <= {"a", "b", "changelog-a", "changelog-b"}
    history.assert_exact()
    history.write("g").expire(retain_max=1)
    assert changelog_ids(history.handle) == [1, 2]
    history.assert_exact()


def test_a_rollback_below_all_changelogs_says_that_none_is_left() -> None:
    history = History(LONG).write("a")
    history.tag("t")
    history.write("b").write("c").write("d")
    history.expire(retain_max=1)
    history.expire_changelogs(retain_max=3)
    assert changelog_ids(history.handle) == [2, 3]

    history.rollback(tag="t")

    assert history.storage.read(f"{ROOT}/changelog/LATEST") == b"-1"
    assert history.names() == {"a"}
    history.assert_exact()


def test_a_branch_has_changelogs_of_its_own() -> None:
    history = History(LONG).write("a")
    history.tag("base")
    history.branch("dev", "base").write("b", branch="dev").compact("c", branch="dev").write("d", branch="dev")
    history.write("m").write("n")

    result = history.expire(branch="dev", retain_max=1)
    history.expire(retain_max=1)

    assert result.kept_changelogs == (1, 2, 3)
    assert changelog_ids(history.on("dev")) == [1, 2, 3]
    assert changelog_ids(history.handle) == [1, 2]
    assert history.names() == {"a", "b", "c", "d", "m", "n"}
    history.assert_exact()
    history.delete_branch("dev")
    assert history.names() == {"a", "m", "n"}
    history.assert_exact()


def test_fast_forward_takes_over_the_branchs_changelogs() -> None:
    history = History(LONG).write("a")
    history.tag("base")
    history.branch("dev", "base").write("b", branch="dev").write("c", branch="dev")
    history.write("m").write("n").write("o").write("p")
    history.expire(retain_max=1)
    history.expire(branch="dev", retain_max=1)
    assert changelog_ids(history.handle) == [1, 2, 3, 4]

    history.fast_forward("dev")

    assert history.ids() == [3]
    assert changelog_ids(history.handle) == [1, 2]
    assert history.storage.read(f"{ROOT}/changelog/changelog-2") == history.storage.read(
        f"{history.on('dev').paths.changelog_dir}/changelog-2"
    )
    assert history.names() == {"a", "b", "c"}
    history.assert_exact()


# ── what is broken, and who acts meanwhile ──────────────────────────────────────────────────────


def test_a_broken_changelog_keeps_what_it_may_need_and_is_deleted_with_others() -> None:
    history = History(LONG).write("a").compact("b").write("c").write("d")
    history.expire(retain_max=2)
    history.storage.overwrite(f"{ROOT}/changelog/changelog-1", b"{")
    held = history.names()

    result = history.expire(retain_max=1)

    assert (result.expired_snapshots, result.deleted) == ((3,), ())
    assert "changelog-1" in " ".join(result.stopped)
    assert history.names() == held
    assert [problem.where for problem in check_table(history.handle, footers=False)] == [
        f"{ROOT}/changelog/changelog-1"
    ]

    planned = history.expire_changelogs(delete_all=True, dry_run=True)
    done = history.expire_changelogs(delete_all=True)

    assert planned.expired_changelogs == done.expired_changelogs == (1, 2, 3)
    assert "changelog-1" in " ".join(done.stopped)
    assert changelog_ids(history.handle) == []
    history.assert_sound()
    history.remove_orphans()
    history.assert_exact()


def test_verify_reports_a_changelog_without_its_files() -> None:
    history = History(LONG).write("a").compact("b").write("c")
    history.expire(retain_max=1)
    history.storage.delete([history.path("a.orc")])

    assert [problem.what for problem in check_table(history.handle, footers=False)] == [
        f"{history.path('a.orc')} is missing"
    ]


def test_an_expired_snapshot_is_distinguished_from_one_that_never_existed() -> None:
    history = History(LONG).write().write().write()
    history.expire(retain_max=1)

    with pytest.raises(NotFoundError, match="only its changelog is kept"):
        history.tag("late", snapshot=1)
    with pytest.raises(NotFoundError, match="no snapshot 9"):
        history.tag("late", snapshot=9)


def test_a_tag_made_while_its_snapshot_becomes_a_changelog_keeps_its_files() -> None:
    storage = EventStorage()
    history = History(INPUT, storage=storage).write("a").write("b").compact("c").write("d")
    storage.once("overwrite", "changelog/changelog-2", lambda: history.tag("late", 2))

    history.expire(retain_max=1)

    assert history.tags() == ["late"]
    assert {"a", "b", "c", "d"} <= history.names()
    history.assert_exact()


def _busy_history(storage: EventStorage, options: dict[str, str]) -> History:
    history = History({**options, **SHORTER}, storage=storage)
    history.write("a").write("b").compact("c").write("d")
    history.expire()
    history.tag("t")
    return history.write("e").compact("f").write("g").write("h").compact("i")


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_crash_anywhere_leaves_complete_snapshots_and_changelogs(producer: str) -> None:
    number = 0
    while True:
        storage = EventStorage()
        history = _busy_history(storage, {"changelog-producer": producer})
        storage.crash_at(number)
        try:
            result = history.expire()
        except StorageError:
            result = None
        finally:
            storage.before = None

        history.assert_sound()
        assert history.reachable() <= history.stored()
        row = sorted({*changelog_ids(history.handle), *history.ids()})
        assert row == list(range(row[0], 10))
        again = history.expire()
        assert again.stopped == ()
        assert history.ids() == [8, 9]
        assert changelog_ids(history.handle)[-2:] == [6, 7]
        history.assert_sound()
        assert history.reachable() <= history.stored()
        if result is not None and result.stopped == ():
            break
        number += 1
    assert number > 12


# ── random histories ────────────────────────────────────────────────────────────────────────────


def _step(history: History, chance: random.Random, branches: list[str]) -> None:
    branch = chance.choice(["main", *branches])
    match chance.choice("wwwwccoettdrbfxxDEo"):
        case "c":
            history.compact(branch=branch)
        case "o":
            history.overwrite(f"o{chance.random()}", branch=branch)
        case "t":
            history.tag(f"t{chance.randrange(6)}", chance.choice(history.ids(branch)), branch, if_exists="ignore")
        case "d" if tags := [tag for tag in history.tags(branch) if not tag.startswith("base")]:
            history.delete_tag(chance.choice(tags), branch)
        case "r" if not branches:
            history.rollback(snapshot=chance.choice(history.ids()))
        case "b" if len(branches) < 2:
            name = f"b{chance.randrange(1000)}"
            history.tag(f"base-{name}")
            history.branch(name, f"base-{name}")
            branches.append(name)
        case "f" if branches:
            history.fast_forward(branches[-1], may_fail=True)
        case "D" if branches:
            history.delete_branch(branches.pop())
        case "x" | "e":
            history.expire(branch, retain_max=chance.randint(1, 4))
        case "E":
            limits = {"retain_max": chance.randint(1, 6)} if chance.random() < 0.8 else {"delete_all": True}
            history.expire_changelogs(branch, **limits)
        case _:
            history.write(branch=branch)


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_lose_nothing_that_is_reachable(producer: str, seed: int) -> None:
    chance = random.Random(seed)
    history = History({**LONG, "changelog-producer": producer, "snapshot.expire.limit": "9"}).write().write()
    branches: list[str] = []
    for _ in range(35):
        _step(history, chance, branches)

        assert history.reachable() <= history.stored()
        history.assert_sound()
    for name in branches:
        history.delete_branch(name)
    for tag in history.tags():
        history.delete_tag(tag)
    history.set_options({"changelog.num-retained.min": "1"})
    for _ in range(9):
        history.expire(retain_max=1)
    history.expire_changelogs(delete_all=True)
    history.remove_orphans()
    history.assert_exact()
