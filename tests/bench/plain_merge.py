"""The least that a merge of sorted runs costs with Arrow and NumPy: no checks, no levels, no commit.

It decodes each run, joins the rows up to the smallest last key of all batches, sorts them by key, and takes the newest
row of each key. What takes as long as this cannot be faster by another way of writing Python: only by another library
that decodes, gathers or encodes. Runs are in order of age; keys are integers, of which the second one fits 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine.format.layout import BATCH_ROWS
from paimon_engine.format.parquet_stored import READ_BUFFER_BYTES
from paimon_engine.meta.schema import KEY_PREFIX

Numbers = npt.NDArray[np.int64]


class _Run:
    """The batches of a file, and how far the current one is taken."""

    def __init__(self, file: Path, columns: Sequence[str] | None) -> None:
        opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=READ_BUFFER_BYTES)
        names = opened.schema_arrow.names
        self._key_names = [name for name in names if name.startswith(KEY_PREFIX)]
        chosen = names if columns is None else [*self._key_names, *columns]
        self._batches = opened.iter_batches(BATCH_ROWS, columns=chosen, use_threads=False)
        self.rows: pa.RecordBatch | None = None
        self.next_batch()

    def next_batch(self) -> None:
        self.rows = next(self._batches, None)
        self.position = 0
        if self.rows is not None:
            first, *others = (np.asarray(self.rows[name]).astype(np.int64) for name in self._key_names)
            self.keys: Numbers = first
            for other in others:
                self.keys = (self.keys << 32) | other

    def take_up_to(self, last_key: int) -> tuple[pa.RecordBatch, Numbers]:
        assert self.rows is not None
        begin, self.position = self.position, int(np.searchsorted(self.keys, last_key, side="right"))
        return self.rows.slice(begin, self.position - begin), self.keys[begin : self.position]


def plain_merge(files: Sequence[Path], columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of all files, oldest first, the newest of each key: of all columns, or of these and the keys."""
    runs = [_Run(file, columns) for file in files]
    while live := [run for run in runs if run.rows is not None]:
        frontier = min(run.keys[-1] for run in live)
        parts, keys = zip(*(run.take_up_to(frontier) for run in live), strict=True)
        joined = np.concatenate(keys)
        order = np.argsort(joined, kind="stable")
        in_order = joined[order]
        newest = order[np.append(in_order[1:] != in_order[:-1], True)]
        yield pc.take(pa.concat_batches(parts), pa.array(newest), boundscheck=False)
        for run in live:
            if run.rows is not None and run.position == run.rows.num_rows:
                run.next_batch()
