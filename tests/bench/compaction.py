"""What a full compaction costs, compared with the minimum that the bytes themselves cost, and with Java.

    python -m tests.bench.compaction                     # 10,000,000 rows in 8 overlapping runs, three merge engines
    python -m tests.bench.compaction --cases text-key two-keys base-and-updates base-and-late-keys base-and-stray-keys
    python -m tests.bench.compaction --java              # and on files of Java Paimon 0.9, which compacts them as well
    python -m tests.bench.compaction --rows 40000000 --rounds 1 --cases deduplicate     # memory is flat in rows
    python -m tests.bench.compaction --task-memory 64    # a bucket larger than the memory of a task, in MiB

The floor reads the same files through Arrow and writes as many rows as are left into one file, with the writer settings
of the compaction and no merge. Every figure is that of a separate process on one thread: processor seconds of the
step alone, and the peak memory of the whole process, of which Python and Arrow take about 150 MB. Rounds alternate, so
that floor and compaction meet the same load; the median counts. Compare figures of one run only.

Java runs on one thread, warm, once in each round, and writes the table that it compacts; then its compaction is rolled
back, and the same files are compacted here, by a new process and by one that has compacted before, as Java has.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd  # noqa: F401 - Arrow imports it at its first conversion, which is not what a step costs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from paimon_engine import Catalog, open_table
from paimon_engine.arrow_memory import SETTINGS
from paimon_engine.executor import LocalExecutor
from paimon_engine.format.layout import BATCH_ROWS, WriteOptions
from paimon_engine.format.parquet import ParquetWriter
from paimon_engine.format.parquet_stored import READ_BUFFER_BYTES
from tests.bench.plain_merge import plain_merge
from tests.support.java_jars import classpath, compiled
from tests.support.oracle import without_defaults
from tests.support.paimon2 import ARTIFACT
from tests.support.reference import reference_folder

Numbers = npt.NDArray[np.int64]
WARM = "compaction, warm"
REPEATED = 0.3
NULLS = 0.4
"""Share of nulls in each column of partial updates."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is compacted.

    `shares` are the runs' shares of the rows, `late` of the keys the last ones that runs after the first may repeat,
    but for one key each where they have `strays`. `columns` makes those behind the key, if not the usual ones.
    """

    engine: str = "deduplicate"
    options: Mapping[str, str] = field(default_factory=dict)
    keys: Callable[[Numbers], dict[str, pa.Array]] = lambda numbers: {"k": pa.array(numbers)}
    shares: tuple[float, ...] = ()
    late: float = 1.0
    strays: bool = False
    columns: Callable[[np.random.Generator, int], dict[str, pa.Array]] | None = None
    buckets: int = 1
    fewer: int = 1
    """So many times as few rows are measured, as they are wide."""


def text_key(numbers: Numbers) -> dict[str, pa.Array]:
    """Keys of 16 characters."""
    return {"k": pc.binary_join_element_wise("key-", pc.utf8_lpad(pa.array(numbers).cast("string"), 12, "0"), "")}


def two_keys(numbers: Numbers) -> dict[str, pa.Array]:
    """A BIGINT key and one of 10 characters."""
    text = pc.utf8_lpad(pa.array(numbers % 1_000_003).cast("string"), 10, "0")
    return {"k": pa.array(numbers >> 20), "k2": text}


def random_texts(random: np.random.Generator, count: int) -> dict[str, pa.Array]:
    """Texts of 32 random digits, of which no two are alike."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    ends = pa.py_buffer(np.arange(0, 32 * (count + 1), 32, dtype=np.int32))
    return {
        f"s{number}": pa.Array.from_buffers(
            pa.string(), count, [None, ends, pa.py_buffer(digits[random.integers(0, 16, 32 * count)])]
        )
        for number in range(4)
    }


def wide_rows(random: np.random.Generator, count: int) -> dict[str, pa.Array]:
    """40 columns, together 3 KB: numbers, and random bytes."""
    ends = pa.py_buffer(np.arange(0, 140 * (count + 1), 140, dtype=np.int32))
    numbers = {f"n{number}": pa.array(random.integers(0, 1 << 62, count)) for number in range(20)}
    texts = {
        f"b{number}": pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(random.bytes(140 * count))])
        for number in range(20)
    }
    return numbers | texts


SUMMED = {f"fields.{name}.aggregate-function": "sum" for name in ("i1", "i2", "l1", "d1", "d2")}
CASES = {
    "deduplicate": Case(),
    "partial-update": Case("partial-update"),
    "aggregation": Case("aggregation", {**SUMMED, "fields.default-aggregate-function": "last_non_null_value"}),
    "text-key": Case(keys=text_key),
    "two-keys": Case(keys=two_keys),
    "random-texts": Case(columns=random_texts),
    "wide-rows": Case(columns=wide_rows, fewer=20),
    "lookup-changelog": Case(options={"changelog-producer": "lookup"}),
    "deletion-vectors": Case(options={"deletion-vectors.enabled": "true"}),
    "four-buckets": Case(buckets=4),
    "base-and-updates": Case(shares=(0.7, 0.1, 0.1, 0.1)),
    "base-and-late-keys": Case(shares=(0.7, 0.075, 0.075, 0.075, 0.075), late=0.3),
    "base-and-stray-keys": Case(shares=(0.7, 0.075, 0.075, 0.075, 0.075), late=0.3, strays=True),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds and seconds of a step, peak memory of its process in MB, and rows that it left.

    `begin_mb` is the part of the peak that the process had before the step: Python, Arrow and what else it imports.
    """

    cpu_seconds: float
    seconds: float
    peak_mb: float
    rows: int
    begin_mb: float = 0.0


def rows_of_run(random: np.random.Generator, case: Case, known: int, count: int) -> pa.Table:
    """`count` rows with eight mixed columns, or those of the case, behind the key; 30 % have keys of the `known` ones before."""
    fresh = count if known == 0 else count - int(count * REPEATED)
    oldest = int(known * (1 - case.late))
    ids = np.concatenate([np.arange(known, known + fresh), random.integers(oldest, max(known, 1), count - fresh)])
    if case.strays and known:
        ids[-1] = random.integers(0, known)
    random.shuffle(ids)
    columns = case.columns(random, count) if case.columns is not None else mixed_columns(random, count)
    if case.engine == "partial-update":
        columns = {
            name: pc.if_else(pa.array(random.random(count) < NULLS), pa.scalar(None, column.type), column)
            for name, column in columns.items()
        }
    # An odd factor permutes the 40-bit numbers, so that new keys arrive in no order; where late keys matter, in theirs.
    numbers = (ids * 0x9E3779B97F) & ((1 << 40) - 1) if case.late == 1 else ids
    return pa.table({**case.keys(numbers), **columns})


def mixed_columns(random: np.random.Generator, count: int) -> dict[str, pa.Array]:
    """Two INT, a BIGINT, two DOUBLE and three STRING columns: few values, many, and nulls."""
    return {
        "i1": pa.array(random.integers(0, 1000, count).astype("i4")),
        "i2": pa.array(random.integers(-(1 << 31), 1 << 31, count).astype("i4")),
        "l1": pa.array(random.integers(0, 1 << 44, count)),
        "d1": pa.array(random.integers(0, 100_000, count) / 100.0),
        "d2": pa.array(random.standard_normal(count)),
        "s1": pa.array(np.char.mod("city-%d", random.integers(0, 200, count))),
        "s2": pa.array(np.char.mod("user-%x", random.integers(0, 1 << 62, count))),
        "s3": pa.array(np.char.mod("v-%d", np.arange(count)), mask=random.random(count) < 0.1),
    }


def make_table(folder: Path, name: str, rows: int, runs: int) -> Path:
    """A table of that many commits of one file in each bucket, with as many of the rows as the case has."""
    case, random, known = CASES[name], np.random.default_rng(7), 0
    rows //= case.fewer
    options = {
        "bucket": str(case.buckets),
        "write-only": "true",
        "write-buffer-size": "8 gb",
        "target-file-size": "8 gb",
        "merge-engine": case.engine,
    }
    table = None
    shares = case.shares or (1 / runs,) * runs
    for share in shares:
        data = rows_of_run(random, case, known, round(rows * share))
        known += data.num_rows if known == 0 else data.num_rows - int(data.num_rows * REPEATED)
        if table is None:
            keys = list(case.keys(np.zeros(1, np.int64)))
            schema = pa.schema([field.with_nullable(field.name not in keys) for field in data.schema])
            catalog = Catalog(str(folder / name))
            given = {**options, **case.options}
            table = catalog.create_table("db.t", schema=schema, primary_keys=keys, options=given)
        table.write(data)
    assert table is not None
    assert table.files().num_rows == len(shares) * case.buckets
    return Path(table.path)


# ── steps, each in a separate process ─────────────────────────────────────────────────────────


def data_files(path: Path) -> list[Path]:
    """Data files of the table, oldest first."""
    return sorted(path.rglob("bucket-*/data-*.parquet"), key=lambda file: file.stat().st_mtime)


def floor(path: Path, rows: int) -> int:
    """Reads all data files and writes `rows` of their rows: what no compaction can do without."""
    with tempfile.TemporaryFile(dir=path) as sink:
        writer = None
        for batch in _batches(path):
            if writer is None:
                writer = ParquetWriter(sink, batch.schema, WriteOptions())
            if rows > 0:
                writer.write(batch.slice(0, rows))
                rows -= batch.num_rows
        assert writer is not None
        writer.close()
    return max(rows, 0)


def merged_plainly(path: Path, _: int) -> int:
    """Reads all data files, merges and writes them with Arrow and NumPy alone, without a check or a commit."""
    with tempfile.TemporaryFile(dir=path) as sink:
        writer, count = None, 0
        for batch in plain_merge(data_files(path)):
            writer = writer or ParquetWriter(sink, batch.schema, WriteOptions())
            writer.write(batch)
            count += batch.num_rows
        assert writer is not None
        writer.close()
    return count


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    for file in data_files(path):
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=READ_BUFFER_BYTES) as source:
            yield from source.iter_batches(BATCH_ROWS, use_threads=False)


def compaction(path: Path, task_memory_mb: int) -> int:
    """A full compaction on one thread, with its commit."""
    return _compacted(path, 1, task_memory_bytes=task_memory_mb << 20 or None)


def on_two_threads(path: Path, parts: int) -> int:
    """A full compaction on two threads, in that many parts by ranges of keys; 0: as many as the engine makes."""
    return _compacted(path, 2, task_bytes=_bytes_of_part(path, parts))


def in_parts(path: Path, parts: int) -> int:
    """A full compaction on one thread, in that many parts by ranges of keys."""
    return _compacted(path, 1, task_bytes=_bytes_of_part(path, parts))


def _bytes_of_part(path: Path, parts: int) -> int | None:
    return math.ceil(sum(file.stat().st_size for file in data_files(path)) / parts) if parts else None


def _compacted(path: Path, threads: int, **how: Any) -> int:
    options = {"target-file-size": "128 mb", "write-only": "false"}
    result = open_table(str(path), executor=LocalExecutor(threads), options=options).compact(full=True, **how)
    return result.rows_after


def merged_read(path: Path, _: int) -> int:
    """A read of all rows, merged, as a stream."""
    table = open_table(str(path), executor=LocalExecutor(1))
    return sum(batch.num_rows for batch in table.to_batches())


TWO_THREADS = "compaction on two threads"
IN_PARTS = "compaction in parts"
PLAIN_MERGE = "plain merge"
STEPS = {
    "floor": floor,
    PLAIN_MERGE: merged_plainly,
    "compaction": compaction,
    WARM: compaction,
    "merged read": merged_read,
    TWO_THREADS: on_two_threads,
    IN_PARTS: in_parts,
}


def run_here(step: str, path: Path, number: int) -> Cost:
    """Runs a step in this process."""
    if step != TWO_THREADS:
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
    # What is imported at its first use is no part of the work: actions, and what Arrow needs for its first conversion.
    for module in ("paimon_engine.action_table", "pyarrow.pandas_compat"):
        importlib.import_module(module)
    if step == WARM:
        compaction(path.with_name("before"), number)
    begin_mb = peak_mb()
    cpu, begun = time.process_time(), time.perf_counter()
    rows = STEPS[step](path, number)
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begun
    return Cost(cpu, seconds, peak_mb(), rows, begin_mb)


def peak_mb() -> float:
    """Peak memory of this process; `getrusage` would count that of the process which started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / (1 << 10)


def run_apart(step: str, path: Path, number: int = 0, *, plain: bool = False) -> Cost:
    """Runs a step in a new process, compactions on copies.

    A `plain` process has no settings for memory, as one that uses the engine as a library.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = path
        changing = {"compaction": ["t"], TWO_THREADS: ["t"], IN_PARTS: ["t"], WARM: ["before", "t"]}
        for name in changing.get(step, []):
            copy = Path(folder) / name
            _linked(path, copy)
        command = [sys.executable, "-m", "tests.bench.compaction", "--step", step, str(copy), str(number)]
        # As the command line has it.
        environment = {**os.environ} if plain else {**SETTINGS, **os.environ}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        return Cost(**json.loads(done.stdout))


@dataclass(frozen=True, slots=True)
class JavaRun:
    """The table of a run of Java, which it has compacted, and what that cost."""

    path: Path
    stored_rows: int
    cpu_seconds: float
    seconds: float


def java(folder: Path, rows: int, runs: int) -> JavaRun:
    """A full compaction by a warm Java 0.9 on one thread."""
    driver = reference_folder("oracle") / "oracle"
    table = [f"rows={rows}", f"commits={runs}", f"overlap={REPEATED}", "buckets=1"]
    settings = ["threads=1", "scans=1", f"dir={folder}", "keep=true"]
    done = subprocess.run([driver, "bench", *table, *settings], check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)["runs"][0]
    return JavaRun(folder / "t1" / "t", found["stored_rows"], found["compact_cpu_s"], found["compact_s"])


def paimon2(path: Path) -> Cost:
    """A full compaction by Java Paimon 2, after one of the same files, on copies.

    Raises: pytest's `Skipped` where its jar cannot be had.
    """
    jars = f"{without_defaults()}:{classpath(ARTIFACT)}"
    classes = f"{compiled((Path(__file__).parent / 'java' / 'TimedCompaction.java',), jars)}:{jars}"
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copies = [Path(folder) / name for name in ("before", "t")]
        for copy in copies:
            _linked(path, copy)
        java = ["java", "-Xmx6g", "-Duser.timezone=UTC", "-cp", classes, "TimedCompaction"]
        done = subprocess.run([*java, folder, *map(str, copies)], check=True, stdout=subprocess.PIPE)
        left = open_table(str(copies[-1])).snapshots()["total_record_count"][-1].as_py()
    found = json.loads(done.stdout)
    return Cost(found["cpu_s"], found["wall_s"], 0, left)


def _linked(path: Path, copy: Path) -> None:
    """A copy of a table whose data files are links; Java writes hints in place, which would change all copies of one."""
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("bucket-*"))
    for folder in path.glob("bucket-*"):
        shutil.copytree(folder, copy / folder.name, copy_function=os.link)


# ── the whole ───────────────────────────────────────────────────────────────────────────────────


def compare(path: Path, name: str, rows: int, rounds: int, grid: Grid) -> None:
    """Adds the figures of a case to the grid."""
    left = run_apart("compaction", path).rows
    alternating = [(run_apart("floor", path, left), run_apart("compaction", path)) for _ in range(rounds)]
    floors, compactions = zip(*alternating, strict=True)
    assert all(cost.rows == left for cost in compactions)
    steps = {"floor": floors, "compaction": compactions}
    if "deletion-vectors.enabled" not in CASES[name].options:
        # With deletion vectors rows are seen after they have been compacted only.
        steps["merged read"] = (run_apart("merged read", path),)
        assert steps["merged read"][0].rows == left
    add_figures(grid, name, rows // CASES[name].fewer, steps)


def compare_with_java(folder: Path, rows: int, runs: int, rounds: int, grid: Grid) -> str:
    """Adds the figures of Java and of its files to the grid; how they compare."""
    first = java(folder / "0", rows, runs)
    open_table(str(first.path)).rollback(snapshot=runs)
    left = run_apart("merged read", first.path).rows
    there: list[JavaRun] = [first]
    here: dict[str, list[Cost]] = {"floor": [], "compaction": [], WARM: []}
    for number in range(rounds):
        if number:
            there.append(java(folder / str(number), rows, runs))
            shutil.rmtree(folder / str(number))
        for step, costs in here.items():
            costs.append(run_apart(step, first.path, left if step == "floor" else 0))
    assert all(cost.rows == left for cost in (*here["compaction"], *here[WARM]))
    of_java = [Cost(one.cpu_seconds, one.seconds, 0, left) for one in there]
    add_figures(grid, "Java's files", first.stored_rows, {**here, "Java 0.9": of_java})
    new, warm = (middle(of_java) / middle(here[step]) for step in ("compaction", WARM))
    return f"on the same files, rows per processor second in those of Java: {new:.2f} of a new process, {warm:.2f} warm"


def middle(costs: Sequence[Cost]) -> float:
    """Median of the processor seconds."""
    return median(cost.cpu_seconds for cost in costs)


def add_figures(grid: Grid, name: str, rows: int, steps: Mapping[str, Sequence[Cost]]) -> None:
    """A line for each of the steps, of which `floor` is the measure."""
    for step, costs in steps.items():
        cpu = middle(costs)
        spread = " – ".join(f"{pick(cost.cpu_seconds for cost in costs):.2f}" for pick in (min, max))
        peak = max(cost.peak_mb for cost in costs)
        times = f"{cpu / middle(steps['floor']):.2f}"
        grid.add_row(name, step, f"{cpu:.2f}", spread, times, f"{rows / cpu:,.0f}", f"{peak:,.0f}" if peak else "")


def bounded(path: Path, rows: int, task_memory_mb: int, console: Console) -> None:
    """One compaction within the memory given to a task."""
    stored = sum(file.stat().st_size for file in data_files(path)) / (1 << 20)
    arrow = sum(batch.nbytes for batch in _batches(path)) / (1 << 20)
    least = run_apart("floor", path, 1)
    cost = run_apart("compaction", path, task_memory_mb)
    console.print(
        f"{rows:,} rows: {stored:,.0f} MB in files, {arrow:,.0f} MB in Arrow, merged in tasks of {task_memory_mb} MiB: "
        f"{cost.peak_mb - cost.begin_mb:,.0f} MB at most, and {cost.begin_mb:,.0f} MB before the first row; "
        f"reading one file after the other takes {least.peak_mb - least.begin_mb:,.0f} MB; "
        f"{cost.cpu_seconds:.2f} processor s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES)[:3])
    parser.add_argument("--java", action="store_true", help="measure Java too; takes minutes")
    parser.add_argument("--task-memory", type=int, metavar="MIB", help="one compaction in tasks of this memory")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        step, path, number = given.step
        print(json.dumps(asdict(run_here(step, Path(path), int(number)))))
        return
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        if given.task_memory:
            path = make_table(Path(folder), "deduplicate", given.rows, given.runs)
            bounded(path, given.rows, given.task_memory, console)
            return
        grid = Grid(title=f"{given.rows:,} rows in {given.runs} runs", box=None, title_justify="left")
        for name in ("case", "step", "processor s", "least – most", "× floor", "rows/processor s", "peak MB"):
            grid.add_column(name, justify="left" if name in ("case", "step") else "right")
        for name in given.cases:
            path = make_table(Path(folder), name, given.rows, given.runs)
            compare(path, name, given.rows, given.rounds, grid)
            shutil.rmtree(path)
        if not given.java:
            console.print(grid)
            return
        compared = compare_with_java(Path(folder), given.rows, given.runs, given.rounds, grid)
        console.print(grid)
        console.print(compared)


if __name__ == "__main__":
    main()
