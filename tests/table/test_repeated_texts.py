"""Texts that repeat themselves stay numbers in a dictionary from file to file; bounds of texts come from footers."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paimon_engine import Catalog, Table
from paimon_engine.env import EnvConfig
from paimon_engine.format.layout import WriteOptions, dictionary_decoded
from paimon_engine.format.parquet import ParquetWriter, read_batches
from paimon_engine.merge import frontier
from paimon_engine.meta.stats import from_simple_stats
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.oracle import JavaPaimon

ROWS = 6_000
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("city", pa.string()),
        ("note", pa.string()),
        ("same", pa.string()),
        ("rank", pa.string()),
    ]
)


def rows_of(run: int) -> pa.Table:
    """Keys that overlap those of other runs; `note` repeats itself in every second run only."""
    random = np.random.default_rng(run)
    keys = np.sort(random.choice(2 * ROWS, ROWS, replace=False))
    cities = np.char.mod(f"city-%d-{run % 2}", random.integers(0, 40, ROWS)).astype(object)
    cities[random.random(ROWS) < 0.1] = None
    cities[0] = ""
    notes = np.char.mod("note-%d", random.integers(0, 9 if run % 2 else 1 << 40, ROWS))
    columns = {"k": keys, "city": cities, "note": notes, "same": ["é"] * ROWS, "rank": np.char.mod("%d", keys % 5)}
    return pa.table(columns, schema=SCHEMA)


def table_of_runs(index: str, **options: str) -> Table:
    table = Catalog(index).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", "metadata.stats-mode": "full", **options}
    )
    for run in range(4):
        table.write(rows_of(run))
    return table


def data_files(table: Table) -> list[Any]:
    handle = load_table(table.path, EnvConfig(table.path))
    return [entry.file for entry in live_entries(handle, latest_snapshot(handle))]


@pytest.fixture
def types_met(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[pa.DataType]]:
    """The types that each column had where runs were joined."""
    met: dict[str, set[pa.DataType]] = {}
    joined = frontier.join_batches

    def noted(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
        found = joined(parts)
        for field in found.schema:
            met.setdefault(field.name, set()).add(field.type)
        return found

    monkeypatch.setattr(frontier, "join_batches", noted)
    return met


def kinds(types: dict[str, set[pa.DataType]]) -> set[str]:
    """Columns that were always numbers in a dictionary."""
    return {name for name, met in types.items() if all(map(pa.types.is_dictionary, met))}


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_compaction_leaves_every_text_as_it_was(
    engine: str, file_format: str, types_met: dict[str, set[pa.DataType]]
) -> None:
    table = table_of_runs(
        f"memory://{uuid.uuid4()}", **{"merge-engine": engine, "file.format.per.level": f"5:{file_format}"}
    )
    by_key: dict[int, tuple[Any, ...]] = {}
    for run in range(4):
        for row in zip(*(column.to_pylist() for column in rows_of(run).columns), strict=True):
            if engine == "deduplicate" or row[0] not in by_key:
                by_key[row[0]] = row

    table.compact(full=True)

    # Where they are not decoded before they are written to a file with dictionaries.
    whole = engine == "deduplicate" and file_format == "parquet"
    assert kinds(types_met) == ({"city", "same", "rank"} if whole else set())
    found = table.to_arrow()
    assert found.schema.field("city").type == pa.string()
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == [
        by_key[key] for key in sorted(by_key)
    ]


def test_texts_stay_numbers_where_a_compaction_is_cut_by_key(types_met: dict[str, set[pa.DataType]]) -> None:
    table = table_of_runs(f"memory://{uuid.uuid4()}")
    before = table.to_arrow()
    task_bytes = sum(table.files()["file_size_in_bytes"].to_pylist()) // 3
    types_met.clear()

    (done,) = table.compact(full=True, task_bytes=task_bytes).buckets

    # All parts but the first begin within files, which are read by a filter on the key.
    assert done.tasks > 1
    assert kinds(types_met) == {"city", "same", "rank"}
    assert table.to_arrow().equals(before)


def test_what_java_reads_and_checks_is_right_after_two_compactions(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = table_of_runs(str(tmp_path))
    table.compact(full=True)
    table.write(rows_of(9))
    table.compact(full=True)

    expected = [tuple(row.values()) for row in table.to_arrow().to_pylist()]

    assert [tuple(row) for row in oracle.call("read", table=table.path)["rows"]] == expected
    assert oracle.problems(Path(table.path)) == []


def test_the_order_of_versions_looks_at_texts_themselves() -> None:
    table = table_of_runs(f"memory://{uuid.uuid4()}", **{"sequence.field": "city"})
    before = table.to_arrow()

    table.compact(full=True)

    assert table.to_arrow().equals(before)


def test_texts_of_today_are_joined_with_numbers_of_older_files() -> None:
    index = SCHEMA.get_field_index("rank")
    table = Catalog(f"memory://{uuid.uuid4()}").create_table(
        "db.t", schema=SCHEMA.set(index, pa.field("rank", pa.int32())), primary_keys=["k"], options={"bucket": "1"}
    )
    old = rows_of(0)
    table.write(old.set_column(index, "rank", old["rank"].cast(pa.int32())))
    table.alter([{"change": "update_column_type", "name": "rank", "type": "STRING"}])
    table.write(rows_of(1))
    before = table.to_arrow()

    table.compact(full=True)

    assert table.to_arrow().equals(before)


def test_rows_that_expire_or_are_marked_deleted_are_left_out_of_numbers_too() -> None:
    table = table_of_runs(f"memory://{uuid.uuid4()}", **{"deletion-vectors.enabled": "true"})
    table.compact()
    table.write(rows_of(5))
    table.compact()
    before = table.to_arrow()

    table.compact(full=True)

    assert table.to_arrow().sort_by("k").equals(before.sort_by("k"))


# ── reading and writing ─────────────────────────────────────────────────────────────────────────


def written(*row_groups: list[pa.Array]) -> tuple[bytes, dict[str, tuple[str, str]]]:
    """A file of one column of texts, of which each list of batches is a row group, and the bounds found."""
    sink = io.BytesIO()
    writer = ParquetWriter(sink, pa.schema([("text", pa.string())]), WriteOptions())
    for batches in row_groups:
        for batch in batches:
            writer.write(pa.record_batch([batch], ["text"]))
        writer.close_row_group()
    writer.close()
    return sink.getvalue(), dict(writer.stored_bounds)


TEXTS = st.sampled_from([None, "", "a", "b" * 4096, "b" * 4097, "é", "\U0001f600", "z" * 5000, "ab", "\0"])
BATCHES = st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=3)


@settings(deadline=None, max_examples=150)
@given(st.lists(BATCHES, min_size=1, max_size=3), st.data())
@example([[["a"], ["z" * 5000]], [["é"]]], None)
@example([[["b" * 4097, None]]], None)
def test_rows_and_bounds_are_those_of_the_texts_written(groups: list[Any], data: st.DataObject | None) -> None:
    def array(values: list[Any]) -> pa.Array:
        texts = pa.array(values, pa.string())
        return texts.dictionary_encode() if data is not None and data.draw(st.booleans()) else texts

    file, bounds = written(*([array(values) for values in batches] for batches in groups))

    values = [value for batches in groups for texts in batches for value in texts]
    assert pq.read_table(io.BytesIO(file))["text"].to_pylist() == values
    known = [value for value in values if value is not None]
    assert bounds == ({"text": (min(known), max(known))} if known else {})


def read(file: bytes) -> list[pa.RecordBatch]:
    return list(
        read_batches(io.BytesIO(file), pa.schema([("text", pa.string())]), path="f", dictionary_columns=["text"])
    )


def test_texts_come_as_numbers_only_where_few_of_them_repeat() -> None:
    few = pa.array([f"city-{index % 40}" for index in range(5_000)])
    many = pa.array([f"city-{index % 2_000}" for index in range(20_000)])
    other = pa.array([f"city-{index}" for index in range(5_000)])

    for texts, is_kept in ((few, True), (many, False), (other, False)):
        found = read(written([texts])[0])
        assert all(pa.types.is_dictionary(batch["text"].type) == is_kept for batch in found)
        assert [value for batch in found for value in batch["text"].to_pylist()] == texts.to_pylist()


def test_a_dictionary_is_written_as_one_again_though_each_run_has_its_own() -> None:
    runs = [pa.array([f"{run}-{index % 5}" for index in range(3_000)]).dictionary_encode() for run in range(3)]

    file = pq.ParquetFile(io.BytesIO(written(runs)[0]))

    chunk = file.metadata.row_group(0).column(0)
    assert file.metadata.num_row_groups == 1
    assert chunk.has_dictionary_page
    assert chunk.total_uncompressed_size < 9_000 * 2


def test_batches_of_numbers_and_of_texts_are_joined_as_texts() -> None:
    numbered = pa.record_batch([pa.array(["a", "b"]).dictionary_encode(), pa.array(["x", None])], ["p", "q"])
    plain = pa.record_batch([pa.array(["c"]), pa.array(["y"])], ["p", "q"])

    joined = frontier.join_batches([numbered, plain])

    assert joined.to_pylist() == [{"p": "a", "q": "x"}, {"p": "b", "q": None}, {"p": "c", "q": "y"}]
    assert dictionary_decoded(numbered, ["p"]).schema.field("p").type == pa.string()


def test_the_manifest_has_the_bounds_of_texts(tmp_path: Path) -> None:
    table = table_of_runs(str(tmp_path), **{"fields.note.stats-mode": "truncate(4)"})
    table.compact(full=True)
    (file,) = data_files(table)
    rows, types = table.to_arrow(), [field.type for field in table.schema.row_type]

    stats = dict(zip(table.schema.row_type.names, from_simple_stats(types, file.value_stats), strict=True))

    for name in ("city", "same", "rank"):
        bounds = pc.min_max(rows[name])
        assert (stats[name].min, stats[name].max) == (bounds["min"].as_py(), bounds["max"].as_py())
        assert stats[name].null_count == rows[name].null_count
    assert (stats["note"].min, stats["note"].max) == ("note", "notf")
