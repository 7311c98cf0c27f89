"""Rows as files for other programs: what is in them, when they are visible, and what is never replaced."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from paimon_engine import (
    Catalog,
    Compact,
    ConflictError,
    ExportFiles,
    InvalidArgumentError,
    NotFoundError,
    Table,
    Write,
)
from paimon_engine.actions import export_files
from paimon_engine.env import EnvConfig
from paimon_engine.format import row_files
from paimon_engine.jobs import Job, StorageRef, TableRef, run, shows_storage_option
from tests.support.faulty_storage import DOWN, WAYS, FaultyStorage
from tests.support.s3 import BUCKET, start_s3
from tests.support.world.rehearsal import Rehearsal
from tests.support.world.scenarios import BY_NAME, outside
from tests.support.world.world import World

OUTSIDE = outside(World())

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

COLUMNS = {
    "id": "BIGINT NOT NULL",
    "name": "STRING",
    "price": "DECIMAL(10, 2)",
    "day": "DATE",
    "at": "TIMESTAMP(6)",
    "good": "BOOLEAN",
}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "Ann", "price": Decimal("1.50"), "day": date(2024, 2, 29), "at": datetime(2024, 2, 29, 12, 30), "good": True},
    {"id": 2, "name": None, "price": None, "day": None, "at": None, "good": None},
    {"id": 3, "name": 'a "b", c\n', "price": Decimal("0.10"), "day": date(2024, 2, 29), "at": None, "good": False},
]  # fmt: skip


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "lake"))


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Snapshot 1 has row 1, and the tag `first`; snapshot 2 all of them."""
    made = catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"], options={"bucket": "2"})
    for chosen in (ROWS[:1], ROWS[1:]):
        made.write(pa.Table.from_pylist(chosen, made.arrow_schema))
        if chosen[0]["id"] == 1:
            made.create_tag("first")
    return made


def seen(directory: Path) -> set[str]:
    """Names of all that is there, hidden ones too."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", ["parquet", "orc", "avro", "csv", "json"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_files_hold_the_rows_and_come_back(
    catalog: Catalog, table: Table, tmp_path: Path, form: str, *, partitioned: bool
):
    target = str(tmp_path / ("out" if partitioned else f"out.{form}"))

    done = table.export(target, form, partition_by=[] if partitioned else None)

    files = [path for path in Path(target).iterdir() if path.suffix] if partitioned else [Path(target)]
    assert (done.status, done.rows, done.files, done.snapshot_id) == ("exported", 3, 1, 2)
    assert done.bytes == sum(path.stat().st_size for path in files) > 0
    back = catalog.create_table("db.back", schema=COLUMNS)
    run(Job(TableRef(path=back.path), Write([str(path) for path in files], form), "u"))
    assert back.to_arrow().sort_by("id").to_pylist() == ROWS


def test_chosen_rows_and_columns_of_a_tag(table: Table, tmp_path: Path):
    done = table.export(str(tmp_path / "out.parquet"), columns=["id", "name"], tag="first")
    assert (done.snapshot_id, pq.read_table(tmp_path / "out.parquet").to_pylist()) == (1, [{"id": 1, "name": "Ann"}])

    table.export(str(tmp_path / "some.parquet"), columns=["id"], where="id > 2")
    table.export(str(tmp_path / "one.parquet"), columns=["id"], limit=1)
    assert pq.read_table(tmp_path / "some.parquet")["id"].to_pylist() == [3]
    assert pq.read_table(tmp_path / "one.parquet").num_rows == 1


def test_partitions_are_directories_as_hive_has_them(table: Table, tmp_path: Path):
    done = table.export(str(tmp_path / "out"), partition_by=["day", "name"], columns=["id", "name", "day"])

    found = ds.dataset(tmp_path / "out", partitioning=ds.partitioning(flavor="hive", schema=pa.schema([("day", pa.date32()), ("name", pa.string())])), format="parquet").to_table().sort_by("id")  # fmt: skip
    assert found.select(["id", "name", "day"]).to_pylist() == [
        {name: row[name] for name in ("id", "name", "day")} for row in ROWS
    ]
    assert (done.rows, done.files) == (3, 3)
    note = json.loads((tmp_path / "out/_SUCCESS").read_text())
    assert (note["snapshot_id"], note["rows"], note["table"]) == (2, 3, table.path)


def test_many_partitions_share_few_open_files(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(export_files, "OPEN_FILES", 1)

    table.export(str(tmp_path / "out"), partition_by=["id"], columns=["id", "name"])

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_SUCCESS", "id=1", "id=2", "id=3"]
    assert ds.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table().num_rows == 3


def test_an_empty_table_gives_a_file_with_its_columns(catalog: Catalog, tmp_path: Path):
    empty = catalog.create_table("db.none", schema=COLUMNS)

    for form in ("parquet", "csv", "orc"):
        assert empty.export(str(tmp_path / f"out.{form}"), form).rows == 0
    assert pq.read_table(tmp_path / "out.parquet").schema.names == list(COLUMNS)
    assert empty.export(str(tmp_path / "out"), partition_by=["day"]).files == 0
    assert seen(tmp_path / "out") == {"_SUCCESS"}


@pytest.mark.parametrize("partition_by", [None, []])
def test_while_it_is_written_nothing_is_visible(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: Any
):
    """A reader that looks between two batches, and a failure there: the old files stay, and nothing half-written."""
    target = tmp_path / "files" / "out"
    table.export(str(target), partition_by=partition_by, tag="first")
    before = {name: (tmp_path / "files" / name).read_bytes() for name in seen(tmp_path / "files")}

    def fails(self: Any, batch: pa.RecordBatch) -> None:
        public = {name for name in seen(tmp_path / "files") if not name.startswith(".")}
        assert public == before.keys()
        raise OSError("the disk is full")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", fails)
    with pytest.raises(OSError, match="full"):
        table.export(str(target), partition_by=partition_by, if_exists="replace")

    assert {name: (tmp_path / "files" / name).read_bytes() for name in seen(tmp_path / "files")} == before


@pytest.mark.parametrize("partition_by", [None, [], ["day"]])
def test_what_is_there_is_replaced_left_or_an_error(table: Table, tmp_path: Path, partition_by: Any):
    target = str(tmp_path / "out")

    def rows() -> int:
        return ds.dataset(target, format="parquet", exclude_invalid_files=True).to_table(columns=["id"]).num_rows

    table.export(target, partition_by=partition_by, tag="first")
    with pytest.raises(ConflictError, match="if_exists='replace'"):
        table.export(target, partition_by=partition_by)
    assert table.export(target, partition_by=partition_by, if_exists="ignore").status == "exists"
    assert rows() == 1
    assert table.export(target, partition_by=partition_by, if_exists="replace").status == "exported"
    assert rows() == 3
    assert [path for path in seen(tmp_path) if path.startswith(".")] == []


def test_a_directory_of_others_is_never_replaced(table: Table, tmp_path: Path):
    home = tmp_path / "home"
    (home / "letters").mkdir(parents=True)
    (home / "_SUCCESS").write_text("")

    with pytest.raises(ConflictError, match="not a directory that an export has made"):
        table.export(str(home), partition_by=[], if_exists="replace")
    with pytest.raises(ConflictError, match="is a directory"):
        table.export(str(home), if_exists="replace")
    assert (home / "letters").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "xml"}, "format='xml'"),
        ({"if_exists": "overwrite"}, "if_exists='overwrite'"),
        ({"target": "out/"}, "is a directory"),
        ({"target": "/"}, "give the path of a file"),
        ({"target": "s3://key:secret@bucket/out"}, "the target"),
        ({"partition_by": ["nothing"]}, "no column 'nothing'"),
        ({"partition_by": ["id"], "columns": ["id"]}, "no column would be left"),
        ({"columns": ["nothing"]}, "nothing"),
        ({"where": "nothing = 1"}, "nothing"),
        ({"limit": -1}, "limit"),
    ],
)
def test_a_wrong_argument_writes_nothing(table: Table, tmp_path: Path, arguments: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        table.export(**{"target": str(tmp_path / "files/out"), **arguments})
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "files").exists()


def test_a_tag_that_does_not_exist_is_an_error(table: Table, tmp_path: Path):
    with pytest.raises(NotFoundError, match="second"):
        table.export(str(tmp_path / "out"), tag="second")


@pytest.mark.parametrize(
    "form", ["{path}/out.parquet", "file://{path}/out.parquet", "{path}/../t/out.parquet", "{path}"]
)
def test_a_target_inside_the_table_is_refused_however_it_is_written(table: Table, form: str):
    """A clean-up of the table would delete it."""
    with pytest.raises(InvalidArgumentError, match="inside the table"):
        table.export(form.format(path=table.path))


def test_columns_that_a_format_cannot_hold_are_said(catalog: Catalog, tmp_path: Path):
    times = catalog.create_table("db.times", schema={"t": "TIME(3)"})
    times.write(pa.table({"t": pa.array([1], pa.time32("ms"))}))

    with pytest.raises(InvalidArgumentError, match="orc cannot hold"):
        times.export(str(tmp_path / "out.orc"), "orc")
    assert seen(tmp_path) == {name for name in seen(tmp_path) if name.startswith("lake")}


def test_nested_columns_and_bytes_are_texts_in_csv_and_json(catalog: Catalog, tmp_path: Path):
    made = catalog.create_table("db.n", schema={"a": "ARRAY<INT>", "b": "BYTES", "d": "DOUBLE"})
    made.write(pa.table({"a": [[1, None], None], "b": [b"x", None], "d": [float("nan"), 1.5]}))

    made.export(str(tmp_path / "out.csv"), "csv")
    made.export(str(tmp_path / "out.json"), "json")

    assert (tmp_path / "out.csv").read_text() == '"a","b","d"\n"[1, null]","eA==",nan\n,,1.5\n'
    lines = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
    assert lines == [{"a": [1, None], "b": "eA==", "d": "NaN"}, {"a": None, "b": None, "d": 1.5}]


def test_floating_point_columns_have_no_ranges_in_parquet(catalog: Catalog, tmp_path: Path):
    """Arrow's leave NaN out, and Spark, for which NaN is the largest number, would skip its rows."""
    row = pa.struct([("f", pa.float32()), ("n", pa.int32())])
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("row", row), ("list", pa.list_(pa.float64()))])
    made = catalog.create_table("db.floats", schema=schema)
    made.write(pa.table([[1, 2], [nan, 1.0], [{"f": 2.0, "n": 1}, None], [[1.0], None]], schema=schema))
    for name, columns in (("all", None), ("floats", ["x"])):
        made.export(str(tmp_path / f"{name}.parquet"), columns=columns)

    group = pq.read_metadata(tmp_path / "all.parquet").row_group(0)
    bounded = {group.column(index).path_in_schema: group.column(index).is_stats_set for index in range(5)}
    assert bounded == {"id": True, "x": False, "row.f": False, "row.n": True, "list.list.element": False}
    assert not pq.read_metadata(tmp_path / "floats.parquet").row_group(0).column(0).is_stats_set
    assert str(pq.read_table(tmp_path / "floats.parquet")["x"].to_pylist()) == "[nan, 1.0]"


def test_formats_have_one_name_everywhere():
    assert {*row_files.ROW_FILES} == {"parquet", "orc", "avro", "csv", "json"}


# ── an object store, which shows the files of a directory one by one ────────────────────────────


def on_object_store(stage: Rehearsal) -> Rehearsal:
    """The action again, over a store whose directories are prefixes."""
    stage.faulty.is_object_store = True
    stage.reset()
    stage.act()
    stage.calls = tuple(stage.faulty.calls)
    return stage


def exported(world: World) -> list[tuple[Any, ...]] | None:
    """The rows of the directory `OUTSIDE`, once it says that it is complete."""
    there = {info.path: world.inner.read(info.path) for info in world.inner.walk(OUTSIDE) if not info.is_dir}
    if f"{OUTSIDE}/_SUCCESS" not in there:
        return None
    parts = [pq.read_table(io.BytesIO(data)) for path, data in there.items() if path.endswith(".parquet")]
    assert json.loads(there[f"{OUTSIDE}/_SUCCESS"])["files"] == len(parts)
    return sorted((row["k"], row["v"]) for part in parts for row in part.to_pylist())


@pytest.mark.parametrize("is_there", [False, True])
def test_an_export_that_is_interrupted_anywhere_is_seen_complete_or_not_and_can_be_repeated(*, is_there: bool):
    """A process that dies leaves files; readers must not take them for all, and the next attempt replaces them."""
    stage = on_object_store(Rehearsal(BY_NAME["export to a directory"]))
    new, old = exported(stage.world), None
    if is_there:
        stage.reset()
        stage.world.run(ExportFiles(OUTSIDE, partition_by=["p"], tag="middle"))
        old, stage.files = exported(stage.world), stage.world.inner.dump()
        on_object_store(stage)
    assert new is not None
    assert old != new

    writing = next(number for number, (_, path) in enumerate(stage.calls) if path.startswith(OUTSIDE))
    ends: Counter[bool] = Counter()
    for number, (verb, path) in list(enumerate(stage.calls))[writing:]:
        for way in (*WAYS[verb], DOWN):
            stage.reset()
            outcome, _ = stage.attempt(fail_at=number, way=way)
            seen = exported(stage.world)
            said = f"call {number} ({verb} {path}): {way}: {outcome}"
            assert seen in ((new,) if outcome == "succeeded" and way != "late" else (old, new, None)), said
            ends[outcome == "succeeded"] += 1
            stage.act()
            assert exported(stage.world) == new, said
            names = {info.path.rpartition("/")[2] for info in stage.world.inner.walk(OUTSIDE) if not info.is_dir}
            assert "_STARTED" not in names, said
    assert ends[False] > len(stage.calls) - writing


def test_a_directory_that_an_export_is_writing_is_not_taken_for_a_complete_one():
    stage = on_object_store(Rehearsal(BY_NAME["export to a directory"]))
    last = max(number for number, (verb, _) in enumerate(stage.calls) if verb == "create")
    stage.reset()
    stage.attempt(fail_at=last, way=DOWN)

    for if_exists in ("ignore", "error"):
        with pytest.raises(ConflictError, match="has begun and not ended"):
            stage.world.run(ExportFiles(OUTSIDE, partition_by=["p"], if_exists=if_exists))


def test_of_two_exports_side_by_side_one_is_told():
    """The later one deletes what the earlier one wrote, which must not be called complete."""
    stage = on_object_store(Rehearsal(BY_NAME["export to a directory"]))
    last = max(number for number, (verb, path) in enumerate(stage.calls) if (verb, path) == ("walk", OUTSIDE))
    other = FaultyStorage(stage.world.inner)
    other.is_object_store = True
    spec = ExportFiles(OUTSIDE, partition_by=["p"], if_exists="replace")
    stage.reset()

    with pytest.raises(ConflictError, match="another export there"):
        stage.act(last, act=lambda *_: stage.world.beside(other).run(spec))
    assert exported(stage.world) is not None


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    yield from start_s3()


@pytest.mark.s3
def test_on_an_object_store_success_comes_last(
    table: Table, s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a real server, another store than the table's, with options of its own."""
    target = f"s3://{BUCKET}/files/out"
    first = table.export(target, partition_by=["day"], tag="first", storage_options=s3)
    again = table.export(target, partition_by=["day"], if_exists="replace", storage_options=s3)
    one = table.export(f"s3://{BUCKET}/files/one.csv", "csv", storage_options=s3)
    table.export(f"s3://{BUCKET}/files/one.csv", "csv", storage_options=s3, if_exists="replace")

    store = EnvConfig(target, s3).build().storage
    names = {info.path.removeprefix(f"{target}/") for info in store.walk(target) if not info.is_dir}
    assert (first.rows, again.rows, one.rows) == (1, 3, 3)
    assert {name.partition("/")[0] for name in names} == {"_SUCCESS", "day=2024-02-29", f"day={HIVE_NULL}"}
    assert len(names) == 1 + again.files
    assert store.read(f"s3://{BUCKET}/files/one.csv").count(b"Ann") == 1

    def fails(self: Any, batch: pa.RecordBatch) -> None:
        raise OSError("the network is gone")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", fails)
    with pytest.raises(OSError, match="gone"):
        table.export(target, partition_by=["day"], if_exists="replace", storage_options=s3)
    left = {info.path.removeprefix(f"{target}/") for info in store.walk(target) if not info.is_dir}
    assert left == names


@pytest.mark.s3
def test_a_job_has_the_options_of_another_store_and_their_secrets(
    table: Table, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    plain = {name: value for name, value in s3.items() if shows_storage_option(name, value)}
    hidden = {name: f"OTHER_{number}" for number, name in enumerate(s3) if name not in plain}
    for name, variable in hidden.items():
        monkeypatch.setenv(variable, s3[name])
    target = f"s3://{BUCKET}/files/job.csv"
    job = Job(
        TableRef(path=table.path), ExportFiles(target, "csv"), "u", target=StorageRef(options=plain, secrets=hidden)
    )

    text = job.to_json()
    result = run(Job.from_json(text))

    assert hidden
    assert not any(s3[name] in text for name in hidden)
    assert job.secret_variables() == list(hidden.values())
    assert (result.status, result.details["rows"], result.snapshot_id) == ("exported", 3, 2)
    assert EnvConfig(target, s3).build().storage.read(target).count(b"Ann") == 1


def test_a_target_of_an_action_that_writes_none_is_refused(table: Table):
    job = Job(TableRef(path=table.path), Compact(), "u", target=StorageRef())

    with pytest.raises(InvalidArgumentError, match="target, which compact does not write to"):
        run(job)
