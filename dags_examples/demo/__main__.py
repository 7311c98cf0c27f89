"""`python -m dags_examples.demo` runs the demo afresh; with `ui` it opens the Airflow UI on what the demo left."""

from __future__ import annotations

import fcntl
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from dags_examples.demo.airflow_process import AirflowFailedError, LocalAirflow
from dags_examples.demo.follow import RunFailedError, follow
from dags_examples.demo.report import print_report
from dags_examples.settings import DAYS, HOME

PROJECT = Path(__file__).resolve().parents[2]
AIRFLOW_HOME = PROJECT / ".airflow"
UI_PORT = 8080

app = typer.Typer(add_completion=False, rich_markup_mode=None)
console = Console(highlight=False)


@app.callback(invoke_without_command=True)
def demo(context: typer.Context) -> None:
    """Runs the example DAGs on seven days of real flights and reports what they did."""
    if context.invoked_subcommand is not None:
        return
    with _alone():
        for folder in (AIRFLOW_HOME, HOME):
            shutil.rmtree(folder, ignore_errors=True)
        console.print(f"Running {DAYS} days of flights through Airflow, embedded Spark and Paimon\n")
        begun = time.monotonic()
        with LocalAirflow(AIRFLOW_HOME, PROJECT) as airflow:
            with console.status("Starting Airflow"):
                airflow.wait_until_healthy()
            airflow_start_s = time.monotonic() - begun
            console.print(f"Airflow is up after {airflow_start_s:.0f} s")
            runs = follow(airflow, console, days=DAYS)
            print_report(console, runs, airflow_start_s=airflow_start_s, total_s=time.monotonic() - begun)


@app.command()
def ui() -> None:
    """Opens the Airflow UI on what the demo left; Ctrl-C ends it."""
    if not (AIRFLOW_HOME / "airflow.db").exists():
        _fail("There is nothing to show yet: run `make demo` first")
    with _alone(), LocalAirflow(AIRFLOW_HOME, PROJECT, port=UI_PORT) as airflow:
        with console.status("Starting Airflow"):
            airflow.wait_until_healthy()
        console.print(f"Airflow is at {airflow.url} (no login is needed); Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            airflow.wait()


@contextmanager
def _alone() -> Iterator[None]:
    """Keeps two demos from working in the same folders, and turns signals and failures into a clean end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    (PROJECT / ".cache").mkdir(exist_ok=True)
    try:
        with (PROJECT / ".cache" / "demo.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        _fail("Another `make demo` or `make ui` is running in this folder: end it first")
    except (AirflowFailedError, RunFailedError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("Stopped", code=130)


def _fail(message: str, code: int = 1) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    app()
