"""Deleting the files of commit messages that will not be committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from paimon_engine.errors import OutcomeUnknownError, PaimonError
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.table.state.unneeded import delete_unneeded


def delete_uncommitted(table: TableHandle, messages: Iterable[CommitMessage]) -> None:
    """Deletes the files that writers made for these messages, indexes too; upgraded files, which are live, stay.

    Best effort: nothing refers to them, and what a store does not let go is found by the removal of orphans.
    """
    paths = []
    for message in messages:
        directory = bucket_path(table, message.partition, message.bucket)
        paths += [f"{directory}/{name}" for name in message.written_names()]
        paths += [table.paths.index(file.name) for file in message.new_index_files]
    delete_unneeded(table.env.storage, paths)


@contextmanager
def uncommitted(table: TableHandle, messages: Sequence[CommitMessage]) -> Iterator[None]:
    """Deletes the files of the messages if the block raises: they are certainly in no snapshot then.

    Where the outcome of a commit is not known they stay.
    """
    try:
        yield
    except OutcomeUnknownError:
        raise
    except PaimonError:
        delete_uncommitted(table, messages)
        raise
