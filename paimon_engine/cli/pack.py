"""The command that packs what workers of a cluster need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paimon_engine.cli.terminal import hint, say, working
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.units import size_text as size


def add_commands(app: typer.Typer) -> None:
    """Adds the command, with examples below its help."""
    examples = (
        "Examples:\n\n`paimon-engine pack engine.zip`: for `--py-files`\n\n"
        "`paimon-engine pack environment.tar.gz --with s3fs`: for `--archives environment.tar.gz#environment`\n\n"
        "`paimon-engine pack wheels/`: a wheel for `pip install`"
    )
    app.command("pack", epilog=examples)(pack)


def pack(
    out: Annotated[
        Path,
        typer.Argument(
            help="FILE.zip: the engine alone. FILE.tar.gz: a Python environment with the engine and its packages. "
            "A folder: a wheel of the engine."
        ),
    ],
    more: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PACKAGE", help="One more package for the environment; may be repeated."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="PROGRAM", help="Python of the environment; this one by default."),
    ] = None,
) -> None:
    """Pack what workers of a Spark cluster need: the engine, or an environment with all its packages. Never Airflow.

    The environment has the versions that are installed here. Its workers need the same Python at the same path, and
    the same operating system.
    """
    from paimon_engine.packing import engine_wheel, write_archive
    from paimon_engine.packing_environment import pack_environment

    is_environment = out.name.endswith((".tar.gz", ".tgz"))
    if not is_environment and (more or python):
        raise InvalidArgumentError("--with and --python are for an environment: name the file .tar.gz")
    if is_environment:
        with working("installing the packages"):
            pack_environment(out, more=more or (), python=python)
        say(f"packed {out}, {size(out.stat().st_size)}")
        hint(f"spark-submit --archives {out}#environment --conf spark.pyspark.python=./environment/bin/python")
    elif out.suffix == ".zip":
        write_archive(out)
        say(f"packed {out}, {size(out.stat().st_size)}")
        hint(f"spark-submit --py-files {out}")
    elif out.is_dir():
        wheel = engine_wheel(out)
        say(f"packed {wheel}, {size(wheel.stat().st_size)}")
        hint(f"pip install {wheel}")
    else:
        raise InvalidArgumentError(f"{out} is neither a folder nor a file name that ends in .zip or .tar.gz")
