"""Another table as the source of a write: which rows of it arrive, in which types, and what is refused before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, NotFoundError, Table, Write
from paimon_engine.errors import PaimonError
from paimon_engine.executor import LocalExecutor
from paimon_engine.jobs import Job, JobResult, NewTable, SourceRef, StorageRef, TableRef, check_job, planned_bytes, run
from paimon_engine.table.write import source_table
from paimon_engine.types import type_to_json

COLUMNS = {"id": "BIGINT NOT NULL", "name": "VARCHAR(10)", "day": "DATE", "price": "DECIMAL(10, 2)"}


def rows(*ids: int, name: str = "Ann") -> pa.Table:
    found = {"id": list(ids), "name": [name] * len(ids), "day": [None] * len(ids), "price": [None] * len(ids)}
    return pa.table(found, pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("price", pa.decimal128(10, 2))]))  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def raw(lake: str) -> Table:
    """Snapshots 1: {1, 2}, tagged `first`; 2: {1, 2, 3}; 3: {1, 2, 3}, with 2 renamed."""
    made = Catalog(lake).create_table("raw.users", schema=COLUMNS, primary_keys=["id"], options={"bucket": "2"})
    made.write(rows(1, 2))
    made.create_tag("first")
    made.write(rows(3))
    made.write(rows(2, name="Bob"))
    return made


def job(lake: str, *, user: str = "u", create: NewTable | None = None, **fields: Any) -> Job:
    action = Write(**{"source": "raw.users", "format": "paimon", **fields})
    return Job(TableRef(lake, "shop.users"), action, user, create=create or NewTable())


def written(lake: str, name: str = "shop.users") -> list[tuple[int, Any]]:
    found = Catalog(lake).table(name).to_arrow().to_pylist()
    return sorted((row["id"], row.get("name")) for row in found)


@pytest.mark.parametrize(
    ("fields", "expected", "snapshot"),
    [
        ({}, [(1, "Ann"), (2, "Bob"), (3, "Ann")], 3),
        ({"source_tag": "first"}, [(1, "Ann"), (2, "Ann")], 1),
        ({"source_snapshot": 2}, [(1, "Ann"), (2, "Ann"), (3, "Ann")], 2),
        ({"source_where": "id > 1 AND name <> 'Bob'"}, [(3, "Ann")], 3),
        ({"source_columns": ["id"], "source_where": "name = 'Bob'"}, [(2, None)], 3),
        ({"source": "PATH"}, [(1, "Ann"), (2, "Bob"), (3, "Ann")], 3),
    ],
)
def test_chosen_rows_of_a_table_are_written(
    lake: str, raw: Table, fields: dict[str, Any], expected: list[Any], snapshot: int
):
    fields = {name: raw.path if value == "PATH" else value for name, value in fields.items()}

    done = run(job(lake, **fields))

    assert written(lake) == expected
    assert (done.status, done.details["rows"]) == ("committed", len(expected))
    assert done.details["source_snapshot_id"] == snapshot


def test_a_new_table_has_the_types_of_the_source(lake: str, raw: Table):
    run(job(lake, source_columns=["name", "id"], create=NewTable(primary_keys=["id"], options={"bucket": "1"})))

    made = Catalog(lake).table("shop.users").schema
    assert [(field.name, type_to_json(field.type)) for field in made.row_type] == [
        ("name", "VARCHAR(10)"),
        ("id", "BIGINT NOT NULL"),
    ]


@pytest.mark.parametrize(
    ("keys", "partitions", "bucket"),
    [([], [], "-1"), (["id"], [], "3"), (["id"], [], "-1"), (["id"], ["name"], "-1"), (["id", "name"], ["name"], "1")],
)
def test_many_tasks_write_into_every_kind_of_table(
    lake: str, raw: Table, monkeypatch: pytest.MonkeyPatch, keys: list[str], partitions: list[str], bucket: str
):
    monkeypatch.setattr(source_table, "TASK_BYTES", 1)
    create = NewTable(primary_keys=keys, partition_keys=partitions, options={"bucket": bucket})

    run(job(lake, create=create), LocalExecutor(2))

    assert written(lake) == [(1, "Ann"), (2, "Bob"), (3, "Ann")]


def test_what_is_written_to_the_source_meanwhile_is_not_read(lake: str, raw: Table):
    """The plan and the tasks are at one snapshot, which the result names."""

    class Late(LocalExecutor):
        def map(self, *arguments: Any, **more: Any) -> Any:
            raw.write(rows(9))
            return super().map(*arguments, **more)

    done = run(job(lake), Late())

    assert written(lake) == [(1, "Ann"), (2, "Bob"), (3, "Ann")]
    assert done.details["source_snapshot_id"] == 3
    assert raw.latest_snapshot_id() == 4


def test_a_table_may_replace_itself(lake: str, raw: Table):
    done = run(Job(TableRef(lake, "raw.users"), Write("raw.users", "paimon", {}, source_where="id <> 3"), "u"))

    assert done.status == "committed"
    assert written(lake, "raw.users") == [(1, "Ann"), (2, "Bob")]


def test_rows_are_written_once_also_when_the_source_has_gone(lake: str, raw: Table):
    again = job(lake)
    first = run(again)
    Catalog(lake).drop_table("raw.users")

    check_job(again)
    assert planned_bytes(again) == 0
    assert (run(again).status, run(again).snapshot_id) == ("already_done", first.snapshot_id)
    with pytest.raises(NotFoundError, match="no table"):
        check_job(replace(again, commit_user="another"))


def test_its_plan_counts_the_files_that_are_read(lake: str, raw: Table):
    sizes = raw.files()["file_size_in_bytes"].to_pylist()

    assert planned_bytes(job(lake)) == sum(sizes) > planned_bytes(job(lake, source_tag="first")) > 0
    run(job(lake))
    assert planned_bytes(job(lake, user="another")) == sum(sizes)


def test_an_empty_table_gives_no_rows(lake: str, raw: Table):
    Catalog(lake).create_table("raw.none", schema=COLUMNS)

    assert run(job(lake, source="raw.none")).status == "noop"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "raw.missing"}, "no table"),
        ({"source": "/none/raw.db/missing"}, "no table in /none"),
        ({"source_tag": "second"}, "tag 'second'"),
        ({"source_snapshot": 99}, "99"),
        ({"source_columns": ["id", "nothing"]}, "nothing"),
        ({"source_where": "nothing = 1"}, "nothing"),
        ({"source_tag": "first", "source_snapshot": 1}, "give one of"),
    ],
)
def test_a_mistake_is_found_before_anything_starts(lake: str, raw: Table, fields: dict[str, Any], message: str):
    with pytest.raises(PaimonError, match=message):
        check_job(job(lake, **fields))
    assert not Path(lake, "shop.db").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "csv", "source_tag": "first"}, "source_tag is for a source table"),
        ({"format": "parquet", "source_where": "id > 1"}, "source_where is for a source table"),
        ({"source": ["raw.users", "raw.others"]}, "a source table is one"),
        ({"source_where": "id >"}, "source_where"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(lake: str, fields: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        job(lake, **fields)


def test_columns_that_do_not_fit_are_refused_before_anything_starts(lake: str, raw: Table):
    Catalog(lake).create_table("shop.users", schema={"id": "BIGINT", "name": "ARRAY<INT>"})

    with pytest.raises(InvalidArgumentError, match=r"raw\.db/users: .*'day', 'price'"):
        check_job(job(lake))
    with pytest.raises(InvalidArgumentError, match=r"raw\.db/users: .*'name'"):
        check_job(job(lake, source_columns=["id", "name"]))


def test_a_table_of_another_warehouse(tmp_path: Path, lake: str, raw: Table):
    other = job(str(tmp_path / "other"))
    with pytest.raises(NotFoundError):
        check_job(other)

    there = Job.from_json(replace(other, source=SourceRef(lake)).to_json())

    assert there.source == SourceRef(lake)
    assert run(there).status == "committed"
    assert written(str(tmp_path / "other")) == [(1, "Ann"), (2, "Bob"), (3, "Ann")]


def test_secrets_of_the_other_warehouse_are_named_and_never_stored(lake: str):
    location = SourceRef("s3://b/lake", StorageRef({}, {"s3.secret-key": "OTHER_SECRET"}))

    assert "OTHER_SECRET" in replace(job(lake), source=location).secret_variables()
    with pytest.raises(InvalidArgumentError, match="store"):
        replace(job(lake), source=SourceRef("s3://b/lake", StorageRef({"s3.secret-key": "hush"}))).to_json()


def test_a_name_needs_a_warehouse(lake: str, raw: Table):
    by_path = Job(TableRef(path=f"{lake}/shop.db/users"), Write("raw.users", "paimon"), "u", create=NewTable())

    with pytest.raises(InvalidArgumentError, match="give the path of its directory"):
        run(by_path)
    assert run(replace(by_path, source=SourceRef(lake))).status == "committed"


def test_the_report_says_what_was_read(lake: str, raw: Table):
    done = JobResult.from_json(run(job(lake)).to_json())

    assert done.details["source_snapshot_id"] == 3
