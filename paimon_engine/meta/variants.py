"""Columns of VARIANT: which tables may have them, which columns their parts get, and what their first bytes must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError, PaimonError, UnsupportedError
from paimon_engine.format.variant_columns import DEPTH_MAX, InferenceLimits
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options.variants import SHREDDING_SCHEMA
from paimon_engine.types import (
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VariantType,
    VectorType,
    parse_type,
    to_arrow,
    type_to_json,
)


def holds_variant(data_type: DataType) -> bool:
    """Whether the type is VARIANT, or has one inside."""
    match data_type:
        case VariantType():
            return True
        case ArrayType(element) | MultisetType(element):
            return holds_variant(element)
        case MapType(key, value):
            return holds_variant(key) or holds_variant(value)
        case RowType(fields):
            return any(holds_variant(field.type) for field in fields)
        case AtomicType() | VectorType():
            return False


def check_variants(schema: TableSchema) -> None:
    """Raises UnsupportedError if files of the table could not store its VARIANT columns, or as `_check_shredding`."""
    _check_shredding(schema)
    options = schema.table_options
    others = {*options.file_formats, options.changelog_file_format or "parquet"} - {"parquet"}
    for field in schema.row_type:
        if others and holds_variant(field.type):
            raise UnsupportedError(
                f"column {field.name!r}: VARIANT is stored in Parquet only, as in Java; use 'file.format' = 'parquet', "
                f"and no {', '.join(sorted(others))} for levels or changelogs"
            )


def shredding_of(schema: TableSchema) -> Mapping[str, pa.DataType] | InferenceLimits:
    """How values of VARIANT columns are taken apart in Parquet files, as `format.layout.WriteOptions` has it.

    Raises: InvalidArgumentError for a 'variant.shreddingSchema' that Java could not write either.
    """
    options = schema.table_options
    text = options.variant_shredding_schema
    if text is not None:
        types = _given_types(text)
        return {
            field.name: types[field.name]
            for field in schema.row_type
            if isinstance(field.type, VariantType) and field.name in types
        }
    if not options.variant_infers_shredding:
        return {}
    return InferenceLimits(
        options.variant_width_max,
        min(options.variant_depth_max, DEPTH_MAX),
        options.variant_field_share_min,
        options.variant_sample_rows,
    )


def _check_shredding(schema: TableSchema) -> None:
    """Raises InvalidArgumentError for options of VARIANT columns that contradict each other or name no type."""
    shredding_of(schema)
    options = schema.table_options
    is_adaptive = options.variant_inference_mode == "adaptive"
    if is_adaptive and options.variant_adaptive_share_min > options.variant_field_share_min:
        raise InvalidArgumentError(
            "'variant.shredding.adaptive.retentionRatio' must not be above "
            f"'variant.shredding.minFieldCardinalityRatio', which is {options.variant_field_share_min}"
        )


def _given_types(text: str) -> dict[str, pa.DataType]:
    try:
        found = parse_type(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _bad_shredding(f"is not the JSON text of a type: {error}") from error
    except PaimonError as error:
        raise _bad_shredding(str(error)) from error
    if type(found) is not RowType:
        raise _bad_shredding("is not a ROW")
    for field in found:
        _check_given(field.type, field.name, DEPTH_MAX)
    return {field.name: to_arrow(field.type) for field in found}


def _check_given(data_type: DataType, where: str, depth: int) -> None:
    """Checks the type of a column, or of a part of it, with at most so many types within each other."""
    if isinstance(data_type, RowType | ArrayType) and not isinstance(data_type, VariantType) and depth == 0:
        raise _bad_shredding(f"has more than {DEPTH_MAX} types within each other at {where}")
    match data_type:
        case VariantType():
            pass
        case RowType(fields) if fields and len({field.name for field in fields}) == len(fields):
            for field in fields:
                _check_given(field.type, f"{where}.{field.name}", depth - 1)
        case RowType():
            raise _bad_shredding(f"has no fields, or one twice, at {where}")
        case ArrayType(element):
            _check_given(element, f"{where}[]", depth - 1)
        case AtomicType(root) if root in _SHREDDED_ROOTS:
            pass
        case _:
            raise _bad_shredding(f"has a {type_to_json(data_type)} at {where}, for which VARIANT has no column in Java")


def _bad_shredding(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"'{SHREDDING_SCHEMA}' {what}; write a ROW with a type for each VARIANT column, such as "
        '{"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": '
        '[{"id": 0, "name": "a", "type": "BIGINT"}]}}]}, of ROW, ARRAY, VARIANT, BOOLEAN, TINYINT to BIGINT, FLOAT, '
        "DOUBLE, DECIMAL, STRING and BINARY"
    )


_SHREDDED_ROOTS: Final = frozenset(
    {
        *INTEGER_ROOTS,
        *FLOAT_ROOTS,
        *(TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.VARCHAR, TypeRoot.BINARY),
    }
)
_VARIANT_VERSION: Final = 1
_VERSION_BITS: Final = 0x0F


def has_bad_variant(column: pa.Array, data_type: DataType) -> bool:
    """Whether the first bytes of a VARIANT, at any depth, show that it is none: no reader could read it."""
    column = column.drop_null()
    match data_type:
        case VariantType():
            heads = pc.binary_slice(column.field("metadata"), 0, 1)
            versions = [bytes([head]) for head in range(256) if head & _VERSION_BITS == _VARIANT_VERSION]
            is_good = pc.and_(
                pc.is_in(heads, value_set=pa.array(versions, pa.binary())),
                pc.greater(pc.binary_length(column.field("value")), 0),
            )
            return not pc.all(is_good, min_count=0).as_py()
        case ArrayType(element):
            return has_bad_variant(column.flatten(), element)
        case MapType(_, value):
            begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
            return has_bad_variant(column.items[begin:end], value)
        case RowType(fields):
            return any(has_bad_variant(part, one.type) for part, one in zip(column.flatten(), fields, strict=True))
        case _:
            return False
