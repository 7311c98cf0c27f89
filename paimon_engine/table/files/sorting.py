"""Sorting a stream of rows in bounded memory.

1. Rows are buffered until a third of the memory is full, then sorted and written to a temporary file: a run.
2. The runs are merged: of the batch at the head of each, all rows up to the smallest last value come out, sorted. That
   consumes one batch at least, so that memory contains a batch per run.

Rows that fit are sorted where they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import on_temporary_files
from paimon_engine.format.layout import BATCH_ROWS

_RUNS_EXPECTED = 64
"""More runs than this take more memory when they are merged: those of a stream 20 times as large as the memory."""


def sort_rows(
    batches: Iterable[pa.RecordBatch],
    column: str,
    memory_bytes: int,
    sorted_runs: Sequence[Iterator[pa.RecordBatch]] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows in ascending order of a column without nulls, in about that much memory; runs are on the local disk.

    `sorted_runs` are more rows, in order already, of which a batch each is in memory.

    Raises: StorageError if the local disk is full.
    """
    room = max(1, memory_bytes // 3)
    with tempfile.TemporaryDirectory(prefix="paimon-sort-") as directory:
        buffered: list[pa.RecordBatch] = []
        buffered_bytes = 0
        runs: list[str] = []
        for batch in batches:
            buffered.append(batch)
            buffered_bytes += batch.nbytes
            if buffered_bytes >= room:
                runs.append(f"{directory}/{len(runs)}.arrow")
                _write_run(runs[-1], buffered, column, room // _RUNS_EXPECTED)
                buffered, buffered_bytes = [], 0
        if not runs:
            in_memory = _sorted(buffered, column, BATCH_ROWS)
            yield from _merged([in_memory, *sorted_runs], column) if sorted_runs else in_memory
            return
        if buffered:
            runs.append(f"{directory}/{len(runs)}.arrow")
            _write_run(runs[-1], buffered, column, room // _RUNS_EXPECTED)
            buffered = []
        yield from _merged([*map(_read_run, runs), *sorted_runs], column)


def _sorted(buffered: Sequence[pa.RecordBatch], column: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if not buffered:
        return
    rows = pa.Table.from_batches(buffered).combine_chunks()
    order = pc.sort_indices(rows, [(column, "ascending")])
    for begin in range(0, rows.num_rows, batch_rows):
        yield from rows.take(order.slice(begin, batch_rows)).combine_chunks().to_batches()


def _write_run(path: str, buffered: list[pa.RecordBatch], column: str, batch_bytes: int) -> None:
    row_bytes = max(1, sum(batch.nbytes for batch in buffered) // max(1, sum(batch.num_rows for batch in buffered)))
    batch_rows = max(1, min(BATCH_ROWS, batch_bytes // row_bytes))
    with (
        on_temporary_files(),
        pa.OSFile(path, "wb") as file,
        pa.ipc.new_file(file, buffered[0].schema) as writer,
    ):
        for batch in _sorted(buffered, column, batch_rows):
            writer.write_batch(batch)


def _read_run(path: str) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(path, "rb") as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _merged(runs: Sequence[Iterator[pa.RecordBatch]], column: str) -> Iterator[pa.RecordBatch]:
    """Sorted rows of sorted runs, in batches, with one batch of each run in memory.

    Rows up to the smallest last value of the current batches can be given out: all batches to come are above it.
    """
    heads = [(head, run) for run in runs if (head := next(run, None)) is not None]
    waiting: list[pa.RecordBatch] = []
    while heads:
        limit = min(head[column][-1].as_py() for head, _ in heads)
        following = []
        for head, run in heads:
            count = pc.sum(pc.less_equal(head[column], pa.scalar(limit, head[column].type))).as_py()
            waiting += [head.slice(0, count)] if count else []
            rest = head.slice(count) if count < head.num_rows else next(run, None)
            if rest is not None:
                following.append((rest, run))
        heads = following
        yield from _sorted(waiting, column, BATCH_ROWS)
        waiting = []
