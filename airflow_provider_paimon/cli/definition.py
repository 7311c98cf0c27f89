"""The commands below `airflow paimon` and their arguments; what they do is loaded when one is called."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

_CONN_ID = Arg(("--conn-id",), help="Connection to the warehouse (default: paimon_default)")
_WAREHOUSE = Arg(("--warehouse",), help="Address of the warehouse, instead of the connection's")
_TABLE = Arg(("table",), help="database.table")
_PATTERN = Arg(("--tables",), help="Only these, with * for any text: 'shop.*'", default="*")
_SINCE = Arg(("--since",), help="First day, such as 2026-11-01 (default: that of the first tag)")
_UNTIL = Arg(("--until",), help="Last day (default: that of the last tag)")
_POOL = Arg(("--pool",), help="Name of the pool (default: paimon)", default="paimon")
_SLOTS = Arg(("--slots",), help="How many tasks of the pool run at the same time (default: 2)", type=int, default=2)
_COMMANDS = "airflow_provider_paimon.cli.commands"


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its own commands."""
    return [
        GroupCommand(
            name="paimon",
            help="Show Paimon tables, and check that all requirements are installed",
            subcommands=(
                ActionCommand(
                    name="doctor",
                    help="Check programs, packages, the connection, its store and settings; exit 1 if one is wrong",
                    func=lazy_load_command(f"{_COMMANDS}.doctor"),
                    args=(_CONN_ID, _WAREHOUSE, ARG_OUTPUT, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="tables",
                    help="List tables with their newest snapshot and day",
                    func=lazy_load_command(f"{_COMMANDS}.tables"),
                    args=(_CONN_ID, _WAREHOUSE, _PATTERN, ARG_OUTPUT, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="tags",
                    help="List the tags of days, and the days that have none",
                    func=lazy_load_command(f"{_COMMANDS}.tags"),
                    args=(_TABLE, _CONN_ID, _WAREHOUSE, _SINCE, _UNTIL, ARG_OUTPUT, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="init",
                    help="Create a pool, and a connection to a warehouse, unless they exist",
                    func=lazy_load_command(f"{_COMMANDS}.init"),
                    args=(_CONN_ID, _WAREHOUSE, _POOL, _SLOTS, ARG_OUTPUT, ARG_VERBOSE),
                ),
            ),
        )
    ]
