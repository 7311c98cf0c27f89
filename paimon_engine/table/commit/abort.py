"""Deletes the files of commit messages that will not be committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from paimon_engine.errors import OutcomeUnknownError, PaimonError
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.table.state.unneeded import delete_unneeded


def delete_uncommitted(table: TableHandle, messages: Iterable[CommitMessage]) -> None:
    """Deletes the data and index files that were written for these messages.

    Files that a message only moves to another level stay: they are live. Errors are ignored: nothing refers to the
    files, and the removal of orphan files finds what is left.
    """
    paths = []
    for message in messages:
        directory = bucket_path(table, message.partition, message.bucket)
        paths += [f"{directory}/{name}" for name in message.written_names()]
        paths += [table.paths.index(file.name) for file in message.new_index_files]
    delete_unneeded(table.env.storage, paths)


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
