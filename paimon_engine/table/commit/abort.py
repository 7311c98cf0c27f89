"""Deletes the files of commit messages that will not be committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from paimon_engine.errors import OutcomeUnknownError, PaimonError
from paimon_engine.executor import Done, Failed, Returned, values
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.files.new_paths import delete_new, written_paths
from paimon_engine.table.state.handle import TableHandle


def delete_uncommitted(table: TableHandle, messages: Iterable[CommitMessage]) -> None:
    """Deletes the data and index files that were written for these messages.

    Files that a message only moves to another level are kept: they are live. Errors are ignored: nothing refers to the
    files, and the removal of orphan files finds what is left.
    """
    delete_new(table, [path for message in messages for path in written_paths(table, message)])


@contextmanager
def interruptible(
    table: TableHandle, messages_of: Callable[[Any], Iterable[CommitMessage]] | None = None
) -> Iterator[None]:
    """Around tasks: where they are interrupted, deletes what those have written that had ended by then.

    `messages_of` gives the messages of what a task returns: if it is not given, a message or several.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        for value in (value for item in interrupt.args if isinstance(item, Returned) for value in item.values):
            delete_uncommitted(table, _messages(value) if messages_of is None else messages_of(value))
        raise


def _messages(value: CommitMessage | Iterable[CommitMessage]) -> Iterable[CommitMessage]:
    return [value] if isinstance(value, CommitMessage) else value


def all_messages(table: TableHandle, outcomes: Sequence[Done[list[CommitMessage]] | Failed]) -> list[CommitMessage]:
    """Messages of all tasks, in their order.

    Raises: the error of the first task that failed, once the files of the others are deleted.
    """
    try:
        return [message for part in values(outcomes) for message in part]
    except Exception:
        done = [outcome.value for outcome in outcomes if isinstance(outcome, Done)]
        delete_uncommitted(table, [message for part in done for message in part])
        raise


@contextmanager
def uncommitted(table: TableHandle, messages: Sequence[CommitMessage]) -> Iterator[None]:
    """Deletes the files of the messages if the block raises: they are in no snapshot then.

    After an OutcomeUnknownError they stay, since a snapshot may need them.
    """
    try:
        yield
    except OutcomeUnknownError:
        raise
    except PaimonError:
        delete_uncommitted(table, messages)
        raise


def commit_or_delete(table: TableHandle, request: CommitRequest) -> Committed | Conflict:
    """Commits; where the messages are certainly in no snapshot by this, their files are deleted.

    That is after an error, after a conflict, and if another attempt of the job has committed its own files.

    Raises: as `commit`.
    """
    with uncommitted(table, request.messages):
        outcome = commit(table, request)
    if isinstance(outcome, Conflict) or outcome.by_other_attempt:
        delete_uncommitted(table, request.messages)
    return outcome
