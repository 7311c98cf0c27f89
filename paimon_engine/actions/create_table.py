"""Create a table, or check that the existing one is as specified.

A job makes the table where there is none, before the action runs: the action then finds it in its context, new. Of a
table that was there, `if_exists` says what is to be done. To verify is the default, as a repeated job finds what an
earlier attempt has made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import AlreadyExistsError, InvalidArgumentError
from paimon_engine.meta.create_statement import parse_create_table
from paimon_engine.meta.schema_difference import differences
from paimon_engine.specs import Name, Spec, Texts
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.warehouse import TableDraft


@dataclass(frozen=True, slots=True)
class CreateTable(Spec):
    """Create a table: by `columns` with Paimon's types, keys, options and comment; or by a statement in `sql`.

    `if_exists` says what to do if the table exists: `verify` that its definition is this one, `ignore` it, or
    take it for an `error`.
    """

    columns: Annotated[Texts | None, "columns with their types, such as INT NOT NULL or VARCHAR(10)"] = None
    primary_keys: Annotated[Sequence[Name] | None, "columns that identify a row; none makes an append table"] = None
    partition_keys: Annotated[Sequence[Name] | None, "columns by whose values rows are stored in directories"] = None
    options: Annotated[Texts | None, "options of the table"] = None
    comment: Annotated[str | None, "what the table is"] = None
    sql: Annotated[str | None, "CREATE TABLE as for Flink or Spark, instead of columns, keys and comment"] = None
    if_exists: Annotated[
        Literal["verify", "ignore", "error"], "what to do if the table exists: verify, ignore or error"
    ] = "verify"


@dataclass(frozen=True, slots=True)
class CreateTableResult(Result):
    """Outcome; `status` is `created`, or `exists` if the table existed before. `columns` are the table's."""

    status: str
    path: str
    schema_id: int
    columns: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def create_table(context: Context, spec: CreateTable) -> CreateTableResult:
    """Reports whether the table was created or existed; it exists when this runs.

    Raises: InvalidArgumentError if its definition is different, naming the differences; ConflictError if it should
    not have been there.
    """
    table = context.table
    if not context.is_new:
        _check_existing(table, spec)
    names = tuple(table.schema.row_type.names)
    return CreateTableResult("created" if context.is_new else "exists", table.paths.root, table.schema.id, names)


def draft_of(spec: CreateTable, name: str | None = None) -> TableDraft:
    """The table as the spec defines it; `name` is `database.table`, which a statement must agree with.

    Raises: InvalidArgumentError unless there is exactly one of columns and sql; UnsupportedError.
    """
    if (spec.columns is None) == (spec.sql is None):
        raise InvalidArgumentError("create_table: give columns with their types, or a CREATE TABLE statement as sql")
    keys, partitions = tuple(spec.primary_keys or ()), tuple(spec.partition_keys or ())
    if spec.sql is None:
        assert spec.columns is not None
        return TableDraft(spec.columns, keys, partitions, dict(spec.options or {}), spec.comment)
    if keys or partitions or spec.comment is not None:
        raise InvalidArgumentError("create_table: sql defines columns, keys and comment; give only options with it")
    made = parse_create_table(spec.sql)
    if name is not None and made.name not in (name, name.rpartition(".")[2]):
        raise InvalidArgumentError(f"create_table: the table is {name}, but the statement creates {made.name}")
    options = {**(made.options or {}), **(spec.options or {})}
    return TableDraft(made.columns, made.primary_keys, made.partition_keys, options, made.comment)


def _check_existing(table: TableHandle, spec: CreateTable) -> None:
    wanted = draft_of(spec)
    if spec.if_exists == "error":
        raise AlreadyExistsError(f"{table.paths.root}: the table exists; if_exists='verify' or 'ignore' accepts that")
    if spec.if_exists == "ignore":
        return
    other = differences(wanted.first_schema(table.env), table.schema)
    if other:
        raise InvalidArgumentError(
            f"{table.paths.root}: the table exists, and its definition is different: {'; '.join(other)}"
        )
