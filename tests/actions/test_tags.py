"""Tags: created once and permanently, moved, deleted with what only they kept; also while others act."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions.tags import CreateTag, DeleteTag, create_tag, delete_tag
from paimon_engine.env import EnvConfig
from paimon_engine.errors import (
    ConflictError,
    CorruptTableError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from paimon_engine.executor import LocalExecutor
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import list_tags, read_tag
from tests.support.corpus import case
from tests.support.storage_events import EventStorage
from tests.support.world import HOUR_MS
from tests.support.world.made_up import History


def test_a_tag_names_the_latest_snapshot() -> None:
    history = History().write().write()

    result = history.tag("2013-01-01")

    assert (result.status, result.tag, result.snapshot_id) == ("created", "2013-01-01", 2)
    assert result.commit_time_ms == 2 * HOUR_MS
    assert history.tags() == ["2013-01-01"]


def test_a_tag_names_the_requested_snapshot() -> None:
    history = History().write().write()

    assert history.tag("first", 1).snapshot_id == 1


def test_a_repeated_tag_is_done_already_though_the_table_has_newer_snapshots() -> None:
    history = History().write()
    history.tag("t")
    history.write()

    again = history.tag("t")

    assert (again.status, again.snapshot_id) == ("already_done", 1)


# What becomes of an existing tag on snapshot 1 of 2.
EXISTING = """
mode     asked  outcome
verify   -      already_done 1
verify   1      already_done 1
verify   2      ConflictError
ignore   2      already_done 1
replace  2      replaced 2
replace  1      already_done 1
error    1      ConflictError
"""


@pytest.mark.parametrize("line", EXISTING.strip().splitlines()[1:])
def test_an_existing_tag(line: str) -> None:
    mode, asked, *outcome = line.split()
    history = History().write().write()
    history.tag("t", 1)
    snapshot = None if asked == "-" else int(asked)

    if outcome == ["ConflictError"]:
        with pytest.raises(ConflictError, match="'t'"):
            history.tag("t", snapshot, if_exists=mode)
    else:
        result = history.tag("t", snapshot, if_exists=mode)
        assert [result.status, str(result.snapshot_id)] == outcome
        assert read_tag(history.handle, "t").snapshot.id == result.snapshot_id


def test_verify_finds_a_tag_whose_snapshot_is_broken() -> None:
    history = History().write()
    history.tag("t")
    history.storage.delete([path for path in history.stored() if "manifest-list" in path])

    with pytest.raises(CorruptTableError):
        history.tag("t")
    assert history.tag("t", if_exists="ignore").status == "already_done"


@pytest.mark.parametrize("name", ["", "  ", "7", "a/b", "..", "x" * 201])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        History().write().tag(name)


def test_there_must_be_a_snapshot() -> None:
    with pytest.raises(NotFoundError, match="no snapshot"):
        History().tag("t")
    with pytest.raises(NotFoundError, match="no snapshot 9"):
        History().write().tag("t", 9)


@pytest.mark.parametrize("way", ["spec", "option"])
def test_a_retention_is_kept_in_the_tag(way: str) -> None:
    history = History({"tag.default-time-retained": "1 d"} if way == "option" else {}).write()

    history.tag("t", time_retained=86_400_000 if way == "spec" else None)

    stored = json.loads(history.storage.read(history.handle.paths.tag("t")))
    assert stored["tagTimeRetained"] == 86400.0
    # As Java writes it: without seconds and fractions that are zero.
    assert len(stored["tagCreateTime"]) == 5


def test_without_a_retention_the_tag_is_the_snapshot() -> None:
    history = History().write()

    history.tag("t")

    paths = history.handle.paths
    assert history.storage.read(paths.tag("t")) == history.storage.read(paths.snapshot(1))


def test_an_expired_snapshot_can_be_tagged_through_its_tag() -> None:
    history = History().write("a")
    history.tag("one")
    history.compact("b").write("c")
    history.expire(retain_max=1)

    assert history.tag("two", 1).status == "created"

    history.delete_tag("one")
    assert history.names() == {"a", "b", "c"}
    history.assert_exact()


# ── by a moment ─────────────────────────────────────────────────────────────────────────────────


def marked(history: History, *watermarks: int | None) -> History:
    """A commit of each watermark."""
    for watermark in watermarks:
        history.write(watermark=watermark)
    return history


@pytest.mark.parametrize(("hours", "snapshot"), [(0, 1), (1, 1), (1.5, 2), (2, 2), (3, 3)])
def test_a_tag_of_a_time_is_on_the_first_snapshot_committed_then_or_later(hours: float, snapshot: int) -> None:
    history = History().write().write().write()

    assert history.tag("t", timestamp=int(hours * HOUR_MS)).snapshot_id == snapshot


@pytest.mark.parametrize(("watermark", "snapshot"), [(5, 2), (10, 2), (11, 4), (30, 4)])
def test_a_tag_of_a_watermark_is_on_the_first_snapshot_that_has_got_so_far(watermark: int, snapshot: int) -> None:
    history = marked(History(), None, 10, None, 30)

    assert history.tag("t", watermark=watermark).snapshot_id == snapshot


def test_a_moment_that_no_snapshot_has_reached_is_an_error() -> None:
    history = marked(History(), None, 10)

    with pytest.raises(NotFoundError, match="committed at"):
        history.tag("t", timestamp=3 * HOUR_MS)
    with pytest.raises(NotFoundError, match="watermark 11"):
        history.tag("t", watermark=11)
    with pytest.raises(InvalidArgumentError, match="in one way"):
        history.tag("t", 1, watermark=10)


def test_tags_replace_snapshots_that_have_expired() -> None:
    history = marked(History(), 10, 20, 30)
    history.tag("old", 1)
    history.expire(retain_max=1)

    assert history.tag("a", timestamp=HOUR_MS).snapshot_id == 1
    assert history.tag("b", watermark=5).snapshot_id == 1
    assert history.tag("c", timestamp=HOUR_MS + 1).snapshot_id == 3
    assert history.tag("a", timestamp=HOUR_MS).status == "already_done"
    with pytest.raises(ConflictError, match="snapshot 1, not 3"):
        history.tag("a", watermark=25)


@pytest.mark.parametrize(("hours", "snapshot"), [(1, 1), (1.5, 1), (2, 2), (2.9, 2), (3, 3)])
def test_a_tag_as_of_a_time_is_on_the_newest_snapshot_committed_by_then(hours: float, snapshot: int) -> None:
    history = History().write().write().write()

    assert history.tag("t", as_of=int(hours * HOUR_MS)).snapshot_id == snapshot
    assert history.tag("t", as_of=int(hours * HOUR_MS)).status == "already_done"


def test_what_a_table_will_hold_is_not_tagged() -> None:
    """Of what comes until then nothing is known, and a tag of that name would never move there."""
    history = History().write().write()
    with pytest.raises(InvalidArgumentError, match="as_of=.* is in the future, now is .*: what the table will hold"):
        history.tag("t", as_of=99 * HOUR_MS)


def test_the_state_before_the_first_snapshot_cannot_be_tagged() -> None:
    with pytest.raises(NotFoundError, match="has no snapshot"):
        History().tag("t", as_of=0)
    with pytest.raises(NotFoundError, match=r"had no snapshot .*: its first is of"):
        History().write().tag("t", as_of=HOUR_MS - 1)


def test_a_state_that_has_expired_is_not_tagged_by_another_one() -> None:
    history = History().write().write().write().write().write()
    history.tag("kept", 2)
    history.expire(retain_max=1)

    # The state in the hours three and four is unknown; of the second one it is known that snapshot 3 came only later.
    with pytest.raises(NotFoundError, match=r"expired.*snapshot 5 is the oldest"):
        history.tag("t", as_of=3 * HOUR_MS)
    with pytest.raises(NotFoundError, match="expired"):
        history.tag("t", as_of=2 * HOUR_MS)
    assert history.tag("t", as_of=5 * HOUR_MS).snapshot_id == 5
    # The tag itself was made while it was known.
    assert history.tag("kept", as_of=2 * HOUR_MS).status == "already_done"


def test_a_tag_says_what_was_there_where_the_next_snapshot_is_known() -> None:
    history = History().write().write().write()
    history.tag("kept", 2)
    history.expire(retain_max=1)

    assert history.tag("t", as_of=3 * HOUR_MS - 1).snapshot_id == 2


# ── rename ──────────────────────────────────────────────────────────────────────────────────────


def test_a_tag_gets_another_name_and_keeps_its_time() -> None:
    history = History().write("a")
    history.tag("old", time_retained=HOUR_MS)
    before = history.storage.read(history.handle.paths.tag("old"))
    history.compact("b").write("c")
    history.expire(retain_max=1)

    result = history.rename_tag("old", "new")

    assert (result.status, result.tag, result.snapshot_id) == ("renamed", "new", 1)
    assert history.tags() == ["new"]
    assert history.storage.read(history.handle.paths.tag("new")) == before
    history.assert_exact()
    assert history.rename_tag("old", "new").status == "already_done"


def test_a_tag_is_not_renamed_over_another_nor_to_a_bad_name() -> None:
    history = History().write().write()
    history.tag("one", 1)
    history.tag("two", 2)

    with pytest.raises(ConflictError, match="'two'"):
        history.rename_tag("one", "two")
    with pytest.raises(NotFoundError, match="no tag 'three'"):
        history.rename_tag("three", "four")
    for name in ("7", "../x", "a\0b", "x" * 10_000):
        with pytest.raises(InvalidArgumentError):
            history.rename_tag("one", name)
    assert history.tags() == ["one", "two"]


def test_a_renaming_that_was_interrupted_can_be_repeated() -> None:
    for number in range(20):
        storage = EventStorage()
        history = History(storage=storage).write("a")
        history.tag("old")
        history.compact("b").write("c")
        history.expire(retain_max=1)
        storage.crash_at(number)
        try:
            history.rename_tag("old", "new")
        except StorageError:
            cut_short = True
        else:
            cut_short = False
        storage.before = None

        history.assert_sound()
        history.rename_tag("old", "new")
        assert history.tags() == ["new"]
        history.assert_exact()
        if not cut_short:
            return
    raise AssertionError("never ended")


@pytest.mark.parametrize("name", ["../snapshot/snapshot-1", "\0", ".."])
def test_no_name_of_a_tag_leads_out_when_it_is_read(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="tag name"):
        read_tag(History().write().handle, name)


# ── delete ──────────────────────────────────────────────────────────────────────────────────────


def test_deleting_a_tag_of_an_existing_snapshot_deletes_no_file() -> None:
    history = History().write("a")
    history.tag("t")

    result = history.delete_tag("t")

    assert (result.status, result.files_deleted) == ("deleted", 0)
    history.assert_exact()


def test_deleting_a_tag_keeps_what_its_neighbours_need() -> None:
    history = History().write("a")
    history.tag("old")
    history.write("b").write("x")
    history.tag("middle")
    history.compact("c").write("d")
    history.tag("new")
    history.compact("e").write("f")
    history.expire(retain_max=1)

    result = history.delete_tag("middle")

    # a lives in the older tag, c only in the newer one; b and x were the middle one's alone.
    assert {file.path.rpartition("/")[2] for file in result.deleted if ".orc" in file.path} == {
        "b.orc",
        "b.orc.index",
        "x.orc",
        "x.orc.index",
    }
    assert history.names() == {"a", "c", "d", "e", "f"}
    history.assert_exact()


def test_a_missing_tag_is_deleted_already() -> None:
    assert History().write().delete_tag("t").status == "already_done"


def test_a_broken_tag_can_be_deleted() -> None:
    history = History().write("a")
    history.storage.overwrite(history.handle.paths.tag("t"), b"{")

    result = history.delete_tag("t")

    assert (result.status, result.files_deleted) == ("deleted", 0)
    assert "are left" in result.stopped[0]
    assert history.tags() == []
    assert history.names() == {"a"}


def test_a_name_never_leads_out_of_the_tag_directory() -> None:
    history = History().write()

    with pytest.raises(InvalidArgumentError):
        history.delete_tag("x/../../snapshot/snapshot-1")

    assert history.ids() == [1]


def test_a_tag_that_a_branch_was_made_from_stays() -> None:
    history = History().write("a")
    history.tag("base")
    history.branch("dev", "base")

    with pytest.raises(InvalidArgumentError, match="branch 'dev' was made from tag 'base'"):
        history.delete_tag("base")
    with pytest.raises(InvalidArgumentError, match="branch 'dev'"):
        history.write("b").tag("base", if_exists="replace")

    assert read_tag(history.handle, "base").snapshot.id == 1


def test_moving_a_tag_deletes_what_only_it_kept() -> None:
    history = History().write("a")
    history.tag("t")
    history.compact("b").write("c")
    history.expire(retain_max=1)

    assert history.tag("t", if_exists="replace").status == "replaced"

    assert history.names() == {"b", "c"}
    history.assert_exact()


def test_what_cannot_be_read_keeps_the_files_of_a_deleted_tag() -> None:
    history = History().write("a")
    history.tag("t")
    history.compact("b").write("c")
    history.expire(retain_max=1)
    latest = read_list_paths(history)
    history.storage.overwrite(latest, b"no Avro")

    result = history.delete_tag("t")

    assert history.tags() == []
    assert result.files_deleted == 0
    assert "snapshot 3" in " ".join(result.stopped)
    assert history.names() == {"a", "b", "c"}


def read_list_paths(history: History) -> str:
    """The newest snapshot's base list."""
    paths = history.handle.paths
    return paths.manifest(json.loads(history.storage.read(paths.snapshot(3)))["baseManifestList"])


# ── others act meanwhile ────────────────────────────────────────────────────────────────────────


def test_a_tag_made_after_its_snapshot_expired_is_taken_back() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").compact("b").write("c")
    storage.once("create", "tag/tag-late", lambda: history.expire(retain_max=1))

    with pytest.raises(ConflictError, match="expired"):
        history.tag("late", 1)

    assert history.tags() == []
    assert history.names() == {"b", "c"}
    history.assert_exact()


def test_a_tag_moved_after_its_snapshot_expired_stays_where_it_was() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a").compact("b").compact("c").write("d")
    history.tag("t", 4)
    storage.once("overwrite", "tag/tag-t", lambda: history.expire(retain_max=1))

    with pytest.raises(ConflictError):
        history.tag("t", 2, if_exists="replace")

    assert read_tag(history.handle, "t").snapshot.id == 4
    history.assert_sound()


def _after_overwrite(history: History, path: str, act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Others act right after the first time that the file is written over."""
    overwrite = history.storage.overwrite

    def then_act(location: str, data: bytes) -> None:
        overwrite(location, data)
        if location == path:
            monkeypatch.undo()
            act()

    monkeypatch.setattr(history.storage, "overwrite", then_act)


def test_a_tag_that_others_delete_while_it_moves_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History().write("a").compact("b").compact("c")
    history.tag("t", 1)

    def others() -> None:
        history.delete_tag("t")
        history.write("d").expire(retain_max=1)

    _after_overwrite(history, history.handle.paths.tag("t"), others, monkeypatch)
    with pytest.raises(ConflictError):
        history.tag("t", 2, if_exists="replace")

    assert history.tags() == []
    history.assert_sound()


def test_a_tag_whose_files_are_deleted_while_it_moves_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History().write("a")
    history.tag("t")
    history.compact("b").compact("c").write("d").expire(retain_max=2)

    def others() -> None:
        history.write("e").expire(retain_max=1)
        history.remove_orphans()

    _after_overwrite(history, history.handle.paths.tag("t"), others, monkeypatch)
    with pytest.raises(ConflictError):
        history.tag("t", 3, if_exists="replace")

    assert history.tags() == []
    history.assert_sound()


def test_of_two_creators_the_second_finds_the_first() -> None:
    storage = EventStorage()
    history = History(storage=storage).write().write()
    storage.once("create", "tag/tag-t", lambda: history.tag("t", 1))

    assert history.tag("t", 2, if_exists="ignore").snapshot_id == 1


class LosesReplies(EventStorage):
    """Creates tags, but the answer is lost."""

    def create(self, path: str, data: bytes) -> bool:
        created = super().create(path, data)
        if "/tag/" in path:
            raise OutcomeUnknownError(f"{path}: no reply")
        return created


def test_a_lost_reply_is_looked_up() -> None:
    history = History(storage=LosesReplies()).write()

    assert history.tag("t").status == "created"
    assert history.tags() == ["t"]


def test_a_crash_anywhere_while_deleting_a_tag_leaves_complete_snapshots() -> None:
    for number in range(100):
        storage = EventStorage()
        history = History(storage=storage).write("a")
        history.tag("t")
        history.compact("b").write("c")
        history.expire(retain_max=1)
        storage.crash_at(number)
        try:
            result = history.delete_tag("t")
        except StorageError:
            result = None
        storage.before = None

        history.assert_sound()
        assert history.reachable() <= history.stored()
        if result is not None and result.stopped == ():
            assert number > 0
            return
    raise AssertionError("never ended")


# ── tables written by Java ──────────────────────────────────────────────────────────────────────


def test_java_reads_our_tags_and_deletes_the_same_files(oracle: Any, tmp_path: Any) -> None:
    ours, theirs = (case("expire_with_tags").copy_to(tmp_path / name) for name in ("ours", "theirs"))
    table, executor = load_table(str(ours), EnvConfig(str(ours))), LocalExecutor()
    rows = oracle.read(ours)

    create_tag(Context(table, executor), CreateTag("kept", time_retained=86_400_000))
    create_tag(Context(table, executor), CreateTag("plain 2013-01-01 ü"))
    delete_tag(Context(table, executor), DeleteTag("t-mid"))
    oracle.call("delete_tag", table=str(theirs), tag="t-mid")

    assert oracle.read(ours, tag="kept") == rows
    assert oracle.read(ours, tag="plain 2013-01-01 ü") == rows
    oracle.assert_sound(ours)
    assert [tag.name for tag in list_tags(table)] == ["kept", "plain 2013-01-01 ü"]
    assert _data_and_metadata(ours) == _data_and_metadata(theirs)


def _data_and_metadata(folder: Any) -> set[str]:
    return {path.name for part in ("bucket-0", "manifest") for path in (folder / part).iterdir() if path.name[0] != "."}
