"""Tables that Java wrote: every read of the corpus gives the rows that Java reads, through the facade."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import open_table
from paimon_engine.env import EnvConfig
from paimon_engine.predicate import And, Compare, In, IsNull, Or, Predicate
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.read.reader import RowSelection, read_schema, read_split
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import assert_same_rows
from tests.support.corpus import Case, Read, corpus_reads, readable

READS = [param for param in corpus_reads() if param.marks or readable(param.values[0])]


@pytest.mark.parametrize(("case", "read"), READS)
def test_tables_of_java_read_as_in_java(case: Case, read: Read):
    rows = rows_at(case, dict(read.at))

    assert_same_rows(rows, read.rows, unordered=case.unordered)


def rows_at(case: Case, at: dict[str, Any]) -> pa.Table:
    """The rows of a read, as the corpus describes it."""
    if "filter" in at:
        return filtered(case, predicate_of(at["filter"]))
    if at.pop("with_bucket", False):
        return with_buckets(case)
    table = open_table(f"{case.table}${at.pop('system')}" if "system" in at else str(case.table))
    if "projection" in at:
        at["columns"] = at.pop("projection")
    if "incremental" in at:
        start, end = at["incremental"].split(",")
        at["incremental"] = (int(start), int(end)) if start.isdigit() else (start, end)
    if at.pop("kinds", False):
        at["with_row_kinds"] = True
    return table.to_arrow(**at)


def predicate_of(value: list[Any]) -> Predicate:
    match value:
        case ["and", *parts]:
            return And(tuple(predicate_of(part) for part in parts))
        case ["or", *parts]:
            return Or(tuple(predicate_of(part) for part in parts))
        case ["in", column, values]:
            return In(column, tuple(values))
        case ["isnull" | "notnull" as operator, column]:
            return IsNull(column, negated=operator == "notnull")
        case [operator, column, literal]:
            return Compare(operator, column, literal)
    raise AssertionError(value)


def filtered(case: Case, where: Predicate) -> pa.Table:
    table = load_table(str(case.table), EnvConfig(str(case.table)))
    schema, batches = open_read(table, ReadRequest(where=where))
    return pa.Table.from_batches(batches, schema)


def with_buckets(case: Case) -> pa.Table:
    """The table's rows, each with its bucket in front."""
    table = load_table(str(case.table), EnvConfig(str(case.table)))
    parts = []
    for split in plan_splits(table, latest_snapshot(table)):
        rows = pa.Table.from_batches(read_split(table, split, RowSelection()), read_schema(table, None))
        parts.append(rows.add_column(0, "bucket", pa.array([split.bucket] * rows.num_rows, pa.int32())))
    return pa.concat_tables(parts)
