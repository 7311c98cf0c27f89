"""Rows that are prepared in one place and committed in another: once, or given up without a trace."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import (
    AddColumn,
    Catalog,
    CommitMessage,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    SetOption,
    Table,
    UnsupportedError,
)

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


def rows(*keys: int, v: str = "x") -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "lake"))


def make(catalog: Catalog, name: str = "db.t", *, keys: bool = True, **options: Any) -> Table:
    """A table with the row 0."""
    bucket = {"bucket": "2"} if keys else {"bucket": "-1"}
    table = catalog.create_table(name, schema=SCHEMA, primary_keys=["k"] if keys else [], options={**bucket, **options})
    table.write(rows(0))
    return table


@pytest.fixture(params=[True, False], ids=["primary key", "append"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    return make(catalog, keys=request.param)


def keys_of(table: Table) -> list[int]:
    found: list[int] = sorted(table.to_arrow()["k"].to_pylist())
    return found


def sent(messages: list[CommitMessage]) -> list[CommitMessage]:
    """The messages as they come out of a JSON text somewhere else."""
    return [CommitMessage.from_json(json.loads(json.dumps(message.to_json()))) for message in messages]


def stored(table: Table) -> set[str]:
    """Data files in the table's directory, and messages kept there."""
    found = [
        *Path(table.path).rglob("data-*"),
        *Path(table.path).rglob("changelog-*"),
        *Path(table.path).rglob("prep*"),
    ]
    return {str(path.relative_to(table.path)) for path in found}


def orphans(table: Table) -> list[str]:
    """What the removal of orphan files would delete a moment later; nothing if all is named."""
    deadline = table._handle.env.clock()
    for path in Path(table.path).rglob("*"):
        if path.is_file():
            os.utime(path, (deadline / 1000 - 60, deadline / 1000 - 60))
    found = table.remove_orphan_files(older_than=deadline - 1000, dry_run=True)
    assert found.stopped == ()
    return [file.path for file in found.deleted]


# ── once ────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_prepared_appears_with_the_commit(table: Table):
    first, second = table.prepare_write(rows(1, 2), order=0), table.prepare_write(rows(3), order=1)

    assert keys_of(table) == [0]
    assert table.latest_snapshot_id() == 1

    done = table.commit(sent([*first, *second]), commit_user="run", watermark=7, properties={"by": "me"})

    assert (done.status, done.snapshot_id) == ("committed", 2)
    assert keys_of(table) == [0, 1, 2, 3]
    assert table.snapshots().to_pylist()[-1]["watermark"] == 7
    assert table.verify(depth="rows").problems == ()
    assert orphans(table) == []


def test_the_messages_are_committed_once_under_any_name(table: Table):
    messages = table.prepare_write(rows(1))

    assert table.commit(messages, commit_user="run").status == "committed"
    assert table.commit(messages, commit_user="run").status == "already_done"
    again = table.commit(messages, commit_user="another")

    assert (again.status, again.snapshot_id) == ("already_done", 2)
    assert keys_of(table) == [0, 1]


@pytest.mark.parametrize("by", ["snapshots since", "the earliest snapshot left", "a tag"])
def test_a_commit_is_found_after_others_have_worked_on(table: Table, by: str):
    messages = table.prepare_write(rows(1))
    table.commit(messages, commit_user="run")
    if by == "a tag":
        table.create_tag("kept", snapshot=2)
    table.write(rows(5))
    if by == "a tag":
        table.compact(full=True)
    if by != "snapshots since":
        table.expire_snapshots(retain_max=1, retain_min=1)

    again = table.commit(messages, commit_user="another")

    assert again.status == "already_done"
    assert keys_of(table) == [0, 1, 5]


def test_messages_whose_files_an_expiry_deleted_are_refused(table: Table):
    messages = table.prepare_write(rows(1, 2, 3, 4))
    table.commit(messages, commit_user="run")
    table.write(rows(5, 6, 7, 8))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    # The compaction says that it has removed the files.
    assert table.commit(messages, commit_user="another").status == "already_done"
    table.write(rows(9))
    table.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(ConflictError, match="deleted"):
        table.commit(messages, commit_user="another")
    assert keys_of(table) == list(range(10))


def test_messages_that_are_given_twice_are_committed_once(table: Table):
    """A snapshot that names a file twice cannot be read."""
    messages = table.prepare_write(rows(1, 2))

    assert table.commit([*messages, *sent(messages)], commit_user="me").status == "committed"

    assert keys_of(table) == [0, 1, 2]
    assert table.verify().problems == ()


def test_different_messages_with_one_file_are_refused(table: Table):
    (message, *_) = table.prepare_write(rows(1))
    other = replace(message, new_files=tuple(replace(file, row_count=7) for file in message.new_files))

    with pytest.raises(InvalidArgumentError, match="different messages have the file data-"):
        table.commit([message, other], commit_user="me")
    assert keys_of(table) == [0]


def test_messages_of_which_some_are_committed_are_refused(table: Table):
    first, second = table.prepare_write(rows(1)), table.prepare_write(rows(2))
    table.commit(first, commit_user="run")

    with pytest.raises(ConflictError, match="some of the messages are in snapshot 2"):
        table.commit([*first, *second], commit_user="another")
    assert keys_of(table) == [0, 1]


def test_nothing_prepared_is_nothing_committed(table: Table):
    assert table.prepare_write(rows()) == []
    assert table.commit([], commit_user="run").status == "noop"
    assert table.abort([]).status == "noop"


def test_a_write_that_fails_while_it_prepares_leaves_no_file(table: Table):
    before = stored(table)

    def batches():
        yield from rows(1, 2).to_batches()
        raise OSError("the source is gone")

    with pytest.raises(OSError):
        table.prepare_write(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert stored(table) == before


def test_changelogs_of_prepared_rows(catalog: Catalog):
    table = make(catalog, **{"changelog-producer": "input"})
    table.commit(table.prepare_write(rows(0, v="y"), row_kinds=["+U"]), commit_user="run")

    changes = catalog.table("db.t$audit_log").to_arrow(incremental=(1, 2)).to_pylist()

    assert [(row["rowkind"], row["v"]) for row in changes] == [("+U", "y")]


def test_postponed_rows_can_be_prepared(catalog: Catalog):
    table = make(catalog, bucket="-2")
    table.commit(table.prepare_write(rows(1)), commit_user="run")
    table.compact(full=True)

    assert keys_of(table) == [0, 1]


# ── side by side ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "the other way round"])
def test_of_rows_of_one_key_those_of_the_higher_order_count(catalog: Catalog, turned: bool):
    table = make(catalog)
    made = [table.prepare_write(rows(1, v=text), order=number) for number, text in enumerate("abc")]
    messages = [message for part in (made[::-1] if turned else made) for message in part]
    table.commit(messages, commit_user="run")

    assert table.to_arrow(where="k = 1")["v"].to_pylist() == ["c"]

    table.write(rows(1, v="later"))
    assert table.to_arrow(where="k = 1")["v"].to_pylist() == ["later"]
    table.compact(full=True)
    assert table.to_arrow(where="k = 1")["v"].to_pylist() == ["later"]


@pytest.mark.java
def test_in_java_the_higher_order_counts_too(catalog: Catalog, oracle):
    table = make(catalog)
    made = [table.prepare_write(rows(1, v=text), order=number) for number, text in enumerate("abc")]
    table.commit([message for part in made[::-1] for message in part], commit_user="run")

    assert oracle.problems(table.path) == []
    assert sorted(row[-1] for row in oracle.read(table.path)) == ["c", "x"]


def test_rows_of_one_key_have_the_same_numbers_without_an_order(catalog: Catalog):
    """As in Java, where two writers of one snapshot count from the same number, and nothing says who is newer."""
    table = make(catalog)
    one, two = table.prepare_write(rows(1, v="a")), table.prepare_write(rows(1, v="b"))

    assert one[0].new_files[0].max_sequence_number == two[0].new_files[0].max_sequence_number


def test_a_sequence_field_decides_in_any_order(catalog: Catalog):
    columns = {"k": "BIGINT NOT NULL", "v": "STRING", "at": "INT"}
    options = {"bucket": "1", "sequence.field": "at"}
    table = catalog.create_table("db.s", schema=columns, primary_keys=["k"], options=options)
    newer = table.prepare_write(pa.table({"k": [1], "v": ["new"], "at": [2]}), order=0)
    older = table.prepare_write(pa.table({"k": [1], "v": ["old"], "at": [1]}), order=1)
    table.commit([*newer, *older], commit_user="run")

    assert table.to_arrow()["v"].to_pylist() == ["new"]


@pytest.mark.parametrize("order", [-1, 1 << 20, True, "1", None])
def test_an_order_that_is_none_is_refused(catalog: Catalog, order: Any):
    with pytest.raises(InvalidArgumentError, match="order="):
        make(catalog).prepare_write(rows(1), order=order)


def test_keys_that_choose_their_buckets_cannot_be_prepared(catalog: Catalog):
    table = make(catalog, bucket="-1")

    with pytest.raises(UnsupportedError, match="cannot be prepared apart.*'bucket'"):
        table.prepare_write(rows(1))


# ── given up ────────────────────────────────────────────────────────────────────────────────────


def test_an_abort_leaves_nothing(table: Table):
    before = stored(table)
    messages = sent(table.prepare_write(rows(1, 2)))

    done = table.abort(messages)

    assert (done.status, done.files_committed) == ("deleted", 0)
    assert done.files_deleted > 0
    assert stored(table) == before
    assert keys_of(table) == [0]
    assert table.abort(messages).status == "noop"
    assert orphans(table) == []


def test_an_abort_before_the_first_snapshot(catalog: Catalog):
    table = catalog.create_table("db.empty", schema=SCHEMA, options={"bucket": "-1"})
    messages = table.prepare_write(rows(1))

    assert table.abort(messages).status == "deleted"
    assert stored(table) == set()
    assert table.latest_snapshot_id() is None


def test_a_commit_after_an_abort_is_refused(table: Table):
    messages = table.prepare_write(rows(1))
    table.abort(messages)

    with pytest.raises(ConflictError, match="an abort has deleted.*prepare the changes again"):
        table.commit(messages, commit_user="run")
    assert keys_of(table) == [0]


@pytest.mark.parametrize("later", ["at once", "compacted", "tagged and expired", "on a branch"])
def test_an_abort_after_the_commit_deletes_nothing(table: Table, later: str):
    messages = table.prepare_write(rows(1))
    table.commit(messages, commit_user="run")
    if later != "at once":
        table.create_tag("kept", snapshot=2)
    if later == "on a branch":
        table.create_branch("b", tag="kept")
    if later != "at once":
        table.write(rows(5))
        table.compact(full=True)
    if later == "tagged and expired":
        table.expire_snapshots(retain_max=1, retain_min=1)
    before = stored(table)

    done = table.abort(messages)

    assert (done.status, done.files_deleted) == ("noop", 0)
    assert done.files_committed > 0
    assert stored(table) == before
    assert table.verify(depth="rows").problems == ()


def test_an_abort_during_a_commit_that_has_checked_its_files(table: Table, monkeypatch: pytest.MonkeyPatch):
    """The commit is about to publish while the abort runs: the fence gets its id, and it is refused."""
    from paimon_engine.table.commit import commit as commits
    from paimon_engine.table.commit.publish import publish

    messages = table.prepare_write(rows(1))

    def after_an_abort(*arguments: Any) -> bool:
        monkeypatch.setattr(commits, "publish", publish)
        assert table.abort(messages).status == "deleted"
        return publish(*arguments)

    monkeypatch.setattr(commits, "publish", after_an_abort)
    with pytest.raises(ConflictError, match="deleted"):
        table.commit(messages, commit_user="run")

    assert keys_of(table) == [0]
    assert table.verify(depth="rows").problems == ()


def test_an_abort_is_unsure_where_versions_are_missing(table: Table):
    messages = table.prepare_write(rows(1))
    for number in (1, 2, 3):
        table.write(rows(10 + number))
    Path(table.path, "snapshot", "snapshot-3").unlink()

    done = table.abort(messages)

    assert done.status == "stopped"
    assert "nothing is deleted" in done.stopped[0]


# ── other tables ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["commit", "abort"])
def test_messages_of_another_table_are_refused_by_name(catalog: Catalog, what: str):
    one, other = make(catalog), make(catalog, "db.other")
    messages = one.prepare_write(rows(1))

    with pytest.raises(InvalidArgumentError, match="another table, .*db.db/t$"):
        other.commit(messages, commit_user="run") if what == "commit" else other.abort(messages)
    assert one.commit(messages, commit_user="run").status == "committed"


def test_messages_of_a_table_that_was_dropped_and_created_again(catalog: Catalog):
    messages = make(catalog).prepare_write(rows(1))
    catalog.drop_table("db.t")
    table = make(catalog)

    with pytest.raises(InvalidArgumentError, match="dropped and created again"):
        table.commit(messages, commit_user="run")
    assert table.abort(messages).status == "noop"
    assert keys_of(table) == [0]


def test_messages_of_another_branch_are_refused(catalog: Catalog):
    table = make(catalog, keys=False)
    table.create_tag("first")
    table.create_branch("b", tag="first")
    messages = catalog.table("db.t$branch_b").prepare_write(rows(1))

    with pytest.raises(InvalidArgumentError, match="branch 'b', not for 'main'"):
        table.commit(messages, commit_user="run")
    assert catalog.table("db.t$branch_b").commit(messages, commit_user="run").status == "committed"


@pytest.mark.parametrize("way", ["rollback", "rollback_to_as_latest"])
def test_messages_for_another_number_of_buckets_than_a_rollback_restored_are_refused(catalog: Catalog, way: str):
    table = make(catalog)
    table.alter([SetOption("bucket", "3")])
    table.rescale()
    messages = table.prepare_write(rows(0, 1, 2, 3, 4, v="new"))
    getattr(table, way)(1)

    with pytest.raises(ConflictError, match=r"the partition has \[2\] buckets, the change was made for \[3\]"):
        table.commit(messages, commit_user="job")

    assert keys_of(table) == [0]
    assert table.verify("rows").problems == ()
    table.rescale()
    assert table.commit(messages, commit_user="job").status == "committed"
    assert keys_of(table) == [0, 1, 2, 3, 4]
    assert table.verify("rows").problems == ()


@pytest.mark.parametrize("change", [AddColumn("w", "INT"), SetOption("bucket", "4")], ids=["column", "option"])
def test_messages_of_an_earlier_schema_are_refused(catalog: Catalog, change: Any):
    early = make(catalog)
    messages = early.prepare_write(rows(1))
    table = catalog.table("db.t")
    table.alter([change])

    for handle in (early, table):
        with pytest.raises(InvalidArgumentError, match="prepared for schema 0.*has schema 1"):
            handle.commit(messages, commit_user="run")
    assert table.abort(messages).status == "deleted"


def test_messages_of_a_table_that_was_renamed(catalog: Catalog):
    messages = make(catalog).prepare_write(rows(1))
    catalog.rename_table("db.t", "db.renamed")
    table = catalog.table("db.renamed")

    assert table.commit(messages, commit_user="run").status == "committed"
    assert keys_of(table) == [0, 1]


# ── kept ────────────────────────────────────────────────────────────────────────────────────────


def test_messages_may_be_kept_in_the_table(table: Table):
    messages = table.prepare_write(rows(1))
    name = table.keep_messages(messages)

    assert table.kept_messages(name) == messages
    table.commit(messages, commit_user="run")
    assert [Path(path).name for path in orphans(table)] == [name]

    table.forget_messages(name)
    table.forget_messages(name)
    assert orphans(table) == []
    with pytest.raises(NotFoundError, match="committed, aborted"):
        table.kept_messages(name)


@pytest.mark.parametrize("name", ["../schema/schema-0", "prepared-../x", "manifest-1", "", None])
def test_only_names_of_messages_are_opened_or_deleted(table: Table, name: Any):
    for method in (table.kept_messages, table.forget_messages):
        with pytest.raises(InvalidArgumentError, match="not a name of prepared messages"):
            method(name)
