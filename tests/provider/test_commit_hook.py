"""Rows that tasks prepare and another task commits: once, or given up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from airflow_provider_paimon.attempts import note_success
from airflow_provider_paimon.hooks import commit as module
from airflow_provider_paimon.hooks.commit import PaimonCommitHook
from paimon_engine import Catalog, ConflictError, InvalidArgumentError, NotFoundError
from tests.provider.conftest import TABLE, StateStore, make_context, rows

pytestmark = pytest.mark.airflow


class Task:
    on_success_callback: ClassVar[list[Any]] = []


class Airflow:
    """What the hook sees of the task that runs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._set = lambda make: monkeypatch.setattr(module, "get_current_context", make)
        self._store, self._clears, self._tries = StateStore(), 0, 0

    @contextmanager
    def attempt(self, *, map_index: int = -1, succeeds: bool = True) -> Iterator[None]:
        """One try of the task `commit`; Airflow hears of its success, or its worker is lost before."""
        self._tries += 1
        context = make_context(task_state_store=self._store, task=Task())
        context["ti"].try_number, context["ti"].map_index = self._tries, map_index
        context["dag_run"].clear_number = self._clears
        self.context = context
        self._set(lambda: context)
        yield
        if succeeds:
            for callback in context["task"].on_success_callback:
                callback(context)

    def clear(self) -> None:
        self._clears += 1


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    return Airflow(monkeypatch)


@pytest.fixture
def hook(catalog: Catalog, warehouse: str) -> PaimonCommitHook:
    return PaimonCommitHook(warehouse=warehouse)


def sent(prepared: Any) -> Any:
    """As it comes out of XCom."""
    return json.loads(json.dumps(prepared))


def ids(hook: PaimonCommitHook) -> list[int]:
    found: list[int] = sorted(hook.table(TABLE).to_arrow()["id"].to_pylist())
    return found


def files(hook: PaimonCommitHook) -> int:
    root = Path(hook.table(TABLE).path)
    return len([*root.rglob("data-*"), *root.rglob("prepared-*")])


def test_what_tasks_prepare_one_task_commits(hook: PaimonCommitHook, airflow: Airflow):
    parts = [sent(hook.prepare(TABLE, rows(10 + number))) for number in range(3)]

    assert parts[0]["table"] == TABLE
    assert (parts[0]["rows"], parts[0]["files"]) == (1, 1)
    assert ids(hook) == [1, 2, 3]

    with airflow.attempt():
        done = hook.commit(iter(parts), watermark=5, properties={"a": "b"})

    assert done == {"table": TABLE, "status": "committed", "snapshot_id": 4}
    assert ids(hook) == [1, 2, 3, 10, 11, 12]
    assert hook.latest_snapshot(TABLE)["watermark"] == 5


def test_one_part_alone(hook: PaimonCommitHook, airflow: Airflow):
    with airflow.attempt():
        assert hook.commit(sent(hook.prepare(TABLE, rows(10))))["status"] == "committed"


@pytest.mark.parametrize("nothing", [[], [None], "empty"])
def test_nothing_prepared(hook: PaimonCommitHook, airflow: Airflow, nothing: Any):
    prepared = hook.prepare(TABLE, rows()) if nothing == "empty" else nothing
    with airflow.attempt():
        assert hook.commit(prepared)["status"] == "noop"
    assert hook.abort(prepared)["status"] == "noop"
    assert hook.latest_snapshot_id(TABLE) == 3


def test_the_higher_map_index_wins(hook: PaimonCommitHook, airflow: Airflow):
    parts = []
    for index, carrier in ((1, "late"), (0, "early")):
        with airflow.attempt(map_index=index):
            parts.append(hook.prepare(TABLE, rows(1, carrier=carrier)))
    hook.commit(parts, commit_user="me")

    assert hook.table(TABLE).to_arrow(where="id = 1")["carrier"].to_pylist() == ["late"]


# ── retries and clears ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1 << 20, 0], ids=["in XCom", "in a file"])
def test_a_retry_after_a_lost_worker_commits_nothing(
    hook: PaimonCommitHook, airflow: Airflow, monkeypatch: pytest.MonkeyPatch, limit: int
):
    monkeypatch.setattr(module, "INLINE_BYTES_MAX", limit)
    prepared = sent(hook.prepare(TABLE, rows(10)))
    with airflow.attempt(succeeds=False):
        hook.commit(prepared)
    with airflow.attempt():
        again = hook.commit(prepared)

    assert again == {"table": TABLE, "status": "already_done", "snapshot_id": 4}
    assert ids(hook) == [1, 2, 3, 10]


def test_a_run_that_is_cleared_after_its_success_commits_what_it_prepares_anew(
    hook: PaimonCommitHook, airflow: Airflow
):
    with airflow.attempt():
        hook.commit(hook.prepare(TABLE, rows(10)))
    airflow.clear()
    with airflow.attempt():
        again = hook.commit(hook.prepare(TABLE, rows(11)))

    assert again["status"] == "committed"
    assert ids(hook) == [1, 2, 3, 10, 11]


def test_a_commit_that_is_cleared_alone_commits_nothing(hook: PaimonCommitHook, airflow: Airflow):
    prepared = hook.prepare(TABLE, rows(10))
    with airflow.attempt():
        hook.commit(prepared)
    airflow.clear()
    with airflow.attempt():
        assert hook.commit(prepared) == {"table": TABLE, "status": "already_done", "snapshot_id": 4}
    assert ids(hook) == [1, 2, 3, 10]


def test_a_run_that_is_cleared_after_its_worker_was_lost_leaves_no_orphan(hook: PaimonCommitHook, airflow: Airflow):
    """The commit had landed: what was prepared again is not committed, and goes."""
    with airflow.attempt(succeeds=False):
        hook.commit(hook.prepare(TABLE, rows(10)))
    before = files(hook)
    airflow.clear()
    with airflow.attempt():
        assert hook.commit(hook.prepare(TABLE, rows(10)))["status"] == "already_done"

    assert files(hook) == before
    assert ids(hook) == [1, 2, 3, 10]


def test_the_note_of_success_is_made_once(hook: PaimonCommitHook, airflow: Airflow):
    with airflow.attempt():
        hook.commit(hook.prepare(TABLE, rows(10)))
        hook.commit([])
        assert airflow.context["task"].on_success_callback == [note_success]
    assert Task.on_success_callback == []


def test_a_second_commit_of_a_task_is_refused_and_loses_nothing(hook: PaimonCommitHook, airflow: Airflow):
    """Under the same name it would count as a repetition, and its rows would be deleted."""
    parts = [hook.prepare(TABLE, rows(10 + number)) for number in range(2)]
    with airflow.attempt(succeeds=False):
        assert hook.commit(parts[0])["status"] == "committed"
        assert hook.commit(parts[0])["status"] == "already_done"
        with pytest.raises(InvalidArgumentError, match=r"has committed to air.flights before.*commit_user"):
            hook.commit(parts[1])
        assert hook.commit(parts[1], commit_user="second")["status"] == "committed"

    assert ids(hook) == [1, 2, 3, 10, 11]


def test_a_task_commits_to_several_tables(hook: PaimonCommitHook, airflow: Airflow, catalog: Catalog):
    catalog.create_table("air.other", schema=rows().schema)
    with airflow.attempt():
        found = [hook.commit(hook.prepare(name, rows(10)))["status"] for name in (TABLE, "air.other")]

    assert found == ["committed", "committed"]


def test_a_task_commits_to_a_table_and_to_a_branch_of_it(hook: PaimonCommitHook, airflow: Airflow):
    hook.table(TABLE).create_branch("b", tag=None, snapshot=3)
    with airflow.attempt():
        found = [hook.commit(hook.prepare(name, rows(10)))["status"] for name in (TABLE, f"{TABLE}$branch_b")]

    assert found == ["committed", "committed"]


def test_a_mapped_task_takes_no_key(hook: PaimonCommitHook, airflow: Airflow):
    prepared = hook.prepare(TABLE, rows(10))
    with (
        airflow.attempt(map_index=0, succeeds=False),
        pytest.raises(InvalidArgumentError, match="part of a mapped task"),
    ):
        hook.commit(prepared, idempotency_key="load")


def test_outside_of_a_task_a_user_is_needed(hook: PaimonCommitHook):
    with pytest.raises(InvalidArgumentError, match="commit_user"):
        hook.commit([])
    prepared = hook.prepare(TABLE, rows(20))

    assert hook.commit(prepared, commit_user="me")["status"] == "committed"
    assert hook.commit(prepared, commit_user="me")["status"] == "already_done"
    assert hook.snapshot_of_user(TABLE, "me") == 4
    assert hook.snapshot_of_user(TABLE, "you") is None


# ── given up ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1 << 20, 0], ids=["in XCom", "in a file"])
def test_an_abort_leaves_nothing(hook: PaimonCommitHook, monkeypatch: pytest.MonkeyPatch, limit: int):
    monkeypatch.setattr(module, "INLINE_BYTES_MAX", limit)
    before = files(hook)
    parts = [sent(hook.prepare(TABLE, rows(10 + number))) for number in range(3)]
    assert ("kept" in parts[0]) == (limit == 0)

    assert hook.abort([*parts, None])["files_deleted"] == 3
    assert files(hook) == before
    assert hook.abort(parts)["status"] == "noop"
    with pytest.raises((ConflictError, NotFoundError)):
        hook.commit(parts, commit_user="me")
    assert ids(hook) == [1, 2, 3]


@pytest.mark.parametrize("limit", [1 << 20, 0], ids=["in XCom", "in a file"])
def test_an_abort_after_the_commit_deletes_nothing(hook: PaimonCommitHook, monkeypatch: pytest.MonkeyPatch, limit: int):
    monkeypatch.setattr(module, "INLINE_BYTES_MAX", limit)
    prepared = hook.prepare(TABLE, rows(10))
    hook.commit(prepared, commit_user="me")

    assert hook.abort(prepared)["status"] == "noop"
    assert ids(hook) == [1, 2, 3, 10]


# ── wrong messages ──────────────────────────────────────────────────────────────────────────────


def test_messages_of_two_tables_are_refused(hook: PaimonCommitHook, catalog: Catalog):
    catalog.create_table("air.other", schema=rows().schema)
    parts = [hook.prepare(TABLE, rows(10)), hook.prepare("air.other", rows(10))]

    for call in (lambda: hook.commit(parts, commit_user="me"), lambda: hook.abort(parts)):
        with pytest.raises(InvalidArgumentError, match="air.flights and air.other"):
            call()


def test_messages_that_say_they_are_of_another_table_are_refused(hook: PaimonCommitHook, catalog: Catalog):
    catalog.create_table("air.other", schema=rows().schema)
    prepared = {**hook.prepare(TABLE, rows(10)), "table": "air.other"}

    with pytest.raises(InvalidArgumentError, match="prepared for another table, .*flights"):
        hook.commit(prepared, commit_user="me")


@pytest.mark.parametrize("wrong", [{}, {"version": 2, "messages": []}, ["text"], "text", [{"version": 1}]])
def test_what_is_not_prepared_is_refused(hook: PaimonCommitHook, wrong: Any):
    with pytest.raises(InvalidArgumentError, match="not what PaimonCommitHook.prepare gives"):
        hook.commit(wrong, commit_user="me")


def test_messages_that_are_none_are_refused(hook: PaimonCommitHook):
    prepared = {**hook.prepare(TABLE, rows(10)), "messages": ["{}"]}

    with pytest.raises(InvalidArgumentError, match="commit message"):
        hook.commit(prepared, commit_user="me")


def test_data_frames(hook: PaimonCommitHook):
    hook.commit(hook.prepare(TABLE, rows(10).to_pandas()), commit_user="me")

    assert ids(hook) == [1, 2, 3, 10]
    assert isinstance(pa.table({"a": [1]}), pa.Table)
