"""Keys that are valid in several files of a bucket: what `verify` with rows says of them, and of what it cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two files above level 0, with a deletion vector in the first one."""
    made = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", "deletion-vectors.enabled": "true"}
    )
    made.write(pa.table({"k": range(20_000), "v": [0] * 20_000}, SCHEMA))
    made.compact(full=True)
    made.write(pa.table({"k": range(500, 600), "v": [1] * 100}, SCHEMA))
    made.compact()
    assert len(made.files()) == 2
    return made


@pytest.mark.parametrize("what", ["index/index-*", "manifest/index-manifest-*", "manifest/manifest-list-*"])
def test_metadata_that_is_lost_is_a_finding_not_an_error(table: Table, what: str):
    for path in Path(table.path).glob(what):
        path.unlink()

    found = open_table(table.path).verify("rows")

    assert found.status == "damaged"
    assert not [problem for problem in found.problems if "in several files" in problem.what]


def test_old_rows_whose_marks_are_lost_are_found_and_leave_with_a_full_compaction(table: Table):
    path = Path(table.path, "snapshot", f"snapshot-{table.latest_snapshot_id()}")
    path.write_text(json.dumps({**json.loads(path.read_text()), "indexManifest": None}))
    table = open_table(table.path)
    assert len(table.to_arrow()) == 20_100

    [problem] = table.verify("rows").problems
    assert problem.what.startswith("100 keys of bucket 0 have a valid row in several files")

    table.compact(full=True)
    assert len(table.to_arrow()) == 20_000
    assert {row["v"] for row in table.to_arrow(where="k >= 500 AND k < 600").to_pylist()} == {1}
    assert table.verify("rows").status == "sound"
