"""A named job that cannot know whether it was done before does nothing, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, CorruptTableError, Table, open_table
from paimon_engine.jobs import ACTIONS, Job, JobResult, TableRef, run

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("p", pa.int64())])
ROWS = pa.table({"k": [1, 2], "p": [1, 2]}, schema=SCHEMA)

NAMED: Mapping[str, Mapping[str, Any]] = {
    "write": {"source": "rows.parquet"},
    "compact": {"full": True},
    "compact_manifests": {},
    "analyze": {},
    "drop_partition": {"partitions": [{"p": "1"}]},
    "rescale": {},
    "rewrite_file_index": {},
    "remove_unexisting_files": {},
    "rollback_to_as_latest": {"snapshot": 1},
    "purge_files": {},
    "merge_branch": {"branch": "dev"},
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two commits, a branch, and a tag that cannot be read any more."""
    catalog = Catalog(str(tmp_path / "lake"))
    options = {"bucket": "1", "bucket-key": "k", "file-index.bloom-filter.columns": "k"}
    table = catalog.create_table("db.t", schema=SCHEMA, partition_keys=["p"], options=options)
    table.write(ROWS)
    table.create_tag("base")
    table.create_branch("dev", tag="base")
    open_table(f"{table.path}$branch_dev").write(ROWS)
    table.write(ROWS)
    (Path(table.path) / "tag/tag-torn").write_bytes(b"{")
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return table


def files(table: Table) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(table.path).rglob("*") if path.is_file()}


@pytest.mark.parametrize("action", NAMED)
def test_a_broken_tag_stops_a_named_job_before_anything_is_written(action: str, table: Table, tmp_path: Path):
    fields = {**NAMED[action]}
    if "source" in fields:
        fields["source"] = str(tmp_path / fields["source"])
    job = Job(TableRef(path=table.path), ACTIONS[action].spec(**fields), "nightly")
    before = files(table)

    with pytest.raises(CorruptTableError, match=r"nothing was written.*'nightly'.*tag-torn.*delete_tag\('torn'\)"):
        run(job)
    assert files(table) == before

    table.delete_tag("torn")
    done: JobResult = run(job)
    assert done.status not in ("failed", "stopped")


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.write(ROWS, commit_user="nightly"),
        lambda table: table.write(ROWS, commit_user="nightly", overwrite={}),
        lambda table: table.commit([], commit_user="nightly"),
    ],
)
def test_a_broken_tag_stops_named_writes_from_python(write: Callable[[Table], Any], table: Table):
    before = files(table)

    with pytest.raises(CorruptTableError, match="nothing was written"):
        write(table)

    assert files(table) == before


def test_writes_without_a_name_have_nothing_to_look_for(table: Table):
    assert table.write(ROWS).status == "committed"
