"""Fast-forward to a branch that has not seen the newest schema of main."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from paimon_engine import Catalog, SetOption


def test_files_of_a_main_with_a_newer_schema_go_when_it_is_fast_forwarded(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    catalog = Catalog(str(tmp_path))
    table = catalog.create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    table.create_branch("dev")
    table.write(pa.table({"k": [1]}))
    table.alter([SetOption("comment.of.main", "x")])
    table.write(pa.table({"k": [2]}))
    catalog.table("db.t$branch_dev").write(pa.table({"k": [3]}))

    result = table.fast_forward("dev")

    assert result.status == "forwarded"
    assert result.stopped == ()
    assert result.files_deleted > 0
    assert table.to_arrow().to_pylist() == [{"k": 3}]
    assert len(list((tmp_path / "db.db" / "t" / "bucket-0").iterdir())) == 1
