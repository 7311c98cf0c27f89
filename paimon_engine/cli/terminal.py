"""What people see: grids of rows, sizes, progress bars, one-line errors.

Text from tables is shown, never interpreted: neither as rich markup nor as control sequences of the terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid
from rich.text import Text

from paimon_engine.errors import masked
from paimon_engine.progress import OnProgress, Progress

_PIPE_WIDTH: Final = 10_000
"""Width of output that is not shown on a terminal: programs want complete lines."""

_CELL_WIDTH_MAX: Final = 40
"""Of a long text in a table that does not fit anyway."""

_SIZES: Final = frozenset({"files", "size", "memory"})
"""Titles of columns of numbers with a unit or an arrow."""

err = Console(stderr=True)


def _out() -> Console:
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=_PIPE_WIDTH if piped else None)


class ProgressStyle(StrEnum):
    """How progress is shown."""

    BAR = "bar"
    JSON = "json"
    NONE = "none"


def say(text: str) -> None:
    """A line of result."""
    _out().print(Text(_with_escaped_surrogates(text)), soft_wrap=True)


def hint(text: str) -> None:
    """A line for people, in addition to the result."""
    err.print(Text(_with_escaped_surrogates(text), style="dim"))


def warn(text: str) -> None:
    """A line about something that was not done as requested."""
    err.print(Text(_with_escaped_surrogates(text), style="yellow"), soft_wrap=True)


def print_error(text: str) -> None:
    """The line that ends a failed command."""
    err.print(Text("error: ", style="bold red").append(Text(shown(masked(text)), style="default")), soft_wrap=True)


def print_json(value: Any) -> None:
    """A value as JSON, coloured on a terminal."""
    text = json.dumps(value, default=as_json, ensure_ascii=False)
    # Lone surrogates and control characters beyond ASCII are valid in JSON, but not on a terminal.
    _out().print_json(text, ensure_ascii=not text.isprintable())


def as_json(value: Any) -> str:
    """Text of a value that JSON has no type for."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


# ── grids ───────────────────────────────────────────────────────────────────────────────────────


def print_grid(rows: Sequence[Mapping[str, Any]], *, empty: str, flexible: Collection[str] = ()) -> None:
    """Rows with the keys of the first as header; where the terminal is narrow, `flexible` columns wrap or are cut."""
    if not rows:
        hint(empty)
        return
    grid = _grid()
    for name in rows[0]:
        side = "right" if name in _SIZES else _side([row[name] for row in rows])
        grid.add_column(name, justify=side, no_wrap=name not in flexible, overflow="ellipsis")
    for row in rows:
        grid.add_row(*(Text(_cell(value)) for value in row.values()))
    _out().print(grid)


def print_rows(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows of a table, as many columns as fit next to each other; returns the names of those that do not."""
    console = _out()
    texts = {name: [_value(row[name]) for row in rows] for name in names}
    widths = {name: max(len(name), *(len(text) for text in column), 0) for name, column in texts.items()}
    shown_names = _fitting(widths, console.width)
    grid = _grid()
    for name in shown_names:
        side = _side([row[name] for row in rows])
        grid.add_column(Text(shown(name)), justify=side, no_wrap=True, overflow="ellipsis", min_width=1)
    for number in range(len(rows)):
        grid.add_row(*(texts[name][number] for name in shown_names))
    console.print(grid)
    return [name for name in names if name not in shown_names]


def _grid() -> Grid:
    return Grid(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))


def _fitting(widths: Mapping[str, int], width: int) -> list[str]:
    """Names of the first columns that fit into `width`, long ones cut; at least one."""
    if sum(widths.values()) + 2 * len(widths) <= width:
        return list(widths)
    chosen: list[str] = []
    left = width
    for name, wanted in widths.items():
        left -= min(wanted, _CELL_WIDTH_MAX) + 2
        if chosen and left < -2:
            break
        chosen.append(name)
    return chosen


def _side(values: Sequence[Any]) -> Literal["left", "right"]:
    numbers = [value for value in values if value is not None]
    return "right" if numbers and all(isinstance(value, int | float) for value in numbers) else "left"


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case datetime():
            return value.isoformat(" ", "seconds")
        case _:
            return shown(str(value))


def _value(value: Any) -> Text:
    """A value unchanged, unlike `_cell`; null differs from the text NULL."""
    return Text("NULL", style="dim italic") if value is None else Text(shown(str(value)))


def shown(text: str) -> str:
    """The text with control characters escaped, so that stored bytes cannot control the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown_json(text: str) -> str:
    """JSON text on one line, with characters that cannot be printed escaped as JSON escapes them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _with_escaped_surrogates(text: str) -> str:
    """The text with lone surrogates escaped, as no terminal prints them; arguments may contain any bytes."""
    return text.encode(errors="backslashreplace").decode()


def count(number: int, thing: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


# ── progress ────────────────────────────────────────────────────────────────────────────────────


def print_progress_json(progress: Progress) -> None:
    """A line of JSON for the process that started this one."""
    line = {"stage": progress.stage, "done": progress.done, "total": progress.total}
    print(f"@paimon {json.dumps(line)}", file=sys.stderr, flush=True)  # noqa: T201 - the line is for a program


@contextmanager
def progress_listener(style: ProgressStyle) -> Iterator[OnProgress | None]:
    """A listener that shows bars on a terminal, or prints a line of JSON for each step."""
    if style is ProgressStyle.JSON:
        yield print_progress_json
        return
    if style is ProgressStyle.NONE or not err.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=err, transient=True) as bars:
        known: dict[str, TaskID] = {}

        def show(progress: Progress) -> None:
            if progress.stage not in known:
                known[progress.stage] = bars.add_task(progress.stage, total=progress.total)
            bars.update(known[progress.stage], completed=progress.done, total=progress.total)

        yield show


@contextmanager
def working(what: str, style: ProgressStyle = ProgressStyle.BAR) -> Iterator[None]:
    """Shows on a terminal that work without countable steps is running."""
    if style is not ProgressStyle.BAR or not err.is_terminal:
        yield
        return
    with err.status(Text(what)):
        yield


@contextmanager
def row_counter(what: str) -> Iterator[Any]:
    """A function that is given how many rows more have passed, and shows the sum on a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,.0f} rows"), TimeElapsedColumn())
    with Bars(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task(what, total=None)
        yield lambda rows: bars.advance(task, rows)
