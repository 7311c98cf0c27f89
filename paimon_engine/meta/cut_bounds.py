"""Values of TIMESTAMP(7) to TIMESTAMP(9) in manifests that may be cut to microseconds.

pypaimon does not support nanoseconds: partitions, keys and statistics in its manifests are cut to microseconds, while
its data files have the complete values. Readers take the partition from the manifest. A lower bound that is cut is one
still. An upper bound is not, so that an integer of microseconds is taken to mean all nanoseconds of that microsecond.
The writer of a file is not known, and where the bound is exact, a little more is read than needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from paimon_engine.format.binary_row import decode_row, encode_row
from paimon_engine.meta.stats import ColumnStats, SimpleStats, from_simple_stats
from paimon_engine.types import TIMESTAMP_ROOTS, AtomicType, DataType

_NANOS_PER_MICRO: Final = 1_000
_PRECISION_KEPT: Final = 6


def may_be_cut(data_type: DataType) -> bool:
    """Whether values of that type have nanoseconds."""
    return (
        isinstance(data_type, AtomicType)
        and data_type.root in TIMESTAMP_ROOTS
        and data_type.precision > _PRECISION_KEPT
    )


def upper(data_type: DataType, value: Any) -> Any:
    """The largest value that a stored upper bound may mean; None stays. Doing it again changes nothing."""
    is_cut = value is not None and may_be_cut(data_type) and value % _NANOS_PER_MICRO == 0
    return value + _NANOS_PER_MICRO - 1 if is_cut else value


def upper_key(types: Sequence[DataType], key: bytes) -> bytes:
    """The largest key that the stored largest key of a file may mean."""
    if not any(map(may_be_cut, types)):
        return key
    values = decode_row(types, key)
    found = [upper(kind, value) for kind, value in zip(types, values, strict=True)]
    return key if found == list(values) else encode_row(types, found, reserve_null=True)


def cut_key(types: Sequence[DataType], key: bytes) -> bytes:
    """What was noted of a largest key, if it was cut, given the key as noted or as `upper_key` has it."""
    if not any(map(may_be_cut, types)):
        return key
    values = decode_row(types, key)
    found = [_cut(kind, value) for kind, value in zip(types, values, strict=True)]
    return encode_row(types, found, reserve_null=True)


def _cut(data_type: DataType, value: Any) -> Any:
    if value is None or not may_be_cut(data_type):
        return value
    whole = value - value % _NANOS_PER_MICRO
    return whole if value in (whole, upper(data_type, whole)) else value


def cut_values(types: Sequence[DataType], row: bytes) -> bytes:
    """A row such as a partition, without the nanoseconds of its values."""
    values = decode_row(types, row)
    whole = [
        value - value % _NANOS_PER_MICRO if value is not None and may_be_cut(kind) else value
        for kind, value in zip(types, values, strict=True)
    ]
    return encode_row(types, whole, reserve_null=True)


def safe_ranges(
    types: Sequence[DataType], stats: SimpleStats, *, wanted: Collection[int] | None = None
) -> list[ColumnStats]:
    """Statistics of columns, whose bounds include every value even if upper ones were cut; unknown if not `wanted`.

    Raises: CorruptTableError if the record has another number of columns than `types`.
    """
    return [
        replace(known, max=upper(kind, known.max)) if may_be_cut(kind) else known
        for kind, known in zip(types, from_simple_stats(types, stats, wanted=wanted), strict=True)
    ]
