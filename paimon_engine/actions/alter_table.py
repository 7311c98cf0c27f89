"""ALTER TABLE: the next schema of a table, in one file that is created completely or not at all.

1. The changes are applied to the newest schema and checked like a new table.
2. The new schema gets the next id. If another writer has taken that id, the changes are applied to its schema again.

No data file is touched: files of older schemas are read through the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.alteration import altered
from paimon_engine.meta.schema import TableSchema, parse_schema
from paimon_engine.meta.schema_change import SchemaChange, as_changes, change_to_json
from paimon_engine.specs import Spec, check_fields
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.schema_commit import alter_schema, stored_schema


@dataclass(frozen=True, slots=True)
class AlterTable(Spec):
    """Changes of a schema, in order; all of them are made, or none. Stored in their JSON form."""

    changes: Annotated[
        Sequence[SchemaChange | Mapping[str, Any]], 'changes in order, such as [{"change": "drop_column", "name": "a"}]'
    ]

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for anything that is not a change."""
        check_fields(self)
        if not self.changes:
            raise InvalidArgumentError("no change is given; name at least one")
        plain = tuple(change_to_json(change) for change in as_changes(self.changes))
        object.__setattr__(self, "changes", plain)


@dataclass(frozen=True, slots=True)
class AlterResult(Result):
    """What ALTER did; `status` is `altered`, or `noop` if the table already is as the changes would make it."""

    status: str
    schema_id: int
    old_schema_id: int
    columns: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def alter_table(context: Context, spec: AlterTable) -> AlterResult:
    """Changes the schema of the table's branch.

    With a `commit_user`, changes that have already produced the newest schema are a `noop`: the job ran before.

    Raises: InvalidArgumentError, UnsupportedError naming the change that is not supported; ConflictError; StorageError.
    """
    table = context.table
    changes = as_changes(spec.changes)
    try:
        before, after = alter_schema(table, changes)
    except InvalidArgumentError:
        latest = stored_schema(table)
        if context.commit_user is None or not _was_made_by(table, latest, changes):
            raise
        before = after = latest
    return AlterResult(
        status="noop" if after is before else "altered",
        schema_id=after.id,
        old_schema_id=before.id,
        columns=after.row_type.names,
    )


def _was_made_by(table: TableHandle, latest: TableSchema, changes: Sequence[SchemaChange]) -> bool:
    """Whether the changes made the newest schema out of the one before."""
    if latest.id == 0:
        return False
    path = table.paths.schema(latest.id - 1)
    before = parse_schema(table.env.storage.read(path).decode(), path)
    try:
        return altered(before, changes, has_snapshots=False, time_ms=latest.time_ms) == latest
    except InvalidArgumentError:
        return False
