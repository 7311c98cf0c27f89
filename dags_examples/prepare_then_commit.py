"""Load many files by as many tasks, and let all rows appear at once.

Each mapped task prepares the rows of one file: it writes data files that nobody sees yet. One task commits them all. If
any of them fails for good, what the others have prepared is deleted, and the table stays as it was.

To load again after that, clear the whole run. A task that was killed while it prepared leaves files that nobody knows;
`PaimonRemoveOrphanFilesOperator`, once a day, deletes those that are older than a day.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_paimon.hooks.commit import PaimonCommitHook
from dags_examples.settings import HOME

TABLE = "shop.visits"
LAKE = {"warehouse": str(HOME / "lake")}
INBOX = HOME / "inbox"

with DAG(
    "prepare_then_commit",
    schedule=None,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1)},
    doc_md=__doc__,
    tags=["paimon"],
):

    @task
    def files() -> list[str]:
        """The files that have come, in the order in which later ones win."""
        return sorted(str(path) for path in INBOX.glob("*.parquet"))

    @task
    def prepare(path: str) -> dict[str, Any]:
        """Writes the rows of one file, without a commit."""
        import pyarrow.parquet as pq

        return PaimonCommitHook(**LAKE).prepare(TABLE, pq.read_table(path))

    @task
    def commit(prepared: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Makes one snapshot of all that was prepared."""
        return PaimonCommitHook(**LAKE).commit(prepared, properties={"loaded-by": "prepare_then_commit"})

    @task(trigger_rule="one_failed")
    def abort(prepared: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Deletes what was prepared and will not be committed."""
        return PaimonCommitHook(**LAKE).abort(prepared)

    @task
    def report(done: dict[str, Any]) -> int:
        """What comes after the load. A run ends as its last tasks do: without this one, an abort made it green."""
        return PaimonCommitHook(**LAKE).table(TABLE).to_arrow(snapshot=done["snapshot_id"]).num_rows

    prepared = prepare.expand(path=files())
    committed = commit(prepared)
    report(committed)
    committed >> abort(prepared)
