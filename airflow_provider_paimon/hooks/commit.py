"""The hook for tasks that write data files themselves, and one task that commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_paimon import engine
from airflow_provider_paimon.hooks.paimon import PaimonHook


class PaimonCommitHook(PaimonHook):
    """Commits what others prepared, once however often it is called.

    Commit messages are passed as JSON, for example through XCom from mapped tasks to the one that commits.
    """

    def commit(self, table: str, messages: Sequence[str], commit_user: str, kind: str = "APPEND") -> dict[str, Any]:
        """Makes one snapshot of all messages (JSON of `CommitMessage`).

        `kind` is `APPEND` or `COMPACT`. Under the same `commit_user` and kind it happens once, also after its snapshot
        has expired; then the status is `already_done` instead of `committed`. `noop` if no message changes anything.

        Raises: InvalidArgumentError; ConflictError if files that the messages remove are missing.
        """
        parsed = [engine.CommitMessage.from_json(message) for message in messages]
        return self.table(table).commit(parsed, commit_user=commit_user, kind=kind).to_dict()

    def snapshot_of_user(self, table: str, user: str) -> int | None:
        """The newest snapshot that this user committed; None if there is none, or if it expired."""
        found = [row for row in self.table(table).snapshots().to_pylist() if row["commit_user"] == user]
        return found[-1]["snapshot_id"] if found else None

    def latest_snapshot_id(self, table: str) -> int | None:
        """The newest snapshot; None before the first commit."""
        return self.table(table).latest_snapshot_id()
