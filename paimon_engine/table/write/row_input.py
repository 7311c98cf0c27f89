"""A user's rows as rows of the table: columns matched by name, cast and checked, with their row kinds.

Source: `RowKindGenerator`, `RowKindFilter`, `DefaultValueRow`, `TableWriteImpl` of the Java library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError, UnsupportedError, shown
from paimon_engine.format.layout import copied
from paimon_engine.merge.records import is_retract
from paimon_engine.meta.casts import STRING, cast
from paimon_engine.meta.schema import VALUE_KIND, TableSchema
from paimon_engine.meta.variants import has_bad_variant, holds_variant
from paimon_engine.table.write.changed_values import changed_by_cast
from paimon_engine.types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    to_arrow,
)

KIND_TEXTS: Final = ("+I", "-U", "+U", "-D")
"""Row kinds by their number in data files."""

_UPDATE_BEFORE: Final = 1
_INDEX_OF_PANDAS: Final = re.compile(r"__index_level_\d+__")
"""How pandas calls an index without a name, such as a filter leaves, when it gives a data frame to Arrow."""

_SECONDS_MAX: Final = (2**63 - 1) // 1000


class RowInput:
    """Turns batches into `_VALUE_KIND` and all table columns, in schema order and the table's Arrow types."""

    def __init__(self, schema: TableSchema, kind_column: str | None = None) -> None:
        """`kind_column` names a column of row kinds that is not a table column: int8, or text such as `-D`."""
        self._schema = schema
        self._options = schema.table_options
        self._kind_column = kind_column
        option = self._options.rowkind_field
        if option is not None and kind_column not in (None, option):
            raise InvalidArgumentError(
                f"the table takes row kinds from its column {option!r} ('rowkind.field'), not from {kind_column!r}"
            )

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as table rows; rows that `ignore-delete` and `ignore-update-before` drop are left out.

        Raises: InvalidArgumentError naming the column that does not fit.
        """
        self._check_names(batch.schema.names)
        given = set(batch.schema.names)
        columns = [
            self._column(batch[field.name] if field.name in given else None, batch.num_rows, field)
            for field in self._schema.row_type
        ]
        kinds = self._kinds(batch)
        names = [VALUE_KIND, *self._schema.row_type.names]
        rows = pa.RecordBatch.from_arrays([pa.array(kinds), *columns], names=names)
        kept = self._kept(kinds)
        return rows if kept.all() else rows.filter(pa.array(kept))

    def of_source(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As `read`, but without the row kind where a column of the table holds it: fit to be read once more."""
        found = self.read(batch)
        return found.drop_columns([VALUE_KIND]) if self._options.rowkind_field else found

    def _check_names(self, names: Sequence[str]) -> None:
        known = {*self._schema.row_type.names, self._kind_column}
        extra = [name for name in names if name not in known]
        if extra:
            index = next((name for name in extra if _INDEX_OF_PANDAS.fullmatch(name)), None)
            way_out = f". {index!r} is an index of pandas: frame.reset_index(drop=True) leaves it out" if index else ""
            raise InvalidArgumentError(
                f"the table has no column {', '.join(map(repr, extra))}; "
                f"its columns are {', '.join(self._schema.row_type.names)}{way_out}"
            )
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InvalidArgumentError(f"column {', '.join(map(repr, twice))} is given more than once")

    # ── values ──────────────────────────────────────────────────────────────────────────────────

    def _column(self, values: pa.Array | None, row_count: int, field: DataField) -> pa.Array:
        """The values of a column, None where it is missing, in its type.

        Raises: InvalidArgumentError, UnsupportedError, naming the column.
        """
        if values is not None:
            column = _cast(values, field)
            given = "has a null"
        else:
            column = pa.nulls(row_count, to_arrow(field.type))
            given = "is missing"
        if field.default_value is not None and column.null_count:
            column = column.fill_null(_default(field))
        if column.null_count and not self._may_be_null(field):
            raise InvalidArgumentError(f"column {field.name!r} is NOT NULL, but it {given} in the rows to be written")
        if _has_inner_null(column, field.type):
            raise InvalidArgumentError(f"a part of column {field.name!r} that is NOT NULL has a null")
        if "timestamp[s" in str(column.type) and _has_far_second(column, field.type):
            raise InvalidArgumentError(
                f"column {field.name!r} has a timestamp so far from 1970 that milliseconds cannot count it"
            )
        if holds_variant(field.type) and has_bad_variant(column, field.type):
            raise InvalidArgumentError(
                f"column {field.name!r}: a VARIANT is a struct of two binaries in the form of Parquet: 'value', which "
                "is never empty, and 'metadata', whose version is 1; this has others"
            )
        return column

    def _may_be_null(self, field: DataField) -> bool:
        is_key = field.name in self._schema.primary_keys
        return field.type.nullable and (not is_key or self._options.nullable_keys)

    # ── kinds ───────────────────────────────────────────────────────────────────────────────────

    def _kinds(self, batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        name = self._options.rowkind_field or self._kind_column
        if name is None:
            return np.zeros(batch.num_rows, dtype=np.int8)
        if name not in batch.schema.names:
            raise InvalidArgumentError(f"the rows to be written lack the row kind column {name!r}")
        kinds = _kind_numbers(batch[name], name)
        if not self._schema.primary_keys and kinds.any():
            raise InvalidArgumentError(
                f"the table has no primary key, so it takes inserts (+I) only; column {name!r} has other row kinds"
            )
        return kinds

    def _kept(self, kinds: np.ndarray[tuple[int], np.dtype[np.int8]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        kept = np.ones(len(kinds), dtype=np.bool_)
        if self._options.ignore_delete:
            kept &= ~is_retract(kinds)
        if self._options.ignore_update_before:
            kept &= kinds != _UPDATE_BEFORE
        return kept


def _has_inner_null(column: pa.Array, data_type: DataType) -> bool:
    """Whether an element, value or field that must not be null is null, at any depth; nulls of the column are fine."""
    if not isinstance(data_type, AtomicType) and column.null_count:
        column = column.drop_null()
    match data_type:
        case ArrayType(element):
            return _is_bad(column.flatten(), element)
        case VectorType():
            return bool(column.flatten().null_count)
        case MapType(_, value):
            begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
            return _is_bad(column.items[begin:end], value)
        case MultisetType():
            begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
            return bool(column.items[begin:end].null_count)
        case RowType(fields):
            return any(_is_bad(part, field.type) for part, field in zip(column.flatten(), fields, strict=True))
        case _:
            return False


def _is_bad(part: pa.Array, data_type: DataType) -> bool:
    return bool(not data_type.nullable and part.null_count) or _has_inner_null(part, data_type)


def _has_far_second(column: pa.Array, data_type: DataType) -> bool:
    """Whether a TIMESTAMP(0), which Arrow counts in seconds, is too far from 1970 for milliseconds, at any depth."""
    match data_type:
        case AtomicType(root, precision=0) if root in TIMESTAMP_ROOTS:
            bounds = pc.min_max(column.view(pa.int64()))
            known = [bound.as_py() for bound in (bounds["min"], bounds["max"]) if bound.is_valid]
            return any(abs(seconds) > _SECONDS_MAX for seconds in known)
        case ArrayType(element):
            return _has_far_second(column.flatten(), element)
        case MapType(key, value):
            entries = slice(column.offsets[0].as_py(), column.offsets[-1].as_py())
            return _has_far_second(column.keys[entries], key) or _has_far_second(column.items[entries], value)
        case MultisetType(element):
            return _has_far_second(column.keys, element)
        case RowType(fields):
            return any(_has_far_second(part, field.type) for part, field in zip(column.flatten(), fields, strict=True))
        case _:
            return False


def _cast(column: pa.Array, field: DataField) -> pa.Array:
    """The column in the type of the table.

    Raises: InvalidArgumentError, naming the column, where that is not possible or would change values.
    """
    wanted = to_arrow(field.type)
    if column.type == wanted:
        return column
    if "list_view" in str(column.type):
        # Arrow's cast of these makes arrays that are not valid.
        raise InvalidArgumentError(f"column {field.name!r} of type {column.type}: cast it to a list first")
    _check_fields(column.type, wanted, field.name)
    given = _apart(_plain(column))
    try:
        made = given.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(
            f"column {field.name!r} of type {column.type} does not fit the table's {wanted}: {error}"
        ) from error
    if (changed := changed_by_cast(given, made)) is not None:
        raise InvalidArgumentError(
            f"column {field.name!r} of type {column.type} does not fit the table's {wanted}: {changed}"
        )
    return made


def _check_fields(given: pa.DataType, wanted: pa.DataType, column: str, above: str = "") -> None:
    """Checks that the table has each field inside of a column, once: Arrow's cast leaves out what it does not find.

    Raises: InvalidArgumentError, naming the field by its path in the column, `above`.
    """
    if isinstance(given, pa.BaseExtensionType):
        given = given.storage_type
    for inner, place in _places(given, wanted):
        _check_fields(inner, place, column, above)
    if not (pa.types.is_struct(given) and pa.types.is_struct(wanted)):
        return
    known, seen = {field.name: field.type for field in wanted}, set[str]()
    for field in given:
        path = f"{above}{field.name}"
        if field.name not in known:
            raise InvalidArgumentError(
                f"column {column!r}: the table has no field {path!r}; its fields are {', '.join(known)}"
            )
        if field.name in seen:
            raise InvalidArgumentError(f"column {column!r}: field {path!r} is given more than once")
        seen.add(field.name)
        _check_fields(field.type, known[field.name], column, f"{path}.")


def _places(given: pa.DataType, wanted: pa.DataType) -> list[tuple[pa.DataType, pa.DataType]]:
    """The types of what has a place and no name, elements of lists, keys and values of maps, in both."""
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return [(given.key_type, wanted.key_type), (given.item_type, wanted.item_type)]
    has_elements = hasattr(given, "value_field") and hasattr(wanted, "value_field")
    return [(given.value_type, wanted.value_type)] if has_elements else []


def _plain(column: pa.Array) -> pa.Array:
    """The column without what Arrow cannot cast: runs, and dictionaries of views, which categories of polars are."""
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type) and column.type.value_type == pa.string_view():
        return column.cast(pa.dictionary(column.type.index_type, pa.string()))
    return column


def _apart(column: pa.Array) -> pa.Array:
    """The column without the values before and behind it, of which Arrow's cast makes a copy for each slice."""
    is_cast_whole = pa.types.is_nested(column.type) or pa.types.is_fixed_size_binary(column.type)
    return copied(column) if is_cast_whole else column


def _default(field: DataField) -> pa.Scalar:
    try:
        return cast(pa.array([field.default_value]), STRING, field.type)[0]
    except (InvalidArgumentError, UnsupportedError) as error:
        raise type(error)(f"the default value {field.default_value!r} of column {field.name!r}: {error}") from error


def _kind_numbers(column: pa.Array, name: str) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """Row kinds 0 … 3 of a column of numbers or texts."""
    if pa.types.is_integer(column.type):
        numbers = column.cast(pa.int64(), safe=False)
        valid = pc.and_kleene(pc.greater_equal(numbers, 0), pc.less(numbers, len(KIND_TEXTS)))
    else:
        numbers = pc.index_in(pc.utf8_upper(_plain(column).cast(pa.string())), value_set=pa.array(KIND_TEXTS))
        valid = numbers.is_valid()
    if column.null_count or not pc.all(valid, min_count=0).as_py():
        raise InvalidArgumentError(
            f"row kind column {name!r} must be one of {', '.join(KIND_TEXTS)} (or 0 to 3) in every row"
        )
    return np.asarray(numbers).astype(np.int8)


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Batches of an Arrow table, record batch, reader, or any object that gives an Arrow stream or array of rows.

    Raises: InvalidArgumentError for anything else.
    """
    if isinstance(data, pa.RecordBatch):
        return iter([data])
    if isinstance(data, pa.Table):
        return iter(data.to_batches())
    if isinstance(data, pa.RecordBatchReader):
        # As a stream, an error of what it reads from would lose its class: Arrow passes on the text alone.
        return iter(data)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return iter(pa.RecordBatchReader.from_stream(data))
        if hasattr(data, "__arrow_c_array__"):
            return iter([pa.record_batch(data)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"cannot write this {type(data).__name__}: {error}") from error
    if hasattr(data, "collect"):
        raise InvalidArgumentError(f"cannot write a {type(data).__name__}, which has no rows yet; call its .collect()")
    raise InvalidArgumentError(
        f"cannot write a {type(data).__name__}; give an Arrow table, record batch or reader, a data frame that gives "
        "an Arrow stream (pandas, polars), or a Spark DataFrame. pa.table(columns) makes a table of a dict, "
        "pa.Table.from_pylist(rows) of a list of dicts, pa.RecordBatchReader.from_batches(schema, batches) a reader"
    )


def _kinds(row_kinds: Any) -> pa.Array:
    """Row kinds of a list, or an array of another library.

    Raises: InvalidArgumentError.
    """
    # Arrow follows lists of lists without a limit, and a stack overflow would end the process.
    types = set(map(type, row_kinds)) if isinstance(row_kinds, Sequence) else set()
    try:
        if not any(issubclass(kind, list | tuple | set | Mapping | np.ndarray) for kind in types):
            return pa.array(row_kinds)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise InvalidArgumentError(f"row_kinds={shown(row_kinds)}: give an array, {', '.join(KIND_TEXTS)} for each row")


def with_kinds(batches: Iterable[pa.RecordBatch], row_kinds: Any) -> Iterator[pa.RecordBatch]:
    """The batches with the row kinds as a column more.

    Raises: InvalidArgumentError if there are not as many kinds as rows.
    """
    kinds = row_kinds if isinstance(row_kinds, pa.Array | pa.ChunkedArray) else _kinds(row_kinds)
    if isinstance(kinds, pa.ChunkedArray):
        kinds = kinds.combine_chunks()
    row = 0
    for batch in batches:
        part = kinds.slice(row, batch.num_rows)
        row += batch.num_rows
        if len(part) != batch.num_rows:
            break
        yield batch.append_column(VALUE_KIND, part)
    if row != len(kinds):
        raise InvalidArgumentError(f"{len(kinds)} row kinds for {row} rows; give one for each row")
