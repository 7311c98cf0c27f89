"""What the commands below `airflow paimon` do."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any, Final
from urllib.parse import urlsplit

from airflow.cli.simple_table import AirflowConsole
from airflow.exceptions import AirflowNotFoundException
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from rich.markup import escape

from airflow_provider_paimon.cli.examine import examine
from airflow_provider_paimon.cli.warehouse import hook_of
from airflow_provider_paimon.connection_check import missing_directory
from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.tag_schedule import day_of_tag
from paimon_engine.errors import InvalidArgumentError, NotFoundError, PaimonError, masked

_DAY: Final = timedelta(days=1)
_DAYS_MAX: Final = 3660


def _command(function: Callable[[Any], int]) -> Callable[[Any], None]:
    """What commands have in common: quiet logs, the provider's settings, and errors in one line."""

    @suppress_logs_and_warning
    @providers_configuration_loaded
    @wraps(function)
    def run(args: Any) -> None:
        try:
            code = function(args)
        except (PaimonError, AirflowNotFoundException, OSError, ValueError) as error:
            sys.exit(f"airflow paimon: {masked(str(error))}")
        sys.exit(code)

    wrapped: Callable[[Any], None] = run
    return wrapped


@_command
def doctor(args: Any) -> int:
    """Shows what was checked and how to correct what is wrong."""
    findings = examine(args.conn_id, args.warehouse)
    if args.output == "table":
        rows = [(item.what, "ok" if item.is_ok else "wrong", item.found, item.remedy) for item in findings]
        _show([dict(zip(("what", "is", "found", "what to do"), row, strict=True)) for row in rows], args.output)
    else:
        _show([item.to_dict() for item in findings], args.output)
    return 0 if all(item.is_ok for item in findings) else 1


@_command
def tables(args: Any) -> int:
    """Shows the tables of a warehouse."""
    hook = hook_of(args.conn_id, args.warehouse)
    catalog = hook.catalog()
    databases = catalog.list_databases()
    if not databases and (missing := missing_directory(hook)) is not None:
        raise NotFoundError(missing)
    names = [f"{database}.{name}" for database in databases for name in catalog.list_tables(database)]
    _show([_table_row(hook, name) for name in names if fnmatchcase(name, args.tables)], args.output)
    return 0


def _table_row(hook: PaimonHook, name: str) -> dict[str, Any]:
    """A table; where it cannot be read, why."""
    parts = ("snapshot", "committed", "kind", "rows", "tags", "last_day", "problem")
    row: dict[str, Any] = {"table": name, **dict.fromkeys(parts)}
    try:
        newest, tags = hook.latest_snapshot(name), hook.tags(name)
    except (PaimonError, OSError) as error:
        return {**row, "problem": masked(str(error))}
    days = sorted(day for day in map(day_of_tag, tags) if day is not None)
    row |= {"tags": len(tags), "last_day": days[-1].isoformat() if days else None}
    if newest is None:
        return row
    return row | {
        "snapshot": newest["snapshot_id"],
        "committed": newest["commit_time"].isoformat(sep=" ", timespec="seconds"),
        "kind": newest["commit_kind"],
        "rows": newest["total_record_count"],
    }


@_command
def tags(args: Any) -> int:
    """Shows the tags of days, and the days between them that have none."""
    found = hook_of(args.conn_id, args.warehouse).tags(args.table)
    by_day = {day: tag for tag in found if (day := day_of_tag(tag)) is not None}
    since, until = (_day(name, getattr(args, name)) for name in ("since", "until"))
    known = sorted(by_day)
    first, last = since or (known[0] if known else None), until or (known[-1] if known else None)
    rows: list[dict[str, Any]] = []
    for day in _days(first, last):
        tag = by_day.get(day)
        rows.append({"day": day.isoformat(), "tag": tag or "missing", "snapshot": found[tag] if tag else None})
    _show(rows, args.output)
    return 0


def _days(first: date | None, last: date | None) -> Iterator[date]:
    """All days between the two. Raises: InvalidArgumentError for too many."""
    if first is None or last is None:
        return
    if (last - first).days > _DAYS_MAX:
        raise InvalidArgumentError(f"from {first} to {last} are more than {_DAYS_MAX} days; give --since and --until")
    day = first
    while day <= last:
        yield day
        day += _DAY


def _day(name: str, text: str | None) -> date | None:
    if text is None:
        return None
    if text in ("today", "yesterday"):
        today = datetime.now(UTC).date()
        return today if text == "today" else today - _DAY
    day = day_of_tag(text)
    if day is None:
        raise InvalidArgumentError(f"--{name} {text!r} is not a day; write it as 2026-11-01")
    return day


@_command
def init(args: Any) -> int:
    """Creates what is missing, and does not change what exists."""
    from airflow.models.connection import Connection
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session

    if args.slots < 1:
        raise InvalidArgumentError(f"--slots {args.slots}: a pool needs at least one slot, or its tasks never run")
    conn_id = args.conn_id or PaimonHook.default_conn_name
    if args.warehouse and "@" in urlsplit(args.warehouse).netloc:
        raise InvalidArgumentError(
            "the warehouse's address contains credentials; set login and password of the connection"
        )
    if args.warehouse and "://" not in args.warehouse and not os.path.isabs(args.warehouse.removeprefix("file:")):
        raise InvalidArgumentError(
            f"--warehouse {args.warehouse}: give a path that begins with /, as each process has its own working "
            "directory"
        )
    rows = []
    with create_session() as session:
        is_there = Pool.get_pool(args.pool, session=session) is not None
        if not is_there:
            session.add(
                Pool(pool=args.pool, slots=args.slots, description="Work on Paimon tables", include_deferred=False)
            )
        rows.append({"what": f"pool {args.pool}", "state": "exists" if is_there else f"created, {args.slots} slots"})
        is_there = session.query(Connection).filter_by(conn_id=conn_id).first() is not None
        state = "exists"
        if not is_there and args.warehouse:
            session.add(Connection(conn_id=conn_id, conn_type=PaimonHook.conn_type, host=args.warehouse))
            state = f"created, {args.warehouse}"
        elif not is_there:
            state = "not made: give --warehouse"
        rows.append({"what": f"connection {conn_id}", "state": state})
    _show(rows, args.output)
    return 0


def _show(rows: Sequence[Mapping[str, Any]], output: str) -> None:
    """A table for people, or JSON and so on for programs."""
    if output == "json":
        print(json.dumps([dict(row) for row in rows]))  # noqa: T201 - Airflow's console makes texts of numbers
        return
    if output == "table":
        # Rich would interpret text in brackets as its markup.
        rows = [{name: "" if value is None else escape(str(value)) for name, value in row.items()} for row in rows]
    AirflowConsole().print_as(data=[dict(row) for row in rows], output=output)
