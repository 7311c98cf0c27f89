"""`sequence.snapshot-ordering`: rows of later snapshots win, as in Java Paimon 2.0, in turns of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import CorruptTableError, Table, open_table
from paimon_engine.meta.schema_change import SetOption
from tests.support.canonical import rows_of, text_of
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT NOT NULL"], ["v", "BIGINT"], ["w", "STRING"]]
OPTIONS = {"bucket": "1", "sequence.snapshot-ordering": "true", "write-only": "true"}
KINDS: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence group": {"merge-engine": "partial-update", "fields.v.sequence-group": "w"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "last_value",
    },
    "first-row": {"merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "input": {"changelog-producer": "input"},
    "dynamic buckets, orc": {"bucket": "-1", "file.format": "orc"},
}


def made(java: JavaPaimon, path: Path, options: dict[str, str] | None = None) -> Table:
    java.call(
        "create_table",
        table=str(path),
        fields=FIELDS,
        primary_keys=["k"],
        partition_keys=[],
        options={**OPTIONS, **(options or {})},
    )
    return open_table(str(path))


def arrow(table: Table, rows: list[list[Any]]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=table.arrow_schema)


def assert_alike(java: JavaPaimon, path: Path) -> list[Any]:
    """The rows, and those of a filter, that both read; Java finds no fault with the table."""
    table = open_table(str(path))
    found = sorted(rows_of(table.to_arrow()), key=text_of)
    assert found == sorted(java.read(path), key=text_of)
    few = sorted(rows_of(table.to_arrow(where="k >= 12")), key=text_of)
    assert few == [row for row in found if row[0] >= 12]
    assert java.problems(path) == []
    return found


def rows(step: int) -> list[list[Any]]:
    """Java gives rows of early commits higher numbers: they come many times over."""
    keys = range(step * 4, step * 4 + 14)
    return [[key, 100 * step + key, None if key % 3 == step % 3 else f"w{step}"] for key in keys]


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_both_read_what_both_write_and_compact(options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = made(paimon2, path, options)
    for step in range(5):
        if step % 2:
            table.write(arrow(table, rows(step)))
        else:
            again = 40 if step == 0 and "aggregation" not in options.values() else 1
            paimon2.call("write", table=str(path), rows=rows(step) * again)
        assert_alike(paimon2, path)
        if step == 1:
            table.compact(full=True)
        if step == 2:
            paimon2.call("compact", table=str(path), full=False)
        if step == 3:
            table.compact()
    newest = not {"first-row", "aggregation", "partial-update"} & {*options.values()}
    if newest:
        paimon2.call("write", table=str(path), kinds=True, rows=[["-D", 20, 0, None]])
    table.compact(full=True)
    seen = assert_alike(paimon2, path)
    if newest:
        expected = {row[0]: row[1] for step in range(5) for row in rows(step) if row[0] != 20}
        assert {row[0]: row[1] for row in seen} == expected
    paimon2.call("compact", table=str(path), full=True)
    assert_alike(paimon2, path)
    assert open_table(str(path)).verify("rows").status == "sound"


def test_of_two_writers_the_one_that_commits_last_wins(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = made(paimon2, path)
    # The numbers of the first one's rows are higher by far.
    first = table.prepare_write(arrow(table, [[1, 1, "first"], [2, 2, "first"]]), order=7)
    last = table.prepare_write(arrow(table, [[1, 10, "last"]]))
    table.commit(first, commit_user="first")
    table.commit(last, commit_user="last")

    expected = [[1, 10, "last"], [2, 2, "first"]]
    assert assert_alike(paimon2, path) == expected
    table.compact(full=True)
    assert assert_alike(paimon2, path) == expected
    numbers = {row["min_sequence_number"] for row in open_table(f"{path}$files").to_arrow().to_pylist()}
    assert numbers == {1}, "the numbers of the snapshots are kept with the rows"
    # A compaction keeps the order among what it has not seen.
    paimon2.call("write", table=str(path), rows=[[2, 20, "java"]])
    assert assert_alike(paimon2, path) == [[1, 10, "last"], [2, 20, "java"]]


def test_an_overwrite_and_other_buckets_keep_the_order(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = made(paimon2, path)
    for step in range(3):
        paimon2.call("write", table=str(path), rows=rows(step))
    seen = assert_alike(paimon2, path)
    table.alter([SetOption("bucket", "4")])
    open_table(str(path)).rescale()
    assert assert_alike(paimon2, path) == seen
    open_table(str(path)).write(arrow(table, [[3, 3, "new"]]))
    assert [row for row in assert_alike(paimon2, path) if row[0] == 3] == [[3, 3, "new"]]
    open_table(str(path)).write(arrow(table, [[1, 1, "only"]]), overwrite={})
    assert assert_alike(paimon2, path) == [[1, 1, "only"]]
    paimon2.call("write", table=str(path), rows=[[1, 2, "later"]])
    assert assert_alike(paimon2, path) == [[1, 2, "later"]]


def test_what_java_reads_of_the_changes_is_what_was_written(paimon2: JavaPaimon, tmp_path: Path):
    path = tmp_path / "t"
    table = made(paimon2, path, {"changelog-producer": "input"})
    for step in range(4):
        if step % 2:
            table.write(arrow(table, rows(step)))
        else:
            paimon2.call("write", table=str(path), rows=rows(step))
    found = paimon2.call("changelog", table=str(path))["changes"]
    ours = [rows_of(table.to_arrow(incremental=(number, number + 1))) for number in range(1, 4)]

    def texts(changes: list[Any]) -> list[str]:
        return sorted(map(text_of, changes))

    assert [texts([row[1:] for row in one["rows"]]) for one in found][1:] == [texts(one) for one in ours]
    assert texts(ours[-1]) == texts(rows(3))


def test_rows_of_an_engine_that_does_not_know_the_option_are_found(
    oracle: JavaPaimon, paimon2: JavaPaimon, tmp_path: Path
):
    path = tmp_path / "t"
    table = made(paimon2, path)
    oracle.call("write", table=str(path), rows=rows(0))

    with pytest.raises(CorruptTableError, match=r"does not say whether it has new rows|not that of its snapshot"):
        open_table(str(path)).to_arrow()
    with pytest.raises(CorruptTableError, match="copy the rows to a new table"):
        table.compact(full=True)
    report = open_table(str(path)).verify()
    assert report.status != "sound"
    assert any("sequence.snapshot-ordering" in str(one) for one in report.problems)
