"""Retries continue the same work, clears do it again: they are distinguished by what attempts note in the task's state store."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon.attempts import NOTE, commit_user_of
from airflow_provider_paimon.operators.write import PaimonWriteOperator
from paimon_engine import Catalog, InvalidArgumentError
from tests.provider.conftest import SCHEMA, StateStore, make_context, rows

LOG = "air.log"


class Runs:
    """The attempts of one task instance, as Airflow runs them."""

    def __init__(
        self, catalog: Catalog, source: str, run_id: str = "manual__1", map_index: int = -1, **fields: Any
    ) -> None:
        self.store: StateStore | None = StateStore()
        self._fields = {"table": LOG, "warehouse": catalog.warehouse, "source": source, "launcher": "in_process"}
        self._fields |= fields
        self._map_index = map_index
        self._run_id, self._tries, self._clears, self._max_tries = run_id, 0, 0, 2

    def attempt(self, *, reports: bool = True, **fields: Any) -> dict[str, Any]:
        """One attempt; `reports` says whether Airflow hears of its success."""
        self._tries += 1
        more = {} if self.store is None else {"task_state_store": self.store}
        context = make_context(self._run_id, **more)
        context["ti"].try_number, context["ti"].map_index = self._tries, self._map_index
        context["dag_run"].clear_number, context["ti"].max_tries = self._clears, self._max_tries
        operator = PaimonWriteOperator(task_id="task", **{**self._fields, **fields})
        result = operator.execute(context)
        if reports:
            for callback in operator.on_success_callback:
                callback(context)
        return result

    def clear(self, *, begins_run: bool = True) -> Runs:
        """As Airflow clears a task of the run, which begins again with it or goes on."""
        self._clears += begins_run
        self._max_tries = self._tries + 2
        return self


@pytest.fixture
def log(catalog: Catalog) -> Any:
    return catalog.create_table(LOG, schema=SCHEMA, options={"bucket": "-1"})


@pytest.fixture
def runs(catalog: Catalog, log: Any, source: str) -> Runs:
    return Runs(catalog, source)


def ids(catalog: Catalog, table: str = LOG) -> list[int]:
    return sorted(catalog.table(table).to_arrow()["id"].to_pylist())


def correct(source: str) -> None:
    pq.write_table(rows(10, 12), source)


def expire(catalog: Catalog) -> None:
    table = catalog.table(LOG)
    for _ in range(3):
        table.write(rows(0))
    table.expire_snapshots(retain_max=1)


@pytest.mark.parametrize("has_expired", [False, True])
def test_a_retry_happens_once(catalog: Catalog, runs: Runs, *, has_expired: bool):
    first = runs.attempt(reports=False)
    if has_expired:
        expire(catalog)
    again = runs.attempt()

    assert [first["status"], again["status"]] == ["committed", "already_done"]
    assert again["snapshot_id"] == first["snapshot_id"]
    assert [item for item in ids(catalog) if item] == [10, 11]


def test_a_success_that_airflow_itself_repeats_is_a_retry(runs: Runs):
    """The worker reported its success, and Airflow lost the report: nothing was cleared."""
    assert [runs.attempt()["status"], runs.attempt()["status"]] == ["committed", "already_done"]


@pytest.mark.parametrize("has_expired", [False, True])
def test_a_cleared_append_runs_again_and_says_what_stays(
    catalog: Catalog, runs: Runs, source: str, *, has_expired: bool
):
    runs.attempt()
    correct(source)
    if has_expired:
        expire(catalog)
    again = runs.clear().attempt(reports=False)
    retried = runs.attempt()

    assert [again["status"], retried["status"]] == ["committed", "already_done"]
    (warning,) = again["details"]["warnings"]
    assert "snapshot 1" in warning
    assert "no primary key" in warning
    assert [item for item in ids(catalog) if item] == [10, 10, 11, 12]


def test_a_task_that_is_cleared_while_its_run_goes_on_runs_again(catalog: Catalog, runs: Runs):
    runs.attempt()
    again = runs.clear(begins_run=False).attempt()

    assert [again["status"], runs.attempt()["status"]] == ["committed", "already_done"]
    assert ids(catalog) == [10, 10, 11, 11]


def test_mapped_tasks_with_a_key_are_recognised_by_what_they_load(catalog: Catalog, log: Any, tmp_path: Path):
    """In the next run a file has another map index."""
    sources = []
    for number in range(3):
        sources.append(str(tmp_path / f"f{number}.parquet"))
        pq.write_table(rows(number), sources[-1])
    found = []
    for run, indices in enumerate([(0, 1), (2, 0, 1)]):
        for map_index, number in enumerate(indices):
            fields = {"idempotency_key": "load", "properties": {"run": str(run)}}
            mapped = Runs(catalog, sources[number], f"manual__{run}", map_index=map_index, **fields)
            found.append(mapped.attempt()["status"])

    assert found == ["committed", "committed", "committed", "already_done", "already_done"]
    assert ids(catalog) == [0, 1, 2]


def test_work_has_the_same_name_in_every_process():
    ti = make_context()["ti"]
    ti.map_index = 3

    def name(work: Any, run_id: str = "one") -> str:
        ti.run_id = run_id
        return commit_user_of({"ti": ti}, "key", work=work)

    days = {"days": {"mon", "tue"}, "since": date(2024, 1, 1), ("a", 1): [Decimal(1), None, timedelta(1)]}
    assert name(days) == name(dict(reversed(days.items())), "two") != name({**days, "since": date(2024, 1, 2)})
    assert name({}) == name({}, "two")
    ti.map_index = 4
    assert name(days) == name(days, "two")
    assert name({}) != commit_user_of({"ti": make_context()["ti"]}, "key")
    with pytest.raises(InvalidArgumentError, match="object has no text that is the same in every run"):
        name({"x": object()})


def test_a_source_of_another_warehouse_is_other_work(catalog: Catalog):
    where = {"task_id": "t", "table": LOG, "warehouse": catalog.warehouse, "source": "a.b", "format": "paimon"}
    one, other = (PaimonWriteOperator(source_conn_id=name, **where).work() for name in ("eu", "us"))

    assert one != other


def test_a_cleared_upsert_and_a_cleared_overwrite_end_right(catalog: Catalog, log: Any, source: str):
    upsert = Runs(catalog, source, table="air.flights")
    overwrite = Runs(catalog, source, overwrite={})
    for run in (upsert, overwrite):
        assert run.attempt()["status"] == "committed"
    correct(source)
    for run in (upsert, overwrite):
        again = run.clear().attempt()
        assert (again["status"], again["details"]["warnings"]) == ("committed", [])

    assert ids(catalog, "air.flights") == [1, 2, 3, 10, 11, 12]
    assert ids(catalog) == [10, 12]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"merge-engine": "first-row"}, "corrections were ignored"),
        ({"merge-engine": "aggregation", "fields.carrier.aggregate-function": "max"}, "aggregated again"),
        ({"merge-engine": "partial-update"}, None),
    ],
)
def test_merge_engines_that_do_not_replace_rows_say_so(catalog: Catalog, source: str, options: dict, says: str | None):
    table = catalog.create_table("air.m", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1", **options})
    runs = Runs(catalog, source, table="air.m")
    runs.attempt()
    again = runs.clear().attempt()

    table.compact(full=True)
    assert table.to_arrow().num_rows == 2
    assert [says in warning for warning in again["details"]["warnings"]] == ([True] if says else [])


def test_a_task_that_failed_after_its_commit_and_is_cleared_has_done_it(runs: Runs):
    runs.attempt(reports=False)

    assert runs.clear().attempt()["status"] == "already_done"


def test_a_task_that_never_committed_runs_when_it_is_cleared(catalog: Catalog, runs: Runs):
    with pytest.raises(AirflowException):
        runs.attempt(source="/nowhere/*.parquet")

    assert runs.clear().attempt()["status"] == "committed"
    assert ids(catalog) == [10, 11]


def test_each_clear_does_the_work_once_more(catalog: Catalog, runs: Runs):
    statuses = [runs.attempt()["status"]] + [runs.clear().attempt()["status"] for _ in range(2)]

    assert statuses == ["committed"] * 3
    assert ids(catalog) == [10, 10, 10, 11, 11, 11]


@pytest.mark.parametrize("fields", [{"on_clear": "once"}, {"idempotency_key": "2013-01-05"}])
def test_a_clear_need_not_do_the_work_again(runs: Runs, fields: dict):
    assert runs.attempt(**fields)["status"] == "committed"
    assert runs.clear().attempt(**fields)["status"] == "already_done"


def test_a_key_can_be_cleared(catalog: Catalog, runs: Runs, source: str):
    fields = {"idempotency_key": "2013-01-05", "on_clear": "rerun"}
    statuses = [runs.attempt(**fields)["status"], runs.clear().attempt(**fields)["status"]]
    other = Runs(catalog, source, "manual__2").attempt(**fields)["status"]

    assert [*statuses, other] == ["committed", "committed", "already_done"]


def test_a_key_is_known_for_longer_than_runs_are(catalog: Catalog, runs: Runs, source: str):
    def days(**fields: Any) -> int:
        before = set(Path(catalog.table(LOG).path, "commits").glob("*.json"))
        Runs(catalog, source, f"run {fields}", **fields).attempt()
        (path,) = set(Path(catalog.table(LOG).path, "commits").glob("*.json")) - before
        record = json.loads(path.read_text())
        return round((record["keptUntilMillis"] - record["snapshot"]["timeMillis"]) / 86_400_000)

    assert days() == 30
    assert days(idempotency_key="a") == 400
    assert days(idempotency_key="b", table_options={"commit-record.time-retained": "7 d"}) == 7


@pytest.mark.parametrize("before", ["succeeded", "failed", "another run"])
def test_a_rerun_can_be_forced(catalog: Catalog, runs: Runs, source: str, before: str):
    if before == "another run":
        Runs(catalog, source, "manual__0").attempt(idempotency_key="day")
    else:
        runs.attempt(idempotency_key="day", reports=before == "succeeded")
    forced = runs.clear().attempt(idempotency_key="day", force_rerun="True", reports=False)
    retried = runs.attempt(idempotency_key="day", force_rerun=True)
    cleared = runs.clear().attempt(idempotency_key="day", force_rerun=True)

    assert [forced["status"], retried["status"], cleared["status"]] == ["committed", "already_done", "committed"]
    assert len(forced["details"]["warnings"]) == 1
    assert ids(catalog) == [10] * 3 + [11] * 3


def test_mapped_tasks_and_other_runs_are_work_of_their_own(catalog: Catalog, runs: Runs, source: str):
    other = Runs(catalog, source, "manual__2")

    assert [runs.attempt()["status"], other.attempt()["status"]] == ["committed", "committed"]
    assert ids(catalog) == [10, 10, 11, 11]


# ── where the store does not know ───────────────────────────────────────────────────────────────


def test_without_a_note_a_later_try_does_nothing_twice(runs: Runs, caplog: pytest.LogCaptureFixture):
    runs.attempt()
    assert runs.store is not None
    runs.store.values.clear()

    assert runs.clear().attempt()["status"] == "already_done"
    assert "force_rerun=True" in caplog.text


@pytest.mark.parametrize("note", [3, "text", {}, {"user": "x"}])
def test_a_note_of_somebody_else_is_none(runs: Runs, note: Any):
    runs.attempt()
    assert runs.store is not None
    runs.store.values[NOTE] = json.dumps(note)

    assert runs.clear().attempt()["status"] == "already_done"


def test_a_store_that_forgets_tasks_that_succeeded_lets_them_run_again(runs: Runs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW__STATE_STORE__CLEAR_ON_SUCCESS", "True")
    runs.attempt(reports=False)
    assert runs.attempt(reports=False)["status"] == "already_done"
    assert runs.store is not None
    runs.store.values.clear()
    again = runs.clear().attempt()

    assert (again["status"], len(again["details"]["warnings"])) == ("committed", 1)


def test_without_a_store_all_tries_of_a_run_are_one(runs: Runs):
    runs.store = None

    assert [runs.attempt()["status"], runs.clear().attempt()["status"]] == ["committed", "already_done"]
    assert [runs.attempt(force_rerun=True)["status"] for _ in range(2)] == ["committed", "already_done"]


def test_a_store_that_fails_stops_the_task_before_it_writes(catalog: Catalog, runs: Runs):
    class Failing(StateStore):
        def get(self, key: str, default: Any = None) -> Any:
            raise AirflowException("the API server does not answer")

    runs.store = Failing()
    with pytest.raises(AirflowException, match="does not answer"):
        runs.attempt()

    assert ids(catalog) == []


def test_another_word_for_a_clear_is_refused(runs: Runs):
    with pytest.raises(AirflowFailException, match="on_clear='twice'; choose one of rerun, once"):
        runs.attempt(on_clear="twice")


def test_callbacks_of_the_user_stay(catalog: Catalog, source: str):
    def theirs(context: Any) -> None:
        """Of the DAG's author."""

    given = {"table": LOG, "warehouse": catalog.warehouse, "source": source}
    one = PaimonWriteOperator(task_id="a", on_success_callback=theirs, **given)
    several = PaimonWriteOperator(task_id="b", default_args={"on_success_callback": [theirs, theirs]}, **given)

    assert [list(operator.on_success_callback).count(theirs) for operator in (one, several)] == [1, 2]
