"""What differs between two states where a file stays: other files, or vectors, say what its rows are now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, NotFoundError, SetOption, Table
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """As the tag `before` many rows in one file, which is too large for compactions of a few new ones."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    found = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    put(found, *(("+I", k, k) for k in range(10_000)))
    found.create_tag("before")
    (base,) = found.files()["file_path"].to_pylist()
    yield found
    assert base in found.files()["file_path"].to_pylist()


def put(table: Table, *rows: tuple[str, int, int]) -> None:
    """Written, and moved up by a compaction that leaves the files above as they are."""
    data = [{"k": k, "v": v} for _, k, v in rows]
    table.write(pa.Table.from_pylist(data, SCHEMA), row_kinds=pa.array([kind for kind, _, _ in rows]))
    table.compact()


def audit(table: Table, **options: Any) -> Sequence[tuple[Any, ...]]:
    log = Catalog(str(Path(table.path).parents[1])).table("db.t$audit_log")
    found = log.to_arrow(incremental=("before", "after"), **options)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_a_row_that_was_deleted_is_a_difference(table: Table) -> None:
    put(table, ("-D", 3, 3))
    table.create_tag("after")

    assert audit(table) == [("-D", 3, 3)]
    assert audit(table, where="k < 3") == []
    assert table.to_arrow(incremental=("before", "after")).num_rows == 0


def test_of_a_row_that_changed_the_new_one_is_seen_once(table: Table) -> None:
    put(table, ("+I", 3, 30))
    put(table, ("-D", 4, 4), ("+I", 5, 50))
    table.create_tag("after")

    assert audit(table) == [("+I", 3, 30), ("+I", 5, 50), ("-D", 4, 4)]


def test_vectors_that_were_only_written_again_are_no_difference(table: Table) -> None:
    put(table, ("-D", 3, 3))
    table.delete_tag("before")
    table.create_tag("before")
    put(table, ("+I", 20_000, 20))
    put(table, ("-D", 20_000, 20))
    table.create_tag("after")

    assert audit(table) == []


def test_java_leaves_files_out_that_both_states_have(table: Table, oracle: JavaPaimon) -> None:
    put(table, ("-D", 3, 3))
    table.create_tag("after")

    assert oracle.read(table.path, incremental="before,after", system="audit_log") == []


def states(tmp_path: Path, *rows: tuple[str, int, int], **options: str) -> Table:
    """A table with a compacted file of the row 1, as the tag `before`, and then other rows in new files, as `after`."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **named}
    )
    table.write(pa.Table.from_pylist([{"k": 1, "v": 10}], SCHEMA))
    table.compact(full=True)
    table.create_tag("before")
    for kind, k, v in rows:
        table.write(pa.Table.from_pylist([{"k": k, "v": v}], SCHEMA), row_kinds=[kind])
    table.create_tag("after")
    return table


def test_a_delete_that_waits_for_its_compaction_is_a_difference(tmp_path: Path) -> None:
    assert audit(states(tmp_path, ("-D", 1, 0), ("+I", 2, 2))) == [("+I", 2, 2), ("-D", 1, 10)]


def test_a_delete_that_is_compacted_later_is_a_difference_once(tmp_path: Path) -> None:
    table = states(tmp_path, ("-D", 1, 0), ("+I", 2, 2))
    table.compact(full=True)
    table.create_tag("later")

    log = Catalog(str(tmp_path)).table("db.t$audit_log")
    assert log.to_arrow(incremental=("after", "later")).num_rows == 0
    assert log.to_arrow(incremental=("before", "later"), where="rowkind = '-D'").num_rows == 1


def test_of_a_sum_the_new_one_is_seen(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = states(tmp_path, ("+I", 1, 5), merge_engine="aggregation", fields__v__aggregate_function="sum")

    assert audit(table) == [("+I", 1, 15)]
    assert oracle.read(table.path, incremental="before,after") == [[1, 5]]


def test_a_row_that_came_too_late_to_be_valid_is_no_difference(tmp_path: Path, oracle: JavaPaimon) -> None:
    table = states(tmp_path, ("+I", 1, 5), sequence__field="v")

    assert audit(table) == []
    assert oracle.read(table.path, incremental="before,after") == [[1, 5]]


def test_columns_that_an_update_does_not_have_keep_their_values(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("w", pa.int64()))
    options = {"bucket": "1", "merge-engine": "partial-update"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    table.write(pa.Table.from_pylist([{"k": 1, "v": 10, "w": 1}], schema))
    table.compact(full=True)
    table.create_tag("before")
    table.write(pa.Table.from_pylist([{"k": 1, "v": None, "w": 2}], schema))
    table.create_tag("after")

    assert audit(table) == [("+I", 1, 10, 2)]


HIDING = (
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "first-row"},
    {"bucket": "-2"},
)


@pytest.mark.parametrize("options", HIDING, ids=lambda options: next(iter(options)))
def test_snapshots_are_compared_where_new_rows_are_seen_after_a_compaction_only(
    tmp_path: Path, oracle: JavaPaimon, options: dict[str, str]
) -> None:
    catalog = Catalog(str(tmp_path))
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **options})
    numbers = [0]
    for rows in ([{"k": 1, "v": 1}, {"k": 2, "v": 2}], [{"k": 1, "v": 10}, {"k": 3, "v": 3}]):
        table.write(pa.Table.from_pylist(rows, SCHEMA))
        table.compact(full=True)
        numbers.append(table.latest_snapshot_id() or 0)
    third = {"k": 3, "v": 3}
    changed = [third] if "merge-engine" in options else [{"k": 1, "v": 10}, third]

    start, middle, end = numbers
    assert table.to_arrow(incremental=(middle, end)).sort_by("k").to_pylist() == changed
    assert (
        table.to_arrow(incremental=(start, end)).sort_by("k").to_pylist() == table.to_arrow().sort_by("k").to_pylist()
    )
    assert table.to_arrow(incremental=(end, end)).num_rows == 0
    if "bucket" not in options:
        assert oracle.read(table.path, incremental=f"{middle},{end}") == []


def test_a_state_that_has_expired_cannot_be_compared(table: Table) -> None:
    put(table, ("+I", 1, 11))
    put(table, ("+I", 1, 12))
    table.delete_tag("before")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    latest = table.latest_snapshot_id() or 0

    with pytest.raises(NotFoundError, match=str(latest - 1)):
        table.to_arrow(incremental=(latest - 1, latest))


def test_going_back_shows_the_rows_of_older_files_again(tmp_path: Path) -> None:
    table = states(tmp_path, ("+I", 1, 20), ("+I", 2, 2))
    table.rollback_to_as_latest(tag="before")
    table.write(pa.Table.from_pylist([{"k": 3, "v": 3}], SCHEMA))
    table.create_tag("later")

    log = Catalog(str(tmp_path)).table("db.t$audit_log")
    found = log.to_arrow(incremental=("after", "later"))
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == [("+I", 1, 10), ("+I", 3, 3), ("-D", 2, 2)]


def test_a_delete_of_a_row_that_never_was_is_no_difference(tmp_path: Path) -> None:
    assert audit(states(tmp_path, ("-D", 7, 0), ("+I", 8, 8))) == [("+I", 8, 8)]


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_jobs_that_wrote_at_once_differ_in_what_is_read(tmp_path: Path, order: tuple[int, ...], buckets: int) -> None:
    table = states(tmp_path, ("+I", 1, 11), ("+I", 2, 2))
    if buckets > 1:
        table.alter([SetOption("bucket", str(buckets))])
        table = Catalog(str(tmp_path)).table("db.t")
        table.rescale()
    keys = ((1, 4, 5, 6), (0, 1, 2, 3, 8, 9), (1, 2, 4, 7))
    at_once = [[{"k": k, "v": 100 * number + k} for k in some] for number, some in enumerate(keys)]
    prepared = [table.prepare_write(pa.Table.from_pylist(rows, SCHEMA)) for rows in at_once]
    for number in order:
        table.commit(prepared[number], commit_user=f"job {number}")
        table.create_tag(f"job {number}")
    names = ["before", "after", *(f"job {number}" for number in order)]

    for old, new in combinations(names, 2):
        assert added(tmp_path, old, new) == sorted(table.to_arrow(tag=new).to_pylist(), key=str), (old, new)


def added(tmp_path: Path, old: str, new: str) -> list[dict[str, Any]]:
    """The rows of the old state with what differs."""
    table, log = (Catalog(str(tmp_path)).table(f"db.t{system}") for system in ("", "$audit_log"))
    found = {row["k"]: row for row in table.to_arrow(tag=old).to_pylist()}
    changes = log.to_arrow(incremental=(old, new)).to_pylist()
    for row in sorted(changes, key=lambda row: row["rowkind"] != "-D"):
        if row.pop("rowkind") == "-D":
            del found[row["k"]]
        else:
            found[row["k"]] = row
    return sorted(found.values(), key=str)
