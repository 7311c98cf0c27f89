"""The DAGs of the README and of the pages in `docs`, as written, in a real Airflow: catch-up and backfill.

Each scheduled DAG catches up on three days, then three more are backfilled with two runs side by side. Only places are
replaced (`/lake`, `/tmp/lake`, `/staging`, `/inbox`, and the connection `lake` by one for each page), and a cluster
policy says when DAGs start and end, and that retries do not wait. Each day has rows with keys of its own, so that what
a tag holds tells which days it knew.
"""

from __future__ import annotations

import email
import email.policy
import json
import shutil
import socketserver
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_paimon.timetables import daily
from paimon_engine import Catalog, Table
from tests.docs.pages import DOCS, PROJECT, blocks, pages
from tests.provider.conftest import set_time
from tests.support.airflow import RealAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(1500)]

HOW_TO = DOCS / "how-to"
README = PROJECT / "README.md"
EARLY = daily("02:00", "Europe/Berlin")
KNOWN = {
    README: {"nightly"},
    HOW_TO / "airflow.md": {"tag_per_day", "nightly_maintenance"},
    HOW_TO / "airflow-writing.md": {"prepare_then_commit"},
    HOW_TO / "assets.md": {"load_orders", "read_orders", "keep_orders", "compact_all", "follow_orders"},
    HOW_TO / "events.md": {"report", "on_commits", "pass_on", "each_day", "tags"},
    HOW_TO / "extras.md": {"upkeep", "upkeep_with_policy", "by_policy"},
}
"""Every documented DAG; each is run below."""
BY_CRON = ("compact_all", "upkeep", "upkeep_with_policy", "by_policy")
POLICY = """
import json
import os
from datetime import datetime, timedelta

SPANS = json.loads(os.environ["PAIMON_TEST_SPANS"])


def dag_policy(dag):
    if dag.dag_id in SPANS:
        dag.start_date, dag.end_date = (datetime.fromisoformat(moment) for moment in SPANS[dag.dag_id])
        dag.catchup = True


def task_policy(task):
    task.retry_delay = timedelta(seconds=0)
"""
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
PER_DAY = 3


def days_before(last: date, count: int) -> list[date]:
    """So many days, of which `last` is the last one."""
    return [last - timedelta(days=back) for back in reversed(range(count))]


def keys(day: date) -> list[int]:
    """Keys of the day's own."""
    return [day.toordinal() * PER_DAY + number for number in range(PER_DAY)]


def rows(day: date) -> pa.Table:
    return pa.table({"id": keys(day), "day": [str(day)] * PER_DAY}, SCHEMA)


def keys_of(days: Sequence[date]) -> list[int]:
    return sorted(key for day in days for key in keys(day))


class Inbox(socketserver.ThreadingTCPServer):
    """An SMTP server that keeps what it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        self.mails: list[str] = []
        super().__init__(("127.0.0.1", 0), _Mail)


class _Mail(socketserver.StreamRequestHandler):
    server: Inbox

    def handle(self) -> None:
        self._say("220 inbox")
        while line := self.rfile.readline():
            command = line[:4].upper().strip()
            if command == b"DATA":
                self._say("354 go on")
                self.server.mails.append(readable("".join(self._lines())))
            self._say("221 bye" if command == b"QUIT" else "250 done")

    def _lines(self) -> Iterator[str]:
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            yield line.decode()

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


def readable(mail: str) -> str:
    """Sender, receivers and subject of a mail, and its text, however it is encoded."""
    message = email.message_from_string(mail, policy=email.policy.default)
    texts = [part.get_content() for part in message.walk() if part.get_content_maintype() == "text"]
    return "\n".join([*(f"{name}: {value}" for name, value in message.items()), *texts])


class Documented:
    """A running Airflow with a DAG file for each page, whose DAGs are paused until a test wants them."""

    def __init__(self, airflow: RealAirflow, home: Path, inbox: Inbox, last: date) -> None:
        self.airflow, self.home, self.inbox = airflow, home, inbox
        self.caught_up = days_before(last, 3)
        self.backfilled = days_before(self.caught_up[0] - timedelta(days=1), 3)
        self.history = days_before(last, 14)
        for day in (*self.backfilled, *self.caught_up):
            folder = home / "staging" / str(day)
            folder.mkdir(parents=True)
            pq.write_table(rows(day), folder / "rows.parquet")

    def lake(self, page: Path) -> Catalog:
        return Catalog(str(self.home / "lakes" / page.stem))

    def begin(self, *dag_ids: str) -> None:
        self.airflow.wait_for_dags(*dag_ids)
        for dag_id in dag_ids:
            self.airflow.patch(f"dags/{dag_id}", {"is_paused": False})

    def pause(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.airflow.patch(f"dags/{dag_id}", {"is_paused": True})

    def run_of(self, dag_id: str, day: date) -> str | None:
        """The run of the day, if there is one."""
        found = [run for run in self.airflow.runs(dag_id) if day == day_of(run)]
        assert len(found) <= 1, found
        return found[0]["dag_run_id"] if found else None

    def wait_for_days(self, dag_id: str, days: Sequence[date], state: str = "success") -> dict[date, str]:
        """The runs of these days, ended in this state."""
        found = {}
        for day in days:
            found[day] = self.airflow.wait_until(lambda day=day: self.run_of(dag_id, day), f"{dag_id} of {day}")  # type: ignore[misc]
            self.airflow.wait_for_run(dag_id, found[day], state, timeout=600)
        return found

    def backfill(self, dag_id: str, days: Sequence[date], state: str = "success") -> dict[date, str]:
        """The runs of a backfill of these days, two side by side, ended in this state."""
        # Without partitions, Airflow counts by logical dates: the days after.
        shift = timedelta(days=1 if dag_id in BY_CRON else 0)
        first, last = (datetime.combine(day + shift, time(), UTC).isoformat() for day in (days[0], days[-1]))
        body = {"dag_id": dag_id, "from_date": first, "to_date": last, "max_active_runs": 2, "dag_run_conf": {}}
        backfill = self.airflow.post("backfills", body)
        runs = self.wait_for_days(dag_id, days, state)
        # Airflow begins no other one before.
        self.airflow.wait_until(
            lambda: self.airflow.get(f"backfills/{backfill['id']}")["completed_at"],
            f"the end of a backfill of {dag_id}",
        )
        return runs

    def catch_up_and_backfill(self, dag_id: str) -> dict[date, str]:
        self.begin(dag_id)
        caught_up = self.wait_for_days(dag_id, self.caught_up)
        assert len(self.airflow.runs(dag_id)) == len(caught_up)
        runs = {**self.backfill(dag_id, self.backfilled), **caught_up}
        assert len(self.airflow.runs(dag_id)) == len(runs)
        return runs


def day_of(run: dict[str, Any]) -> date:
    """Its partition key; of a plain cron schedule the day that had ended at its logical date."""
    if run["partition_key"] is not None:
        return date.fromisoformat(run["partition_key"])
    return datetime.fromisoformat(run["logical_date"]).date() - timedelta(days=1)


def dag_file(page: Path, home: Path) -> str:
    """The Python blocks of a page that say something of Airflow, as one file, with the test's places."""
    code = "\n".join(
        block.code for block in blocks(page) if block.language == "python" and "paimon_engine import" not in block.code
    )
    lake = str(home / "lakes" / page.stem)
    places = {'"/lake"': f'"{lake}"', '"/tmp/lake"': f'"{lake}"', '"lake"': f'"{page.stem.replace("-", "_")}"'}
    places |= {'"/staging/': f'"{home}/staging/', '"/inbox/': f'"{home}/inbox/'}
    for placeholder, place in places.items():
        code = code.replace(placeholder, place)
    return code


def spans(caught_up: Sequence[date]) -> dict[str, tuple[str, str]]:
    """When scheduled DAGs start and end, so that they catch up on these days, and no day follows during the test."""
    first, last = caught_up[0], caught_up[-1]
    by_daily = (EARLY.run_of(first) - timedelta(hours=1), EARLY.run_of(last) + timedelta(hours=2))
    by_cron = tuple(datetime.combine(day + timedelta(days=1), time(), UTC) for day in (first, last))
    given = dict.fromkeys(("nightly", "tag_per_day", "report", "tags", "load_orders", "keep_orders"), by_daily)
    given |= dict.fromkeys(BY_CRON, by_cron)
    return {dag_id: (start.isoformat(), end.isoformat()) for dag_id, (start, end) in given.items()}


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documented]:
    home = tmp_path_factory.mktemp("documented")
    # The same day for both kinds of schedule: that which has ended everywhere in Europe, and was followed by 03:00.
    last = (datetime.now(UTC) - timedelta(hours=4)).date() - timedelta(days=1)
    policy = home / "airflow" / "airflow" / "config" / "airflow_local_settings.py"
    policy.parent.mkdir(parents=True)
    policy.write_text(POLICY)
    inbox = Inbox()
    threading.Thread(target=inbox.serve_forever, daemon=True).start()
    smtp = {
        "conn_type": "smtp",
        "host": "127.0.0.1",
        "port": inbox.server_address[1],
        "extra": {"disable_ssl": True, "disable_tls": True, "from_email": "airflow@example.com"},
    }
    environment = {
        "PAIMON_TEST_SPANS": json.dumps(spans(days_before(last, 3))),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp),
    }
    for page in KNOWN:
        connection = {"conn_type": "paimon", "host": str(home / "lakes" / page.stem)}
        environment[f"AIRFLOW_CONN_{page.stem.replace('-', '_').upper()}"] = json.dumps(connection)
    files = {f"{page.stem}.py": dag_file(page, home) for page in KNOWN}
    with RealAirflow(home / "airflow", files, environment=environment) as airflow:
        yield Documented(airflow, home, inbox, last)
    inbox.shutdown()
    inbox.server_close()


def test_every_documented_dag_is_known():
    found = {page: {code.split('"')[1] for code in _dags(page)} for page in pages()}

    assert {page: names for page, names in found.items() if names} == KNOWN


def _dags(page: Path) -> list[str]:
    code = "\n".join(block.code for block in blocks(page) if block.language == "python")
    return code.split("DAG(")[1:]


# ── tags for days ───────────────────────────────────────────────────────────────────────────────


def test_the_readmes_tags_hold_what_was_there_when_the_day_ended(documented: Documented):
    """Another program writes each day at noon; early days expire before they are backfilled."""
    table = history(documented.lake(README), "flights.departures", documented.history)

    runs = documented.catch_up_and_backfill("nightly")

    for day in runs:
        known = [one for one in documented.history if one <= day]
        assert sorted(table.to_arrow(tag=str(day))["id"].to_pylist()) == keys_of(known), day
    oldest = table.snapshots()["snapshot_id"][0].as_py()
    assert oldest > 3
    lost = documented.history[:3]

    failed = documented.backfill("nightly", lost, state="failed")

    for run in failed.values():
        assert "expired" in documented.airflow.log("nightly", run, "tag")
    assert sorted(table.tags()["tag_name"].to_pylist()) == sorted(str(day) for day in runs)


def history(catalog: Catalog, name: str, days: Sequence[date]) -> Table:
    """A table to which somebody has added the rows of each day, at noon of that day."""
    table = catalog.create_table(name, schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
    for number, day in enumerate(days, start=1):
        table.write(rows(day))
        set_time(table, number, datetime.combine(day, time(12), UTC))
    return table


def test_the_guides_tags_hold_what_their_runs_knew(documented: Documented):
    runs = documented.catch_up_and_backfill("tag_per_day")

    table = documented.lake(HOW_TO / "airflow.md").table("flights.departures")
    check_tags_of_writers(documented, "tag_per_day", runs, table, write="write", tag="tag")


def check_tags_of_writers(
    documented: Documented, dag_id: str, runs: dict[date, str], table: Table, *, write: str, tag: str
) -> None:
    """Each tag holds the rows of its day, and of the days whose runs had written before: no more and no less."""
    written = {day: documented.airflow.xcom(dag_id, run, write)["snapshot_id"] for day, run in runs.items()}
    assert len(set(written.values())) == len(runs)
    assert sorted(table.tags()["tag_name"].to_pylist()) == sorted(str(day) for day in runs)
    for day, run in runs.items():
        assert documented.airflow.xcom(dag_id, run, tag)["details"]["tag"] == str(day)
        known = [other for other in runs if written[other] <= written[day]]
        assert sorted(table.to_arrow(tag=str(day))["id"].to_pylist()) == keys_of(known), day
    assert sorted(table.to_arrow()["id"].to_pylist()) == keys_of(list(runs))


def test_what_follows_a_table_and_its_tags_runs_for_each_day(documented: Documented):
    catalog = documented.lake(HOW_TO / "assets.md")
    table = catalog.create_table("shop.orders", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
    documented.begin("read_orders", "follow_orders")

    runs = documented.catch_up_and_backfill("load_orders")

    check_tags_of_writers(documented, "load_orders", runs, table, write="write", tag="tag")
    for day, run in documented.wait_for_days("read_orders", list(runs)).items():
        assert documented.airflow.xcom("read_orders", run, "report") == str(day)
    tagged = dict(zip(*table.tags().select(["tag_name", "snapshot_id"]).to_pydict().values(), strict=True))
    for day, run in documented.wait_for_days("follow_orders", list(runs)).items():
        assert documented.airflow.xcom("follow_orders", run, "follow") == [str(day), tagged[str(day)]]
    documented.pause("load_orders", "read_orders", "follow_orders")


def test_each_table_is_compacted_each_day(documented: Documented):
    catalog = documented.lake(HOW_TO / "assets.md")
    for name in ("shop.orders", "shop.users"):
        table = catalog.create_table(
            name, schema=SCHEMA, primary_keys=["id"], options={"bucket": 1}, if_not_exists=True
        )
        for day in documented.history[:6]:
            table.write(rows(day))

    runs = documented.catch_up_and_backfill("compact_all")

    for run in runs.values():
        tasks = documented.airflow.tasks("compact_all", run)
        assert {task["state"] for task in tasks.values()} == {"success"}
        assert {task["rendered_map_index"] for task in tasks.values()} == {"shop.orders", "shop.users"}
    for name in ("shop.orders", "shop.users"):
        assert catalog.table(name).files().num_rows < 6


def test_the_short_ways_tags_hold_what_their_runs_knew(documented: Documented):
    page = HOW_TO / "assets.md"
    shutil.rmtree(documented.home / "lakes" / page.stem, ignore_errors=True)

    runs = documented.catch_up_and_backfill("keep_orders")

    table = documented.lake(page).table("shop.orders")
    check_tags_of_writers(documented, "keep_orders", runs, table, write="write_orders", tag="tag_day_orders")


# ── events ──────────────────────────────────────────────────────────────────────────────────────


def test_sensors_wait_for_each_day_and_gaps_are_filled(documented: Documented):
    catalog = documented.lake(HOW_TO / "events.md")
    table = catalog.create_table(
        "shop.orders", schema=SCHEMA, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": 1}
    )
    days = [*documented.backfilled, *documented.caught_up]
    for number, day in enumerate(days, start=1):
        table.write(pa.table({"id": list(range(1000)), "day": [str(day)] * 1000}, SCHEMA))
        set_time(table, number, datetime.combine(day, time(12), UTC))
    documented.begin("report")
    runs = {}
    for day in documented.caught_up:
        runs[day] = documented.airflow.wait_until(
            lambda day=day: documented.run_of("report", day),
            f"report of {day}",  # type: ignore[misc]
        )
        for task in ("tag", "fresh", "caught_up"):
            documented.airflow.wait_for_task("report", runs[day], task, "deferred")

    filled = documented.catch_up_and_backfill("tags")
    table.write(pa.table({"id": [0], "day": ["later"]}, SCHEMA))
    table.reset_consumer("billing", table.latest_snapshot_id())

    runs = {**documented.wait_for_days("report", documented.caught_up)}
    runs |= documented.backfill("report", documented.backfilled)

    assert sorted(filled) == sorted(runs) == days
    for number, day in enumerate(days, start=1):
        found = {name: documented.airflow.xcom("report", runs[day], name) for name in ("tag", "rows", "newer")}
        assert found["tag"] == {"tag": str(day), "snapshot_id": number}
        assert (found["rows"]["partition"], found["rows"]["rows"]) == ({"day": str(day)}, 1000)
        assert found["newer"]["commit_kind"] == "APPEND"
        assert set(table.to_arrow(tag=str(day))["day"].to_pylist()) == {str(one) for one in days[:number]}
    documented.pause("report", "tags")


def test_each_commit_and_each_day_starts_a_run(documented: Documented):
    catalog = documented.lake(HOW_TO / "events.md")
    table = catalog.table("shop.orders")
    # Gaps are filled up to today: in the first hours of a day that is one day more than those of the test.
    tagged = set(table.tag_names())
    assert tagged >= {str(day) for day in (*documented.backfilled, *documented.caught_up)}
    documented.begin("on_commits", "pass_on", "each_day")
    path = "assets/{}/state-store"
    (asset,) = [
        found["id"]
        for found in documented.airflow.get("assets", limit=100)["assets"]
        if found["uri"].endswith("%2Flakes%2Fevents/shop/orders")
    ]
    documented.airflow.wait_until(
        lambda: documented.airflow.get(path.format(asset))["asset_state_store"], "the watcher"
    )
    before = table.latest_snapshot_id()
    assert before is not None

    table.write(pa.table({"id": [1], "day": ["later"]}, SCHEMA))
    table.write(pa.table({"id": [2], "day": ["later"]}, SCHEMA))

    def reported_snapshots() -> list[int]:
        done = [run["dag_run_id"] for run in documented.airflow.runs("on_commits") if run["state"] == "success"]
        ranges = [pair for run in done for pair in documented.airflow.xcom("on_commits", run, "changed")]
        return sorted(number for first, last in ranges for number in range(first, last + 1))

    documented.airflow.wait_until(lambda: len(reported_snapshots()) >= 2, "runs of both commits")
    assert reported_snapshots() == [before + 1, before + 2]
    documented.airflow.wait_until(
        lambda: {run["partition_key"] for run in documented.airflow.runs("each_day")} == tagged, "runs of all tags"
    )
    for run in documented.airflow.runs("each_day"):
        documented.airflow.wait_for_run("each_day", run["dag_run_id"])
        assert documented.airflow.xcom("each_day", run["dag_run_id"], "report") == run["partition_key"]
    assert len(documented.airflow.runs("each_day")) == len(tagged)


# ── upkeep, and what a person starts ────────────────────────────────────────────────────────────


def test_upkeep_is_done_each_day_and_told_by_mail(documented: Documented):
    catalog = documented.lake(HOW_TO / "extras.md")
    table = history(catalog, "shop.orders", documented.history)

    runs = documented.catch_up_and_backfill("upkeep")

    assert sorted(table.to_arrow()["id"].to_pylist()) == keys_of(documented.history)
    assert table.snapshots().num_rows == 10
    done = [documented.airflow.xcom("upkeep", run, "expire_orders")["status"] for run in runs.values()]
    assert "expired" in done
    mails = [mail for mail in documented.inbox.mails if "expire_snapshots shop.orders: expired" in mail]
    assert mails, documented.inbox.mails
    assert all("data@example.com" in mail for mail in mails)


def test_upkeep_by_policy_is_done_each_day(documented: Documented):
    catalog = documented.lake(HOW_TO / "extras.md")
    table = catalog.table("shop.orders")
    before = table.to_arrow()

    with_policy = documented.catch_up_and_backfill("upkeep_with_policy")
    by_policy = documented.catch_up_and_backfill("by_policy")

    assert sorted(with_policy) == sorted(by_policy) == [*documented.backfilled, *documented.caught_up]
    assert table.to_arrow().equals(before)


def test_all_tables_of_a_database_are_compacted(documented: Documented):
    catalog = documented.lake(HOW_TO / "airflow.md")
    for name in ("shop.orders_1", "shop.orders_2", "shop.orders_old"):
        table = catalog.create_table(name, schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
        for day in documented.history[:6]:
            table.write(rows(day))
    documented.begin("nightly_maintenance")

    run = documented.airflow.run("nightly_maintenance")
    documented.airflow.wait_for_run("nightly_maintenance", run)

    files = {name: catalog.table(name).files().num_rows for name in ("shop.orders_1", "shop.orders_2")}
    assert set(documented.airflow.tasks("nightly_maintenance", run)) == {"tables", "compact.0", "compact.1"}
    assert max(files.values()) < 6
    assert catalog.table("shop.orders_old").files().num_rows == 6


def test_many_tasks_prepare_and_one_commits(documented: Documented):
    catalog = documented.lake(HOW_TO / "airflow-writing.md")
    table = catalog.create_table("shop.visits", schema=SCHEMA, options={"bucket": "-1"})
    inbox = documented.home / "inbox"
    inbox.mkdir()
    for number, day in enumerate(documented.history[:2], start=1):
        pq.write_table(rows(day), inbox / f"{number}.parquet")
    documented.begin("prepare_then_commit")

    run = documented.airflow.run("prepare_then_commit")
    documented.airflow.wait_for_run("prepare_then_commit", run)

    assert table.snapshots().num_rows == 1
    assert sorted(table.to_arrow()["id"].to_pylist()) == keys_of(documented.history[:2])
    assert documented.airflow.tasks("prepare_then_commit", run)["abort"]["state"] == "skipped"
