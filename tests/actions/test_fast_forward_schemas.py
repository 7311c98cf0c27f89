"""Fast-forward to a branch that has not seen the newest schema of main."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, SetOption
from paimon_engine.storage.base import FileInfo
from tests.support.storage_events import EventStorage
from tests.support.world.made_up import History


def test_files_of_a_main_with_a_newer_schema_are_deleted_when_it_is_fast_forwarded(tmp_path: Path) -> None:
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


def _with_schemas_that_go_back(path: Path) -> Catalog:
    """Snapshots 1, 2 and 3 have the schemas 0, 1 and 0."""
    catalog = Catalog(str(path))
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    table = catalog.create_table("db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"})
    table.write(pa.table({"k": [1]}))
    table.alter([SetOption("comment.of.main", "x")])
    table.write(pa.table({"k": [2]}))
    table.rollback_to_as_latest(snapshot=1)
    return catalog


def test_a_branch_of_a_snapshot_has_the_schemas_of_those_before_it(tmp_path: Path) -> None:
    catalog = _with_schemas_that_go_back(tmp_path)
    table = catalog.table("db.t")
    assert table.snapshots()["schema_id"].to_pylist() == [0, 1, 0]
    table.create_branch("dev", snapshot=3)
    catalog.table("db.t$branch_dev").write(pa.table({"k": [3]}))

    assert table.fast_forward("dev").status == "forwarded"

    assert table.verify().problems == ()
    assert sorted(table.to_arrow(snapshot=2)["k"].to_pylist()) == [1, 2]
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 3]


@pytest.mark.parametrize("alters", [False, True])
def test_main_does_not_lose_the_schema_of_what_it_keeps(alters: bool, tmp_path: Path) -> None:
    """Java's branches have the schemas up to the snapshot's own."""
    catalog = _with_schemas_that_go_back(tmp_path)
    table = catalog.table("db.t")
    table.create_branch("dev", snapshot=3)
    (tmp_path / "db.db/t/branch/branch-dev/schema/schema-1").unlink()
    if alters:
        catalog.table("db.t$branch_dev").alter([SetOption("comment.of.branch", "y")])

    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match="snapshot 2 .* stays and has schema 1, which branch 'dev'"):
            table.fast_forward("dev", dry_run=dry_run)

    assert table.verify().problems == ()


def test_schemas_that_a_listing_does_not_show_yet_are_found() -> None:
    storage = EventStorage()
    history = History(storage=storage).write("a")
    history.tag("t")
    history.branch("dev", "t").write("b", branch="dev").write("c")
    listed = storage.list
    late = history.on("dev").paths.schema_dir
    times: list[str] = []

    def list_late(path: str) -> list[FileInfo]:
        found = listed(path)
        if path != late:
            return found
        times.append(path)
        return [] if len(times) > 1 else found

    storage.list = list_late  # type: ignore[method-assign, attr-defined]
    result = history.fast_forward("dev")

    assert len(times) > 1
    assert (result.status, history.ids()) == ("forwarded", [1, 2])
    history.assert_exact()
