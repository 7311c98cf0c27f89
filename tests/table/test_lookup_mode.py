"""The lookup changelog switched on and off: where versions add up, no record may count twice or get lost by it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, RemoveOption, SetOption, Table, UnsupportedError, open_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

KEY = "changelog-producer"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])
SUM = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}


def table_in_levels(warehouse: Path, producer: str, **options: str) -> Table:
    """1000 rows at the highest level, and newer versions of two of them in a level between."""
    upward = {"compaction.force-up-level-0": "true", "num-sorted-run.compaction-trigger": "4"}
    given = {"bucket": "1", KEY: producer, **upward, **options}
    table = Catalog(str(warehouse)).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=given)
    table.write(pa.table({"k": range(1000), "a": [10] * 1000}, SCHEMA))
    table.compact(full=True)
    table.write(pa.table({"k": [1, 2], "a": [3, 3]}, SCHEMA))
    table.compact()
    return open_table(table.path)


def of_key(table: Table, key: int) -> list[int | None]:
    found: list[int | None] = table.to_arrow(where=f"k = {key}")["a"].to_pylist()
    return found


@pytest.mark.parametrize(("before", "after"), [("lookup", "none"), ("lookup", "input"), ("none", "lookup")])
def test_sums_stay_because_the_switch_waits_for_a_full_compaction(
    tmp_path: Path, oracle: JavaPaimon, before: str, after: str
):
    table = table_in_levels(tmp_path, before, **SUM)
    assert of_key(table, 1) == [13]

    with pytest.raises(InvalidArgumentError, match=f"'{KEY}' cannot become '{after}' now.*2 levels above.*Compact the"):
        table.alter([SetOption(KEY, after)])

    table.compact(full=True)
    # Level 0 may wait: it is merged with what is above it in both modes.
    table.write(pa.table({"k": [1], "a": [1]}, SCHEMA))
    table.alter([SetOption(KEY, after)])
    table = open_table(table.path)
    assert of_key(table, 1) == [14]
    table.compact()
    assert of_key(table, 1) == [14]
    assert_same_rows(oracle.read(table.path), rows_of(table.to_arrow()))


@pytest.mark.parametrize(
    "options",
    [{}, {"sequence.field": "a"}, {"merge-engine": "first-row"}, {"merge-engine": "partial-update"}],
    ids=str,
)
def test_where_merging_again_changes_nothing_the_changelog_is_switched_at_any_time(
    tmp_path: Path, oracle: JavaPaimon, options: dict[str, str]
):
    table = table_in_levels(tmp_path, "lookup", **options)
    before = rows_of(table.to_arrow())

    table.alter([RemoveOption(KEY)])

    assert_same_rows(before, rows_of(open_table(table.path).to_arrow()))
    assert_same_rows(before, oracle.read(table.path))


def test_what_was_before_the_switch_is_read_as_it_was(tmp_path: Path):
    table = table_in_levels(tmp_path, "lookup", **SUM)
    past = table.snapshots()["snapshot_id"].to_pylist()[-1]
    table.compact(full=True)
    table.alter([SetOption(KEY, "none")])
    table = open_table(table.path)

    with pytest.raises(
        UnsupportedError, match=f"snapshot {past} was made with '{KEY}' = 'lookup'.*Open the table with"
    ):
        table.to_arrow(snapshot=past)

    assert of_key(table, 1) == [13]
    then = open_table(table.path, options={KEY: "lookup"})
    assert then.to_arrow(snapshot=past, where="k = 1")["a"].to_pylist() == [13]
    # What a commit has changed is no matter of levels.
    assert table.to_arrow(incremental=(past - 2, past)).num_rows == 2


def test_a_table_that_others_switched_is_neither_read_nor_compacted_until_it_is_switched_back(
    tmp_path: Path, oracle: JavaPaimon
):
    table = table_in_levels(tmp_path, "lookup", **SUM)
    oracle.call("alter", table=table.path, changes=[{"change": "set_option", "name": KEY, "value": "none"}])
    assert [1, 23] in oracle.read(table.path), "Java counts ten twice"

    again = open_table(table.path)

    for use in (again.to_arrow, again.compact, lambda: again.compact(full=True)):
        with pytest.raises(UnsupportedError, match="2 levels above level 0, which would be merged differently"):
            use()
    again.alter([SetOption(KEY, "lookup")])
    assert of_key(open_table(table.path), 1) == [13]
