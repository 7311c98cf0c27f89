"""VARIANT values that a Parquet file has in several columns ("shredded"), put together again.

Such a column has `value` and `typed_value` at every depth: a value of the type that the column has is in `typed_value`,
any other one in `value`, in binary form; an object may have fields in both, and a field that is in neither is missing.
Source: parquet-format, VariantShredding.md. What is put together is byte for byte what Java Paimon reads
(`ShreddingUtils.rebuild`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paimon_engine.arrow_variant import ARROW_VARIANT, is_arrow_variant
from paimon_engine.errors import UnsupportedError, damaged
from paimon_engine.format.layout import copied, leaf_arrays
from paimon_engine.format.variant_bytes import Leftovers
from paimon_engine.format.variant_columns import METADATA, TYPED, VALUE, physical_type
from paimon_engine.format.variant_nodes import ARRAY, NO_KEY, OBJECT, BadVariantError, Nodes, Placed, TooLongError
from paimon_engine.format.variant_scalars import Ints, scalars_of, spans_of

_NODES_MAX: Final = 1 << 18
"""About how many nodes are put together at once; each takes some hundred bytes meanwhile."""


class UnknownShreddingError(Exception):
    """A type of `typed_value` that Java puts into no VARIANT; says which."""


def joined(rows: pa.RecordBatch, wanted: pa.Schema, path: str, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows with whole values, in parts of about so many bytes.

    Raises: CorruptTableError; UnsupportedError for types that Java puts into no VARIANT.
    """
    types = {field.name: field.type for field in wanted}
    columns = [name for name in rows.schema.names if _has_shredded(rows.schema.field(name).type, types.get(name))]
    nodes = sum(_node_count(leaf) for name in columns for leaf in leaf_arrays(rows[name]))
    step = max(1, rows.num_rows * _NODES_MAX // max(nodes, _NODES_MAX))
    parts = [rows.slice(begin, step) for begin in range(0, rows.num_rows, step)][::-1]
    while parts:
        part = parts.pop()
        try:
            yield _joined(part, {name: types[name] for name in columns}, path, size_bytes)
        except TooLongError:
            half = part.num_rows // 2
            parts += [part.slice(half), part.slice(0, half)]


def _node_count(leaf: pa.Array) -> int:
    """About how many nodes there are in a leaf: in binary values one for some bytes."""
    return len(leaf) + (int(leaf.nbytes) >> 3 if leaf.type == pa.binary() else 0)


def _has_shredded(stored: pa.DataType, wanted: pa.DataType | None) -> bool:
    return wanted is not None and physical_type(wanted, stored) != wanted


def _joined(rows: pa.RecordBatch, columns: dict[str, pa.DataType], path: str, size_bytes: int) -> pa.RecordBatch:
    """The rows with whole values in these columns. Raises: TooLongError, if there are several rows."""
    bytes_max = size_bytes if rows.num_rows > 1 else None
    for name, wanted in columns.items():
        index = rows.schema.get_field_index(name)
        try:
            column = _whole(copied(rows.column(index)), wanted, bytes_max)
        except BadVariantError as error:
            raise damaged(path, f"column {name!r}: {error}") from error
        except UnknownShreddingError as error:
            raise UnsupportedError(
                f"{path}: column {name!r} of type VARIANT is shredded with values of the type {error}, which Java "
                "Paimon does not read either; write the column again with a 'variant.shreddingSchema' of other types"
            ) from error
        rows = rows.set_column(index, pa.field(name, column.type), column)
    return rows


def _whole(array: pa.Array, wanted: pa.DataType, bytes_max: int | None) -> pa.Array:
    """The array with each VARIANT in it as a whole."""
    if physical_type(wanted, array.type) == wanted:
        return array
    mask = array.is_null() if array.null_count else None
    if is_arrow_variant(wanted):
        return _variants(array, bytes_max)
    if pa.types.is_struct(array.type):
        types = {field.name: field.type for field in wanted}
        # Of a field, rows are null where the outer row is.
        parts = [
            _whole(part, types[field.name], bytes_max) if field.name in types else part
            for field, part in zip(array.type, array.flatten(), strict=True)
        ]
        fields = [pa.field(field.name, part.type) for field, part in zip(array.type, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if pa.types.is_map(array.type):
        items = _whole(array.items, wanted.item_type, bytes_max)
        kind = pa.map_(array.type.key_field, array.type.item_field.with_type(items.type).with_nullable(True))
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=kind, mask=mask)
    values = _whole(array.values, wanted.value_type, bytes_max)
    kind = pa.list_(array.type.value_field.with_type(values.type).with_nullable(True))
    return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)


def _variants(array: pa.Array, bytes_max: int | None) -> pa.Array:
    """The whole values of a column of VARIANT."""
    values, metadata = _Joining(array.drop_null()).values(bytes_max)
    parts = [values, metadata]
    if not array.null_count:
        return pa.StructArray.from_arrays(parts, fields=list(ARROW_VARIANT))
    is_valid = array.is_valid().to_numpy(zero_copy_only=False)
    whole = [_with_gaps(part, is_valid) for part in parts]
    return pa.StructArray.from_arrays(whole, fields=list(ARROW_VARIANT), mask=array.is_null())


def _with_gaps(values: pa.Array, is_valid: NDArray[np.bool_]) -> pa.Array:
    """The values where rows have some; the others are empty."""
    data, _, sizes = spans_of(values)
    offsets = np.zeros(len(is_valid) + 1, np.int32)
    offsets[1:][is_valid] = sizes
    np.cumsum(offsets, out=offsets)
    return pa.Array.from_buffers(pa.binary(), len(is_valid), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


class _Joining:
    """The values of one column of VARIANT without nulls, put together."""

    def __init__(self, array: pa.Array) -> None:
        fields = _fields_of(array, top=True)
        metadata = fields.get(METADATA)
        if metadata is None or metadata.null_count:
            raise BadVariantError("a VARIANT has no metadata")
        self._names = list(dict.fromkeys(_field_names(array.type)))
        self._codes = {name: index for index, name in enumerate(self._names)}
        self._nodes = Nodes(len(array))
        self._leftovers = Leftovers(self._nodes, metadata, len(self._names))
        self._groups: list[list[int]] = []
        """Of each object that columns have: the keys of its columns."""
        rows = np.arange(len(array))
        none = np.full(len(array), -1)
        self._add(array, Placed(none, none + 1, none, rows), top=True)

    def values(self, bytes_max: int | None) -> tuple[pa.Array, pa.Array]:
        """`value` and `metadata` of each row."""
        found, inverse = self._leftovers.taken_apart()
        own = pa.array([name.encode() for name in self._names], pa.binary())
        encoded = pa.concat_arrays([own, found]).dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.concatenate([codes[: len(own)], codes[len(own) :][inverse]])
        for places, groups in self._leftovers.forbidden():
            for group in np.unique(groups).tolist():
                keys = codes[len(own) + places[groups == group]]
                if np.isin(keys, codes[self._groups[group]]).any():
                    raise BadVariantError("an object of a VARIANT has a field in `value` that has its own column")
        self._nodes.name_keys(codes)
        return self._nodes.built(encoded.dictionary, bytes_max)

    def _add(self, array: pa.Array, placed: Placed, *, top: bool = False, may_miss: bool = False) -> None:
        """Adds the nodes of a group of `value` and `typed_value`, at these places."""
        if array.null_count:
            raise BadVariantError("a part of a VARIANT is null")
        fields = _fields_of(array, top=top)
        typed, value = fields.get(TYPED), fields.get(VALUE)
        has_typed, has_value = _is_valid(typed, len(array)), _is_valid(value, len(array))
        if not may_miss and not (has_typed | has_value).all():
            raise BadVariantError("a VARIANT has no value")
        only_value = has_value & ~has_typed
        if value is not None and only_value.any():
            some = _at(placed, only_value)
            self._leftovers.add(value.filter(pa.array(only_value)), self._nodes.add(some), some.rows)
        if typed is not None and has_typed.any():
            self._add_typed(typed, value, has_typed, _at(placed, has_typed))

    def _add_typed(self, typed: pa.Array, value: pa.Array | None, has_typed: NDArray[np.bool_], at: Placed) -> None:
        """Adds the nodes of the rows that have a `typed_value`."""
        mask = pa.array(has_typed)
        present = typed.filter(mask)
        nodes = self._nodes.add(at)
        if pa.types.is_struct(typed.type):
            self._add_fields(present, nodes, at.rows, None if value is None else value.filter(mask))
        elif pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
            self._nodes.set_kinds(nodes, ARRAY)
            lengths = np.diff(present.offsets.to_numpy(zero_copy_only=False)).astype(np.int64)
            ranks = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            keys = np.full(len(ranks), NO_KEY)
            self._add(present.flatten(), Placed(np.repeat(nodes, lengths), ranks, keys, np.repeat(at.rows, lengths)))
        else:
            found = scalars_of(present)
            if found is None:
                raise UnknownShreddingError(str(typed.type))
            begin = self._nodes.add_data(found.data)
            self._nodes.set_scalars(nodes, begin + found.begins, found.sizes)

    def _add_fields(self, objects: pa.Array, nodes: Ints, rows: Ints, value: pa.Array | None) -> None:
        self._nodes.set_kinds(nodes, OBJECT)
        names = [field.name for field in objects.type]
        for rank, (name, part) in enumerate(zip(names, objects.flatten(), strict=True)):
            ranks, keys = np.full(len(nodes), rank), np.full(len(nodes), self._codes[name])
            self._add(part, Placed(nodes, ranks, keys, rows), may_miss=True)
        others = _is_valid(value, len(nodes))
        if value is not None and others.any():
            rest = value.filter(pa.array(others))
            self._leftovers.add(rest, nodes[others], rows[others], first_rank=len(names), group=len(self._groups))
        self._groups.append([self._codes[name] for name in names])


def _fields_of(group: pa.Array, *, top: bool) -> dict[str, pa.Array]:
    """The columns of a group of `value` and `typed_value`."""
    names = [field.name for field in group.type] if pa.types.is_struct(group.type) else []
    allowed = {VALUE, TYPED, METADATA} if top else {VALUE, TYPED}
    if not names or len({*names}) != len(names) or not {*names} <= allowed:
        raise BadVariantError(f"a VARIANT has parts of the type {group.type}")
    return dict(zip(names, group.flatten(), strict=True))


def _field_names(kind: pa.DataType) -> Iterator[str]:
    """The names of fields that have columns, at every depth."""
    if not pa.types.is_struct(kind) or kind.get_field_index(TYPED) < 0:
        return
    typed = kind.field(TYPED).type
    if pa.types.is_struct(typed):
        for field in typed:
            yield field.name
            yield from _field_names(field.type)
    elif pa.types.is_list(typed) or pa.types.is_large_list(typed):
        yield from _field_names(typed.value_type)


def _is_valid(array: pa.Array | None, count: int) -> NDArray[np.bool_]:
    if array is None:
        return np.zeros(count, bool)
    found: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _at(placed: Placed, mask: NDArray[np.bool_]) -> Placed:
    return placed if mask.all() else Placed(*(column[mask] for column in placed))
