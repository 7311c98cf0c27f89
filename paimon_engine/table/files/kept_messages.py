"""Messages that are too large to be passed on: stored in a file of the table until they are committed or aborted.

The file is in the directory of manifests and no version names it, so that the removal of orphan files finds it, of this
engine and of others, where no attempt has continued it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from paimon_engine.errors import InvalidArgumentError, NotFoundError, shown
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.unneeded import delete_unneeded

_PREFIX: Final = "prepared-"
_NAME: Final = re.compile(rf"{_PREFIX}[0-9A-Za-z-]+")


def keep_messages(table: TableHandle, messages: Sequence[CommitMessage]) -> str:
    """Stores the messages; the name under which they are found. Raises: StorageError."""
    name = f"{_PREFIX}{table.env.new_id()}"
    text = json.dumps([message.to_json() for message in messages])
    table.env.storage.overwrite(table.paths.manifest(name), text.encode())
    return name


def kept_messages(table: TableHandle, name: str) -> list[CommitMessage]:
    """The messages under that name.

    Raises: NotFoundError if they were deleted, by an abort, a commit or a clean-up; InvalidArgumentError.
    """
    path = _path(table, name)
    try:
        texts = json.loads(table.env.storage.read(path))
        return [CommitMessage.from_json(text) for text in texts]
    except NotFoundError as error:
        raise NotFoundError(
            f"{path}: no messages any more: they were committed, aborted, or deleted by a clean-up; prepare the rows "
            "again if they are not in the table"
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{path} does not contain valid commit messages: {error!r}") from error


def forget_messages(table: TableHandle, name: str) -> None:
    """Deletes the file of that name, if it exists; on an error it is left to the removal of orphans."""
    delete_unneeded(table.env.storage, [_path(table, name)])


def _path(table: TableHandle, name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(f"{shown(name)} is not a name of prepared messages")
    return table.paths.manifest(name)
