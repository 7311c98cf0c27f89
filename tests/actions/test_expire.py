"""Expiry: which snapshots are deleted, which files with them, and what happens when others act or something breaks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.tags import DeleteTag
from paimon_engine.env import EnvConfig
from paimon_engine.errors import InvalidArgumentError, StorageError
from paimon_engine.executor import LocalExecutor
from paimon_engine.storage import storage_for
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.reach.reachability import LOCAL_MANIFESTS_MAX
from paimon_engine.table.removal.retention import ExpiryChoice, Retention, choose_expired
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import read_snapshot, snapshot_ids, tag_names
from tests.support.corpus import Case, corpus_cases
from tests.support.storage_events import EventStorage, TroubledStorage
from tests.support.world import HOUR_MS
from tests.support.world.made_up import ROOT, History

# Snapshot n is committed at hour n. `older` is an hour; a dash leaves a limit out.
CHOICES = """
name                                  ids           max min older limit consumers  expired
no snapshots                          -             -   1   99    50    -          -
one snapshot stays                    1             -   1   99    50    -          -
old ones go, the latest stays         1,2,3         -   1   99    50    -          1,2
young ones stay                       1,2,3         -   1   0     50    -          -
a snapshot is as old as its successor 1,2,3,4,5     -   1   3     50    -          1
replaced exactly then stays           1,2,3,4,5     -   1   4     50    -          1,2
the least number stays                1,2,3,4,5     -   3   99    50    -          1,2
more than the most go, however young  1,2,3,4,5     2   1   0     50    -          1,2,3
between most and least by age         1,2,3,4,5     4   2   3     50    -          1
between most and least by age 2       1,2,3,4,5     4   2   4     50    -          1,2
a consumer keeps what it will read    1,2,3,4,5     1   1   99    50    3          1,2
the slowest consumer counts           1,2,3,4,5     1   1   99    50    4,2        1
a consumer far behind keeps all       4,5,6         1   1   99    50    2          -
a consumer ahead keeps nothing        1,2,3         1   1   99    50    9          1,2
one run has a limit                   1,2,3,4,5     1   1   99    2     -          1,2
a gap left by a crash                 1,2,5,6       1   1   99    50    -          1,2,5
"""


def _numbers(text: str) -> list[int]:
    return [] if text == "-" else [int(part) for part in text.split(",")]


def _choices() -> list[Any]:
    return [pytest.param(line[38:].split(), id=line[:38].strip()) for line in CHOICES.strip().splitlines()[1:]]


@pytest.mark.parametrize("cells", _choices())
def test_which_snapshots_are_deleted(cells: list[str]) -> None:
    ids, most, least, older, limit, consumers, expired = cells
    retention = Retention(None if most == "-" else int(most), int(least), int(older) * HOUR_MS, int(limit))
    readers = {f"reader-{number}": next_id for number, next_id in enumerate(_numbers(consumers))}

    choice = choose_expired({number: number * HOUR_MS for number in _numbers(ids)}, retention, consumers=readers)

    assert choice.expired == tuple(_numbers(expired))


def test_reasons_name_consumers_and_the_limit() -> None:
    times = dict.fromkeys(range(1, 10), 0)

    choice = choose_expired(times, Retention(1, 1, 1, 2), consumers={"slow": 5})

    assert choice == ExpiryChoice(
        (1, 2),
        (
            "consumer 'slow' will read snapshot 5 next",
            "the limit of 2 ('limit' or 'snapshot.expire.limit') is reached; run again for the rest",
        ),
    )


def test_options_say_what_the_spec_leaves_open() -> None:
    history = History({"snapshot.num-retained.min": "2", "snapshot.time-retained": "150 min"})
    for _ in range(6):
        history.write()

    result = history.expire()

    # It is hour 6: snapshots replaced before 3:30 expire.
    assert result.expired_snapshots == (1, 2)
    assert (result.earliest_snapshot_id, result.latest_snapshot_id) == (3, 6)


@pytest.mark.parametrize(
    "fields", [{"retain_max": 0}, {"retain_min": 0}, {"retain_max": 1, "retain_min": 2}], ids=lambda item: str(item)
)
def test_contradictions_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError):
        History().write().expire(**fields)


def test_an_empty_table_has_nothing_to_expire() -> None:
    assert History().expire(retain_max=1).status == "noop"


def test_removed_files_are_deleted_and_live_ones_stay() -> None:
    history = History().write("a").write("b").compact("c").write("d")

    result = history.expire(retain_max=1)

    assert result.status == "expired"
    assert result.expired_snapshots == (1, 2, 3)
    assert history.names() == {"c", "d"}
    assert result.files_deleted == len(result.deleted)
    assert result.bytes_deleted == sum(file.size_bytes for file in result.deleted) > 0
    history.assert_exact()


def test_a_file_that_only_moved_up_stays() -> None:
    history = History().write("a").compact().write("b")

    history.expire(retain_max=1)

    assert history.names() == {"a", "b"}
    history.assert_exact()


def test_a_dry_run_changes_nothing_and_reports_the_same() -> None:
    history = History().write("a").write("b").compact("c").write("d")
    before = {info.path: history.storage.read(info.path) for info in history.storage.walk(ROOT)}

    planned = history.expire(retain_max=1, dry_run=True)

    assert {info.path: history.storage.read(info.path) for info in history.storage.walk(ROOT)} == before
    done = history.expire(retain_max=1)
    assert planned.status == "dry_run"
    assert (planned.expired_snapshots, planned.deleted) == (done.expired_snapshots, done.deleted)


def test_a_tag_keeps_its_files_and_is_named() -> None:
    history = History().write("a").write("b")
    history.tag("keep")
    history.compact("c").write("d")

    result = history.expire(retain_max=1)

    assert result.kept_by_tags == {"keep": 2}
    assert history.names() == {"a", "b", "c", "d"}
    history.delete_tag("keep")
    assert history.names() == {"c", "d"}
    history.assert_exact()


def test_a_branch_keeps_its_files() -> None:
    history = History().write("a")
    history.tag("base")
    history.branch("dev", "base").write("b", branch="dev")
    # Other tools may delete the tag that the branch was made from, on both sides.
    history.storage.delete([history.handle.paths.tag("base"), history.on("dev").paths.tag("base")])
    history.compact("c").write("d")

    history.expire(retain_max=1)

    assert history.names() == {"a", "b", "c", "d"}
    history.assert_exact()


def test_the_earliest_hint_follows() -> None:
    history = History().write().write().write()

    history.expire(retain_max=1)

    assert history.storage.read(history.handle.paths.earliest_hint) == b"3"


def test_the_latest_hint_of_a_process_that_was_stopped_for_long_is_mended() -> None:
    """Java takes a hint for the latest snapshot if the one after it is not there, whether its own is or not."""
    storage = EventStorage()
    history = History(storage=storage).write("a")
    hint = history.handle.paths.latest_hint
    storage.once("overwrite", "snapshot/LATEST", lambda: history.write("c").write("d").expire(retain_max=1))

    history.write("b")

    assert history.ids() == [4]
    assert storage.read(hint) == b"4"

    history.write("e").write("f")
    storage.overwrite(hint, b"4")
    history.expire(retain_max=1)

    assert storage.read(hint) == b"6"
    history.assert_exact()


def _break_tag(history: History) -> None:
    tagged = [path for path in history.reachable() if "manifest-list" in path and "id1-" in path]
    for path in tagged:
        history.storage.overwrite(path, b"no Avro")


def test_what_a_broken_tag_may_need_stays_and_the_rest_is_deleted() -> None:
    history = History().write("a")
    history.tag("broken")
    history.compact("b").write("c").compact("d").write("e")
    _break_tag(history)

    planned = history.expire(retain_max=1, dry_run=True)
    result = history.expire(retain_max=1)

    assert result.expired_snapshots == (1, 2, 3, 4)
    assert "tag 'broken'" in " ".join(result.stopped)
    assert result.deleted == planned.deleted
    # When the tag was made there was no b and no c yet.
    assert history.names() == {"a", "d", "e"}
    assert history.ids() == [5]


def _break_list(history: History, snapshot_id: int) -> None:
    path = history.handle.paths.manifest(read_snapshot(history.handle, snapshot_id).base_manifest_list)
    history.storage.overwrite(path, b"no Avro")


def test_the_newest_snapshot_that_can_be_read_stays() -> None:
    history = History().write("a").compact("b").write("c").compact("d").write("e")
    _break_list(history, 4)
    _break_list(history, 5)

    planned = history.expire(retain_max=1, dry_run=True)
    result = history.expire(retain_max=1)

    assert planned.expired_snapshots == result.expired_snapshots == (1, 2)
    assert (planned.deleted, planned.stopped) == (result.deleted, result.stopped)
    assert result.deleted == ()
    assert "snapshot 3 stays: it is the newest one that can be read" in result.stopped
    assert history.ids() == [3, 4, 5]


def test_where_no_snapshot_can_be_read_expiry_continues_and_deletes_nothing() -> None:
    history = History().write("a").compact("b").write("c")
    for number in (1, 2, 3):
        _break_list(history, number)
    held = history.names()

    result = history.expire(retain_max=1)

    assert (result.expired_snapshots, result.deleted) == ((1, 2), ())
    assert "snapshot 3 cannot be read" in " ".join(result.stopped)
    assert history.names() == held


def test_what_cannot_be_read_for_now_is_left_for_a_later_run() -> None:
    storage = TroubledStorage()
    history = History(storage=storage).write("a")
    history.tag("t")
    history.compact("b").write("c").write("d")
    (storage.trouble,) = (path for path in history.reachable() if "manifest-list" in path and "id1-1" in path)

    first = history.expire(retain_max=1)
    storage.trouble = None
    second = history.expire(retain_max=1)

    assert (first.status, first.deleted) == ("noop", ())
    assert "busy" in " ".join(first.stopped)
    assert second.expired_snapshots == (1, 2, 3)
    history.assert_exact()


def test_a_gap_keeps_what_the_missing_snapshots_may_have_needed() -> None:
    history = History().write("a").compact("b").compact("c").compact("d").compact("e").write("f").compact("g")
    history.storage.delete([history.handle.paths.snapshot(3)])

    result = history.expire(retain_max=1)

    assert result.expired_snapshots == (1, 2, 4, 5, 6)
    assert "snapshot 3 is missing" in " ".join(result.stopped)
    # Snapshot 3 had c, and a or b instead; d, e and f were added later.
    assert history.names() == {"a", "b", "c", "g"}
    history.remove_orphans()
    assert history.names() == {"g"}


def test_a_broken_tag_file_keeps_all_files_and_expiry_continues() -> None:
    history = History().write("a").compact("b").write("c")
    history.tag("sound", snapshot=1)
    history.storage.overwrite(history.handle.paths.tag("broken"), b"{")
    held = history.names()

    planned = history.expire(retain_max=1, dry_run=True)
    result = history.expire(retain_max=1)

    assert (result.expired_snapshots, result.deleted) == ((1, 2), ())
    assert (planned.deleted, planned.stopped) == ((), result.stopped)
    assert "tag-broken" in " ".join(result.stopped)
    assert history.names() == held
    # When the tag is deleted, what it kept is found.
    history.delete_tag("broken")
    history.delete_tag("sound")
    history.remove_orphans()
    assert history.names() == {"b", "c"}


@pytest.mark.parametrize(
    ("broken", "expired"), [(1, (1, 2, 3, 4)), (3, (1, 2, 3, 4)), (5, (1, 2, 3, 4)), (6, (1, 2, 3))]
)
def test_a_broken_snapshot_file_keeps_what_it_may_need_and_expiry_continues(
    broken: int, expired: tuple[int, ...]
) -> None:
    history = History().write("a").compact("b").write("c").compact("d").write("e").write("f")
    history.storage.overwrite(history.handle.paths.snapshot(broken), b"{")
    held = history.names()

    planned = history.expire(retain_max=2, dry_run=True)
    result = history.expire(retain_max=2)

    assert planned.expired_snapshots == result.expired_snapshots == expired
    assert planned.deleted == result.deleted
    assert f"snapshot-{broken}" in " ".join(result.stopped)
    assert history.ids() == [number for number in range(1, 7) if number not in expired]
    # Snapshot 1 cannot have needed what came later, as far as is known when it came.
    assert history.names() == (held - {"c"} if broken == 1 else held)


def test_an_unreadable_changelog_keeps_what_it_may_need_and_expiry_continues() -> None:
    options = {"changelog.num-retained.min": "6", "changelog-producer": "input", "snapshot.num-retained.min": "1"}
    history = History(options).write("a").write("b").compact("c").write("d")
    history.expire(retain_max=1)
    history.storage.overwrite(history.handle.paths.changelog(2), b"{")
    history.write("late").compact("e").write("f")
    held = history.names()

    result = history.expire(retain_max=1)

    assert result.expired_snapshots == (4, 5, 6)
    assert "changelog-2" in " ".join(result.stopped)
    assert held - history.names() == {"late"}


def test_an_unreadable_expired_snapshot_leaves_only_its_own_files() -> None:
    history = History().write("a").compact("b").compact("c").compact("d").write("e")
    delta = history.handle.paths.manifest(read_snapshot(history.handle, 3).delta_manifest_list)
    history.storage.overwrite(delta, b"no Avro")

    result = history.expire(retain_max=1)

    assert result.status == "expired"
    assert "snapshot 3" in " ".join(result.stopped)
    # Snapshot 3 removed b, which cannot be known any more; snapshot 2 removed a, snapshot 4 removed c.
    assert history.names() == {"b", "d", "e"}
    history.assert_sound()


def test_consumers_keep_snapshots() -> None:
    history = History().write().write().write()
    history.storage.overwrite(f"{ROOT}/consumer/consumer-job", b'{"nextSnapshot": 2}')

    assert history.expire(retain_max=1).expired_snapshots == (1,)


# ── others act meanwhile ────────────────────────────────────────────────────────────────────────


def test_a_tag_made_before_its_snapshot_is_hidden_keeps_its_files() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").write("b").compact("c").write("d")
    storage.once("delete", "snapshot/snapshot-2", lambda: history.tag("late", 2))

    result = history.expire(retain_max=1)

    assert history.tags() == ["late"]
    assert history.names() == {"a", "b", "c", "d"}
    assert result.expired_snapshots == (1, 2, 3)
    history.assert_exact()


def test_a_commit_meanwhile_is_kept() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").compact("b").write("c")
    storage.once("delete", "snapshot/snapshot-1", lambda: history.write("d"))

    history.expire(retain_max=1)

    assert history.ids() == [3, 4]
    assert history.names() == {"b", "c", "d"}
    history.assert_exact()


def test_a_tag_deleted_meanwhile_costs_files_but_breaks_nothing() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a")
    history.tag("short")
    history.compact("b").write("c")
    storage.once("delete", "snapshot/snapshot-1", lambda: history.run(DeleteTag("short")))

    history.expire(retain_max=1)

    history.assert_sound()
    assert history.reachable() <= history.stored()


def _busy_history(storage: EventStorage) -> History:
    history = History(storage=storage).write("a").write("b")
    history.tag("t")
    return history.compact("c").write("d").compact("e").write("f")


def test_a_crash_anywhere_leaves_complete_snapshots() -> None:
    number = 0
    while True:
        storage = EventStorage()
        history = _busy_history(storage)
        storage.crash_at(number)
        try:
            result = history.expire(retain_max=2)
        except StorageError:
            result = None
        finally:
            storage.before = None

        history.assert_sound()
        assert history.reachable() <= history.stored()
        again = history.expire(retain_max=2)
        assert again.stopped == ()
        assert history.ids() == [5, 6]
        history.assert_sound()
        if result is not None and result.stopped == ():
            break
        number += 1
    assert number > 5


class PicklingExecutor(LocalExecutor):
    """Sends functions, tasks and outcomes the way that a cluster does."""

    sent = 0

    def map(self, run: Any, tasks: Any, *, config: EnvConfig, on_done: Any = None) -> list[Any]:
        run, tasks = pickle.loads(pickle.dumps((run, list(tasks))))
        self.sent += len(tasks)
        return pickle.loads(pickle.dumps(super().map(run, tasks, config=config, on_done=on_done)))


def test_many_manifests_are_read_as_tasks() -> None:
    history = History({"manifest.merge-min-count": "1000", "snapshot.expire.limit": "1000"})
    for _ in range(LOCAL_MANIFESTS_MAX + 10):
        history.write()
    history.tag("all")
    history.compact("c").write("d")
    history.executor = executor = PicklingExecutor(2, env=history.handle.env)

    history.run(ExpireSnapshots(retain_max=1))

    assert executor.sent > 1
    history.assert_exact()
    history.run(DeleteTag("all"))
    assert history.names() == {"c", "d"}
    history.assert_exact()


# ── tables written by Java ──────────────────────────────────────────────────────────────────────


def _rows(oracle: Any, path: Any, **at: Any) -> list[str]:
    return sorted(map(str, oracle.read(path, **at)))


WITH_HISTORY = ("expire_with_tags", "tags_basic", "branches", "changelog_lookup", "statistics", "dv_parquet")


@pytest.mark.parametrize("case", [item for item in corpus_cases() if item.id in WITH_HISTORY])
def test_java_deletes_the_same_files_and_reads_the_same_rows(case: Case, oracle: Any, tmp_path: Any) -> None:
    ours, theirs = case.copy_to(tmp_path / "ours"), case.copy_to(tmp_path / "theirs")
    table = load_table(str(ours), EnvConfig(str(ours)))

    expire_snapshots(Context(table, LocalExecutor()), ExpireSnapshots(retain_max=2, retain_min=1))

    oracle.call("expire", table=str(theirs), retain_max=2, retain_min=1, older_ms=0)
    assert _files(ours) == _files(theirs)
    oracle.assert_sound(ours)
    assert check_table(table) == []
    for at in [{}, *({"snapshot": number} for number in snapshot_ids(table)), *({"tag": t} for t in tag_names(table))]:
        assert _rows(oracle, ours, **at) == _rows(oracle, case.table, **at)


def _files(folder: Any) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if not path.name.startswith(".")}


def test_empty_bucket_directories_are_deleted_if_an_option_says_so(tmp_path: Any) -> None:
    path = f"{tmp_path}/t"
    history = History({"snapshot.clean-empty-directories": "true"}, storage=storage_for(path, {}), root=path)
    history.write("a").overwrite().write().overwrite()

    history.expire(retain_max=1)

    assert not history.storage.exists(f"{path}/bucket-0")
    assert history.storage.exists(f"{path}/manifest")
