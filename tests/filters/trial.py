"""One trial: a random file or table, read by random filters, beside all of its rows in plain Python."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine import InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.format import parquet_bounds, parquet_choice, parquet_pages
from paimon_engine.format.layout import BatchLimit
from paimon_engine.format.parquet import read_matching
from paimon_engine.format.parquet_pages import GroupPages
from paimon_engine.meta.casts import is_alterable, kind_of
from paimon_engine.meta.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnType,
)
from paimon_engine.predicate import Predicate, all_match, columns_of, to_arrow_expression
from paimon_engine.types import parse_type
from tests.filters.random_files import ROWS_MAX, file_of, random_layout, random_rows
from tests.filters.random_filters import Values, matching, random_filter
from tests.support.canonical import assert_same_rows, rows_of, text_of
from tests.support.corpus import case, readable
from tests.support.random_tables import build, value

FILTERS = 8
"""Filters over each file or table."""


@contextmanager
def pages_chosen(random: Random, counts: Counter[str]) -> Iterator[None]:
    """Pages are chosen although files are small; how often that is done is counted."""
    part_of = GroupPages.part_of

    def counting(*arguments: Any) -> Any:
        part = part_of(*arguments)
        counts["parts of row groups" if part is not None else "row groups that are read as a whole"] += 1
        return part

    share_max = random.choice([0.5, 1.0, 1.0])
    with (
        mock.patch.object(parquet_choice, "_CHOSEN_ROWS_MIN", 1),
        mock.patch.object(parquet_choice, "_CHOSEN_BYTES_SHARE_MAX", random.choice([0.3, 1.0, 1.0])),
        mock.patch.object(parquet_pages, "_SHARE_MAX", share_max),
        mock.patch.object(parquet_pages, "_SHARE_OF_ONE_RUN_MAX", share_max),
        # Pages may also be chosen where statistics show that all rows match.
        mock.patch.object(parquet_bounds, "all_match", random.choice([all_match, lambda *_: False])),
        mock.patch.object(GroupPages, "part_of", counting),
    ):
        yield


def try_file(seed: int, counts: Counter[str]) -> None:
    """A Parquet file: all rows that match come at their positions, as they are.

    Raises: AssertionError naming the filter.
    """
    random = Random(f"file {seed}")
    stored = random_rows(random, random.choice([1, 10, 300, ROWS_MAX]))
    layout = random_layout(random, stored)
    data = file_of(stored, layout, random)
    # Types are those of the file: some versions have no nanoseconds.
    everything = pq.read_table(io.BytesIO(data))
    columns = {name: Values.of(everything[name]) for name in everything.column_names}
    expected = rows_of(everything)
    for _ in range(FILTERS):
        where = random_filter(random, columns)
        names = [name for name in columns if random.random() < 0.8 or name in columns_of(where)]
        what = f"{layout} where {where}"
        matches = matching(where, columns, everything.num_rows)
        assert _positions(everything, where) == matches, f"the rows alone: {what}"
        schema = pa.schema([everything.schema.field(name) for name in names])
        at = [everything.schema.get_field_index(name) for name in names]
        limit = BatchLimit(random.choice([1, 37, 40_000]))
        with pages_chosen(random, counts):
            found = list(
                read_matching(
                    io.BytesIO(data), schema, where, path="f.parquet", without_nan=_without_nan(everything), limit=limit
                )
            )
        positions: list[int] = []
        for first, rows in found:
            positions += range(first, first + rows.num_rows)
            wanted = [[row[index] for index in at] for row in expected[first : first + rows.num_rows]]
            assert rows_of(rows.select(names)) == wanted, f"rows from {first} on: {what}"
        assert positions == sorted({*positions}), f"positions: {what}"
        lost = {*matches} - {*positions}
        assert not lost, f"rows {sorted(lost)[:20]} are lost: {what}"
        counts["filters of files"] += 1
        counts["rows that match"] += len(matches)


def _positions(rows: pa.Table, where: Predicate) -> list[int]:
    """Of the rows that match, by the engine's filter of rows."""
    numbered = rows.append_column("#", pa.array(range(rows.num_rows)))
    return list(numbered.filter(to_arrow_expression(where, rows.schema))["#"].to_pylist())


def _without_nan(rows: pa.Table) -> list[str]:
    return [
        field.name
        for field in rows.schema
        if pa.types.is_floating(field.type) and not pc.any(pc.is_nan(rows[field.name])).as_py()
    ]


def try_table(seed: int, warehouse: Path, counts: Counter[str]) -> None:
    """A table after a random history, in which rows are then deleted by conditions, or columns change.

    Raises: AssertionError naming the filter.
    """
    random = Random(f"table {seed}")
    wanted, table, _ = build(warehouse, seed)
    if not wanted.primary_keys and random.random() < 0.6:
        table = _with_deletions(random, table)
    for _ in range(random.randrange(3)):
        table = _changed(random, table)
        if random.random() < 0.5 and not wanted.is_postponed:
            table.write(_rows_like(random, table))
            if wanted.needs_compaction:
                table.compact(full=True)
    check_reads(random, table, f"seed {seed}, {wanted.options}", counts)


def check_reads(random: Random, table: Table, what: str, counts: Counter[str]) -> None:
    """Random filters give the rows of a read without a filter that match.

    Raises: AssertionError.
    """
    everything = table.to_arrow()
    columns = {name: Values.of(everything[name]) for name in everything.column_names}
    expected = rows_of(everything)
    for _ in range(FILTERS):
        where = random_filter(random, columns)
        matches = [expected[row] for row in matching(where, columns, everything.num_rows)]
        with pages_chosen(random, counts):
            found = table.to_arrow(where=where)
        assert_same_rows(rows_of(found), matches, f"{what} where {where}")
        names = random.sample(list(columns), random.randint(1, len(columns)))
        with pages_chosen(random, counts):
            some = table.to_arrow(where=where, columns=names)
        at = [everything.schema.get_field_index(name) for name in names]
        narrow = [[row[index] for index in at] for row in matches]
        assert sorted(map(text_of, rows_of(some))) == sorted(map(text_of, narrow)), f"{what}, {names} where {where}"
        counts["filters of tables"] += 1
        counts["rows that match"] += len(matches)


def _with_deletions(random: Random, table: Table) -> Table:
    """Deletes some rows by conditions, which deletion vectors mark."""
    for key in ("deletion-vectors.modifiable", "deletion-vectors.enabled"):
        table.alter([SetOption(key, "true")])
    table = open_table(table.path)
    for _ in range(2):
        everything = table.to_arrow()
        columns = {name: Values.of(everything[name]) for name in everything.column_names}
        where = random_filter(random, columns)
        gone = {*matching(where, columns, everything.num_rows)}
        table.delete(where)
        kept = [row for number, row in enumerate(rows_of(everything)) if number not in gone]
        assert_same_rows(rows_of(table.to_arrow()), kept, f"after the rows were deleted where {where}")
    return table


TYPES: Final = ["TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 9)", "STRING", "DATE"]
TYPES += ["BYTES", "BOOLEAN", "TIMESTAMP(3)", "TIMESTAMP(6)"]


def _changed(random: Random, table: Table) -> Table:
    """One change of the columns that are no keys: another type, name, position; a new one, or one that is dropped."""
    schema = table.schema
    free = [field for field in schema.row_type if field.name not in {*schema.primary_keys, *schema.partition_keys}]
    free = [field for field in free if field.name not in schema.options.get("bucket-key", "").split(",")]
    change: SchemaChange = AddColumn(f"n{schema.id}", random.choice(TYPES))
    if free:
        one = random.choice(free)
        # Most texts are no values of another type, and then there is nothing to read.
        types = [] if kind_of(one.type) in ("text", "bytes") else TYPES
        targets = [name for name in types if is_alterable(one.type, parse_type(name)) and one.type != parse_type(name)]
        options: list[SchemaChange] = [
            change,
            RenameColumn(one.name, f"r{schema.id}"),
            MoveColumn(one.name, first=True),
        ]
        options += [UpdateColumnType(one.name, random.choice(targets))] * 3 if targets else []
        options += [DropColumn(one.name)] if len(free) > 1 else []
        change = random.choice(options)
    # An index that the new type or the missing column could not have is refused.
    with suppress(InvalidArgumentError, UnsupportedError):
        table.alter([change])
    return open_table(table.path)


def _rows_like(random: Random, table: Table) -> pa.Table:
    """Rows that the table may have."""
    columns = [
        pa.array([value(random, field.type, null_share=0.2 if field.nullable else 0) for _ in range(40)], field.type)
        for field in table.arrow_schema
    ]
    return pa.table(columns, schema=table.arrow_schema)


def try_case(seed: int, name: str, counts: Counter[str]) -> None:
    """A table that Java wrote; nothing where the engine cannot read it.

    Raises: AssertionError naming the filter.
    """
    written = case(name)
    if readable(written):
        check_reads(Random(f"{name} {seed}"), open_table(str(written.table)), f"{name}, seed {seed}", counts)
