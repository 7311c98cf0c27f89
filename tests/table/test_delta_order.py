"""Deltas whose numbers order all records are merged in columns; row by row only where some may be equal."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.env import EnvConfig
from paimon_engine.table.read.incremental import plan_changes
from paimon_engine.table.read.read_request import Changes
from paimon_engine.table.read.reader import RowSelection
from paimon_engine.table.state.handle import load_table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
KEYS = [range(10), range(8, 20), range(18, 30)]
"""The first and the third range come into one sorted run, whose numbers lie around those of the second one."""


@pytest.mark.parametrize("at_once", [False, True])
def test_files_that_overlap_like_scales_have_an_order(tmp_path: Path, at_once: bool) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    parts = [pa.table({"k": [*keys], "v": [number] * len(keys)}, SCHEMA) for number, keys in enumerate(KEYS)]
    if at_once:
        for number, messages in enumerate([*map(table.prepare_write, parts)]):
            table.commit(messages, commit_user=f"writer {number}")
    else:
        for rows in parts:
            table.write(rows)
    handle = load_table(table.path, EnvConfig(table.path))

    [split] = plan_changes(handle, Changes(0, 3, "delta"), RowSelection())

    assert len(split.sections[0]) == 2
    assert split.has_equal_sequences is at_once
    changes, state = (table.to_arrow(**how).sort_by("k") for how in ({"incremental": (0, 3)}, {}))
    assert changes == state
    if not at_once:
        assert state["v"].to_pylist() == [0] * 8 + [1] * 10 + [2] * 12
