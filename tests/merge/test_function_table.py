"""The table of aggregate functions in the documentation says what the engine does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_engine
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.function_table import KINDS_OF_TYPES, function_table
from paimon_engine.merge.functions import merge_function, sequence_order
from paimon_engine.merge.window import sort_window
from paimon_engine.meta.schema import TableSchema, new_schema
from paimon_engine.types import DataField, DataType, RowType, parse_type, to_arrow

HEAD, _, *ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in function_table().splitlines()]
FUNCTIONS = [row[0].strip("`") for row in ROWS]


def aggregating(function: str, kind: DataType) -> TableSchema:
    fields = RowType((DataField(0, "k", parse_type("INT NOT NULL")), DataField(1, "v", kind)))
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": function}
    if function == "nested_partial_update":
        options["fields.v.nested-key"] = "id"
    return new_schema(fields, primary_keys=["k"], partition_keys=[], options=options, comment=None, time_ms=0)


def takes(function: str, kind: DataType) -> bool:
    try:
        merge_function(aggregating(function, kind))
    except InvalidArgumentError:
        return False
    return True


def takes_back(schema: TableSchema) -> bool:
    kind = to_arrow(schema.row_type.field("v").type)
    rows = pa.record_batch(
        {
            "_SEQUENCE_NUMBER": pa.array([0, 1], pa.int64()),
            "_VALUE_KIND": pa.array([0, 1], pa.int8()),
            "k": pa.array([1, 1], pa.int32()),
            "v": pa.nulls(2, kind),
        }
    )
    try:
        merge_function(schema)(sort_window(rows, np.zeros(2, dtype=np.int64), sequence_order(schema.table_options)))
    except InvalidArgumentError:
        return False
    return True


def test_the_documentation_has_the_table() -> None:
    text = (Path(paimon_engine.__file__).parent / "ARCHITECTURE.md").read_text(encoding="utf-8")

    assert function_table() in text, "put in what `python -m paimon_engine.merge.function_table` prints"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_takes_the_types_that_the_table_says_and_no_other(function: str) -> None:
    row = dict(zip(HEAD, ROWS[FUNCTIONS.index(function)], strict=True))

    found = {heading: {takes(function, kind) for kind in kinds} for heading, kinds in KINDS_OF_TYPES.items()}

    assert found == {heading: {row[heading] == "✓"} for heading in KINDS_OF_TYPES}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_takes_back_what_the_table_says(function: str) -> None:
    row = dict(zip(HEAD, ROWS[FUNCTIONS.index(function)], strict=True))
    kind = next(kinds[0] for heading, kinds in KINDS_OF_TYPES.items() if row[heading] == "✓")

    assert takes_back(aggregating(function, kind)) == (row["retracts"] == "✓")
