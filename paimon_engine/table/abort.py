"""Deleting the files of commit messages that will not be committed."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_engine.table.commit_message import CommitMessage
from paimon_engine.table.file_format import bucket_path
from paimon_engine.table.handle import TableHandle


def delete_uncommitted(table: TableHandle, messages: Iterable[CommitMessage]) -> None:
    """Deletes the files that writers made for these messages, indexes too; upgraded files, which are live, stay."""
    paths = []
    for message in messages:
        directory = bucket_path(table, message.partition, message.bucket)
        paths += [f"{directory}/{name}" for name in message.written_names()]
        paths += [table.paths.index(file.name) for file in message.new_index_files]
    table.env.storage.delete(paths)
