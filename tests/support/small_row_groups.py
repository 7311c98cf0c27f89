"""Files of many row groups although they have few rows, which compactions copy although they are small."""

from __future__ import annotations

from functools import partial
from typing import BinaryIO

import pytest

from paimon_engine.format import parquet
from paimon_engine.format.parquet import ParquetWriter
from paimon_engine.format.parquet_row_groups import StoredRowGroup
from paimon_engine.table.compaction import compaction_round
from paimon_engine.table.compaction.rewrite import RewriteTask
from paimon_engine.table.files import rolling_writer as roll


def make_row_groups_small(monkeypatch: pytest.MonkeyPatch, rows: int = 7, copied_bytes_min: int = 1) -> None:
    """From now on row groups have so many rows, and compactions copy them from that size on."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS_MAX", rows)
    monkeypatch.setattr(roll, "ROWS_PER_SLICE_MIN", rows)
    monkeypatch.setattr(roll, "ROWS_PER_SLICE_MAX", rows)
    monkeypatch.setattr(compaction_round, "RewriteTask", partial(RewriteTask, copied_bytes_min=copied_bytes_min))


def copied_row_groups(monkeypatch: pytest.MonkeyPatch) -> list[StoredRowGroup]:
    """Those that are copied from now on."""
    found: list[StoredRowGroup] = []
    copy = ParquetWriter.copy

    def noted(self: ParquetWriter, group: StoredRowGroup, source: BinaryIO) -> None:
        found.append(group)
        copy(self, group, source)

    monkeypatch.setattr(ParquetWriter, "copy", noted)
    return found
