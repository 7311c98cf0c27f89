"""VARIANT values written into several columns of a Parquet file ("shredded"): what `shredded_variants` puts together.

The type says how: of a row type each field gets columns of its own, of a list its elements, of VARIANT none. It is an
Arrow type in which VARIANT is `ARROW_VARIANT`. A value of another type than its column is in `value` as it is, and
so are the fields of an object that have no columns: they become an object of their own, whose names keep their numbers.
Source: parquet-format, VariantShredding.md. The columns have what Java Paimon puts there (`VariantShreddingWriter`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from paimon_engine.arrow_variant import is_arrow_variant
from paimon_engine.format.variant_columns import METADATA, TYPED, VALUE
from paimon_engine.format.variant_nodes import (
    ARRAY,
    LARGE_COUNT,
    OBJECT,
    BadVariantError,
    put_numbers,
    widths_of,
)
from paimon_engine.format.variant_parts import ID_BITS, Heads, heads_of, names_of, value_sizes
from paimon_engine.format.variant_scalars import Bytes, Ints, copy_spans, spans_of
from paimon_engine.format.variant_typed import Scalar, spans, typed_values

_SLICE_BYTES: Final = 4 << 20
"""Of values that are taken apart at once; their parts take some ten times as many meanwhile."""
_NOWHERE: Final = -1
_ELEMENT_ID: Final = (1 << 29) + (1 << 10)
"""Java computes such an id for elements of each list; it looks for them by their name."""


def shredded_type(kind: pa.DataType) -> pa.DataType:
    """The type of the columns of VARIANT values that are taken apart as `kind` says."""
    return pa.struct(_numbered([pa.field(METADATA, pa.binary(), nullable=False), *_group(kind)]))


def _group(kind: pa.DataType, *, in_object: bool = False) -> list[pa.Field]:
    """`value`, and `typed_value` where there is a type for it; without ids."""
    if is_arrow_variant(kind):
        # A field that is missing has no value; any other one has.
        return [pa.field(VALUE, pa.binary(), nullable=in_object)]
    if pa.types.is_struct(kind):
        fields = [
            pa.field(field.name, pa.struct(_numbered(_group(field.type, in_object=True))), nullable=False)
            for field in kind
        ]
        typed = pa.struct(_numbered(fields))
    elif pa.types.is_list(kind):
        element = pa.field("element", pa.struct(_numbered(_group(kind.value_type))))
        typed = pa.list_(with_field_id(element, _ELEMENT_ID))
    else:
        typed = kind
    return [pa.field(VALUE, pa.binary()), pa.field(TYPED, typed)]


def _numbered(fields: list[pa.Field]) -> list[pa.Field]:
    """The fields with ids, without which Java does not read them."""
    return [with_field_id(field, number) for number, field in enumerate(fields)]


def with_field_id(field: pa.Field, number: int) -> pa.Field:
    """The field as it is written into a Parquet file with that id."""
    return field.with_metadata({"PARQUET:field_id": str(number)})


def shredded(array: pa.Array, kind: pa.DataType) -> pa.ChunkedArray:
    """VARIANT values in the columns of `shredded_type(kind)`, in several parts so that memory stays bounded.

    Raises: BadVariantError if their bytes break the format.
    """
    parts = []
    value = array.field(array.type.get_field_index(VALUE))
    step = max(1, len(array) * _SLICE_BYTES // max(_SLICE_BYTES, value.nbytes))
    for begin in range(0, len(array), step):
        parts.append(_shredded(array.slice(begin, step), kind))
    return pa.chunked_array(parts, shredded_type(kind))


def _shredded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """All values at once, in the columns of `shredded_type(kind)`; a row that is null is null there."""
    stored = shredded_type(kind)
    is_valid = _mask(array.is_valid())
    present = dict(zip([field.name for field in array.type], array.drop_null().flatten(), strict=True))
    heap, begins, sizes = spans_of(present[VALUE])
    names = present[METADATA].dictionary_encode()
    codes = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    whole = Spans(begins, begins + sizes, codes)
    # Java leaves a value that is stored alone as it is, whatever follows it.
    value_sizes(heap, whole.begins, whole.ends)
    columns = _TakenApart(heap, names.dictionary).group(
        kind, whole, np.flatnonzero(is_valid), len(array), required=True
    )
    metadata = _placed(present[METADATA], np.flatnonzero(is_valid), len(array)).fill_null(b"")
    mask = None if is_valid.all() else pa.array(~is_valid)
    return pa.StructArray.from_arrays([metadata, *columns], fields=list(stored), mask=mask)


class Spans(NamedTuple):
    """Values: where each begins and ends, and the number of its metadata."""

    begins: Ints
    ends: Ints
    metadata: Ints

    def at(self, chosen: Ints | NDArray[np.bool_]) -> Spans:
        """Those of a mask, or at these places."""
        return Spans(self.begins[chosen], self.ends[chosen], self.metadata[chosen])


class ObjectFields(NamedTuple):
    """Fields of objects: in which object each is, its value, and the place of its name in `names`, and its number."""

    outer: Ints
    values: Spans
    ids: Ints
    names: pa.Array
    name_codes: Ints


def fields_of(heap: Bytes, metadata: pa.Array, objects: Spans) -> ObjectFields:
    """The fields of objects, in their order. Raises: BadVariantError."""
    heads = _heads(heap, objects)
    outer, values = _parts(heap, heads, objects)
    within = np.arange(len(outer)) - np.repeat(np.cumsum(heads.counts) - heads.counts, heads.counts)
    ids = heads.ids(heap, outer, within)
    pairs, inverse = np.unique(values.metadata << ID_BITS | ids, return_inverse=True)
    encoded = names_of(metadata, pairs).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)[inverse]
    names = encoded.dictionary
    keys = outer * (len(names) + 1) + codes
    if len(np.unique(keys)) < len(keys):
        raise BadVariantError("an object of a VARIANT has a field twice")
    return ObjectFields(outer, values, ids, names, codes)


def elements_of(heap: Bytes, arrays: Spans) -> tuple[Ints, Spans]:
    """How many elements each array has, and all of them. Raises: BadVariantError."""
    heads = _heads(heap, arrays)
    return heads.counts, _parts(heap, heads, arrays)[1]


def _heads(heap: Bytes, values: Spans) -> Heads:
    basic, info = heads_of(heap, values.begins, values.ends)
    heads = Heads.of(heap, values.begins, values.ends, basic, info)
    if int(heads.counts.sum()) > len(heap):
        raise BadVariantError("values of a VARIANT overlap")
    return heads


def _parts(heap: Bytes, heads: Heads, values: Spans) -> tuple[Ints, Spans]:
    outer, _, begins = heads.parts(heap)
    sizes = value_sizes(heap, begins, values.ends[outer])
    return outer, Spans(begins, begins + sizes, values.metadata[outer])


class _TakenApart:
    """The columns of values in one byte string."""

    def __init__(self, heap: Bytes, metadata: pa.Array) -> None:
        self._heap = heap
        self._metadata = metadata

    def group(
        self, kind: pa.DataType, values: Spans, at: Ints, count: int, *, required: bool = False
    ) -> list[pa.Array]:
        """`value`, and `typed_value` where the type has one, of `count` rows, of which those `at` have these values."""
        if is_arrow_variant(kind):
            whole = _placed(self._whole(values), at, count)
            return [whole.fill_null(b"") if required else whole]
        basic, info = heads_of(self._heap, values.begins, values.ends)
        if pa.types.is_struct(kind):
            is_typed = basic == OBJECT
            rest, typed = self._objects(kind, values.at(is_typed), at[is_typed], count)
        elif pa.types.is_list(kind):
            is_typed, rest = basic == ARRAY, None
            typed = self._arrays(kind, values.at(is_typed), at[is_typed], count)
        else:
            is_typed, found = typed_values(Scalar(self._heap, values.begins, basic, info), kind)
            rest, typed = None, _placed(found, at[is_typed], count)
        others = self._whole(values.at(~is_typed))
        if rest is None:
            return [_placed(others, at[~is_typed], count), typed]
        places = np.concatenate([at[~is_typed], rest[0]])
        return [_placed(pa.concat_arrays([others, rest[1]]), places, count), typed]

    def _whole(self, values: Spans) -> pa.Array:
        return spans(self._heap, values.begins, values.ends - values.begins)

    def _arrays(self, kind: pa.DataType, arrays: Spans, at: Ints, count: int) -> pa.Array:
        counts, elements = elements_of(self._heap, arrays)
        total = len(elements.begins)
        parts = self.group(kind.value_type, elements, np.arange(total), total, required=True)
        stored = _group(kind)[1].type
        inner = pa.StructArray.from_arrays(parts, fields=list(stored.value_type))
        lengths, is_there = np.zeros(count, np.int64), np.zeros(count, bool)
        lengths[at], is_there[at] = counts, True
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), inner, type=stored, mask=pa.array(~is_there))

    def _objects(
        self, kind: pa.DataType, objects: Spans, at: Ints, count: int
    ) -> tuple[tuple[Ints, pa.Array], pa.Array]:
        """Where objects have fields without columns, and the objects of these; and the columns."""
        fields = fields_of(self._heap, self._metadata, objects)
        wanted = pa.array([field.name.encode() for field in kind], pa.binary())
        column_of = pc.index_in(fields.names, wanted).fill_null(_NOWHERE).to_numpy(zero_copy_only=False)
        columns = column_of.astype(np.int64)[fields.name_codes]
        stored = _group(kind)[1].type
        parts = []
        for number, field in enumerate(kind):
            chosen = columns == number
            inner = self.group(field.type, fields.values.at(chosen), at[fields.outer[chosen]], count)
            parts.append(pa.StructArray.from_arrays(inner, fields=list(stored.field(number).type)))
        is_there = np.zeros(count, bool)
        is_there[at] = True
        typed = pa.StructArray.from_arrays(parts, fields=list(stored), mask=pa.array(~is_there))
        left = columns == _NOWHERE
        owners, data = _objects_of(self._heap, fields.outer[left], fields.values.at(left), fields.ids[left])
        return (at[owners], data), typed


def _objects_of(heap: Bytes, outer: Ints, values: Spans, ids: Ints) -> tuple[Ints, pa.Array]:
    """Objects of these fields, which are in order: which objects have some, and each in binary form."""
    owners, firsts, counts = np.unique(outer, return_index=True, return_counts=True)
    if not len(owners):
        return owners, pa.array([], pa.binary())
    sizes = values.ends - values.begins
    ends = np.cumsum(sizes)
    before = (ends - sizes)[firsts]
    content = np.diff(np.append(before, ends[-1]))
    id_widths, offset_widths = widths_of(np.maximum.reduceat(ids, firsts)), widths_of(content)
    is_large = counts > LARGE_COUNT
    count_widths = np.where(is_large, 4, 1)
    heads = 1 + count_widths + counts * id_widths + (counts + 1) * offset_widths
    if int(content.sum()) > len(heap):
        raise BadVariantError("values of a VARIANT overlap")
    begins = np.cumsum(heads + content) - (heads + content)
    out = np.empty(int((heads + content).sum()), np.uint8)
    info = is_large.astype(np.int64) << 4 | id_widths - 1 << 2 | offset_widths - 1
    out[begins] = info << 2 | OBJECT
    put_numbers(out, begins + 1, counts, count_widths)
    within = np.arange(len(outer)) - np.repeat(firsts, counts)
    ids_begin = begins + 1 + count_widths
    put_numbers(
        out, np.repeat(ids_begin, counts) + within * np.repeat(id_widths, counts), ids, np.repeat(id_widths, counts)
    )
    offsets_begin, widths = ids_begin + counts * id_widths, np.repeat(offset_widths, counts)
    offsets = ends - sizes - np.repeat(before, counts)
    put_numbers(out, np.repeat(offsets_begin, counts) + within * widths, offsets, widths)
    put_numbers(out, offsets_begin + counts * offset_widths, content, offset_widths)
    copy_spans(out, np.repeat(begins + heads, counts) + offsets, heap, values.begins, sizes)
    # The objects follow each other without a gap.
    return owners, spans(out, begins, heads + content)


def _placed(values: pa.Array, at: Ints, count: int) -> pa.Array:
    """The values at these places of `count` rows; the others are null."""
    if len(values) == count and (at[1:] > at[:-1]).all():
        return values
    places, is_there = np.zeros(count, np.int64), np.zeros(count, bool)
    places[at], is_there[at] = np.arange(len(values)), True
    return values.take(pa.array(places, mask=~is_there))


def _mask(found: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return mask
