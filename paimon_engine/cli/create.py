"""The command that makes tables: create."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paimon_engine.cli.arguments import CatalogOption, JsonOption, StorageOption, WarehouseOption, open_catalog
from paimon_engine.cli.terminal import print_json, say
from paimon_engine.errors import InvalidArgumentError

_STATEMENT = "CREATE TABLE db.t (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')"


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module, with examples below their help."""
    app.command(
        epilog="Examples:\n\n"
        f'`paimon-engine create "{_STATEMENT}" -w /lake`\n\n'
        "`paimon-engine create - -w /lake < table.sql`"
    )(create)


def create(
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="CREATE TABLE as for Flink or Spark; `-` reads standard input.")
    ],
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing table is accepted.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create a table from a CREATE TABLE statement."""
    if warehouse is None and not catalog:
        raise InvalidArgumentError("name a warehouse: paimon-engine create STATEMENT -w /lake")
    text = sys.stdin.read() if statement == "-" else statement
    made = open_catalog(warehouse, storage, catalog).create_table(sql=text, if_not_exists=if_not_exists)
    if as_json:
        print_json({"path": made.path, "schema_id": made.schema.id, "columns": list(made.schema.row_type.names)})
    else:
        say(f"{made.path}: {', '.join(made.schema.row_type.names)}")
