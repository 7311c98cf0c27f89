"""Which columns VARIANT values of a file get where a table has them inferred: the first rows decide.

A field gets columns if enough values have it and all of them are of one kind; its numbers become BIGINT or DECIMAL.
Source: `InferVariantShreddingSchema` of Java Paimon, which chooses the same, but for what it cannot write: dates,
timestamps and bytes get no columns here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_variant import ARROW_VARIANT
from paimon_engine.format.variant_columns import METADATA, VALUE, InferenceLimits
from paimon_engine.format.variant_nodes import ARRAY, OBJECT
from paimon_engine.format.variant_parts import heads_of, value_sizes
from paimon_engine.format.variant_scalars import DOUBLE, FALSE, FLOAT, LONG_TEXT, SHORT_TEXT, TRUE, Bytes, spans_of
from paimon_engine.format.variant_shredding import Spans, elements_of, fields_of
from paimon_engine.format.variant_typed import DECIMAL_DIGITS_MAX, Scalar, decimals_of, integers_of

_FIELDS_MAX: Final = 1_000
_LONG_DIGITS: Final = 18
"""An integer of so many digits is a BIGINT for sure."""
_LONG_DIGITS_MAX: Final = 19


@dataclass(frozen=True, slots=True)
class _RowOf:
    """Objects: of each field how often there is one, and what its values are."""

    fields: Mapping[str, tuple[int, _Seen]]


@dataclass(frozen=True, slots=True)
class _ListOf:
    element: _Seen


_Seen: TypeAlias = _RowOf | _ListOf | pa.DataType | None
"""What values are: VARIANT if of several kinds, None if all are null."""


def inferred_types(columns: Iterable[pa.Array], limits: InferenceLimits) -> list[pa.DataType]:
    """How the values of each VARIANT column are taken apart, as `variant_shredding.shredded` takes it.

    Raises: BadVariantError.
    """
    left = _Left(limits.width)
    types = []
    for column in columns:
        first = column.slice(0, limits.rows).drop_null()
        parts = dict(zip([one.name for one in first.type], first.flatten(), strict=True))
        heap, begins, sizes = spans_of(parts[VALUE])
        names = parts[METADATA].dictionary_encode()
        codes = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        least = math.ceil(len(first) * limits.share)
        seen = _Look(heap, names.dictionary, least).at(Spans(begins, begins + sizes, codes), limits.depth)
        types.append(left.taken(seen, least))
    return types


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks at values in one byte string; fields of which there are fewer than `least` get no columns anyway."""

    heap: Bytes
    metadata: pa.Array
    least: int

    def at(self, values: Spans, depth: int) -> _Seen:
        """What these values are."""
        value_sizes(self.heap, values.begins, values.ends)
        basic, info = heads_of(self.heap, values.begins, values.ends)
        scalar = Scalar(self.heap, values.begins, basic, info)
        is_null = scalar.of_type(0)
        if is_null.all():
            return None
        count = len(is_null) - int(is_null.sum())
        if (found := int((basic == OBJECT).sum())) == count:
            return self._row(values.at(basic == OBJECT), depth) if depth > 0 else ARROW_VARIANT
        if found == 0 and (found := int((basic == ARRAY).sum())) == count:
            return self._list(values.at(basic == ARRAY), depth) if depth > 0 else ARROW_VARIANT
        is_text = (basic == SHORT_TEXT) | scalar.of_type(LONG_TEXT)
        for kind, mask in (
            (pa.string(), is_text),
            (pa.bool_(), scalar.of_type(TRUE, FALSE)),
            (pa.float64(), scalar.of_type(DOUBLE)),
            (pa.float32(), scalar.of_type(FLOAT)),
        ):
            if int(mask.sum()) == count:
                return kind
        return _number(scalar, count)

    def _row(self, objects: Spans, depth: int) -> _RowOf:
        fields = fields_of(self.heap, self.metadata, objects)
        counts = np.bincount(fields.name_codes, minlength=len(fields.names))
        names = sorted(zip(fields.names.to_pylist(), range(len(counts)), strict=True), key=_in_java_order)
        return _RowOf(
            {
                name.decode(): (int(counts[code]), self.at(fields.values.at(fields.name_codes == code), depth - 1))
                for name, code in names[:_FIELDS_MAX]
                if counts[code] >= self.least
            }
        )

    def _list(self, arrays: Spans, depth: int) -> _ListOf:
        counts, elements = elements_of(self.heap, arrays)
        basic, info = heads_of(self.heap, elements.begins, elements.ends)
        is_there = ~Scalar(self.heap, elements.begins, basic, info).of_type(0)
        owners = np.repeat(np.arange(len(counts)), counts)[is_there]
        if len(np.unique(owners)) < len(counts):
            # Java takes the elements of an array without any as VARIANT, and so those of all.
            return _ListOf(ARROW_VARIANT)
        return _ListOf(self.at(elements, depth - 1))


def _in_java_order(named: tuple[bytes, int]) -> bytes:
    return named[0].decode().encode("utf-16-be")


def _number(values: Scalar, count: int) -> pa.DataType:
    """The type of that many numbers; VARIANT if there are other values, or they have too many digits."""
    is_integer, integers = integers_of(values)
    is_decimal, groups = decimals_of(values)
    if int(is_integer.sum() + is_decimal.sum()) != count:
        return ARROW_VARIANT
    ranges, scales, has_long = [0], [0], False
    if len(integers):
        lengths = np.asarray(_digits(pa.array(integers)))
        has_long = bool((lengths > _LONG_DIGITS).any())
        ranges.append(int(lengths[lengths <= _LONG_DIGITS].max(initial=0)))
    for _, array in groups:
        scale = array.type.scale
        text = pc.utf8_ltrim(array.view(pa.decimal128(DECIMAL_DIGITS_MAX, 0)).cast(pa.string()), "-")
        length, kept = pc.utf8_length(text), pc.utf8_length(pc.utf8_rtrim(text, "0"))
        lengths, kept_lengths = np.asarray(length), np.asarray(kept)
        is_zero = kept_lengths == 0
        scales.append(int(np.where(is_zero, 0, np.maximum(scale - (lengths - kept_lengths), 0)).max()))
        ranges.append(int(np.where(is_zero, 1, np.maximum(lengths - scale, 0)).max()))
    scale, digits = max(scales), max(ranges)
    if has_long:
        if scale == 0 and digits <= _LONG_DIGITS:
            return pa.int64()
        digits = max(digits, _LONG_DIGITS_MAX)
    if digits + scale > DECIMAL_DIGITS_MAX:
        return ARROW_VARIANT
    return pa.decimal128(max(1, digits + scale), scale)


def _digits(integers: pa.Array) -> pa.Array:
    return pc.utf8_length(pc.utf8_ltrim(integers.cast(pa.string()), "-"))


@dataclass
class _Left:
    """How many columns may still be chosen."""

    count: int

    def taken(self, seen: _Seen, least: int) -> pa.DataType:
        """The type for these values, within what is left."""
        self.count -= 1
        if self.count <= 0 or seen is None:
            return ARROW_VARIANT
        match seen:
            case _RowOf(fields):
                found = []
                for name, (count, inner) in fields.items():
                    if count >= least and self.count > 0:
                        found.append(pa.field(name, self.taken(inner, least)))
                return pa.struct(found) if found else ARROW_VARIANT
            case _ListOf(element):
                return pa.list_(self.taken(element, least))
            case _ if seen == ARROW_VARIANT:
                return ARROW_VARIANT
            case _:
                self.count -= 1
                return _widened(seen)


def _widened(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_decimal(kind):
        return kind
    if kind.precision > _LONG_DIGITS:
        return pa.decimal128(DECIMAL_DIGITS_MAX, kind.scale)
    return pa.int64() if kind.scale == 0 else pa.decimal128(_LONG_DIGITS, kind.scale)
