"""Files of every format that can be written into a table, and what is found out about them before a write begins."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from paimon_engine import Catalog, InvalidArgumentError, NotFoundError, Write
from paimon_engine.jobs import Job, JobResult, NewTable, TableRef, check_job, run
from paimon_engine.table.write import source_files
from tests.support.canonical import assert_same_rows

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
]  # fmt: skip
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("good", pa.bool_()),
    ]
)
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
        {"name": "good", "type": ["null", "boolean"]},
    ],
}
JSON = (
    '{"id": 1, "name": "Ann", "price": "1.50", "day": "2024-02-29", "at": "2024-02-29T12:30:00", "good": true}\n'
    '{"id": 2, "name": null}\n'
)
FORMATS = ["parquet", "orc", "avro", "csv", "json"]


def put(path: Path, form: str, rows: list[dict[str, Any]] = ROWS) -> str:
    """The rows as a file of a format."""
    table = pa.Table.from_pylist(rows, SCHEMA)
    match form:
        case "parquet":
            pq.write_table(table, path)
        case "orc":
            orc.write_table(table, path)
        case "csv":
            pcsv.write_csv(table, path)
        case "avro":
            with path.open("wb") as stream:
                fastavro.writer(stream, AVRO, rows)
        case _:
            path.write_text(JSON)
    return str(path)


def job(lake: Path, source: str | list[str], form: str, **more: Any) -> Job:
    fields = {name: more.pop(name) for name in ("overwrite", "row_kind_column") if name in more}
    return Job(TableRef(str(lake), "db.t"), Write(source, form, **fields), more.pop("user", "me"), **more)


def rows_of(lake: Path) -> list[dict[str, Any]]:
    return Catalog(str(lake)).table("db.t").to_arrow().sort_by("id").to_pylist()


def write(lake: Path, source: str | list[str], form: str, **more: Any) -> JobResult:
    asked = job(lake, source, form, **more)
    check_job(asked)
    return run(asked)


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_every_format(tmp_path: Path, form: str):
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS)

    assert write(tmp_path, put(tmp_path / "rows", form), form).details["rows"] == 2
    assert rows_of(tmp_path) == ROWS


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_is_created_by_its_columns(tmp_path: Path, form: str):
    new = NewTable(("id",), options={"bucket": "1"}, columns=COLUMNS)

    assert write(tmp_path, put(tmp_path / "rows", form), form, create=new).status == "committed"
    assert rows_of(tmp_path) == ROWS
    assert Catalog(str(tmp_path)).table("db.t").schema.primary_keys == ("id",)


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_a_table_is_created_by_the_columns_of_its_source(tmp_path: Path, form: str):
    write(tmp_path, put(tmp_path / "rows", form), form, create=NewTable())

    assert rows_of(tmp_path) == ROWS


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_source_without_types_creates_no_table(tmp_path: Path, form: str):
    asked = job(tmp_path / "lake", put(tmp_path / "rows", form), form, create=NewTable())

    for call in (check_job, run):
        with pytest.raises(InvalidArgumentError, match=f"a {form.upper()} file have no types.*columns="):
            call(asked)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_columns_are_checked_before_anything_starts(tmp_path: Path, form: str):
    columns = {name: kind for name, kind in COLUMNS.items() if name != "good"}
    asked = job(tmp_path / "lake", put(tmp_path / "rows", form), form, create=NewTable(columns=columns))

    with pytest.raises(InvalidArgumentError, match="rows: the table has no column 'good'"):
        check_job(asked)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, form: str):
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS)
    (tmp_path / "rows").write_bytes(b"\x00\x01 neither one nor the other\n" * 3)

    with pytest.raises(InvalidArgumentError, match="source .*/rows: "):
        check_job(job(tmp_path, str(tmp_path / "rows"), form))


def test_damaged_types_of_an_orc_file_are_refused_by_name(tmp_path: Path):
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS)
    orc.write_table(pa.Table.from_pylist(ROWS, SCHEMA), tmp_path / "rows", compression="uncompressed")
    data = (tmp_path / "rows").read_bytes()
    # A precision, with the scale behind it.
    (tmp_path / "rows").write_bytes(data.replace(b"\x28\x0a\x30\x02", b"\x28\x7f\x30\x02"))

    with pytest.raises(InvalidArgumentError, match="source .*/rows: .* is a decimal of 127 digits"):
        check_job(job(tmp_path, str(tmp_path / "rows"), "orc"))


def test_damaged_rows_of_an_orc_file_are_refused_by_name(tmp_path: Path):
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS)
    orc.write_table(pa.Table.from_pylist(ROWS * 1_000, SCHEMA), tmp_path / "rows", compression="zstd")
    data = (tmp_path / "rows").read_bytes()
    (tmp_path / "rows").write_bytes(data[:3] + b"\xff" * (len(data) // 3) + data[3 + len(data) // 3 :])

    with pytest.raises(InvalidArgumentError, match="source .*/rows: .*cannot be read as an ORC file"):
        run(job(tmp_path, str(tmp_path / "rows"), "orc"))


def test_values_that_do_not_fit_are_found_in_the_first_rows(tmp_path: Path):
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS)
    (tmp_path / "rows").write_text("id,name\n1,Ann\nx,Bob\n")

    with pytest.raises(InvalidArgumentError, match="source .*/rows: .*'x'"):
        check_job(job(tmp_path, str(tmp_path / "rows"), "csv"))


def test_texts_of_csv_are_what_they_are(tmp_path: Path):
    """`NA` is Namibia, and `""` an empty text; only in columns of other types the usual notes mean that there is none."""
    schema = {"k": "INT NOT NULL", "s": "STRING", "x": "DOUBLE", "n": "INT", "t": "TIME(3)"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema)
    texts = ["NA", "null", "nan", "N/A", "#N/A", "-nan", '""', ""]
    numbers = ["NA", "null", "NULL", "N/A", "#N/A", "n/a", '""', ""]
    reals = ["nan", "NaN", "inf", "-inf", " 1.5 ", "NA", '""', ""]
    lines = [f"{k},{s},{x},{n}," for k, (s, x, n) in enumerate(zip(texts, reals, numbers, strict=True))]
    lines.append('8,"a, ""b""",2,-7,13:05:09.123')
    (tmp_path / "rows").write_text("\n".join(["k,s,x,n,t", *lines]) + "\n")

    assert write(tmp_path, str(tmp_path / "rows"), "csv").status == "committed"
    found = {row["k"]: row for row in table.to_arrow().to_pylist()}
    assert [found[k]["s"] for k in range(9)] == ["NA", "null", "nan", "N/A", "#N/A", "-nan", "", None, 'a, "b"']
    assert [found[k]["n"] for k in range(9)] == [None] * 8 + [-7]
    assert [str(found[k]["x"]) for k in range(9)] == ["nan", "nan", "inf", "-inf", "1.5", "None", "None", "None", "2.0"]
    assert found[8]["t"] == time(13, 5, 9, 123_000)


def test_what_an_export_has_written_as_csv_is_read_as_it_was(tmp_path: Path):
    schema = pa.schema([("k", pa.int32()), ("s", pa.string()), ("x", pa.float32()), ("at", pa.timestamp("us", "UTC"))])
    rows = pa.table(
        [
            pa.array(range(4), pa.int32()),
            ["NA", "", None, 'a\n"b",'],
            pa.array([float("nan"), None, 0.1, -0.0]),
            [0, None, 1, -1],
        ],
        schema=schema,
    )
    catalog = Catalog(str(tmp_path))
    made = catalog.create_table("db.from", schema=schema).write(rows)
    assert made.snapshot_id == 1
    catalog.table("db.from").export(str(tmp_path / "rows"), "csv")
    catalog.create_table("db.t", schema=schema)

    assert write(tmp_path, str(tmp_path / "rows"), "csv").status == "committed"
    assert_same_rows(catalog.table("db.t").to_arrow(), rows)


def test_texts_of_csv_may_have_line_breaks_wherever_a_block_of_the_file_ends(tmp_path: Path):
    texts = [f"line {number}\nand {number}, more" for number in range(60_000)]
    Catalog(str(tmp_path)).create_table("db.t", schema={"s": "STRING"})
    pcsv.write_csv(pa.table({"s": texts}), tmp_path / "rows")

    assert write(tmp_path, str(tmp_path / "rows"), "csv").status == "committed"
    assert Catalog(str(tmp_path)).table("db.t").to_arrow()["s"].to_pylist() == texts


def test_times_of_day_are_read_from_json(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"k": "INT", "t": "TIME(3)"})
    (tmp_path / "rows").write_text('{"k": 1, "t": "13:05:09.123"}\n{"k": 2}\n{"k": 3, "t": "00:00:00"}\n')

    assert write(tmp_path, str(tmp_path / "rows"), "json").status == "committed"
    assert table.to_arrow()["t"].to_pylist() == [time(13, 5, 9, 123_000), None, time(0)]
    (tmp_path / "rows").write_text('{"k": 1, "t": "25:00:00"}\n')
    with pytest.raises(InvalidArgumentError, match=r"source .*rows: column 't': .*25:00:00"):
        write(tmp_path, str(tmp_path / "rows"), "json", user="you")


def test_a_text_that_is_no_value_is_named_with_its_column(tmp_path: Path):
    Catalog(str(tmp_path)).create_table("db.t", schema={"k": "INT", "day": "DATE"})
    (tmp_path / "rows").write_text("k,day\n1,2024-02-30\n")

    with pytest.raises(InvalidArgumentError, match="source .*rows: column 'day': .*'2024-02-30'"):
        write(tmp_path, str(tmp_path / "rows"), "csv")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_empty_file(tmp_path: Path, form: str):
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS)
    (tmp_path / "rows").write_text("id,name\n" if form == "csv" else "")

    assert write(tmp_path, str(tmp_path / "rows"), form).status == "noop"


def test_what_is_not_there(tmp_path: Path):
    with pytest.raises(NotFoundError, match="no table"):
        check_job(job(tmp_path, put(tmp_path / "rows", "csv"), "csv"))
    with pytest.raises(NotFoundError, match="no source file matches"):
        check_job(job(tmp_path, str(tmp_path / "none"), "csv", create=NewTable(columns=COLUMNS)))
    with pytest.raises(InvalidArgumentError, match="at least one source file"):
        check_job(job(tmp_path, [], "csv", create=NewTable(columns=COLUMNS)))
    for nothing in ("", [" ", put(tmp_path / "rows", "csv")]):
        with pytest.raises(InvalidArgumentError, match="names nothing; give the path of a file"):
            job(tmp_path, nothing, "csv")


def test_a_job_that_is_done_needs_its_source_no_more(tmp_path: Path):
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS)
    source = put(tmp_path / "rows", "csv")
    write(tmp_path, source, "csv")
    Path(source).unlink()

    assert write(tmp_path, source, "csv").status == "already_done"


def test_files_of_orc_are_shared_among_tasks_and_the_later_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source_files, "TASK_BYTES", 1)
    Catalog(str(tmp_path)).create_table("db.t", schema=COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    sources = [put(tmp_path / f"{number}", "orc", [{**ROWS[0], "name": f"{number}"}]) for number in range(3)]

    write(tmp_path, sources, "orc")

    assert [row["name"] for row in rows_of(tmp_path)] == ["2"]


def test_avro_of_nested_values(tmp_path: Path):
    fields = [
        {"name": "id", "type": "int"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "many", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "one", "type": {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "double"}]}},
    ]
    row = {"id": 1, "tags": ["a"], "at": datetime(2024, 1, 1, tzinfo=UTC), "many": {"k": None}, "one": {"x": 0.5}}
    with (tmp_path / "rows").open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": "row", "fields": fields}, [row])

    write(tmp_path, str(tmp_path / "rows"), "avro", create=NewTable())

    assert rows_of(tmp_path) == [{**row, "many": [("k", None)]}]


def test_avro_of_a_union_is_refused(tmp_path: Path):
    schema = {"type": "record", "name": "row", "fields": [{"name": "x", "type": ["int", "string"]}]}
    with (tmp_path / "rows").open("wb") as stream:
        fastavro.writer(stream, schema, [{"x": 1}])

    with pytest.raises(InvalidArgumentError, match="source .*: column 'x' is a union of 2 types"):
        check_job(job(tmp_path, str(tmp_path / "rows"), "avro", create=NewTable()))
