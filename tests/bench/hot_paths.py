"""How fast the parts are of which the hot paths are made, one by one, next to the figures that they should reach.

    python -m tests.bench.hot_paths                       # some minutes
    python -m tests.bench.hot_paths --parts buckets vectors
    PAIMON_ENGINE_CACHE=.cache/engine python -m tests.bench.hot_paths --parts spark  # with the archive that setup made

The figures come from a study of what is possible, on two cores of an AMD EPYC: on another machine only their
proportions say something. Times are processor seconds of one thread, the least of a few runs; those of whole jobs are
seconds, on two cores. M/s are million rows a second.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from paimon_engine import Catalog, Table
from paimon_engine.actions.write import Write
from paimon_engine.env import EnvConfig
from paimon_engine.executor import Done, LocalExecutor
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.bucket_hash import buckets
from paimon_engine.format.deletion_vector import Ranges, decode_index_file, encode_index_file
from paimon_engine.format.layout import BATCH_ROWS, WriteOptions
from paimon_engine.format.parquet import ParquetWriter, layout_of
from paimon_engine.format.parquet_row_groups import stored_row_groups
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.lsm.plan import CompactTask, plan_bucket
from paimon_engine.merge.functions import merge_function
from paimon_engine.merge.keys import count_up_to, indices_of, join_keys, normalise_keys
from paimon_engine.merge.window import SequenceOrder, Window, sort_window
from paimon_engine.meta.manifest import DataFile
from paimon_engine.predicate import Compare
from paimon_engine.spark import local_session
from paimon_engine.spark.executor import SparkExecutor
from paimon_engine.table.compaction.rewrite import RewriteTask, rewrite
from paimon_engine.table.files.data_file import BucketLocation, bucket_location, read_data_file
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.types import parse_type
from tests.bench.spark_reads import reads

RUNS = 8
ROUNDS = 5
MERGED_ROWS, MERGED_KEYS = 522_000, 367_000
NULLS = 0.4
Numbers = npt.NDArray[np.int64]


class Line(NamedTuple):
    """What is measured, what came out, and the figure to hold."""

    what: str
    found: str
    held: str


def least(work: Callable[[], Any], rounds: int = ROUNDS, clock: Callable[[], float] = time.process_time) -> float:
    """The least time that the work takes."""
    found = []
    for _ in range(rounds):
        begun = clock()
        work()
        found.append(clock() - begun)
    return min(found)


def least_in_task(work: Callable[[], Any]) -> float:
    """As `least`, where the engine's tasks run, which keep the memory that they have touched."""
    [done] = LocalExecutor(1).map(lambda _, work: least(work), [work], config=EnvConfig("memory://"))
    assert isinstance(done, Done), done
    return done.value


def rate(rows: int, seconds: float) -> str:
    """Million rows a second."""
    return f"{rows / seconds / 1e6:.1f} M/s"


def hexadecimal(numbers: Numbers, width: int = 16) -> pa.Array:
    """A text of each number."""
    return pa.array(np.char.mod(f"%0{width}x", numbers))


# ── parts ───────────────────────────────────────────────────────────────────────────────────────


def of_buckets() -> Iterator[Line]:
    """Hashes of bucket keys."""
    random = np.random.default_rng(1)
    numbers = random.integers(0, 1 << 40, 1_000_000)
    lengths = random.integers(1, 25, len(numbers)).tolist()
    texts = hexadecimal(numbers, 24).to_pylist()
    cases: Mapping[str, tuple[pa.Array, str, str]] = {
        "a BIGINT": (pa.array(numbers), "BIGINT", "141 M/s"),
        "an INT": (pa.array(numbers.astype("i4")), "INT", "184 M/s"),
        "a text of 16 characters": (hexadecimal(numbers), "STRING", "58 M/s"),
        "a text of 1 to 24": (
            pa.array([one[:end] for one, end in zip(texts, lengths, strict=True)]),
            "STRING",
            "10 M/s",
        ),
    }
    for name, (column, kind, held) in cases.items():
        seconds = least(lambda column=column, kind=kind: buckets([column], [parse_type(kind)], 16))  # type: ignore[misc]
        yield Line(f"bucket of {name}", rate(len(column), seconds), held)


def of_keys() -> Iterator[Line]:
    """A window of eight sorted runs, brought into the order of its keys."""
    cases: Mapping[str, tuple[int, Callable[[Numbers], list[pa.Array]], list[str], str]] = {
        "BIGINT": (256_000, lambda numbers: [pa.array(numbers)], ["BIGINT"], "46 M/s"),
        "16 characters": (500_000, lambda numbers: [hexadecimal(numbers)], ["STRING"], "19 M/s"),
        "BIGINT and 10 characters": (
            500_000,
            lambda numbers: [pa.array(numbers >> 8), hexadecimal(numbers & 0xFF, 10)],
            ["BIGINT", "STRING"],
            "33 M/s",
        ),
    }
    for name, (count, make, kinds, held) in cases.items():
        drawn = np.random.default_rng(2).integers(0, 1 << 40, count)
        parts = [make(np.unique(part)) for part in np.array_split(drawn, RUNS)]
        rows = pa.record_batch({"_SEQUENCE_NUMBER": np.arange(sum(len(part[0]) for part in parts))})
        types = [parse_type(kind) for kind in kinds]

        def order(parts=parts, types=types, rows=rows) -> Window:  # type: ignore[no-untyped-def]
            keys = join_keys([normalise_keys(part, types) for part in parts])
            return sort_window(rows, keys, SequenceOrder(by_arrival=True))

        yield Line(f"order by {name}", rate(rows.num_rows, least_in_task(order)), held)


def merged_window(columns: Mapping[str, pa.Array]) -> Window:
    """The versions of keys, by key, with 1.4 versions of each."""
    random = np.random.default_rng(3)
    keys = np.sort(np.append(np.arange(MERGED_KEYS), random.integers(0, MERGED_KEYS, MERGED_ROWS - MERGED_KEYS)))
    rows = {
        "_SEQUENCE_NUMBER": pa.array(np.arange(MERGED_ROWS)),
        "_VALUE_KIND": pa.array(np.zeros(MERGED_ROWS, np.int8)),
        "k": pa.array(keys),
        **columns,
    }
    return Window(pa.record_batch(rows), None, np.flatnonzero(np.diff(keys, prepend=-1)))


def some_columns(kinds: Sequence[str]) -> dict[str, pa.Array]:
    """A column of each kind, with nulls."""
    random = np.random.default_rng(4)

    def values(kind: str) -> pa.Array:
        numbers = random.integers(0, 1_000, MERGED_ROWS)
        match kind:
            case "text":
                return pc.binary_join_element_wise("text-", pa.array(numbers).cast("string"), "")
            case "double":
                return pa.array(random.standard_normal(MERGED_ROWS))
            case "texts":
                texts = pc.binary_join_element_wise("t", pa.array(numbers % 5).cast("string"), "")
                return pa.ListArray.from_arrays(np.arange(MERGED_ROWS + 1, dtype="i4"), texts)
            case "map":
                texts = pc.binary_join_element_wise("key", pa.array(np.repeat(numbers % 50, 2)).cast("string"), "")
                items = pa.array(np.arange(2 * MERGED_ROWS))
                return pa.MapArray.from_arrays(np.arange(MERGED_ROWS + 1, dtype="i4") * 2, texts, items)
            case "rows":
                inner = pa.StructArray.from_arrays([pa.array(numbers), pa.array(numbers * 2)], ["a", "b"])
                return pa.ListArray.from_arrays(np.arange(MERGED_ROWS + 1, dtype="i4"), inner)
            case _:
                return pa.array(numbers)

    found = {}
    for place, kind in enumerate(kinds):
        column = values(kind)
        is_plain = not pa.types.is_nested(column.type)
        empty = pa.array(random.random(MERGED_ROWS) < NULLS)
        found[f"v{place}"] = pc.if_else(empty, pa.scalar(None, column.type), column) if is_plain else column
    return found


def of_merging() -> Iterator[Line]:
    """What merge engines make of a window."""
    mixed = ["int", "int", "int", "double", "double", "double", "text", "text"]
    numbers = ["int", "int", "int", "double", "double", "double"]
    group = {"fields.v0.sequence-group": "v1,v2,v3"}
    cases: Mapping[str, tuple[str, Sequence[str], dict[str, str], str]] = {
        "deduplicate, 8 columns": ("deduplicate", mixed, {}, "19 M/s"),
        "partial-update, 8 columns": ("partial-update", mixed, {}, "11.1 M/s"),
        "sequence group of 3 columns": ("partial-update", ["int"] * 4, group, "14 M/s"),
        **{
            f"{name} of {len(kinds)} column{'s' * (len(kinds) > 1)}": (
                "aggregation",
                kinds,
                {"fields.default-aggregate-function": name, **more},
                held,
            )
            for name, kinds, more, held in (
                ("sum", numbers, {}, "15.5 M/s"),
                ("max", numbers, {}, "8.7 M/s"),
                ("product", numbers, {}, "9.7 M/s"),
                ("listagg", ["text"], {}, "28 M/s"),
                ("collect", ["texts"], {}, "63 M/s"),
                ("collect", ["texts", "texts"], {"fields.v0.distinct": "true", "fields.v1.distinct": "true"}, "8 M/s"),
                ("merge_map", ["map"], {}, "9.2 M/s"),
                ("nested_update", ["rows"], {"fields.v0.nested-key": "a"}, "33 M/s"),
            )
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        for place, (name, (engine, kinds, options, held)) in enumerate(cases.items()):
            window = merged_window(some_columns(kinds))
            schema = pa.schema([field.with_nullable(field.name != "k") for field in list(window.rows.schema)[2:]])
            table = Catalog(folder).create_table(
                f"db.t{place}",
                schema=schema,
                primary_keys=["k"],
                options={"bucket": "1", "merge-engine": engine, **options},
            )
            merge = merge_function(table.schema)
            assert merge(window).num_rows == MERGED_KEYS
            yield Line(name, rate(MERGED_ROWS, least_in_task(lambda merge=merge, window=window: merge(window))), held)  # type: ignore[misc]


def of_copies() -> Iterator[Line]:
    """Row groups that are copied from file to file as bytes, with their checksums checked; the figure to hold is without."""
    rows = wide_rows(4_000_000, 0)
    options = WriteOptions()
    with tempfile.TemporaryFile() as source:
        writer = ParquetWriter(source, rows.schema, options)
        for batch in rows.to_batches(BATCH_ROWS):
            writer.write(batch)
        writer.close()

        def copy() -> None:
            with tempfile.TemporaryFile() as sink:
                writer = ParquetWriter(sink, rows.schema, options)
                for group in stored_row_groups(source, "source", layout_of(rows.schema, options), rows.num_rows):
                    assert group is not None
                    writer.copy(group, source)
                writer.close()

        yield Line("copy row groups of 9 columns, comparing checksums", rate(rows.num_rows, least(copy)), "21 M/s")


def of_vectors() -> Iterator[Line]:
    """Deletion vectors of files of 20,000,000 rows, a share of which is deleted, one by one or in runs."""
    rows, random = 20_000_000, np.random.default_rng(5)
    cases: Sequence[tuple[float, int, tuple[str, str, str]]] = (
        (0.2, 1, ("", "", "")),
        (0.5, 1, ("43 ms", "", "1.4 ms")),
        (0.8, 1, ("", "", "")),
        (0.5, 100, ("", "", "")),
        (0.001, 1, ("", "", "")),
    )
    for share, run_rows, held in cases:
        positions = np.flatnonzero(np.repeat(random.random(rows // run_rows) < share, run_rows))
        data, ranges = encode_index_file({"file": RowBitmap.of(positions)})

        def read(data: bytes = data, ranges: Ranges = ranges) -> RowBitmap:
            return decode_index_file(data, ranges, "index")["file"]

        def apply(read: Callable[[], RowBitmap] = read) -> None:
            deleted = read()
            for begin in range(0, rows, BATCH_ROWS):
                deleted.absent(begin, BATCH_ROWS)

        steps = {
            "write": lambda positions=positions: encode_index_file({"file": RowBitmap.of(positions)}),
            "read": read,
            "read and apply": apply,
        }
        what = f"a vector of {share:.1%} of 20 M rows" + (f", {run_rows} in a row" if run_rows > 1 else "")
        for (step, work), figure in zip(steps.items(), held, strict=True):
            yield Line(f"{step} {what}", f"{least(work, 5) * 1e3:.1f} ms", figure)


def of_lookups() -> Iterator[Line]:
    """Newer keys in a file of 7,000,000 rows, of nine columns and three of the system, and the compaction that marks them.

    What is to hold is to find them, of keys that are there in order.
    """
    rows, part_rows = 7_000_000, 1_000_000
    random = np.random.default_rng(6)
    with tempfile.TemporaryDirectory() as folder:
        options = {"bucket": "1", "deletion-vectors.enabled": "true", "target-file-size": "2 gb"}
        table = keyed_table(Catalog(folder), "db.t", options)
        for number in range(rows // part_rows):
            table.write(wide_rows(part_rows, number))
        base = table.compact(full=True).snapshot_id
        handle = load_table(table.path, EnvConfig(folder))
        [entry] = live_entries(handle, latest_snapshot(handle))
        place = bucket_location(handle, entry.partition, entry.bucket)
        assert entry.file.row_count == rows
        everything = handle.schema.row_type.names
        for what, columns, with_system_columns, held in (
            ("all columns", everything, True, "912 ms"),
            ("the key column", ["k"], False, "99 ms"),
        ):

            def read(columns: list[str] = columns, with_system_columns: bool = with_system_columns) -> None:
                for _ in read_data_file(handle, place, entry.file, columns, with_system_columns=with_system_columns):
                    pass

            yield Line(f"read {what} of 7 M rows", f"{least_in_task(read) * 1e3:.0f} ms", held)
        for what, keys, held in (
            ("1 M keys in a file of 7 M rows", random.choice(rows, 1_000_000, replace=False), "116 ms"),
            ("50 k keys in 1-2 of 7 row groups", random.choice(part_rows, 50_000, replace=False) + 3_500_000, "26 ms"),
        ):
            newer = wide_rows(len(keys), 0)
            table.write(newer.set_column(0, newer.schema.field(0), pa.array(np.sort(keys))))
            for step, work in {
                "find": finding(handle, place, entry.file, np.sort(keys)),
                "mark": marking(handle),
            }.items():
                assert work() == len(keys)
                yield Line(f"{step} {what}", f"{least_in_task(work) * 1e3:.0f} ms", held if step == "find" else "")
            table.rollback(base)


def finding(table: TableHandle, place: BucketLocation, file: DataFile, keys: Numbers) -> Callable[[], int]:
    """A look for the keys, ascending, in the key column of a file, which returns how many are there."""
    within = [Compare(">=", "k", int(keys[0])), Compare("<=", "k", int(keys[-1]))]

    def find() -> int:
        found, begin = 0, 0
        for rows in read_data_file(table, place, file, ["k"], with_system_columns=False, where=within):
            stored = normalise_keys(rows.columns, [parse_type("BIGINT")])
            end = begin + count_up_to(keys[begin:], stored[-1])
            found += len(indices_of(keys[begin:end], stored))
            begin = end
            if begin == len(keys):
                break
        return found

    return find


def marking(table: TableHandle) -> Callable[[], int | None]:
    """A compaction of the newest file up to its commit, which returns how many rows above it has marked."""
    entries = live_entries(table, latest_snapshot(table))
    first, files = entries[0], [entry.file for entry in entries]
    task = plan_bucket(first.partition, first.bucket, 1, files, schema=table.schema, full=False, now_ms=0)
    assert isinstance(task, CompactTask)

    def mark() -> int | None:
        [index] = rewrite(table.env, RewriteTask(table.plain(), task)).new_index_files
        return index.vectors[0].cardinality

    return mark


def of_spark() -> Iterator[Line]:
    """An embedded Spark: its start, what jobs cost that do nothing, and reads of 5,000,000 rows of 12 columns.

    Each first job finds what the ones before it have started: a worker, then SQL.
    """

    def job() -> None:
        session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()

    def rdd_job() -> None:
        session.sparkContext.parallelize(range(2), 2).map(abs).collect()

    begun = time.perf_counter()
    with local_session(cores=2, quick_start=True) as session:
        yield Line("start Spark", f"{time.perf_counter() - begun:.2f} s", "1.95 s")
        yield Line("the first RDD job on it", f"{least(rdd_job, 1, time.perf_counter):.2f} s", "1.11 s")
        yield Line("the next one", f"{least(rdd_job, clock=time.perf_counter):.2f} s", "0.08 s")
        yield Line("the first query", f"{least(session.sql('SELECT 1').collect, 1, time.perf_counter):.2f} s", "0.4 s")
        yield Line("the first mapInArrow job", f"{least(job, 1, time.perf_counter):.2f} s", "1.0 s")
        yield Line("the next one", f"{least(job, clock=time.perf_counter):.2f} s", "")
        begun = time.perf_counter()
    yield Line("stop Spark", f"{time.perf_counter() - begun:.2f} s", "1.0 s")
    with tempfile.TemporaryDirectory() as folder:
        table = keyed_table(Catalog(folder), "db.t")
        for number in range(2):
            table.write(wide_rows(2_500_000, number))
        table.compact(full=True)
        with local_session(cores=2, memory="3g") as session:
            yield from (Line(*found) for found in reads(session, table.path))


def of_jobs() -> Iterator[Line]:
    """Whole jobs: what is small must not cost much, what is large must succeed."""
    with tempfile.TemporaryDirectory() as folder:
        yield from tiny_compaction(Path(folder) / "tiny")
        source, rows = Path(folder) / "source", 4_000_000
        source.mkdir()
        for number in range(4):
            pq.write_table(wide_rows(rows // 4, number), source / f"{number}.parquet")
        with local_session(cores=2) as spark:
            catalog = Catalog(folder, executor=SparkExecutor(spark))
            keyed_table(catalog, "db.warm").write(spark.read.parquet(str(source)).limit(1_000))
            tables = [keyed_table(catalog, f"db.frame{number}") for number in range(3)]
            frames = (table.write(spark.read.parquet(str(source))).seconds for table in tables)
            yield Line("write a DataFrame", rate(rows, min(frames)), "0.85 M/s")
            assert {count(table) for table in tables} == {rows}
            small = keyed_table(catalog, "db.small")
            small.write(wide_rows(100, 0))
            begun = time.perf_counter()
            small.compact(full=True)
            yield Line("compact a small file on a session", f"{time.perf_counter() - begun:.2f} s", "0.3 s")
        table = keyed_table(Catalog(folder), "db.files")
        begun = time.perf_counter()
        run(Job(TableRef(path=table.path), Write(str(source)), "benchmark"))
        yield Line("write from files", rate(rows, time.perf_counter() - begun), "2 M/s")
        assert count(table) == rows


def count(table: Table) -> int:
    """Rows of the table."""
    return sum(batch.num_rows for batch in table.to_batches(columns=["k"]))


def tiny_compaction(folder: Path) -> Iterator[Line]:
    """A compaction of three small files, here and by a new process."""
    catalog = Catalog(str(folder))
    for name in ("warm", "here", "apart"):
        for number in range(3):
            (keyed_table(catalog, f"db.{name}") if number == 0 else catalog.table(f"db.{name}")).write(
                wide_rows(100, number)
            )
    catalog.table("db.warm").compact(full=True)
    begun = time.perf_counter()
    catalog.table("db.here").compact(full=True)
    yield Line("compact three small files", f"{time.perf_counter() - begun:.2f} s", "0.5 s")
    program = "import sys, paimon_engine; paimon_engine.open_table(sys.argv[1]).compact(full=True)"
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, catalog.table("db.apart").path], check=True)
    yield Line("the same, with the start of Python", f"{time.perf_counter() - begun:.2f} s", "")


def wide_rows(count: int, number: int) -> pa.Table:
    """Rows of nine columns."""
    random = np.random.default_rng(number)
    return pa.table(
        {
            "k": np.arange(count) + number * count,
            **{f"n{place}": random.integers(0, 1 << 40, count) for place in range(3)},
            **{f"d{place}": random.standard_normal(count) for place in range(3)},
            "s": np.char.mod("city-%d", random.integers(0, 200, count)),
            "t": np.char.mod("user-%x", random.integers(0, 1 << 40, count)),
        }
    )


def keyed_table(catalog: Catalog, name: str, options: Mapping[str, str] | None = None) -> Table:
    """An empty table of such rows, in two buckets."""
    schema = pa.schema([field.with_nullable(field.name != "k") for field in wide_rows(1, 0).schema])
    return catalog.create_table(name, schema=schema, primary_keys=["k"], options=options or {"bucket": "2"})


PARTS: Mapping[str, Callable[[], Iterator[Line]]] = {
    "buckets": of_buckets,
    "keys": of_keys,
    "merging": of_merging,
    "copies": of_copies,
    "vectors": of_vectors,
    "spark": of_spark,
    "lookups": of_lookups,
    "jobs": of_jobs,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    given = parser.parse_args()
    pa.set_cpu_count(1)
    grid = Grid(box=None)
    for name in ("", "measured", "to hold"):
        grid.add_column(name, justify="left" if not name else "right")
    for part in given.parts:
        for line in PARTS[part]():
            grid.add_row(*line)
    Console(width=120).print(grid)


if __name__ == "__main__":
    main()
