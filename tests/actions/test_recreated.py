"""A handle of a table, or of a branch, that others have dropped and created again since: nothing of it is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.errors import ConflictError, NotFoundError
from paimon_engine.meta.schema_change import AddColumn

OLD = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
NEW = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("amount", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path))


def _created(catalog: Catalog, schema: pa.Schema) -> Table:
    return catalog.create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "2"})


def _files(table: Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("data-*")}


@pytest.mark.parametrize("columns", [NEW, OLD], ids=["other columns", "the same columns"])
@pytest.mark.parametrize("has_rows", [True, False])
def test_rows_for_a_table_that_is_another_one_by_now(catalog: Catalog, columns: pa.Schema, has_rows: bool) -> None:
    early = _created(catalog, OLD)
    early.write(pa.table({"k": [1], "v": ["a"]}, schema=OLD))
    catalog.drop_table("db.t")
    table = _created(catalog, columns)
    if has_rows:
        table.write(pa.Table.from_arrays([pa.array([1]), pa.nulls(1, columns[1].type)], schema=columns))
    held = _files(table)

    for act in (
        lambda: early.write(pa.table({"k": [2], "v": ["b"]}, schema=OLD)),
        lambda: early.write(pa.table({"k": [2], "v": ["b"]}, schema=OLD), overwrite={}),
    ):
        with pytest.raises(ConflictError, match="dropped and created again .*open it again"):
            act()

    assert _files(table) == held
    assert catalog.table("db.t").to_arrow().num_rows == int(has_rows)
    assert catalog.table("db.t").verify("rows").problems == ()


@pytest.mark.parametrize(
    "columns", [NEW, pa.schema([pa.field("v", pa.string(), nullable=False), OLD.field("k")])], ids=["other", "turned"]
)
def test_a_read_does_not_say_that_the_other_table_is_damaged(catalog: Catalog, columns: pa.Schema) -> None:
    """It would advise a rollback of a table that is whole."""
    early = _created(catalog, OLD)
    catalog.drop_table("db.t")
    table = catalog.create_table("db.t", schema=columns, primary_keys=columns.names[:1], options={"bucket": "2"})
    table.write(pa.Table.from_arrays([pa.array([1]).cast(field.type) for field in columns], schema=columns))

    with pytest.raises(ConflictError, match="dropped and created again"):
        early.to_arrow()
    with pytest.raises(ConflictError, match="dropped and created again"):
        list(early.to_batches())


@pytest.mark.parametrize("name", ["t", "t$branch_b"])
@pytest.mark.parametrize("way", ["dropped", "renamed"])
def test_a_table_that_is_gone_is_not_read_as_an_empty_one(catalog: Catalog, name: str, way: str) -> None:
    """A job that copies its rows would overwrite the target with nothing."""
    table = _created(catalog, OLD)
    table.create_branch("b")
    early = catalog.table(f"db.{name}")
    early.write(pa.table({"k": [1], "v": ["a"]}, schema=OLD))
    if way == "dropped":
        catalog.drop_table("db.t")
    else:
        catalog.rename_table("db.t", "db.u")

    for act in (
        early.to_arrow,
        lambda: list(early.to_batches()),
        lambda: early.verify("files"),
        lambda: early.reset_consumer("c", 1),
        lambda: early.alter([AddColumn("x", "INT")]),
        lambda: early.write(pa.table({"k": [2], "v": ["b"]}, schema=OLD)),
    ):
        with pytest.raises(NotFoundError, match="is not there any more: it was dropped or renamed since it was opened"):
            act()

    if way == "renamed":
        catalog.rename_table("db.u", "db.t")
        assert early.to_arrow().num_rows == 1


@pytest.mark.parametrize("name", ["t", "t$branch_b"])
@pytest.mark.parametrize("way", ["dropped", "renamed"])
def test_what_a_table_that_is_gone_has_is_not_said_to_be_nothing(catalog: Catalog, name: str, way: str) -> None:
    table = _created(catalog, OLD)
    table.create_branch("b")
    early = catalog.table(f"db.{name}")
    early.write(pa.table({"k": [1], "v": ["a"]}, schema=OLD))
    directory = Path(table.path)
    if way == "dropped":
        catalog.drop_table("db.t")
    else:
        catalog.rename_table("db.t", "db.u")

    for act in (
        early.snapshots,
        early.tags,
        early.quarantines,
        lambda: early.create_branch("c"),
        lambda: early.create_branch("c", snapshot=1),
        early.repair_earliest_snapshot,
    ):
        with pytest.raises(NotFoundError, match="is not there any more: it was dropped or renamed since it was opened"):
            act()
    assert not directory.exists()


@pytest.mark.parametrize("columns", [NEW, OLD], ids=["other columns", "the same columns"])
def test_no_branch_is_made_of_a_table_that_is_another_one(catalog: Catalog, columns: pa.Schema) -> None:
    early = _created(catalog, OLD)
    catalog.drop_table("db.t")
    table = _created(catalog, columns)

    with pytest.raises(ConflictError, match="dropped and created again .*open it again"):
        early.create_branch("c")
    assert table.branches().num_rows == 0


def test_a_task_says_that_its_table_is_gone_or_another_one(catalog: Catalog) -> None:
    """Tasks of Spark look up the schema of their table when they begin, which may be long after it was opened."""
    _created(catalog, OLD).alter([AddColumn("x", "INT")])
    handle = catalog.table("db.t")._handle
    task = handle.plain()
    catalog.drop_table("db.t")

    with pytest.raises(NotFoundError, match="is not there any more: it was dropped or renamed since it was opened"):
        task.load(handle.env)
    _created(catalog, OLD)
    with pytest.raises(
        NotFoundError, match="schema-1 is missing: .* dropped and created again meanwhile, open it again"
    ):
        task.load(handle.env)


def test_an_empty_table_is_read_as_one(catalog: Catalog) -> None:
    table = _created(catalog, OLD)
    assert table.to_arrow().num_rows == 0
    assert table.verify("rows").status == "sound"


@pytest.mark.parametrize("columns", [NEW, OLD], ids=["other columns", "the same columns"])
def test_a_compaction_is_one_of_the_table_that_is_there_now(catalog: Catalog, columns: pa.Schema) -> None:
    early = _created(catalog, OLD)
    catalog.drop_table("db.t")
    table = _created(catalog, columns)
    for number in (1, 2):
        table.write(
            pa.Table.from_arrays(
                [pa.array([1, number]), pa.array([number, 7], pa.int64()).cast(columns[1].type)], schema=columns
            )
        )
    rows = table.to_arrow()

    assert early.compact(full=True).status == "committed"

    assert table.to_arrow().equals(rows)
    assert table.verify("rows").problems == ()


def test_rows_for_a_branch_that_is_another_one_by_now(catalog: Catalog) -> None:
    """The schema that the handle has is not in the new branch; its files could not be read there."""
    table = _created(catalog, OLD)
    table.create_branch("dev")
    dev = open_table(f"{table.path}$branch_dev")
    dev.alter([AddColumn("x", "INT")])
    early = open_table(f"{table.path}$branch_dev")
    table.delete_branch("dev")
    table.create_branch("dev")

    with pytest.raises(ConflictError, match="branch 'dev' of .* was dropped and created again"):
        early.write(pa.table({"k": [2], "v": ["b"], "x": pa.array([1], pa.int32())}))

    assert _files(table) == set()
    assert open_table(f"{table.path}$branch_dev").to_arrow().num_rows == 0


def test_a_handle_from_before_a_change_of_columns_still_commits(catalog: Catalog) -> None:
    early = _created(catalog, OLD)
    catalog.table("db.t").alter([AddColumn("x", "INT")])

    early.write(pa.table({"k": [2], "v": ["b"]}, schema=OLD))

    assert catalog.table("db.t").to_arrow().to_pylist() == [{"k": 2, "v": "b", "x": None}]


NOTHING_TO_DO = [
    ("expire_snapshots", {"retain_max": 1}),
    ("expire_changelogs", {"retain_max": 1}),
    ("expire_tags", {}),
    ("purge_files", {}),
    ("remove_orphan_files", {}),
    ("compact", {"full": True}),
    ("delete_tag", {"name": "a"}),
    ("delete_branch", {"name": "b"}),
    ("create_branch", {"name": "b"}),
    ("create_branch", {"name": "b", "snapshot": 1}),
    ("create_tag", {"name": "a"}),
    ("rename_branch", {"name": "b", "to": "c"}),
    ("repair_earliest_snapshot", {"snapshot": 1}),
    ("rollback", {"snapshot": 1}),
    ("snapshots", {}),
    ("tags", {}),
    ("tag_names", {}),
    ("branches", {}),
    ("consumers", {}),
    ("quarantines", {}),
]


@pytest.mark.parametrize(("verb", "given"), NOTHING_TO_DO, ids=[verb for verb, _ in NOTHING_TO_DO])
def test_a_table_that_is_gone_is_not_one_with_nothing_to_do(catalog: Catalog, verb: str, given: dict[str, Any]) -> None:
    early = _created(catalog, OLD)
    early.write(pa.table({"k": [1], "v": ["a"]}, schema=OLD))
    catalog.drop_table("db.t")

    with pytest.raises(NotFoundError, match="is not there any more"):
        getattr(early, verb)(**given)

    _created(catalog, OLD)
    with pytest.raises(ConflictError, match="dropped and created again .*open it again"):
        getattr(early, verb)(**given)


def test_an_empty_table_that_is_another_one_by_now_is_not_read_as_the_old_one(catalog: Catalog) -> None:
    early = _created(catalog, OLD)
    early.write(pa.table({"k": [1], "v": ["a"]}, schema=OLD))
    catalog.drop_table("db.t")
    _created(catalog, OLD)

    with pytest.raises(ConflictError, match="dropped and created again .*open it again"):
        early.to_arrow()
