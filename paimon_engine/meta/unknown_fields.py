"""Fields of metadata records that this engine does not know: read, kept, and written again unchanged.

Later releases add fields to manifests and manifest lists. A record that is written again, because manifests were
merged or a list grew, keeps them, each with the Avro type that its writer gave it. All become nullable, since records
of other writers lack them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

_PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class UnknownField(NamedTuple):
    """Value of a field, and its Avro type; None where the type refers to others."""

    value: Any
    avro_type: Any


UnknownFields = Mapping[str, UnknownField]
NO_FIELDS: Final[UnknownFields] = {}


def unknown_types(fields: Iterable[Mapping[str, Any]], known: Collection[str]) -> dict[str, Any]:
    """Avro type of each field of a record's schema that is not `known`; None where it refers to another type."""
    found = {field["name"]: field["type"] for field in fields if field["name"] not in known}
    return {name: avro_type if _is_self_contained(avro_type) else None for name, avro_type in found.items()}


def _is_self_contained(avro_type: Any) -> bool:
    """Whether the type makes sense without the schema that it comes from."""
    match avro_type:
        case str():
            return avro_type in _PRIMITIVE
        case list():
            return all(_is_self_contained(part) for part in avro_type)
        case {"type": "record", "fields": fields}:
            return all(_is_self_contained(field["type"]) for field in fields)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            return _is_self_contained(inner)
        case {"type": "enum" | "fixed"}:
            return True
        case {"type": inner}:
            return _is_self_contained(inner)
    return False


def take_unknown(record: Mapping[str, Any], types: Mapping[str, Any]) -> UnknownFields:
    """The record's fields of these names that have a value."""
    if not types:
        return NO_FIELDS
    return {name: UnknownField(record[name], kind) for name, kind in types.items() if record.get(name) is not None}


def values_of(fields: UnknownFields) -> dict[str, Any]:
    """Field name → value, as a part of a record."""
    return {name: field.value for name, field in fields.items()}


def schema_fields(records: Iterable[UnknownFields]) -> list[dict[str, Any]] | None:
    """Avro fields that take the unknown fields of all records; None if they cannot go into one file.

    That is: a type is not known on its own, or two records differ in the type of a field.
    """
    types: dict[str, Any] = {}
    for record in records:
        for name, field in record.items():
            if field.avro_type is None or types.setdefault(name, field.avro_type) != field.avro_type:
                return None
    return [{"name": name, "type": _nullable(kind), "default": None} for name, kind in types.items()]


def _nullable(avro_type: Any) -> list[Any]:
    parts = avro_type if isinstance(avro_type, list) else [avro_type]
    return ["null", *(part for part in parts if part != "null")]
