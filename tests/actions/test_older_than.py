"""`older_than` in the future: every action that takes one refuses it alike, on each way in, and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table
from paimon_engine.action_table import ACTIONS
from paimon_engine.jobs import Job, TableRef, run
from tests.support.world.made_up import History

BY_AGE = sorted(name for name, info in ACTIONS.items() if "older_than" in {item.name for item in fields(info.spec)})
CHANGELOG = {"changelog-producer": "input", "changelog.num-retained.min": "5", "snapshot.num-retained.min": "1"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table in which every one of these actions would find something older than the year 2999."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    options = {"bucket": "1", **CHANGELOG}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    for number in range(5):
        table.write(pa.table({"k": [number]}))
    table.create_tag("mid", snapshot=3)
    table.create_tag("gone", snapshot=4)
    table.delete_tag("gone", quarantine=True)
    table.expire_snapshots(retain_max=2, retain_min=1, quarantine=True)
    table.reset_consumer("reader", 5)
    Path(table.path, "bucket-0", "data-dead-0.orc").write_bytes(b"dead")
    return table


def files_of(path: str) -> Mapping[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


def test_every_action_by_age_is_known():
    assert BY_AGE == [
        *("empty_quarantine", "expire_changelogs", "expire_consumers", "expire_snapshots", "expire_tags"),
        *("purge_files", "remove_orphan_files"),
    ]


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("name", BY_AGE)
def test_a_time_in_the_future_is_refused_and_nothing_changes(name: str, dry_run: bool, table: Table) -> None:
    before = files_of(table.path)
    verb = getattr(table, name)
    in_an_hour = int(time.time() * 1000) + 3_600_000
    message = rf"^{name}: older_than=\d+ is in the future, now is \d+ .*give a time up to now"

    for future in (
        datetime.now(UTC) + timedelta(hours=1),
        timedelta(hours=-1),
        "2999-01-01",
        in_an_hour,
        (1 << 63) - 1,
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            verb(older_than=future, dry_run=dry_run)
    for future_ms in (in_an_hour, (1 << 63) - 1):
        spec: Any = ACTIONS[name].spec(older_than=future_ms, dry_run=dry_run)
        with pytest.raises(InvalidArgumentError, match=message):
            run(Job.from_json(Job(TableRef(path=table.path), spec, "user").to_json()))

    assert files_of(table.path) == before


@pytest.mark.parametrize("name", BY_AGE)
def test_now_is_allowed_and_a_millisecond_later_is_not(name: str) -> None:
    history = History(CHANGELOG).write("a").write("b")
    verb = getattr(Table(history.handle, history.executor), name)

    with pytest.raises(InvalidArgumentError, match=f"older_than={history.now_ms + 1} .* now is {history.now_ms} "):
        verb(older_than=history.now_ms + 1)
    assert verb(older_than=history.now_ms, dry_run=True).status in ("noop", "dry_run", "stopped")


def test_a_quarantine_is_chosen_by_its_name_or_its_age(table: Table) -> None:
    before = table.quarantines()

    with pytest.raises(InvalidArgumentError, match="give the name, or the time"):
        table.empty_quarantine(before[0]["quarantine"], older_than="2001-01-01")

    assert table.quarantines() == before


def test_a_quarantine_given_by_its_name_takes_no_time_in_the_future_either(table: Table) -> None:
    name = table.quarantines()[0]["quarantine"]

    with pytest.raises(InvalidArgumentError, match="in the future"):
        table.empty_quarantine(name, older_than="2999-01-01")
