"""In what a table differs from its definition."""

from __future__ import annotations

import json
from typing import Any

from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import DataType, type_to_json


def differences(wanted: TableSchema, found: TableSchema) -> list[str]:
    """The differences between a table and its definition, each as one text; empty if there are none.

    Columns are compared with their order, types and nullability, without ids and comments. Options and a comment that
    the definition does not name may exist: a catalog's defaults, or what was set since.
    """
    return [*_columns(wanted, found), *_keys(wanted, found), *_options(wanted, found)]


def _columns(wanted: TableSchema, found: TableSchema) -> list[str]:
    ours = {item.name: _type_text(item.type) for item in wanted.row_type}
    theirs = {item.name: _type_text(item.type) for item in found.row_type}
    texts = [f"column {name} is missing" for name in ours if name not in theirs]
    texts += [f"column {name} is not in the definition" for name in theirs if name not in ours]
    texts += [
        f"column {name} is {theirs[name]}, not {kind}"
        for name, kind in ours.items()
        if name in theirs and theirs[name] != kind
    ]
    if not texts and list(ours) != list(theirs):
        texts.append(f"the order of the columns is {', '.join(theirs)}, not {', '.join(ours)}")
    return texts


def _keys(wanted: TableSchema, found: TableSchema) -> list[str]:
    pairs = (
        ("primary key", wanted.primary_keys, found.primary_keys),
        ("partition key", wanted.partition_keys, found.partition_keys),
    )
    return [
        f"the {what} is {', '.join(theirs) or 'none'}, not {', '.join(ours) or 'none'}"
        for what, ours, theirs in pairs
        if tuple(ours) != tuple(theirs)
    ]


def _options(wanted: TableSchema, found: TableSchema) -> list[str]:
    stored = found.table_options.raw
    texts = [
        f"option {name} is {stored.get(name, 'not set')}, not {value}"
        for name, value in wanted.table_options.raw.items()
        if stored.get(name) != value
    ]
    if wanted.comment is not None and wanted.comment != found.comment:
        texts.append(f"the comment is {found.comment or 'none'!r}, not {wanted.comment!r}")
    return texts


def _type_text(data_type: DataType) -> str:
    value = _plain(type_to_json(data_type))
    return value if isinstance(value, str) else json.dumps(value)


def _plain(value: Any) -> Any:
    """The type without ids and comments of fields."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items() if name not in ("id", "description")}
    return [_plain(part) for part in value] if isinstance(value, list) else value
