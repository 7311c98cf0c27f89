"""Request and outcome of a commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.binary_row import decode_row, same_value
from paimon_engine.meta.conflict import BucketConflict
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.names import is_text
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from paimon_engine.table.commit.own_files import WorkBegun
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle


@dataclass(frozen=True, slots=True)
class Committed:
    """The changes are in `snapshot`.

    `by_other_attempt` is true if another attempt under the same user and identifier made that snapshot: the files
    of this attempt's messages are then in no snapshot, and the caller should delete them. It is also true of a request
    `under_any_name` whose messages others have committed. `lost_races` counts the tries
    in which another commit was faster.
    """

    snapshot: Snapshot
    by_other_attempt: bool = False
    lost_races: int = 0

    @property
    def status(self) -> str:
        """What a result says of it: `committed`, or `already_done` by another attempt."""
        return "already_done" if self.by_other_attempt else "committed"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Nothing was committed, because these buckets changed since the messages were prepared.

    `snapshot_id` is the snapshot that the messages were checked against. With `is_lost` the reason is that a clean-up
    has deleted files of the messages, or has planned to.
    """

    conflicts: tuple[BucketConflict, ...]
    snapshot_id: int
    is_lost: bool = False


@dataclass(frozen=True)
class OverwriteScope:
    """Which partitions an overwrite empties: exactly `partitions` if given, else those whose values equal `spec`.

    `spec` maps partition columns to internal values; an empty one means all partitions. All files that are live there
    when it is committed are removed. If `seen` is given, only the files that it names may be removed, and any other
    live file is a conflict.
    """

    partitions: frozenset[bytes] | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    seen: frozenset[str] | None = None

    def covers(self, table: TableHandle, partition: bytes) -> bool:
        """Whether the overwrite empties that partition."""
        if self.partitions is not None:
            return partition in self.partitions
        if not self.spec:
            return True
        columns = table.schema.partition_type
        values = dict(zip(columns.names, decode_row([item.type for item in columns], partition), strict=True))
        return all(same_value(values[name], value) for name, value in self.spec.items())


@dataclass(frozen=True, slots=True)
class IndexRead:
    """What a writer has read of `snapshot` (None: an empty table) to assign keys to buckets.

    `hash_files`: hash indexes of dynamic buckets. `all_keys`: the keys themselves were read, in a table whose keys are
    unique across partitions.
    """

    snapshot: Snapshot | None
    hash_files: tuple[IndexFile, ...] | None = None
    all_keys: bool = False


@dataclass(frozen=True)
class CommitRequest:
    """What to commit, and under whose name.

    `commit_user`, `commit_identifier` and `kind` together name the commit: it happens once, however often it is tried.
    `checked_up_to` is the newest snapshot id in which the caller has already looked for this commit; None if the name
    is new and never used before. `read` is the state of the keys that the writer of the messages has read. `statistics`
    names a new statistics file. `needed_files` names data files that must still be live, by bucket.
    Where columns of a row may be in several files, `read_groups` names, by bucket, all files of the rows that were
    read, and `read_fields` the ids of the columns: others must not have added files of these columns and rows.
    `updated_fields` are the ids of columns of which the messages bring new values for old rows.
    `compacts_manifests` rewrites the base manifests, whether that is due or not. `replaces_all` says that the messages
    remove all files of their partitions, so that any other live file there is a conflict. `watermark` is in epoch
    milliseconds. `adds_old_files` says that earlier commits of the table can have added and removed the files that the
    messages add. `under_any_name` says that others may commit these messages, too: each try looks whether they have.
    `begun` says when the writing of the messages' files began; without it, the commit checks in storage
    that each of them exists.
    """

    messages: Sequence[CommitMessage]
    kind: CommitKind
    commit_user: str
    commit_identifier: int = BATCH_COMMIT_IDENTIFIER
    overwrite: OverwriteScope | None = None
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
    statistics: str | None = None
    compacts_manifests: bool = False
    checked_up_to: int | None = None
    read: IndexRead | None = None
    replaces_all: bool = False
    needed_files: Mapping[tuple[bytes, int], Collection[str]] = field(default_factory=dict)
    read_groups: Mapping[tuple[bytes, int], Collection[str]] = field(default_factory=dict)
    read_fields: frozenset[int] = frozenset()
    updated_fields: frozenset[int] = frozenset()
    adds_old_files: bool = False
    under_any_name: bool = False
    begun: WorkBegun | None = None


def check_request(request: CommitRequest) -> None:
    """Raises InvalidArgumentError for values that could not be stored in a snapshot so that every reader accepts it."""
    for name, value in (request.properties or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArgumentError(f"property {name!r} = {value!r} of a commit: names and values must be strings")
    for text in (request.commit_user, *(request.properties or {}), *(request.properties or {}).values()):
        if not is_text(text):
            raise InvalidArgumentError(
                f"{text[:100]!r}: the user and properties of a commit must not contain a lone surrogate"
            )
    watermark = request.watermark
    if watermark is not None and (type(watermark) is not int or not -(1 << 63) <= watermark < 1 << 63):
        raise InvalidArgumentError(f"watermark {watermark!r}: give an integer number of milliseconds (64 bits)")
