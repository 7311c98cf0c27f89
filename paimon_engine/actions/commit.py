"""Commit messages that were prepared elsewhere, for callers that write their data files on their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_engine.action import Result
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.names import checked_user
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit import commit as commits
from paimon_engine.table.commit.job_commit import conflict_error, look_up_commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle

_KINDS = (CommitKind.APPEND, CommitKind.COMPACT)


@dataclass(frozen=True, slots=True)
class CommitResult(Result):
    """What a commit did; `status` is `committed`, `already_done` (by an earlier attempt) or `noop`."""

    status: str
    snapshot_id: int | None


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

    The messages' files are never deleted, whatever happens: they are the caller's.
    Raises: InvalidArgumentError for another kind; ConflictError if files that the messages remove were removed by
    others.
    """
    if not commit_user or checked_user(commit_user) is None:
        raise InvalidArgumentError("a commit of messages needs a commit_user, by which a repeated call is known")
    if kind not in _KINDS:
        raise InvalidArgumentError(f"cannot commit messages as {kind!r}; choose one of {', '.join(_KINDS)}")
    chosen = CommitKind(kind)
    job = look_up_commit(table, commit_user, chosen, identifier_of(Maker.PREPARED))
    if job.done is not None:
        return CommitResult("already_done", job.done.id)
    if all(message.is_empty for message in messages):
        return CommitResult("noop", None)
    outcome = commits.commit(table, replace(job.request(messages), watermark=watermark, properties=properties))
    if isinstance(outcome, commits.Conflict):
        raise conflict_error(table, outcome, "prepare the changes again")
    return CommitResult(outcome.status, outcome.snapshot.id)
