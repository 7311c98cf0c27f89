"""The command line: `paimon-engine COMMAND TABLE`.

TABLE is a table's directory, or `database.table` together with `--warehouse`. Results go to standard output,
progress and errors to standard error. Exit code 0: done; 1: failed; 2: called wrongly.
"""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Annotated, TextIO

import typer

from paimon_engine.arrow_memory import choose_for_process
from paimon_engine.cli import (
    alter,
    branches,
    change,
    clean_up,
    create,
    expire,
    export,
    look,
    metadata,
    pack,
    partitions,
    repair,
    rollback,
    run,
    tags,
)
from paimon_engine.cli.faces import ActionGroup
from paimon_engine.cli.terminal import print_error, warn
from paimon_engine.errors import InvalidArgumentError, PaimonError, PaimonWarning

app = typer.Typer(
    name="paimon-engine",
    cls=ActionGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
look.add_commands(app)
change.add_commands(app)
rollback.add_commands(app)
run.add_commands(app)
pack.add_commands(app)
expire.add_commands(app)
export.add_commands(app)
tags.add_commands(app)
branches.add_commands(app)
create.add_commands(app)
alter.add_commands(app)
metadata.add_commands(app)
clean_up.add_commands(app)
repair.add_commands(app)
partitions.add_commands(app)

_engine_logger = logging.getLogger("paimon_engine")


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"paimon-engine {version('airflow-provider-paimon')}")
        raise typer.Exit


@app.callback()
def paimon_engine(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each step; show where errors arise.")] = False,
    version: Annotated[  # noqa: ARG001 - typer calls the callback
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Read and maintain Apache Paimon tables: compact, tag, expire, roll back and more."""
    choose_for_process()
    warnings.showwarning = _show_warning
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if verbose:
        _engine_logger.setLevel(logging.DEBUG)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,  # noqa: ARG001 - Python gives where it was
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """One line for people."""
    warn(str(message) if issubclass(category, PaimonWarning) else f"{category.__name__}: {message}")


def main() -> None:
    """Entry point: the engine's errors, and those of local files and of too little memory, become one line."""
    try:
        app(prog_name="paimon-engine")
    except (PaimonError, OSError, MemoryError) as error:
        if _engine_logger.isEnabledFor(logging.DEBUG):
            logging.getLogger(__name__).exception("failed")
        print_error(_line(error))
        sys.exit(2 if isinstance(error, InvalidArgumentError) else 1)


def _line(error: Exception) -> str:
    """One line for people. The message of a failed task also has its trace, which only --verbose shows."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error).partition("\n")[0] or repr(error)
