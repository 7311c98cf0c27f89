"""apache/paimon#9867, #6272 and #6479: what tags and branches need is deleted by somebody who does not see them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    Table,
    UnsupportedError,
    open_table,
)
from tests.reports.replay import histories, keys_of
from tests.support.faulty_storage import FaultyStorage
from tests.support.world import World

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


def made(folder: Path) -> Table:
    return Catalog(str(folder)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
    )


def write(table: Table, *keys: int, overwrite: Mapping[str, str] | None = None) -> None:
    table.write(pa.table({"k": keys, "v": ["a"] * len(keys)}, schema=SCHEMA), overwrite=overwrite)


def branch_of(table: Table, name: str) -> Table:
    return open_table(f"{table.path}$branch_{name}")


def assert_sound(*tables: Table) -> None:
    for table in tables:
        assert table.verify(depth="rows").problems == ()


def test_a_branchs_own_tag_keeps_its_files_when_the_branch_expires(tmp_path: Path) -> None:
    """#9867: Java's expiry of a branch looks at the tags of the main branch."""
    table = made(tmp_path)
    write(table, 1)
    table.create_tag("base")
    table.create_branch("b", tag="base")
    branch = branch_of(table, "b")
    write(branch, 2)
    branch.create_tag("mine")
    write(branch, 3, overwrite={})
    branch.compact(full=True)
    write(branch, 4)

    branch.expire_snapshots(retain_max=1)

    assert len(branch.snapshots()) == 1
    assert keys_of(branch, tag="mine") == [1, 2]
    assert keys_of(branch) == [3, 4]
    assert_sound(table, branch)


def test_main_and_its_tags_keep_their_files_when_a_branch_expires(tmp_path: Path) -> None:
    """As a review of paimon-cpp's expiry found (apache/paimon-cpp#357): it looks at the branch alone."""
    table = made(tmp_path)
    write(table, 1)
    table.create_tag("base")
    table.create_branch("b", tag="base")
    branch = branch_of(table, "b")
    write(branch, 2, overwrite={})
    write(branch, 3, overwrite={})

    branch.expire_snapshots(retain_max=1)
    table.expire_snapshots(retain_max=1)

    assert (keys_of(table), keys_of(table, tag="base"), keys_of(branch)) == ([1], [1], [3])
    assert_sound(table, branch)


def test_a_tag_from_which_a_branch_was_made_is_not_deleted(tmp_path: Path) -> None:
    """#6272: without its tag, nothing kept the files of the branch."""
    table = made(tmp_path)
    write(table, 1)
    table.create_tag("base")
    table.create_branch("b", tag="base")

    with pytest.raises(InvalidArgumentError, match="branch 'b' was made from tag 'base'"):
        table.delete_tag("base")
    write(table, 2, overwrite={})
    table.expire_snapshots(retain_max=1)

    assert keys_of(branch_of(table, "b")) == [1]
    assert_sound(table, branch_of(table, "b"))


@pytest.mark.parametrize("verb", ["delete", "expire"])
def test_no_file_goes_while_another_tag_cannot_be_read(tmp_path: Path, verb: str) -> None:
    """#6479: a tag whose manifest list is gone needed nothing, it seemed, and files of others were deleted."""
    table = made(tmp_path)
    for number in range(1, 4):
        write(table, number)
        table.create_tag(f"t{number}", time_retained="1 ms" if number == 1 else None)
    table.compact(full=True)
    write(table, 4)
    table.expire_snapshots(retain_max=1)
    described = json.loads(Path(table.path, "tag", "tag-t2").read_text("utf-8"))
    Path(table.path, "manifest", described["baseManifestList"]).unlink()
    before = {path.name for path in Path(table.path, "bucket-0").iterdir()}

    done = table.delete_tag("t1") if verb == "delete" else table.expire_tags()

    assert "'t2' cannot be read" in str(done)
    assert {path.name for path in Path(table.path, "bucket-0").iterdir()} == before
    assert (keys_of(table), keys_of(table, tag="t3")) == ([1, 2, 3, 4], [1, 2, 3])


@pytest.mark.parametrize("has_directories", [True, False])
def test_a_branch_made_by_others_while_one_is_renamed_to_its_name_is_not_replaced(
    has_directories: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new name was free when it was looked at. Where stores cannot rename directories, files are copied."""
    if not has_directories:
        monkeypatch.setattr(FaultyStorage, "rename_dir", _no_directories)

    def prepare() -> World:
        world = World()
        world.create(keys=("k",), by=(), bucket=1)
        world.write({1: 0})
        world.table().create_tag("x")
        world.table().create_branch("old", tag="x")
        world.write({2: 0})
        world.table().create_tag("y")
        return world

    made_by_others: list[bool] = []

    def others(table: Table) -> None:
        try:
            made_by_others.append(table.create_branch("new", tag="y").status == "created")
        except ConflictError:
            made_by_others.append(False)

    def job(table: Table) -> str:
        try:
            return table.rename_branch("old", "new").status
        except ConflictError:
            return "refused"

    outcomes = set()
    for world, outcome in histories(prepare, job, others):
        is_others = bool(made_by_others) and made_by_others[-1]
        table = world.table()
        names = table.branches()["branch_name"].to_pylist()
        found = {name: keys_of(table, branch=name) for name in names}
        expected = {"renamed": {"new": [1]}, "refused": {"old": [1], "new": [1, 2]}}[outcome]
        outcomes.add((outcome, is_others))
        assert found == expected, (outcome, is_others)
    assert {("renamed", False), ("refused", True)} <= outcomes


def _no_directories(_storage: FaultyStorage, source: str, _target: str) -> None:
    raise UnsupportedError(f"Cannot rename {source}: no directories")


@pytest.mark.parametrize("verb", ["expire", "roll back"])
def test_a_branch_that_others_delete_does_not_come_again(verb: str) -> None:
    def prepare() -> World:
        world = World()
        world.create(keys=("k",), by=(), bucket=1, snapshot__num_retained__min=1)
        world.write({1: 0})
        world.table().create_branch("b", snapshot=1)
        for number in range(2, 5):
            world.write({number: 0}, branch="b")
        seen[:] = [world]
        return world

    def job(_: Table) -> str:
        try:
            table = seen[0].table("b")
            done = table.expire_snapshots(1, 1) if verb == "expire" else table.rollback(snapshot=2)
        except (ConflictError, NotFoundError) as error:
            return type(error).__name__
        return str(done.status)

    seen: list[World] = []
    outcomes = set()

    for world, outcome in histories(prepare, job, lambda table: table.delete_branch("b")):
        outcomes.add(outcome)
        is_first = world.table().branches().num_rows == 1
        left = [info.path for info in world.inner.walk(f"{world.root}/branch") if "/snapshot/snapshot-" in info.path]
        assert is_first or left == []
        assert_sound(world.table())
    assert len(outcomes) > 1


def test_a_tag_that_others_delete_from_a_branch_does_not_come_to_main_without_its_files() -> None:
    def prepare() -> World:
        world = World()
        world.create(keys=("k",), by=(), bucket=1, snapshot__num_retained__min=1)
        world.write({1: 0})
        world.table().create_branch("b", snapshot=1)
        world.write({2: 0}, branch="b")
        world.table("b").create_tag("x")
        world.write({2: 1}, branch="b")
        world.table("b").compact(full=True)
        world.table("b").expire_snapshots(1, 1)
        for number in range(3, 7):
            world.write({number: 0})
        seen[:] = [world]
        return world

    def job(table: Table) -> str:
        try:
            return str(table.fast_forward("b").status)
        except (ConflictError, NotFoundError, InvalidArgumentError) as error:
            return type(error).__name__

    def others(_: Table) -> None:
        seen[0].beside().table("b").delete_tag("x")

    seen: list[World] = []
    tags = set()
    for world, _ in histories(prepare, job, others):
        assert_sound(world.table())
        tags.add(tuple(world.table().tags()["tag_name"].to_pylist()))
    assert tags == {(), ("x",)}
