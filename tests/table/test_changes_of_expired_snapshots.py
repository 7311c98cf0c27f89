"""Reading what changed where snapshots have expired and their changelogs are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.errors import InvalidArgumentError, NotFoundError

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
LONG = {"changelog.num-retained.min": "50", "snapshot.num-retained.min": "1"}
KINDS: dict[str, dict[str, Any]] = {
    "none": {"bucket": "2"},
    "input": {"bucket": "1", "changelog-producer": "input"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "full-compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
    "append": {"bucket": "-1"},
}


def made(tmp_path: Path, kind: str) -> Table:
    """A table of some commits, with compactions that leave little of what was written first."""
    keys = [] if kind == "append" else ["k"]
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=keys, options={**KINDS[kind], **LONG}
    )
    for number in range(5):
        keyed = list(range(number, number + 4))
        table.write(pa.table({"k": keyed, "v": [f"{number}-{key}" for key in keyed]}, schema=SCHEMA))
        if number % 2:
            table.compact(full=True)
    return table


def rows(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    log = Catalog(str(Path(table.path).parents[1])).table("db.t$audit_log")
    found = log.to_arrow(**how)
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_changes_read_as_before_their_snapshots_expired(kind: str, tmp_path: Path) -> None:
    table = made(tmp_path, kind)
    latest = table.latest_snapshot_id()
    assert latest is not None
    times = [row["commit_time"].timestamp() for row in table.snapshots().to_pylist()]
    ranges = [(start, end) for start in range(latest) for end in range(start + 1, latest + 1)]
    before = {bounds: rows(table, incremental=bounds) for bounds in ranges}
    assert before[0, latest]

    table.expire_snapshots(retain_max=2)

    assert table.snapshots()["snapshot_id"].to_pylist() == [latest - 1, latest]
    assert {bounds: rows(table, incremental=bounds) for bounds in ranges} == before
    text = ",".join(str(round(moment * 1000)) for moment in (times[1], times[-1]))
    assert rows(table, options={"incremental-between-timestamp": text}) == before[2, latest]
    assert rows(table, options={"incremental-between-timestamp": f"1,{text.split(',')[1]}"}) == before[0, latest]


def test_commits_with_and_without_a_changelog_are_distinguished(tmp_path: Path) -> None:
    table = made(tmp_path, "none")
    table.expire_snapshots(retain_max=2)
    table.expire_changelogs(retain_max=4)

    with pytest.raises(NotFoundError, match="snapshots 6 to 7, and changelogs of 4 to 5"):
        table.to_arrow(incremental=(2, 7))
    with pytest.raises(NotFoundError, match="snapshot 4 of .* has expired and only its changelog is kept"):
        table.to_arrow(snapshot=4)
    with pytest.raises(NotFoundError, match="snapshot 4 of .* has expired and only its changelog is kept"):
        table.to_arrow(incremental=(4, 7), options={"incremental-between-scan-mode": "diff"})
    with pytest.raises(NotFoundError, match="no snapshot 2 in"):
        table.to_arrow(snapshot=2)
    with pytest.raises(NotFoundError, match="only its changelog is kept"):
        table.rollback(snapshot=4)


def test_a_consumer_may_continue_from_a_changelog_which_then_stays(tmp_path: Path) -> None:
    table = made(tmp_path, "input")
    table.expire_snapshots(retain_max=2)

    assert table.reset_consumer("job", 3).next_snapshot == 3
    assert table.expire_changelogs(retain_max=2, retain_min=1).expired_changelogs == (1, 2)
    with pytest.raises(NotFoundError, match="choose 3 to"):
        table.reset_consumer("job", 2)


def test_deleted_rows_of_append_tables_stay_deleted_as_far_as_snapshots_show(tmp_path: Path) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", **LONG}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options=options)
    for number in range(3):
        table.write(pa.table({"k": [number, number + 10], "v": ["a", "b"]}, schema=SCHEMA))
    table.delete("k = 0")
    table.write(pa.table({"k": [99], "v": ["z"]}, schema=SCHEMA))
    before = table.to_arrow(incremental=(0, 5))

    table.expire_snapshots(retain_max=1)

    assert table.to_arrow(incremental=(0, 5)).equals(before)
    assert table.verify().problems == ()


def test_contradicting_limits_of_an_option_are_reported(tmp_path: Path) -> None:
    table = made(tmp_path, "none")

    with pytest.raises(InvalidArgumentError, match="retain_max=3 is less than retain_min=4"):
        table.expire_changelogs(retain_max=3, retain_min=4)
