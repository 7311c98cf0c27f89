"""Branches: made of a tag, a snapshot or nothing; renamed, deleted with what only they needed; main continues from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_engine.action import Context
from paimon_engine.actions.branches import (
    BranchResult,
    CreateBranch,
    DeleteBranch,
    FastForward,
    RenameBranch,
    create_branch,
    delete_branch,
    fast_forward,
)
from paimon_engine.env import EnvConfig
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, StorageError, UnsupportedError
from paimon_engine.executor import LocalExecutor
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import branches
from tests.support.corpus import case
from tests.support.storage_events import EventStorage
from tests.support.world.made_up import History


def create(history: History, name: str, **fields: Any) -> BranchResult:
    return history.run(CreateBranch(name, **fields))


def delete(history: History, name: str, **fields: Any) -> BranchResult:
    return history.run(DeleteBranch(name, **fields))


def rename(history: History, name: str, to: str) -> BranchResult:
    return history.run(RenameBranch(name, to))


def forward(history: History, name: str, **fields: Any) -> BranchResult:
    return history.run(FastForward(name, **fields))


def tagged(storage: Any = None) -> History:
    history = History(**({} if storage is None else {"storage": storage})).write("a")
    history.tag("base")
    return history


# ── create ──────────────────────────────────────────────────────────────────────────────────────


def test_a_branch_of_a_tag_begins_where_the_tag_is():
    history = tagged().write("b")

    result = create(history, "dev", tag="base")
    history.write("c", branch="dev")

    assert (result.status, result.snapshot_id) == ("created", 1)
    assert (history.ids("dev"), history.tags("dev"), history.ids()) == ([1, 2], ["base"], [1, 2])
    assert history.names() == {"a", "b", "c"}
    history.assert_exact()


def test_a_branch_of_a_snapshot_and_an_empty_one():
    history = History().write("a").write("b")

    assert create(history, "early", snapshot=1).snapshot_id == 1
    assert create(history, "empty").snapshot_id is None
    history.compact("c").write("d").expire(retain_max=1)

    assert (history.ids("early"), history.ids("empty"), history.ids()) == ([1], [], [4])
    assert history.names() == {"a", "c", "d"}
    history.assert_exact()


def test_a_branch_of_a_tag_whose_snapshot_has_expired():
    history = tagged().compact("b").write("c")
    history.expire(retain_max=1)

    create(history, "dev", tag="base")

    assert history.ids("dev") == [1]
    history.assert_exact()


def test_an_existing_branch_is_an_error_or_fine():
    history = tagged()
    create(history, "dev", tag="base")

    with pytest.raises(ConflictError, match="'dev'"):
        create(history, "dev", tag="base")
    assert create(history, "dev", if_exists="ignore").status == "already_done"


@pytest.mark.parametrize("name", ["main", "", "  ", "12", "a/b", "..", "a\0b", "a\nb", "x" * 10_000])
def test_bad_names_are_refused(name: str):
    history = tagged()

    with pytest.raises(InvalidArgumentError):
        create(history, name, tag="base")
    assert branches(history.handle) == []


@pytest.mark.parametrize("name", ["../..", "a/../../x", "\0"])
def test_no_name_leads_out_of_the_directory_of_branches(name: str):
    history = tagged()

    for run in (delete, forward):
        with pytest.raises(InvalidArgumentError):
            run(history, name)
    with pytest.raises(InvalidArgumentError):
        rename(history, name, "dev")
    with pytest.raises(InvalidArgumentError):
        history.handle.on_branch(name)
    assert history.ids() == [1]


def test_the_origin_must_exist():
    history = tagged()

    with pytest.raises(NotFoundError, match="no tag 'x'"):
        create(history, "dev", tag="x")
    with pytest.raises(NotFoundError, match="no snapshot 9"):
        create(history, "dev", snapshot=9)
    with pytest.raises(InvalidArgumentError, match="not both"):
        create(history, "dev", tag="base", snapshot=1)


def test_a_branch_whose_origin_expires_meanwhile_is_taken_back():
    storage = EventStorage()
    history = History(storage=storage).write("a").compact("b").write("c")
    storage.once("create", "branch-dev/snapshot", lambda: history.expire(retain_max=1))

    with pytest.raises(ConflictError, match="expired while branch 'dev'"):
        create(history, "dev", snapshot=1)

    assert history.names() == {"b", "c"}
    history.assert_exact()


def test_a_creation_that_is_overtaken_leaves_the_branch_of_others_as_it_is():
    """It sleeps before each of its changes in turn, while the tag expires and others make a branch of that name."""
    for number in range(20):
        storage = EventStorage()
        history = tagged(storage)
        overtaken: list[bool] = []

        def overtake(history: History = history, overtaken: list[bool] = overtaken) -> None:
            overtaken.append(True)
            history.write("b").compact("c")
            if "dev" in branches(history.handle):
                delete(history, "dev")
            history.delete_tag("base")
            history.expire(retain_max=1)
            create(history, "dev", snapshot=3)

        storage.at(number, overtake)
        try:
            create(history, "dev", tag="base")
        except ConflictError as error:
            assert "another process creates branch 'dev'" in str(error)
        if not overtaken:
            assert number > 3
            return
        assert (history.ids("dev"), history.tags("dev")) == ([3], [])
        history.assert_sound()
    raise AssertionError("never ended")


def crashes(make: Any, act: Any, check: Any, storage: type[EventStorage] = EventStorage) -> None:
    """`act` on what `make` gives is interrupted at each call of the store in turn, checked, and then repeated."""
    for number in range(200):
        store = storage()
        history = make(store)
        store.crash_at(number)
        try:
            act(history)
        except StorageError:
            cut_short = True
        else:
            cut_short = False
        store.before = None

        history.assert_sound()
        assert history.reachable() <= history.stored()
        if cut_short:
            act(history)
        check(history)
        if not cut_short:
            assert number > 0
            return
    raise AssertionError("never ended")


def test_a_creation_that_was_interrupted_is_completed():
    def check(history: History) -> None:
        assert (history.ids("dev"), history.tags("dev")) == ([1], ["base"])
        history.assert_exact()

    crashes(tagged, lambda history: create(history, "dev", tag="base"), check)


# ── rename and delete ───────────────────────────────────────────────────────────────────────────


class NoDirectories(EventStorage):
    """As object stores, where nothing can be renamed."""

    def rename_dir(self, source: str, target: str) -> None:
        raise UnsupportedError(f"cannot rename {source} to {target}")


@pytest.mark.parametrize("storage", [MemoryStorage, NoDirectories])
def test_a_branch_gets_another_name(storage: Any):
    history = tagged(storage())
    create(history, "dev", tag="base")
    history.write("b", branch="dev")

    assert rename(history, "dev", "next").status == "renamed"

    assert (branches(history.handle), history.ids("next"), history.tags("next")) == (["next"], [1, 2], ["base"])
    history.assert_exact()
    assert rename(history, "dev", "next").status == "already_done"


def test_a_renaming_that_was_interrupted_can_be_repeated_where_files_are_copied():
    def make(storage: EventStorage) -> History:
        history = tagged(storage)
        create(history, "dev", tag="base")
        return history.write("b", branch="dev")

    def check(history: History) -> None:
        assert (branches(history.handle), history.ids("next"), history.tags("next")) == (["next"], [1, 2], ["base"])
        history.assert_exact()

    crashes(make, lambda history: rename(history, "dev", "next"), check, storage=NoDirectories)


def test_a_branch_is_not_renamed_to_one_that_exists():
    history = tagged()
    create(history, "dev", tag="base")
    create(history, "next")

    with pytest.raises(ConflictError, match="'next'"):
        rename(history, "dev", "next")
    with pytest.raises(NotFoundError, match="no branch 'x'"):
        rename(history, "x", "y")
    with pytest.raises(InvalidArgumentError, match="number"):
        rename(history, "dev", "5")


def test_deleting_a_branch_deletes_what_only_it_needed():
    history = tagged()
    create(history, "dev", tag="base")
    history.write("b", branch="dev").compact("c", branch="dev").write("d")

    planned = delete(history, "dev", dry_run=True)
    assert history.ids("dev") == [1, 2, 3]
    result = delete(history, "dev")

    assert (planned.status, result.status) == ("dry_run", "deleted")
    assert planned.deleted == result.deleted
    assert branches(history.handle) == []
    assert history.names() == {"a", "d"}
    history.assert_exact()
    assert delete(history, "dev").status == "already_done"
    assert history.delete_tag("base").status == "deleted"


def test_a_branch_keeps_what_main_has_expired_until_it_is_deleted():
    history = tagged()
    create(history, "dev", tag="base")
    create(history, "two", tag="base")
    history.compact("b").write("c").expire(retain_max=1)

    assert delete(history, "dev").files_deleted == 0
    assert delete(history, "two").files_deleted == 0
    history.delete_tag("base")

    assert history.names() == {"b", "c"}
    history.assert_exact()


def test_a_branch_that_the_table_falls_back_on_stays():
    history = History({"scan.fallback-branch": "dev"}).write("a")
    create(history, "dev", snapshot=1)

    for run in (lambda: delete(history, "dev"), lambda: rename(history, "dev", "x")):
        with pytest.raises(InvalidArgumentError, match=r"scan\.fallback-branch"):
            run()
    with pytest.raises(InvalidArgumentError, match="the table itself"):
        delete(history, "main")


def test_a_deletion_that_was_interrupted_can_be_repeated():
    def make(storage: EventStorage) -> History:
        history = tagged(storage)
        create(history, "dev", tag="base")
        return history.write("b", branch="dev").write("c")

    def check(history: History) -> None:
        assert branches(history.handle) == []
        assert history.ids() == [1, 2]

    crashes(make, lambda history: delete(history, "dev"), check)


# ── fast-forward ────────────────────────────────────────────────────────────────────────────────


def grown(storage: Any = None) -> History:
    """Main continued with b, c and a tag; the branch with d, e and its own tag."""
    history = tagged(storage)
    create(history, "dev", tag="base")
    history.write("b").compact("c")
    history.tag("theirs")
    history.write("d", branch="dev").write("e", branch="dev")
    history.tag("ours", branch="dev")
    return history


def test_main_continues_from_the_branch():
    history = grown().write("x").write("y")

    planned = forward(history, "dev", dry_run=True)
    assert history.ids() == [1, 2, 3, 4, 5]
    result = forward(history, "dev")

    assert (planned.status, result.status, result.snapshot_id) == ("dry_run", "forwarded", 3)
    assert planned.deleted == result.deleted
    assert (result.removed_snapshots, result.removed_tags) == ((2, 3, 4, 5), ("theirs",))
    assert (history.ids(), history.latest(), history.tags()) == ([1, 2, 3], 3, ["base", "ours"])
    assert history.storage.read(history.handle.paths.snapshot(3)) == history.storage.read(
        history.handle.on_branch("dev").paths.snapshot(3)
    )
    assert history.names() == {"a", "d", "e"}
    history.assert_exact()
    assert forward(history, "dev").status == "already_done"


def test_main_and_the_branch_both_continue_after_a_fast_forward():
    history = grown()
    forward(history, "dev")

    history.write("f").write("g", branch="dev")

    assert history.names() == {"a", "d", "e", "f", "g"}
    assert (history.ids(), history.ids("dev")) == ([1, 2, 3, 4], [1, 2, 3, 4])
    history.assert_exact()


def test_an_empty_branch_with_rows_of_its_own_replaces_main():
    history = History().write("a").write("b")
    create(history, "dev")
    history.write("c", branch="dev")

    forward(history, "dev")

    assert (history.ids(), history.names()) == ([1], {"c"})
    history.assert_exact()


def test_main_gets_its_first_snapshots_from_a_branch():
    history = History()
    create(history, "dev")
    history.write("a", branch="dev").write("b", branch="dev")

    result = forward(history, "dev")

    assert (result.status, result.stopped, history.ids()) == ("forwarded", (), [1, 2])
    history.assert_exact()


def test_a_branch_without_snapshots_leads_nowhere():
    history = tagged()
    create(history, "dev")

    with pytest.raises(InvalidArgumentError, match="no snapshot"):
        forward(history, "dev")
    with pytest.raises(NotFoundError, match="no branch 'x'"):
        forward(history, "x")


def test_main_never_gets_a_gap():
    history = tagged()
    create(history, "dev", tag="base")
    history.delete_tag("base", branch="dev")
    history.write("b", branch="dev").write("c", branch="dev").write("d", branch="dev").expire("dev", retain_max=1)

    with pytest.raises(InvalidArgumentError, match="gap"):
        forward(history, "dev")
    assert history.ids() == [1]


def test_a_tag_that_another_branch_was_made_from_blocks_a_fast_forward():
    history = grown()
    create(history, "other", tag="theirs")

    with pytest.raises(InvalidArgumentError, match="branch 'other' was made from tag 'theirs'"):
        forward(history, "dev")


def test_a_fast_forward_that_was_interrupted_can_be_repeated():
    def check(history: History) -> None:
        assert (history.ids(), history.latest(), history.tags()) == ([1, 2, 3], 3, ["base", "ours"])
        history.assert_sound()

    crashes(grown, lambda history: forward(history, "dev"), check)


# ── tables written by Java ──────────────────────────────────────────────────────────────────────


def _metadata(folder: Path) -> set[str]:
    """Schemas, snapshots and tags of all branches."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parent.name in ("schema", "snapshot", "tag") and path.name[0] != "."}


def test_java_reads_our_branches_and_continues_from_them_as_we_do(oracle: Any, tmp_path: Any):
    ours, theirs = (case("tags_basic").copy_to(tmp_path / name) for name in ("ours", "theirs"))
    table, executor = load_table(str(ours), EnvConfig(str(ours))), LocalExecutor()
    tag = min(path.name for path in (ours / "tag").glob("tag-*")).removeprefix("tag-")
    begun = oracle.read(ours, tag=tag)

    create_branch(Context(table), CreateBranch("dev", tag=tag))
    oracle.call("create_branch", table=str(theirs), name="dev", tag=tag)
    assert oracle.read(ours, branch="dev") == begun
    for path in (ours, theirs):
        rows = [[77, *begun[0][1:]]]
        oracle.call("write", table=str(path), branch="dev", rows=rows)
        oracle.call("write", table=str(path), rows=rows)
    grown_rows = oracle.read(ours, branch="dev")

    fast_forward(Context(table, executor), FastForward("dev"))
    oracle.call("fast_forward", table=str(theirs), name="dev")

    assert oracle.read(ours) == oracle.read(theirs) == grown_rows != begun
    # We take along all schemas, Java 0.9 the tag's alone.
    assert {name for name in _metadata(ours) if "/schema" not in name} == {
        name for name in _metadata(theirs) if "/schema" not in name
    }
    oracle.assert_sound(ours)
    delete_branch(Context(table, executor), DeleteBranch("dev"))
    oracle.call("delete_branch", table=str(theirs), name="dev")
    assert oracle.read(ours) == oracle.read(theirs) == grown_rows
    oracle.assert_sound(ours)
    assert check_table(table) == []
