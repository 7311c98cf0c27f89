"""Two attempts of one job at the same time: one snapshot, and the slower attempt says that the other has made it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.action import Context
from paimon_engine.actions.analyze import Analyze, analyze
from paimon_engine.actions.cluster import Cluster, cluster
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.actions.delete_rows import DeleteRows, delete_rows
from paimon_engine.actions.rescale import Rescale, rescale
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex, rewrite_file_index
from paimon_engine.env import EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.schema_change import SetOption
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.removal.orphans import find_orphans
from paimon_engine.table.state.handle import load_table
from tests.support.meddling import Meddling

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
KEYED = {"bucket": "2"}
APPEND = {"bucket": "-1"}


@dataclass(frozen=True)
class Deed:
    """An action on a table of `keys` and `options`; `later` are options that it gets after its rows are written."""

    run: Callable[[Context, Any], Any]
    spec: Any
    options: Mapping[str, str]
    keys: tuple[str, ...] = ()
    later: Mapping[str, str] = field(default_factory=dict)


DEEDS = {
    "analyze": Deed(analyze, Analyze(), KEYED, ("k",)),
    "cluster": Deed(cluster, Cluster(["s"]), APPEND),
    "compact": Deed(compact, Compact(full=True), KEYED, ("k",)),
    "delete_rows": Deed(delete_rows, DeleteRows("k < 5"), {**APPEND, "deletion-vectors.enabled": "true"}),
    "rescale": Deed(rescale, Rescale(), KEYED, ("k",), {"bucket": "4"}),
    "rewrite_file_index": Deed(
        rewrite_file_index, RewriteFileIndex(), APPEND, later={"file-index.bloom-filter.columns": "s"}
    ),
}


def make(deed: Deed) -> Table:
    warehouse = f"memory://{uuid.uuid4()}/lake"
    table = Catalog(warehouse).create_table(
        "db.t", schema=SCHEMA, primary_keys=list(deed.keys), options=dict(deed.options)
    )
    for number in range(3):
        keys = range(number * 5, number * 5 + 10)
        table.write(pa.table({"k": keys, "s": [f"s{key}" for key in keys]}, SCHEMA))
    if deed.later:
        table.alter([SetOption(key, value) for key, value in deed.later.items()])
    return open_table(table.path)


@pytest.mark.parametrize("name", DEEDS)
def test_the_slower_attempt_finds_the_job_done(name: str):
    deed = DEEDS[name]
    table = make(deed)
    handle = load_table(table.path, EnvConfig(table.path))
    results = []

    def the_other_attempt() -> None:
        results.append(deed.run(Context(handle, LocalExecutor(), "job"), deed.spec))

    slower = deed.run(Context(handle, Meddling(the_other_attempt), "job"), deed.spec)

    (faster,) = results
    assert (faster.status, slower.status) == ("committed", "already_done")
    assert slower.snapshot_id == faster.snapshot_id == open_table(table.path).latest_snapshot_id()
    left = find_orphans(handle, handle.env.clock() + 3_600_000, LocalExecutor())
    assert [info.path for info in left.files] == []
    assert check_table(handle) == []
