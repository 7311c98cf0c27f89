"""Which snapshot a tag for a day takes: that of its run, else the day's last one; never just the latest."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.attempts import commit_user_of
from airflow_provider_paimon.operators.compact import PaimonCompactOperator
from airflow_provider_paimon.operators.tags import PaimonCreateTagOperator
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine import Catalog
from tests.provider.conftest import TABLE, make_context, rows, set_time

pytestmark = pytest.mark.airflow

DAY = "2013-01-05"


@pytest.fixture
def table(catalog: Catalog) -> Any:
    """Snapshot 1 of the fourth, 2 of the fifth, 3 of the sixth of January 2013, all at 23:30 UTC."""
    table = catalog.table(TABLE)
    for number, day in ((1, 4), (2, 5), (3, 6)):
        set_time(table, number, datetime.fromisoformat(f"2013-01-0{day}T23:30:00Z"))
    return catalog.table(TABLE)


class Upstream:
    """What tasks of this run returned, by task."""

    def __init__(self, **results: Any) -> None:
        self.results = results

    def xcom_pull(self, task_ids: list[str]) -> list[Any]:
        return [self.results.get(name) for name in task_ids]


def tag(
    warehouse: str,
    upstream: dict[str, Any] | None = None,
    key: str | None = DAY,
    *,
    sources: list[str] | None = None,
    write_key: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Runs the operator in a DAG after tasks that returned `upstream`; one of them is mapped over `sources`."""
    context = make_context(partition_key=key, run_id=f"run {key}")
    where = {"table": TABLE, "warehouse": warehouse}
    with DAG("dag", schedule=None):
        if sources is None:
            write = PaimonWriteOperator(task_id="write", source="-", idempotency_key=write_key, **where)
        else:
            write = PaimonWriteOperator.partial(task_id="write", **where).expand(source=sources)
        compact = PaimonCompactOperator(task_id="compact", **where)
        operator = PaimonCreateTagOperator(task_id="tag", **where, **fields)
        write >> compact >> operator
    context["ti"] = SimpleNamespace(**vars(context["ti"]), xcom_pull=Upstream(**(upstream or {})).xcom_pull)
    return operator.execute(context)


def result(action: str, snapshot: int | None, status: str = "committed", of: str = TABLE) -> dict[str, Any]:
    return {"action": action, "table": of, "snapshot_id": snapshot, "status": status}


@pytest.mark.parametrize(("day", "snapshot"), [("2013-01-04", 1), ("2013-01-05", 2), ("2013-01-06", 3)])
def test_a_day_without_an_own_write_is_as_it_ended(table: Any, catalog: Catalog, day: str, snapshot: int):
    table.write(rows(4))

    assert tag(catalog.warehouse, key=day)["snapshot_id"] == snapshot
    assert tag(catalog.warehouse, key=None, tag=day)["status"] == "already_done"
    assert catalog.table(TABLE).to_arrow(tag=day).num_rows == snapshot


def test_a_day_ends_by_the_clocks_of_its_zone(table: Any, catalog: Catalog):
    # In Berlin 23:30 UTC is half past midnight of the next day.
    assert tag(catalog.warehouse, timezone="Europe/Berlin")["snapshot_id"] == 1
    with pytest.raises(AirflowFailException, match="Middle/Earth"):
        tag(catalog.warehouse, timezone="Middle/Earth")


def test_a_run_that_wrote_tags_what_it_wrote(table: Any, catalog: Catalog):
    assert tag(catalog.warehouse, {"write": result("write", 3)})["snapshot_id"] == 3


def name_of(task_id: str, *, map_index: int = -1, again: dict[str, Any] | None = None, key: str | None = None) -> str:
    """Under which a task of the run commits."""
    ti = SimpleNamespace(dag_id="dag", task_id=task_id, run_id=f"run {DAY}", map_index=map_index)
    return commit_user_of({"ti": ti}, key, again)


@pytest.mark.parametrize("again", [None, {"run_id": f"run {DAY}", "try": 3}], ids=["first", "cleared"])
def test_what_a_task_committed_counts_whatever_it_returned(table: Any, catalog: Catalog, again: dict[str, Any] | None):
    """As tasks that return nothing, or something else, and those that write a branch which another one forwards."""
    table.write(rows(4), commit_user=name_of("write", again=again))
    table.write(rows(5))
    table.write(rows(6), commit_user=name_of("elsewhere"))

    assert tag(catalog.warehouse, {"write": "done"})["snapshot_id"] == 4


def test_what_mapped_tasks_committed_counts(table: Any, catalog: Catalog):
    table.write(rows(4), commit_user=name_of("write", map_index=0))
    table.write(rows(5), commit_user=name_of("write", map_index=7))

    assert tag(catalog.warehouse, sources=["-"])["snapshot_id"] == 5


def test_a_compaction_that_returned_nothing_is_no_write(table: Any, catalog: Catalog):
    catalog.table(TABLE).compact(full=True, commit_user=name_of("compact"))

    assert tag(catalog.warehouse)["snapshot_id"] == 2
    assert tag(catalog.warehouse, key="2013-01-06")["snapshot_id"] == 3


@pytest.mark.parametrize(
    "returned",
    [
        result("fast_forward", 3, "forwarded"),
        result("merge_branch", 3),
    ],
)
def test_other_results_of_writes_count(table: Any, catalog: Catalog, returned: Any):
    assert tag(catalog.warehouse, {"write": returned})["snapshot_id"] == 3


def test_what_a_task_with_a_key_committed_counts(table: Any, catalog: Catalog):
    table.write(rows(4), commit_user=name_of("write", key=f"key of {DAY}"))
    table.write(rows(5))

    assert tag(catalog.warehouse, {"write": None}, write_key=f"key of {DAY}")["snapshot_id"] == 4


@pytest.mark.parametrize(
    "other",
    [
        result("write", None, "noop"),
        result("write", 3, of="air.other"),
        result("write", 3, "dry_run"),
        result("create_tag", 3),
        {"table": TABLE, "status": "committed", "snapshot_id": 3},  # perhaps of another warehouse
        "3",
        None,
    ],
)
def test_what_is_no_write_of_this_run_to_the_table_does_not_count(table: Any, catalog: Catalog, other: Any):
    assert tag(catalog.warehouse, {"write": other})["snapshot_id"] == 2


def test_a_compaction_of_the_same_rows_is_preferred(table: Any, catalog: Catalog):
    compacted = catalog.table(TABLE).compact(full=True).snapshot_id

    upstream = {"write": result("write", 3), "compact": result("compact", compacted)}
    assert tag(catalog.warehouse, upstream)["snapshot_id"] == compacted == 4
    # A repeated run whose compaction found nothing to do accepts the tag that holds the same rows.
    again = tag(catalog.warehouse, {**upstream, "compact": result("compact", None, "noop")})
    assert (again["status"], again["snapshot_id"]) == ("already_done", 4)


def test_a_compaction_of_other_rows_is_not(table: Any, catalog: Catalog):
    compacted = catalog.table(TABLE).compact(full=True).snapshot_id

    # It contains what another run wrote at the same time as snapshot 3.
    assert (
        tag(catalog.warehouse, {"write": result("write", 2), "compact": result("compact", compacted)})["snapshot_id"]
        == 2
    )
    # It holds what came after the day.
    assert tag(catalog.warehouse, {"compact": result("compact", compacted)}, key="2013-01-04")["snapshot_id"] == 1


def test_a_compaction_after_a_quiet_day_is_its_state(table: Any, catalog: Catalog):
    compacted = catalog.table(TABLE).compact(full=True).snapshot_id
    upstream = {"compact": result("compact", compacted)}

    assert tag(catalog.warehouse, upstream, key="2013-01-06")["snapshot_id"] == compacted
    # The snapshots of then expire; the tag stays, for the same task and for another run of that day.
    table.write(rows(4))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert tag(catalog.warehouse, upstream, key="2013-01-06")["status"] == "already_done"
    assert tag(catalog.warehouse, key="2013-01-06")["status"] == "already_done"


def test_a_cleared_run_keeps_its_tag_after_its_snapshots_expired(table: Any, catalog: Catalog):
    written = table.write(rows(4)).snapshot_id
    compacted = catalog.table(TABLE).compact(full=True).snapshot_id
    upstream = {"write": result("write", written), "compact": result("compact", compacted)}
    assert tag(catalog.warehouse, upstream)["snapshot_id"] == compacted
    table.write(rows(5))
    table.expire_snapshots(retain_max=1, retain_min=1)

    # Airflow's XComs of the cleared run name the same snapshots, now expired; the tag keeps the rows.
    again = tag(catalog.warehouse, {name: {**one, "status": "already_done"} for name, one in upstream.items()})

    assert (again["status"], again["snapshot_id"]) == ("already_done", compacted)


def test_what_has_expired_is_not_replaced_by_the_latest(table: Any, catalog: Catalog):
    table.write(rows(4))
    table.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(AirflowFailException, match=r"has expired: snapshot 4 is the oldest"):
        tag(catalog.warehouse)
    with pytest.raises(AirflowFailException, match=r"snapshot 2"):
        tag(catalog.warehouse, {"write": result("write", 2)})
    assert catalog.table(TABLE).tags().num_rows == 0


def test_a_day_before_the_table_cannot_be_tagged(catalog: Catalog):
    with pytest.raises(AirflowFailException, match="had no snapshot"):
        tag(catalog.warehouse, tag="2020-01-01")


def test_a_day_that_has_not_ended_cannot_be_tagged(catalog: Catalog):
    with pytest.raises(AirflowFailException, match=r"2999-01-01 ends at 2999-01-02T00:00Z.*daily\("):
        tag(catalog.warehouse, key="2999-01-01")
    assert tag(catalog.warehouse, {"write": result("write", 3)}, key="2999-01-01")["snapshot_id"] == 3


def test_a_tag_on_other_rows_is_refused_or_moved(table: Any, catalog: Catalog):
    table.create_tag(DAY, snapshot=1)

    with pytest.raises(AirflowException, match="exists on snapshot 1, not 2"):
        tag(catalog.warehouse)
    assert tag(catalog.warehouse, if_exists="replace")["snapshot_id"] == 2


@pytest.mark.parametrize(
    "fields", [{"snapshot": "3"}, {"timestamp": "2013-01-06T00:00Z"}, {"as_of": "2013-01-07T00:00Z"}]
)
def test_a_named_snapshot_is_used(table: Any, catalog: Catalog, fields: dict[str, str]):
    assert tag(catalog.warehouse, {"write": result("write", 2)}, **fields)["snapshot_id"] == 3


def test_other_names_still_name_the_latest(table: Any, catalog: Catalog):
    assert tag(catalog.warehouse, tag="release")["snapshot_id"] == 3
