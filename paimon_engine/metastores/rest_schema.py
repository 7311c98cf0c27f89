"""Schemas of a table that a REST server keeps: the client sends changes, and the server creates the next schema.

Source: `SchemaChange`, `RESTCatalog.alterTable` of the Java library; `AlterTableRequest` of the specification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from paimon_engine.errors import REMEDY, CorruptTableError
from paimon_engine.meta.alteration import path_of, steps, type_at
from paimon_engine.meta.schema import TableSchema, parse_schema
from paimon_engine.meta.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from paimon_engine.meta.type_text import to_data_type
from paimon_engine.metastores.config import CatalogConfig
from paimon_engine.metastores.rest_client import client_of, part, unclear
from paimon_engine.metastores.rest_snapshots import branch_object
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import type_to_json

_SCHEMA_VERSION: Final = 3


@dataclass(frozen=True)
class RestSchemaService:
    """`SchemaService` of one table."""

    config: CatalogConfig
    database: str
    table: str

    def latest(self, table: TableHandle) -> TableSchema:
        client = client_of(self.config)
        answer = client.get(*self._path(table))
        return schema_of_answer(answer, f"{client}: table {self.database}.{self.table}")

    def alter(self, table: TableHandle, schema: TableSchema, changes: Sequence[SchemaChange]) -> None:
        body = {"changes": changes_to_json(schema, changes)}
        client_of(self.config).post(*self._path(table), body=body)

    def table_id(self) -> str | None:
        found = client_of(self.config).get("databases", self.database, "tables", self.table).get("id")
        return None if found is None else str(found)

    def _path(self, table: TableHandle) -> tuple[str, ...]:
        return "databases", self.database, "tables", branch_object(self.table, table.paths.branch)


def schema_of_answer(answer: Mapping[str, Any], source: str) -> TableSchema:
    """The schema in a server's answer about a table; `source` names the answer in errors.

    The answer lacks some fields of a schema file; these are filled in, so that one parser reads both.

    Raises: StorageError if it is not valid; UnsupportedError.
    """
    given = part(answer, "schema", dict, source) or {}
    fields = part(given, "fields", list, source) or []
    stored = {
        **given,
        "version": _SCHEMA_VERSION,
        "id": answer.get("schemaId"),
        "highestFieldId": max((_highest_id(item) for item in fields), default=-1),
        "timeMillis": answer.get("updatedAt") or 0,
    }
    try:
        return parse_schema(json.dumps(stored), "the answer")
    except CorruptTableError as error:
        # The server's word, not a file: there is nothing to restore.
        raise unclear("GET", source, str(error).removesuffix(f"; {REMEDY}")) from error


def _highest_id(value: Any) -> int:
    """The largest field id in a column's JSON, those of nested fields included; -1 if it has none."""
    if isinstance(value, dict):
        own = value["id"] if isinstance(value.get("id"), int) else -1
        return max([own, *(_highest_id(item) for item in value.values())])
    return max((_highest_id(item) for item in value), default=-1) if isinstance(value, list) else -1


def changes_to_json(schema: TableSchema, changes: Sequence[SchemaChange]) -> list[dict[str, Any]]:
    """The changes as JSON of the REST specification, each applied to the result of those before it.

    Raises: InvalidArgumentError for changes that cannot be made.
    """
    return [_change_to_json(before, after, change) for change, before, after in steps(schema, changes)]


def _change_to_json(before: TableSchema, after: TableSchema, change: SchemaChange) -> dict[str, Any]:
    """One change, with the schemas before and after it, as JSON of the REST specification."""
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case RemoveOption(key):
            return {"action": "removeOption", "key": key}
        case UpdateComment(comment):
            return {"action": "updateComment", "comment": comment}
        case MoveColumn(name):
            return {"action": "updateColumnPosition", "move": _move(name, change)}
    path = path_of(before.row_type, change.name)
    more: dict[str, Any]
    match change:
        case AddColumn():
            move = _move(path[-1], change)
            more = {"action": "addColumn", "dataType": type_to_json(to_data_type(change.type))}
            more |= {} if change.comment is None else {"comment": change.comment}
            more |= {} if move is None else {"move": move}
        case RenameColumn(_, to):
            more = {"action": "renameColumn", "newName": to}
        case DropColumn():
            more = {"action": "dropColumn"}
        case UpdateColumnType():
            # The resulting type with its nullability, so that the server does not have to apply its own rules.
            kind = type_to_json(type_at(after.row_type, path))
            more = {"action": "updateColumnType", "newDataType": kind, "keepNullability": False}
        case UpdateColumnNullability(_, nullable):
            more = {"action": "updateColumnNullability", "newNullability": nullable}
        case UpdateColumnComment(_, comment):
            more = {"action": "updateColumnComment", "newComment": comment}
        case UpdateColumnDefault(_, default):
            more = {"action": "updateColumnDefaultValue", "newDefaultValue": default}
        case _:
            assert_never(change)
    return {"fieldNames": list(path), **more}


def _move(name: str, change: AddColumn | MoveColumn) -> dict[str, str | None] | None:
    """The column's new position as JSON; None if the change gives none."""
    position: tuple[str, str | None]
    if change.first:
        position = ("FIRST", None)
    elif isinstance(change, MoveColumn) and change.last:
        position = ("LAST", None)
    elif change.after is not None:
        position = ("AFTER", change.after)
    elif change.before is not None:
        position = ("BEFORE", change.before)
    else:
        return None
    kind, reference = position
    return {"fieldName": name, "referenceFieldName": reference, "type": kind}
