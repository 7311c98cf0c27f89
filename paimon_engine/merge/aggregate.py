"""aggregation: each column folds all versions of a key with its own function.

1. Every version is added, oldest first, or subtracted if it is a retract; a function that cannot do that raises an
error.
2. Columns of the primary key have their value, columns without a function their last one that is not null. So have
   columns of `sequence.field`, as in 0.9, unless the default function is `last_value`; releases from 1.0 on take the
   newest one, null or not. No other default function reaches them: 0.9 adds them up with `sum`, for example, but its
   documentation says that the record with the largest sequence field merges last, which is then no longer true.
3. The result is an insert with the sequence number of the newest version.
4. With `aggregation.remove-record-on-delete` a −D ends the row: only versions after it count, and where there are none
   it is not changed. Releases 1.4 to 2.0 add up later versions on top of the deleted values, which no other cut of
   the same history gives; here they begin again, as in 1.1 to 1.3.

`aggregates` serves `partial-update` as well, where functions work inside sequence groups.

Example ('merge-engine' = 'aggregation', 'sequence.field' = 's,t', 'fields.n.aggregate-function' = 'sum',
'fields.v.aggregate-function' = 'last_value'):

    write   k=1 s=2 t=7    n=10 v='a' w='p'
    write   k=1 s=1 t=9    n=5  v='b' w='q'    (1 is less than 2: merged before the first)
    write   k=1 s=3 t=null n=1  v='c' w=null   (newest: `t` and `w` keep what is not null)
    row     k=1 s=3 t=7    n=16 v='c' w='p'

Follows `merge-engine` = `aggregation` in the Paimon documentation (primary-key-table/merge-engine/aggregation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.arithmetic import product_of, sum_of
from paimon_engine.merge.choose import (
    first_non_null_value,
    first_value,
    largest,
    last_non_null_value,
    last_value,
    smallest,
)
from paimon_engine.merge.lists import Collect, MergeMap, PlainNestedUpdate, listagg
from paimon_engine.merge.nested import MapWithKeyTime, NestedKey, NestedPartialUpdate, NestedUpdate
from paimon_engine.merge.sketches import hll_sketch, rbm32, rbm64, theta_sketch
from paimon_engine.merge.versions import DELETE, INSERT, Kinds, Merged, Versions, merge_versions, put_back
from paimon_engine.merge.window import Window
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options import TableOptions
from paimon_engine.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    is_numeric,
)

_Fold = Callable[[Versions, str], Merged]
_Make = Callable[[DataField, TableOptions], _Fold]


@dataclass(frozen=True, slots=True)
class Function:
    """An aggregate function: its factory for a column, the types it supports, and whether it can retract."""

    make: _Make
    takes: Callable[[DataType], bool]
    types: str
    retracts: bool


def _plain(fold: _Fold) -> _Make:
    return lambda _field, _options: fold


def _is_string(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.VARCHAR


def _is_countable(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in (TypeRoot.INT, TypeRoot.BIGINT)


def _is_comparable(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is not TypeRoot.BOOLEAN


def _is_boolean(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.BOOLEAN


def _is_bytes(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.VARBINARY


def _is_rows(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType) and isinstance(data_type.element, RowType)


def _is_map_of_rows(data_type: DataType) -> bool:
    return isinstance(data_type, MapType) and isinstance(data_type.value, RowType)


def _any(_: DataType) -> bool:
    return True


def _rows_of(field: DataField, names: Iterable[str], option: str) -> RowType:
    """The type of the rows in a column; checks that they have fields of these names."""
    rows = field.type.element if isinstance(field.type, ArrayType) else field.type
    rows = rows.value if isinstance(rows, MapType) else rows
    assert isinstance(rows, RowType)
    missing = [name for name in names if name not in rows.names]
    if missing:
        raise InvalidArgumentError(
            f"'fields.{field.name}.{option}': the rows in column {field.name!r} have no field {missing[0]!r}; "
            f"they have {', '.join(rows.names)}"
        )
    return rows


def _nested_key(field: DataField, options: TableOptions) -> NestedKey:
    key = options.nested_key(field.name)
    _rows_of(field, key, "nested-key")
    return NestedKey(key, options.nested_key_null_strategy(field.name) or "merge")


def _nested_update(field: DataField, options: TableOptions) -> _Fold:
    """The function `nested_update` of a column, with a simpler form where no option beyond the key is used.

    Raises: InvalidArgumentError for options that need a key, or name a field that is missing or cannot be compared.
    """
    key, limit = _nested_key(field, options), options.count_limit(field.name)
    sequence, nulls = options.nested_sequence_fields(field.name), options.nested_key_null_strategy(field.name)
    rows = _rows_of(field, sequence, "nested-sequence-field")
    for option, given in (("nested-sequence-field", bool(sequence)), ("nested-key-null-strategy", nulls is not None)):
        if given and not key.fields:
            raise InvalidArgumentError(
                f"'fields.{field.name}.{option}' needs a nested key; set 'fields.{field.name}.nested-key' too"
            )
    wrong = [name for name in sequence if not isinstance(rows.field(name).type, AtomicType)]
    if wrong:
        raise InvalidArgumentError(
            f"'fields.{field.name}.nested-sequence-field': field {wrong[0]!r} has parts, and so cannot order rows"
        )
    if limit is None and nulls is None and not sequence:
        return PlainNestedUpdate(key.fields)
    return NestedUpdate(key, limit=limit, sequence=sequence)


def _nested_partial_update(field: DataField, options: TableOptions) -> _Fold:
    key = _nested_key(field, options)
    if not key.fields:
        raise InvalidArgumentError(
            f"'nested_partial_update' of column {field.name!r} needs keys that identify equal rows; "
            f"set 'fields.{field.name}.nested-key'"
        )
    return NestedPartialUpdate(key)


def _merge_map_with_keytime(field: DataField, options: TableOptions) -> _Fold:
    """The function `merge_map_with_keytime` of a column; times are in the field that the option names, or the last one.

    Raises: InvalidArgumentError if the map's rows have no such field, or one that is not a text.
    """
    named = options.merge_map_time_field(field.name)
    rows = _rows_of(field, () if named is None else (named,), "ts-field")
    if len(rows.fields) < 2:
        raise InvalidArgumentError(
            f"'merge_map_with_keytime': the rows in column {field.name!r} need two fields at least, one for the time"
        )
    time = rows.names[-1] if named is None else named
    kind = rows.field(time).type
    if not isinstance(kind, AtomicType) or kind.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        raise InvalidArgumentError(
            f"'merge_map_with_keytime': field {time!r} of the rows in column {field.name!r} must be their time, and "
            f"must be a text; name another one by 'fields.{field.name}.ts-field'"
        )
    return MapWithKeyTime(time)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "sum": Function(_plain(sum_of), is_numeric, "numbers", True),
    "count": Function(_plain(sum_of), _is_countable, "INT or BIGINT", True),
    "product": Function(_plain(product_of), is_numeric, "numbers", True),
    "max": Function(_plain(largest), _is_comparable, "numbers, texts, bytes or points in time", False),
    "min": Function(_plain(smallest), _is_comparable, "numbers, texts, bytes or points in time", False),
    "last_value": Function(_plain(last_value), _any, "anything", True),
    "last_non_null_value": Function(_plain(last_non_null_value), _any, "anything", True),
    "first_value": Function(_plain(first_value), _any, "anything", False),
    "first_non_null_value": Function(_plain(first_non_null_value), _any, "anything", False),
    "first_not_null_value": Function(_plain(first_non_null_value), _any, "anything", False),
    "bool_and": Function(_plain(smallest), _is_boolean, "BOOLEAN", False),
    "bool_or": Function(_plain(largest), _is_boolean, "BOOLEAN", False),
    "listagg": Function(
        lambda field, options: listagg(options.list_agg_delimiter(field.name), distinct=options.distinct(field.name)),
        _is_string,
        "STRING or VARCHAR",
        False,
    ),
    "collect": Function(
        # Java's wrapper that ignores retracts forgets that the function puts what comes from below behind.
        lambda field, options: Collect(
            distinct=options.distinct(field.name), reorders=options.ignore_retract(field.name)
        ),
        lambda kind: isinstance(kind, ArrayType),
        "ARRAY",
        True,
    ),
    "merge_map": Function(_plain(MergeMap()), lambda kind: isinstance(kind, MapType), "MAP", True),
    "merge_map_with_keytime": Function(_merge_map_with_keytime, _is_map_of_rows, "MAP to ROW", False),
    "nested_update": Function(_nested_update, _is_rows, "ARRAY of ROW", True),
    "nested_partial_update": Function(_nested_partial_update, _is_rows, "ARRAY of ROW", False),
    **{
        fold.__name__: Function(_plain(fold), _is_bytes, "BYTES or VARBINARY", False)
        for fold in (rbm32, rbm64, hll_sketch, theta_sketch)
    },
}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The aggregate function of one column."""

    column: str
    name: str
    fold: _Fold
    ignores_retracts: bool

    def __call__(self, versions: Versions) -> Merged:
        """What the versions' steps make of the column, per key.

        Raises: InvalidArgumentError if a retract cannot be taken back.
        """
        retracts = versions.retracts
        if retracts.any():
            if self.ignores_retracts:
                versions = versions.only(~retracts)
            elif not FUNCTIONS[self.name].retracts:
                raise InvalidArgumentError(
                    f"aggregate function '{self.name}' of column {self.column!r} cannot retract a -U or -D; "
                    f"set 'fields.{self.column}.ignore-retract' = 'true' to leave the value as it is"
                )
        return self.fold(versions, self.column)


class Aggregation:
    """The merge function of a table with `merge-engine` = `aggregation`."""

    def __init__(self, schema: TableSchema, *, lone: bool = False) -> None:
        """With `lone`, keys with a single version are merged too.

        Raises: InvalidArgumentError naming the option that does not fit.
        """
        self._lone = lone
        options = schema.table_options
        self._keys = frozenset(schema.primary_keys)
        self._required = frozenset(field.name for field in schema.row_type if not field.type.nullable)
        ordering = options.sequence_fields
        wrong = [name for name in ordering if name in options.aggregate_functions]
        if wrong:
            raise InvalidArgumentError(
                f"column {wrong[0]!r} orders versions ('sequence.field'), so it takes no "
                f"'fields.{wrong[0]}.aggregate-function'"
            )
        values = [field for field in schema.row_type if field.name not in self._keys]
        self._removes = options.aggregation_remove_record_on_delete
        kept = [field.name for field in values if options.ignore_retract(field.name)]
        if self._removes and kept:
            raise InvalidArgumentError(
                f"'aggregation.remove-record-on-delete' does not go together with 'fields.{kept[0]}.ignore-retract', "
                "which Java refuses when it reads the table; leave one of them out"
            )
        chosen = aggregates(schema, [field.name for field in values if field.name not in ordering])
        others = {field.name: _without_function(field, options, orders=field.name in ordering) for field in values}
        self._aggregates = {**others, **chosen}

    def __call__(self, window: Window) -> pa.RecordBatch:
        """One row per key: rows[n] → rows[k], in key order.

        Raises: InvalidArgumentError for a retract, if a function cannot retract.
        """
        return merge_versions(window, self._merge, self._required, lone=self._lone)

    def _merge(self, versions: Versions) -> tuple[Mapping[str, Merged], Kinds]:
        kinds = np.full(len(versions.starts), INSERT, dtype=np.int8)
        names = [name for name in versions.rows.schema.names if name in self._aggregates]
        if not (self._removes and versions.retracts.any()):
            return {name: self._aggregates[name](versions) for name in names}, kinds
        delete = versions.last(versions.kinds == DELETE)
        alive = versions.since(np.maximum(delete + 1, versions.starts))
        merged = {name: self._aggregates[name](alive) for name in names}
        gone = delete == versions.ends - 1
        if gone.any():
            kinds[gone] = DELETE
            newest = versions.at(versions.ends - 1)
            merged = {name: put_back(versions, column, name, gone, newest) for name, column in merged.items()}
        return merged, kinds


def _without_function(field: DataField, options: TableOptions, *, orders: bool) -> Aggregate:
    takes_nulls = orders and options.default_aggregate_function == "last_value"
    name, fold = ("last_value", last_value) if takes_nulls else ("last_non_null_value", last_non_null_value)
    return Aggregate(field.name, name, fold, options.ignore_retract(field.name))


def aggregates(schema: TableSchema, columns: Iterable[str]) -> dict[str, Aggregate]:
    """The aggregate functions of those of the columns that have one, by themselves or by default.

    Raises: InvalidArgumentError naming an option whose function or column does not exist, or do not go together.
    """
    options = schema.table_options
    for column in options.aggregate_functions:
        check_columns(schema, (column,), f"'fields.{column}.aggregate-function'")
    found = {}
    for column in columns:
        name = options.aggregate_functions.get(column, options.default_aggregate_function)
        if name is not None and column not in schema.primary_keys:
            found[column] = _aggregate(schema.row_type.field(column), name, options)
    return found


def _aggregate(field: DataField, name: str, options: TableOptions) -> Aggregate:
    own = f"fields.{field.name}.aggregate-function"
    key = own if field.name in options.aggregate_functions else "fields.default-aggregate-function"
    function = FUNCTIONS.get(name)
    if function is None:
        raise InvalidArgumentError(f"'{key}' = '{name}' is not an aggregate function; there are {', '.join(FUNCTIONS)}")
    if not function.takes(field.type):
        hint = "" if key == own else f"; set '{own}' to one that fits"
        raise InvalidArgumentError(
            f"'{key}' = '{name}' takes {function.types}, column {field.name!r} has another type{hint}"
        )
    return Aggregate(field.name, name, function.make(field, options), options.ignore_retract(field.name))


def check_columns(schema: TableSchema, columns: Iterable[str], option: str) -> None:
    """Raises InvalidArgumentError if the option names a column that the table lacks."""
    missing = [name for name in columns if name not in schema.row_type]
    if missing:
        raise InvalidArgumentError(
            f"{option}: no column {missing[0]!r}; the columns are {', '.join(schema.row_type.names)}"
        )
