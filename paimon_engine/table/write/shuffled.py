"""What tasks do with rows that are brought together, by bucket or by key: of DataFrames, where keys choose buckets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_engine.env import Env
from paimon_engine.executor import Done
from paimon_engine.table.files.bucketing import BucketRows
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.write.grouping import group_of_bucket
from paimon_engine.table.write.part_writer import write_part
from paimon_engine.table.write.writer import WriteState, write_batches, write_rests


@dataclass(frozen=True, slots=True)
class WritePart:
    """Writes the rows of a part that are worth files of their own, and sends the others to the groups of buckets."""

    state: WriteState
    kind_column: str | None

    def __call__(
        self, env: Env, part: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[int, pa.RecordBatch] | Done[list[CommitMessage]]]:
        table = self.state.table.load(env)
        for made in write_part(table, self.state, part, batches, kind_column=self.kind_column):
            if isinstance(made, BucketRows):
                yield group_of_bucket(made.partition, made.bucket), made.rows
            else:
                yield Done(list(made))


@dataclass(frozen=True, slots=True)
class WriteRests:
    """Writes the rows of one group that no part wrote; may hold several buckets."""

    state: WriteState

    def __call__(self, env: Env, _group: int, batches: Iterator[pa.RecordBatch]) -> list[CommitMessage]:
        return write_rests(self.state.table.load(env), self.state, batches)


@dataclass(frozen=True, slots=True)
class WriteKeys:
    """Writes the rows of one group of keys."""

    state: WriteState
    kind_column: str | None

    def __call__(self, env: Env, group: int, batches: Iterator[pa.RecordBatch]) -> list[CommitMessage]:
        state = replace(self.state, assigner=group % self.state.assigners)
        return write_batches(state.table.load(env), state, batches, kind_column=self.kind_column)
