"""Commit messages that were prepared elsewhere, for callers that write their data files on their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paimon_engine.action import Result
from paimon_engine.errors import ConflictError, InvalidArgumentError
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.names import checked_user
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit import commit as commits
from paimon_engine.table.commit.own_commits import find_own_commit
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
    Raises: InvalidArgumentError for another kind; ConflictError if files that the messages remove are gone.
    """
    if not commit_user or checked_user(commit_user) is None:
        raise InvalidArgumentError("a commit of messages needs a commit_user, by which a repeated call is known")
    if kind not in _KINDS:
        raise InvalidArgumentError(f"cannot commit messages as {kind!r}; choose one of {', '.join(_KINDS)}")
    chosen = CommitKind(kind)
    identifier = identifier_of(Maker.PREPARED)
    own = find_own_commit(table, commit_user, chosen, identifier)
    if own.snapshot is not None:
        return CommitResult("already_done", own.snapshot.id)
    if all(message.is_empty for message in messages):
        return CommitResult("noop", None)
    request = commits.CommitRequest(
        messages,
        chosen,
        commit_user,
        identifier,
        watermark=watermark,
        properties=properties,
        checked_up_to=own.checked_up_to,
    )
    outcome = commits.commit(table, request)
    if isinstance(outcome, commits.Conflict):
        raise ConflictError(f"{table.paths.root}: {outcome.conflicts[0].reason}; prepare the changes again")
    return CommitResult("already_done" if outcome.by_other_attempt else "committed", outcome.snapshot.id)
