"""Streams of batches in step with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from paimon_engine.errors import CorruptTableError


def in_step(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """One batch of each stream at a time, all with the same number of rows.

    Raises: CorruptTableError if one stream has fewer rows than another.
    """
    heads: list[pa.RecordBatch | None] = [None] * len(streams)
    while True:
        for index, stream in enumerate(streams):
            head = heads[index]
            while head is None or not head.num_rows:
                head = next(stream, None)
                if head is None:
                    break
            heads[index] = head
        found = [head for head in heads if head is not None]
        if not found:
            return
        if len(found) < len(heads):
            raise CorruptTableError("files of the same rows have different numbers of rows")
        count = min(head.num_rows for head in found)
        yield [head.slice(0, count) for head in found]
        heads = [head.slice(count) for head in found]
