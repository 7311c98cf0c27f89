"""The commands below `paimon-engine alter`: one change each, or several at once from JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from paimon_engine.cli.arguments import CatalogOption, JsonOption, StorageOption, TableArgument, WarehouseOption, job_on
from paimon_engine.cli.faces import finish
from paimon_engine.cli.running import run_quick
from paimon_engine.cli.terminal import say
from paimon_engine.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ColumnArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="COLUMN", help="Name, or a path such as `address.city` or `items.element.price`.")
]
TypeArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TYPE", help="Such as `INT`, `DECIMAL(10, 2)`, `ARRAY<STRING>`, `ROW<a INT, b DATE>`.")
]
FirstOption: TypeAlias = Annotated[bool, typer.Option("--first", help="Before all other columns.")]
LastOption: TypeAlias = Annotated[bool, typer.Option("--last", help="After all other columns.")]
AfterOption: TypeAlias = Annotated[str | None, typer.Option(metavar="COLUMN", help="After that column.")]
BeforeOption: TypeAlias = Annotated[str | None, typer.Option(metavar="COLUMN", help="Before that column.")]


def add_commands(app: typer.Typer) -> None:
    """Adds the group of commands."""
    alter = typer.Typer(help="Change columns, options and comments.", no_args_is_help=True)
    for name, command, arguments in (
        ("add-column", add_column, "/lake/db.db/t city STRING --after name"),
        ("rename-column", rename_column, "/lake/db.db/t v value"),
        ("drop-column", drop_column, "/lake/db.db/t old older"),
        ("type", column_type, "/lake/db.db/t v BIGINT"),
        ("nullable", nullable, "/lake/db.db/t v"),
        ("move-column", move_column, "/lake/db.db/t v --first"),
        ("default", default, "/lake/db.db/t v 0"),
        ("comment", comment, "/lake/db.db/t 'in metres' --column v"),
        ("set", set_options, "/lake/db.db/t snapshot.time-retained='2 h'"),
        ("unset", unset_options, "/lake/db.db/t snapshot.time-retained"),
        ("apply", apply, """db.t -w /lake '[{"change": "drop_column", "name": "a"}]'"""),
    ):
        alter.command(name, epilog=f"Examples:\n\n`paimon-engine alter {name} {arguments}`")(command)
    app.add_typer(alter, name="alter")


def _run(
    named: tuple[str, str | None, Sequence[str] | None, Sequence[str] | None],
    changes: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
) -> None:
    from paimon_engine.actions.alter_table import AlterTable

    details = run_quick(job_on(*named, AlterTable(changes)), "changing the schema")
    finish(details, None, _print_result, as_json=as_json)


def _print_result(details: Mapping[str, Any], _: Any) -> None:
    if details["status"] == "noop":
        say(f"nothing to change: schema {details['schema_id']} is so already")
    else:
        say(f"altered: schema {details['old_schema_id']} → {details['schema_id']}: {', '.join(details['columns'])}")


def _place(*, first: bool, last: bool = False, after: str | None, before: str | None) -> dict[str, Any]:
    given = {"first": first, "last": last, "after": after, "before": before}
    return {name: value for name, value in given.items() if value}


def add_column(
    table: TableArgument,
    column: ColumnArgument,
    data_type: TypeArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    text: Annotated[str | None, typer.Option("--comment", help="Comment of the column.")] = None,
    first: FirstOption = False,
    after: AfterOption = None,
    before: BeforeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a column, or a field of a ROW; it is null in existing rows."""
    change = {"change": "add_column", "name": column, "type": data_type, "comment": text}
    change |= _place(first=first, after=after, before=before)
    _run((table, warehouse, storage, catalog), [change], as_json=as_json)


def rename_column(
    table: TableArgument,
    column: ColumnArgument,
    to: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a column another name; keys and options that name it follow."""
    _run((table, warehouse, storage, catalog), [{"change": "rename_column", "name": column, "to": to}], as_json=as_json)


def drop_column(
    table: TableArgument,
    columns: Annotated[list[str], typer.Argument(metavar="COLUMN...", help="Names or paths.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop columns; their values stay in the files, but nothing reads them."""
    changes = [{"change": "drop_column", "name": column} for column in columns]
    _run((table, warehouse, storage, catalog), changes, as_json=as_json)


def column_type(
    table: TableArgument,
    column: ColumnArgument,
    data_type: TypeArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the type of a column; old values are cast when they are read."""
    change = {"change": "update_column_type", "name": column, "type": data_type}
    _run((table, warehouse, storage, catalog), [change], as_json=as_json)


def nullable(
    table: TableArgument,
    column: ColumnArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    not_null: Annotated[bool, typer.Option("--not-null", help="Forbid nulls instead.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let a column contain nulls, or forbid them."""
    change = {"change": "update_column_nullability", "name": column, "nullable": not not_null}
    _run((table, warehouse, storage, catalog), [change], as_json=as_json)


def move_column(
    table: TableArgument,
    column: ColumnArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    first: FirstOption = False,
    last: LastOption = False,
    after: AfterOption = None,
    before: BeforeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move a column to another position."""
    change = {"change": "move_column", "name": column, **_place(first=first, last=last, after=after, before=before)}
    _run((table, warehouse, storage, catalog), [change], as_json=as_json)


def default(
    table: TableArgument,
    column: ColumnArgument,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="As text; none removes the default.")] = None,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the value that is written instead of null (Paimon 1.2 and later)."""
    change = {"change": "update_column_default", "name": column, "default": value}
    _run((table, warehouse, storage, catalog), [change], as_json=as_json)


def comment(
    table: TableArgument,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="None removes the comment.")] = None,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    column: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of this column, not of the table.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Set or remove the comment of the table or of a column."""
    change: dict[str, Any] = {"change": "update_comment", "comment": text}
    if column is not None:
        change = {"change": "update_column_comment", "name": column, "comment": text}
    _run((table, warehouse, storage, catalog), [change], as_json=as_json)


def set_options(
    table: TableArgument,
    options: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Table options.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set table options."""
    from paimon_engine.cli.arguments import key_values

    changes = [
        {"change": "set_option", "key": key, "value": value} for key, value in key_values("option", options).items()
    ]
    _run((table, warehouse, storage, catalog), changes, as_json=as_json)


def unset_options(
    table: TableArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Names of table options.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give table options their defaults."""
    _run(
        (table, warehouse, storage, catalog), [{"change": "remove_option", "key": key} for key in keys], as_json=as_json
    )


def apply(
    table: TableArgument,
    changes: Annotated[str, typer.Argument(metavar="JSON", help="A list of changes; - reads standard input.")],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make several changes at once: all, or none."""
    text = sys.stdin.read() if changes == "-" else changes
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"the changes are not JSON: {error}") from error
    _run((table, warehouse, storage, catalog), value, as_json=as_json)
