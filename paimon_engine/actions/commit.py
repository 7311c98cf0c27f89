"""Commit messages that were prepared before: commit them once, or give them up.

The files of messages look like orphans until these are committed: `remove_orphan_files` deletes them once they are
older than it is told. So messages should be committed, or aborted, within a day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_engine.action import Result
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.executor import Executor
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.names import checked_user
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.storage import EXTERNAL_DELETABLE
from paimon_engine.table.commit import commit as commits
from paimon_engine.table.commit.commit_callbacks import waiting_failures
from paimon_engine.table.commit.job_commit import conflict_error, look_up_commit
from paimon_engine.table.commit.origins import check_origin, check_origins, committed_before, each_once
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.external import is_deletable, is_outside, remedy
from paimon_engine.table.files.new_paths import unreadable_files, written_paths
from paimon_engine.table.removal.prepared import delete_prepared
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.identity import table_id

_KINDS = (CommitKind.APPEND, CommitKind.COMPACT)


@dataclass(frozen=True, slots=True)
class CommitResult(Result):
    """What a commit did; `status` is `committed`, `already_done` (by an earlier attempt) or `noop`."""

    status: str
    snapshot_id: int | None


@waiting_failures()
def commit_messages(
    table: TableHandle,
    messages: Sequence[CommitMessage],
    *,
    commit_user: str,
    kind: str,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> CommitResult:
    """Makes one snapshot of all messages; once for this user and kind, however often it is called.

    Messages that were prepared by `prepare` are committed once under whatever name, and each once where it is given
    several times. The messages' files are never deleted, whatever happens: they are the caller's.

    Raises: InvalidArgumentError for another kind, and for messages of another table, of one that was dropped and
    created again, or of another schema; ConflictError if files that the messages remove were removed by others, or if
    their own files are deleted.
    """
    if not commit_user or checked_user(commit_user) is None:
        raise InvalidArgumentError("a commit of messages needs a commit_user, which identifies a repeated call")
    if kind not in _KINDS:
        raise InvalidArgumentError(f"cannot commit messages as {kind!r}; choose one of {', '.join(_KINDS)}")
    chosen = CommitKind(kind)
    job = look_up_commit(table, commit_user, chosen, identifier_of(Maker.PREPARED))
    if job.done is not None:
        return CommitResult("already_done", job.done.id)
    if all(message.is_empty for message in messages):
        return CommitResult("noop", None)
    messages = each_once(table, messages)
    check_origins(table, messages)
    before = committed_before(table, messages)
    if before is not None:
        return CommitResult("already_done", before.id)
    request = replace(job.request(messages), watermark=watermark, properties=properties, under_any_name=True)
    outcome = commits.commit(table, request)
    if isinstance(outcome, commits.Conflict):
        raise conflict_error(table, outcome, "prepare the changes again")
    return CommitResult(outcome.status, outcome.snapshot.id)


@dataclass(frozen=True, slots=True)
class AbortResult(Result):
    """What an abort did; `status` is `deleted`, `noop` or `stopped`.

    `files_committed` counts the files that stay, as versions of the table have them. `stopped` says why files are left
    that should go: then nothing is certain, and `remove_orphan_files` deletes them later.
    """

    status: str
    files_deleted: int = 0
    bytes_deleted: int = 0
    files_committed: int = 0
    stopped: tuple[str, ...] = ()


def abort_messages(table: TableHandle, messages: Sequence[CommitMessage], executor: Executor) -> AbortResult:
    """Deletes the files that were written for these messages, unless a version of the table has them by now.

    May be repeated, and called while another process commits the messages: either the commit comes first and its files
    stay, or it is refused. Makes an empty snapshot where there is something to delete.

    Raises: InvalidArgumentError for messages of another table; StorageError.
    """
    here = table_id(table)
    paths: list[str] = []
    kept: list[str] = []
    for message in messages:
        origin = message.origin
        if origin is not None and origin.table_id != here and origin.path == table.paths.root:
            continue  # its table was dropped, and the files with it
        if origin is not None:
            check_origin(table, origin, here)
        paths += written_paths(table, message)
        kept += unreadable_files(table, message)
    kept += [path for path in paths if is_outside(table, path) and not is_deletable(table, path)]
    found = delete_prepared(table, [path for path in paths if path not in kept], executor)
    stopped = (
        *found.problems,
        *(f"{path} is outside the table and stays; {remedy('deleting it', EXTERNAL_DELETABLE)}" for path in kept),
    )
    return AbortResult(
        status="stopped" if stopped else "deleted" if found.deleted else "noop",
        files_deleted=len(found.deleted),
        bytes_deleted=sum(file.size_bytes for file in found.deleted),
        files_committed=found.committed,
        stopped=stopped,
    )
