"""A merge engine with records in and out, and histories cut into runs that are joined in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_engine.arrow_types import from_arrow_field
from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.functions import merge_function, sequence_order
from paimon_engine.merge.keys import normalise_keys
from paimon_engine.merge.window import sort_window
from paimon_engine.meta.schema import TableSchema, new_schema
from paimon_engine.types import RowType
from tests.merge.engine_model import Record, Row

KINDS = ["+I", "-U", "+U", "-D"]
ITEM = pa.struct([("id", pa.int32()), ("name", pa.string())])


def schema_of(columns: Mapping[str, pa.DataType], options: Mapping[str, str]) -> TableSchema:
    fields = RowType(
        tuple(from_arrow_field(pa.field(name, kind)) for name, kind in {"k": pa.int32(), **columns}.items())
    )
    return new_schema(fields, primary_keys=["k"], partition_keys=[], options=options, comment=None, time_ms=0)


def batch_of(
    schema: TableSchema, records: Sequence[Record], first_number: int, types: Mapping[str, pa.DataType]
) -> Any:
    columns: dict[str, pa.Array] = {
        "_SEQUENCE_NUMBER": pa.array(range(first_number, first_number + len(records)), pa.int64()),
        "_VALUE_KIND": pa.array([KINDS.index(record.kind) for record in records], pa.int8()),
    }
    for name in schema.row_type.names:
        kind = pa.int32() if name == "k" else types[name]
        columns[name] = pa.array([record.row[name] for record in records], kind)
    return pa.record_batch(columns)


class Engine:
    """A merge function, with rows in and out as records."""

    def __init__(self, types: Mapping[str, pa.DataType], options: Mapping[str, str]) -> None:
        self.schema = schema_of(types, {"bucket": "1", **options})
        self.types = types
        self.merge = merge_function(self.schema)
        self.order = sequence_order(self.schema.table_options)

    def flush(self, records: Sequence[Record], first_number: int = 0) -> pa.RecordBatch:
        """What a writer makes of the records."""
        rows = batch_of(self.schema, records, first_number, self.types)
        keys = normalise_keys([rows["k"]], [self.schema.key_type.fields[0].type])
        return self.merge(sort_window(rows, keys, self.order))

    def join(self, runs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """What a compaction, or a read, makes of the runs."""
        windows = merge_runs([[run] for run in runs], self.schema.key_type, self.order)
        return pa.concat_batches([self.merge(window) for window in windows])


def records_of(rows: pa.RecordBatch) -> list[Record]:
    return [
        Record(KINDS[row.pop("_VALUE_KIND")], {name: value for name, value in row.items() if name[0] != "_"})
        for row in rows.to_pylist()
    ]


def modelled(history: Sequence[Record], model: Callable[[Sequence[Record]], tuple[str, Row]]) -> list[Record]:
    ordered = sorted(history, key=lambda record: record.row["k"])
    return [Record(*model(list(group))) for _, group in groupby(ordered, key=lambda record: record.row["k"])]


def canonical(records: Sequence[Record], unordered: Sequence[str] = ()) -> list[tuple[str, Row]]:
    def value(name: str, item: Any) -> Any:
        return sorted(item, key=text) if name in unordered and item is not None else item

    def text(element: Any) -> str:
        return repr(sorted(element.items()) if isinstance(element, dict) else element)

    return [(record.kind, {name: value(name, item) for name, item in record.row.items()}) for record in records]


def histories(
    columns: Mapping[str, st.SearchStrategy[Any]], kinds: Sequence[str] = ("+I", "+U"), max_size: int = 24
) -> st.SearchStrategy[list[Record]]:
    row = st.fixed_dictionaries({"k": st.integers(0, 3), **columns})
    return st.lists(st.builds(Record, st.sampled_from(kinds), row), max_size=max_size)


CUTS = st.lists(st.integers(0, 24), max_size=4)


def cut(engine: Engine, history: Sequence[Record], cuts: Sequence[int]) -> list[pa.RecordBatch]:
    """The history as runs, each flushed on its own, oldest first."""
    bounds = sorted({0, len(history), *(position for position in cuts if position < len(history))})
    return [engine.flush(history[low:high], low) for low, high in pairwise(bounds)]


def assert_same_however_cut(
    engine: Engine,
    history: Sequence[Record],
    cuts: Sequence[int],
    expected: Sequence[Record],
    unordered: Sequence[str] = (),
) -> None:
    """The runs joined at once, and joined step by step from either side, give what the model gives."""
    if not history:
        return
    runs = cut(engine, history, cuts)
    at_once = records_of(engine.join(runs))
    assert canonical(at_once, unordered) == canonical(expected, unordered)
    oldest_first = runs[0]
    for run in runs[1:]:
        oldest_first = engine.join([oldest_first, run])
    newest_first = runs[-1]
    for run in runs[-2::-1]:
        newest_first = engine.join([run, newest_first])
    assert canonical(records_of(oldest_first), unordered) == canonical(expected, unordered)
    assert canonical(records_of(newest_first), unordered) == canonical(expected, unordered)


SMALL = st.none() | st.integers(-3, 3)
TEXT = st.none() | st.sampled_from(["", "a", "b"])
FLAG = st.none() | st.booleans()
ITEMS = st.none() | st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 2), "name": TEXT}), max_size=2, unique_by=lambda row: row["id"]
)
PAIRS = st.none() | st.dictionaries(st.sampled_from("abc"), SMALL, max_size=2).map(lambda pairs: sorted(pairs.items()))
TAGS = st.none() | st.lists(st.none() | st.sampled_from("ab"), max_size=2)
