"""The hook for writing rows in many tasks so that they appear at once: prepare, commit, abort."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from airflow.sdk import get_current_context

from airflow_provider_paimon import engine
from airflow_provider_paimon.attempts import begin_attempt, note_success
from airflow_provider_paimon.hooks.paimon import PaimonHook
from paimon_engine.errors import InvalidArgumentError, NotFoundError

Prepared: TypeAlias = Mapping[str, Any]
"""What `prepare` gives: plain JSON values. Treat it as closed, but for `table`, `rows`, `files` and `bytes`."""

_VERSION: Final = 1
INLINE_BYTES_MAX: Final = 32_768
"""Larger messages are stored in a file of the table: XCom is stored in Airflow's database."""

_BRANCH: Final = "$branch_"
_committed: dict[tuple[tuple[str, int, str], str], str] = {}
"""An attempt of this process, and path and branch of a table → what the attempt has committed there."""


class PaimonCommitHook(PaimonHook):
    """Prepares rows in as many tasks as you like, and commits them in one: all appear at once, and once.

        prepared = prepare.expand(part=parts)      # each task: hook.prepare(table, data)
        commit(prepared)                           # one task: hook.commit(prepared)
        abort(prepared)                            # trigger_rule="one_failed": hook.abort(prepared)

    A task that is killed while it prepares leaves files that are not recorded, and messages that are never committed or
    aborts leave theirs: `PaimonRemoveOrphanFilesOperator` deletes both once they are older than a day. So commit within
    a day.
    """

    def prepare(self, table: str, data: Any, *, row_kinds: Any = None, order: int | None = None) -> dict[str, Any]:
        """Writes files without a commit; returns what `commit` and `abort` take, small enough for XCom.

        `data` and `row_kinds` are as for `Table.write`. Of rows of one key that tasks prepare side by side those of the
        higher `order` win, unless the table has a `sequence.field`; by default it is the map index of the task.

        Raises: InvalidArgumentError, UnsupportedError, as `Table.prepare_write`; StorageError.
        """
        opened = self.table(table)
        messages = opened.prepare_write(data, row_kinds, order=_map_index() if order is None else order)
        files = [file for message in messages for file in message.new_files]
        texts = [message.to_json() for message in messages]
        prepared: dict[str, Any] = {
            "version": _VERSION,
            "table": table,
            "rows": sum(file.row_count for file in files),
            "files": len(files),
            "bytes": sum(file.size_bytes for file in files),
        }
        if sum(map(len, texts)) <= INLINE_BYTES_MAX:
            return {**prepared, "messages": texts}
        return {**prepared, "kept": opened.keep_messages(messages)}

    def commit(
        self,
        prepared: Prepared | Iterable[Prepared],
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        commit_user: str | None = None,
        idempotency_key: str | None = None,
        on_clear: str | None = None,
        force_rerun: bool = False,
    ) -> dict[str, Any]:
        """Makes one snapshot of all that was prepared; returns `table`, `status` and `snapshot_id`.

        The commit has the name of this task in its DAG run, as those of the operators: a retry finds what an earlier
        attempt has committed (`already_done`) and aborts what was prepared again since; a clear after success commits
        what was prepared again; the same messages are never committed twice. `idempotency_key`, `on_clear` and
        `force_rerun` are as for the operators; a mapped task takes no key. So a task commits to a table once. Where it
        does so several times, or outside of a task, give a `commit_user`, which identifies a repeated call. `noop` if
        nothing was prepared.

        Raises: InvalidArgumentError for messages of several tables, of another table, of one that was dropped and
        created again, or of an earlier schema, and for a second commit of other messages to the table under the same
        name; NotFoundError, ConflictError if they were aborted; StorageError.
        """
        parts, attempt = _parts(prepared), None
        if commit_user is None:
            context = _context()
            commit_user = begin_attempt(context, idempotency_key, on_clear, force_rerun=force_rerun).commit_user
            instance = context["ti"]
            attempt = commit_user, getattr(instance, "try_number", 1), str(getattr(instance, "id", ""))
            _note_success_of(context)
        if not parts:
            return {"table": None, "status": "noop", "snapshot_id": None}
        table = self.table(_table_of(parts))
        place = f"{table.path} {parts[0]['table'].partition(_BRANCH)[2]}"
        _check_first(attempt, place, parts)
        try:
            messages = _messages(table, parts)
        except NotFoundError:
            # A kept file is deleted once its messages are committed.
            done, messages = table.commit([], commit_user=commit_user), []
            if done.status != "already_done":
                raise
        else:
            done = table.commit(messages, commit_user=commit_user, watermark=watermark, properties=properties)
        if attempt is not None:
            _committed[attempt, place] = _as_text(parts)
        if done.status == "already_done":
            table.abort(messages)
        _forget(table, parts)
        self.note_lineage(parts[0]["table"], is_input=False)
        return {"table": parts[0]["table"], **done.to_dict()}

    def abort(self, prepared: Prepared | Iterable[Prepared]) -> dict[str, Any]:
        """Deletes the files of what was prepared; returns `table`, `status`, `files_deleted` and more of `AbortResult`.

        What is committed by now stays. May be repeated. To load again afterwards, clear the tasks that prepare.

        Raises: InvalidArgumentError for messages of another table; StorageError.
        """
        parts = _parts(prepared)
        if not parts:
            return {"table": None, "status": "noop", "files_deleted": 0}
        table = self.table(_table_of(parts))
        there = []
        for part in parts:
            try:
                there.append((part, _messages(table, [part])))
            except NotFoundError:
                self.log.info("What was prepared for %s has been committed or aborted before", part["table"])
        done = table.abort([message for _, messages in there for message in messages])
        if done.status != "stopped":
            _forget(table, parts)
        return {"table": parts[0]["table"], **done.to_dict()}

    def snapshot_of_user(self, table: str, user: str) -> int | None:
        """The newest snapshot that this user committed; None if there is none, or if it expired."""
        found = [row for row in self.table(table).snapshots().to_pylist() if row["commit_user"] == user]
        return found[-1]["snapshot_id"] if found else None

    def latest_snapshot_id(self, table: str) -> int | None:
        """The newest snapshot; None before the first commit."""
        return self.table(table).latest_snapshot_id()


def _parts(prepared: Prepared | Iterable[Prepared]) -> list[Prepared]:
    """The results of `prepare`, of one task or of many; tasks without one, such as skipped ones, are left out.

    Raises: InvalidArgumentError.
    """
    given = [prepared] if isinstance(prepared, Mapping) else [item for item in prepared if item is not None]
    for part in given:
        if not isinstance(part, Mapping) or part.get("version") != _VERSION or not {"messages", "kept"} & part.keys():
            raise InvalidArgumentError(f"{type(part).__name__} is not what PaimonCommitHook.prepare gives")
    return given


def _table_of(parts: Sequence[Prepared]) -> str:
    """Raises InvalidArgumentError unless all are of one table."""
    names = sorted({part["table"] for part in parts})
    if len(names) > 1:
        raise InvalidArgumentError(f"rows were prepared for {' and '.join(names)}; commit each table separately")
    name: str = names[0]
    return name


def _check_first(attempt: tuple[str, int, str] | None, place: str, parts: Sequence[Prepared]) -> None:
    """Raises InvalidArgumentError if the attempt has committed others to the table: it would count as a repetition."""
    before = None if attempt is None else _committed.get((attempt, place))
    if before is not None and before != _as_text(parts):
        raise InvalidArgumentError(
            f"this task has committed to {parts[0]['table']} before, under the name by which its retry is recognised; "
            "commit all that was prepared at once, as in commit([first, second]), or give each commit a commit_user"
        )


def _as_text(parts: Sequence[Prepared]) -> str:
    return json.dumps([dict(part) for part in parts], sort_keys=True)


def _messages(table: engine.Table, parts: Sequence[Prepared]) -> list[engine.CommitMessage]:
    found: list[engine.CommitMessage] = []
    for part in parts:
        if "kept" in part:
            found += table.kept_messages(part["kept"])
        else:
            found += [engine.CommitMessage.from_json(text) for text in part["messages"]]
    return found


def _forget(table: engine.Table, parts: Sequence[Prepared]) -> None:
    for part in parts:
        if "kept" in part:
            table.forget_messages(part["kept"])


def _context() -> Any:
    """The context of the running task. Raises: InvalidArgumentError."""
    try:
        return get_current_context()
    except RuntimeError as error:
        raise InvalidArgumentError(
            "outside of a task give a commit_user, which identifies a repeated commit"
        ) from error


def _map_index() -> int:
    """The map index of the running task; 0 where there is none."""
    try:
        return max(0, getattr(get_current_context()["ti"], "map_index", 0) or 0)
    except RuntimeError:
        return 0


def _note_success_of(context: Mapping[str, Any]) -> None:
    """Has the running task note its success once Airflow knows of it, as the operators do."""
    task = context.get("task")
    if task is not None and note_success not in task.on_success_callback:
        task.on_success_callback = [*task.on_success_callback, note_success]
