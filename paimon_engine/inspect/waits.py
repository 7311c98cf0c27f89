"""Conditions that a program may wait for on a table. Each is checked once, from metadata; waiting is the caller's job.

A wait is a spec like that of an action: its fields are read from Python, JSON or texts of templates. Its `look` gives
what was found, as plain JSON values, or None where it is not there yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from paimon_engine.errors import InvalidArgumentError, NotFoundError, UnsupportedError, shown
from paimon_engine.format.binary_row import decode_row, encode_row, same_value
from paimon_engine.meta.names import check_tag_name
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options.texts import split_list
from paimon_engine.specs import Edge, Index, Moment, Name, PartitionValues, Span, Spec, decode
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.partitions import (
    MARK_DONE_ACTION,
    SUCCESS_FILE,
    partition_spec,
    relative_path,
    whole_partition,
)
from paimon_engine.table.state.snapshots import (
    consumers,
    latest_snapshot,
    latest_snapshot_id,
    read_tag,
    snapshots_newest_first,
)
from paimon_engine.types import RowType

KindOfCommit = Literal["APPEND", "COMPACT", "OVERWRITE", "ANALYZE"]


@dataclass(frozen=True, slots=True)
class Wait(Spec, ABC):
    """Something that may be waited for; made by `read_wait`."""

    kind: ClassVar[str]

    def check(self) -> Self:
        """The wait itself. Raises: InvalidArgumentError if it makes no sense on any table."""
        return self

    @abstractmethod
    def look(self, table: TableHandle) -> dict[str, Any] | None:
        """What was found; None where it is not there yet."""


@dataclass(frozen=True, slots=True)
class TagWait(Wait):
    """A tag exists, or does not."""

    kind: ClassVar[str] = "tag"

    tag: Annotated[Name, "name of the tag"]
    state: Annotated[Literal["exists", "absent"], "wait until it exists, or until it is deleted"] = "exists"

    def check(self) -> Self:
        """As for all. Raises: InvalidArgumentError for an invalid name of a tag."""
        check_tag_name(self.tag)
        return self

    def look(self, table: TableHandle) -> dict[str, Any] | None:
        """`tag` and its `snapshot_id`, None if the tag does not exist."""
        try:
            found = read_tag(table, self.tag).snapshot.id
        except NotFoundError:
            found = None
        return {"tag": self.tag, "snapshot_id": found} if (found is None) == (self.state == "absent") else None


@dataclass(frozen=True, slots=True)
class SnapshotWait(Wait):
    """A snapshot exists that meets all of these conditions; without any, the first one."""

    kind: ClassVar[str] = "snapshot"

    after_snapshot: Annotated[Index | None, "its id is greater than this"] = None
    newer_than: Annotated[Moment | None, "it was committed after this time"] = None
    watermark: Annotated[int | None, "its watermark has got so far, in epoch milliseconds"] = None
    kinds: Annotated[
        Sequence[KindOfCommit] | None, "it was made by one of these kinds of commits; by any by default"
    ] = None

    def check(self) -> Self:
        """As for all."""
        _check_kinds(self.kinds)
        return self

    def look(self, table: TableHandle) -> dict[str, Any] | None:
        """The newest such snapshot: `snapshot_id`, `commit_kind`, `commit_time`, `watermark`."""
        found = _newest(table, self.kinds, self.after_snapshot or 0)
        if found is None or (self.newer_than is not None and found.time_ms <= self.newer_than):
            return None
        if self.watermark is not None and (found.watermark is None or found.watermark < self.watermark):
            return None
        return _described(found)


@dataclass(frozen=True, slots=True)
class PartitionWait(Wait):
    """Partitions of these values have rows, and are marked as done if that is requested."""

    kind: ClassVar[str] = "partition"

    partition: Annotated[PartitionValues, "values of partition columns; of all of them where it is to be done"]
    min_rows: Annotated[Index, "at least so many rows in data files, old versions and deletes counted"] = 1
    done: Annotated[bool, "it is marked as done by a _SUCCESS file"] = False

    def look(self, table: TableHandle) -> dict[str, Any] | None:
        """`partition`, the number of `partitions` and their `rows`, and the `snapshot_id`.

        Raises: InvalidArgumentError for values that name no partition; UnsupportedError if the table marks partitions
        otherwise.
        """
        spec = partition_spec(table, self.partition)
        if self.done and not self._is_done(table):
            return None
        latest = latest_snapshot(table)
        entries = live_entries(table, latest, self._keys(table, spec))
        rows: dict[bytes, int] = {}
        for entry in entries:
            rows[entry.partition] = rows.get(entry.partition, 0) + entry.file.row_count
        found = {key: number for key, number in rows.items() if _has_values(table.schema.partition_type, key, spec)}
        if sum(found.values()) < self.min_rows:
            return None
        return {
            "partition": {name: None if value is None else str(value) for name, value in self.partition.items()},
            "partitions": len(found),
            "rows": sum(found.values()),
            "snapshot_id": None if latest is None else latest.id,
        }

    def _keys(self, table: TableHandle, spec: Mapping[str, Any]) -> set[bytes] | None:
        """The one partition, if it is named wholly, so that manifests of others are not read."""
        columns = table.schema.partition_type
        if set(spec) != set(columns.names):
            return None
        values = [spec[name] for name in columns.names]
        return {encode_row([field.type for field in columns], values, reserve_null=True)}

    def _is_done(self, table: TableHandle) -> bool:
        ways = split_list(table.options.raw.get(MARK_DONE_ACTION, SUCCESS_FILE))
        if SUCCESS_FILE not in ways:
            raise UnsupportedError(
                f"partitions of this table are marked as done by '{MARK_DONE_ACTION}' = '{','.join(ways)}', which "
                f"leaves no file to check: add {SUCCESS_FILE} to it, or wait without done="
            )
        path = relative_path(table, whole_partition(table, self.partition))
        return table.env.storage.exists(f"{table.paths.root}/{path}/_SUCCESS")


@dataclass(frozen=True, slots=True)
class FreshnessWait(Wait):
    """The newest commit is not older than this."""

    kind: ClassVar[str] = "freshness"

    max_age: Annotated[Span, "how old the newest commit may be, such as 2 h"]
    kinds: Annotated[
        Sequence[KindOfCommit] | None, "count only these kinds of commits; APPEND and OVERWRITE change rows"
    ] = None

    def check(self) -> Self:
        """As for all."""
        _check_kinds(self.kinds)
        return self

    def look(self, table: TableHandle) -> dict[str, Any] | None:
        """The commit as for a snapshot, and `age_seconds`."""
        found = _newest(table, self.kinds, 0)
        if found is None:
            return None
        age = table.env.clock() - found.time_ms
        return {**_described(found), "age_seconds": age / 1000} if age <= self.max_age else None


@dataclass(frozen=True, slots=True)
class ConsumerWait(Wait):
    """A consumer has read up to so many snapshots behind the latest one."""

    kind: ClassVar[str] = "consumer"

    consumer: Annotated[Name, "name of the consumer"]
    max_lag: Annotated[Index, "so many snapshots may be unread"] = 0

    def look(self, table: TableHandle) -> dict[str, Any] | None:
        """`consumer`, `next_snapshot`, the latest `snapshot_id` and the `lag`; None where the consumer is unknown."""
        following = consumers(table).get(self.consumer)
        latest = latest_snapshot_id(table)
        if following is None or latest is None:
            return None
        lag = max(0, latest + 1 - following)
        found = {"consumer": self.consumer, "next_snapshot": following, "snapshot_id": latest, "lag": lag}
        return found if lag <= self.max_lag else None


WAITS: Final[Mapping[str, type[Wait]]] = {
    kind.kind: kind for kind in (TagWait, SnapshotWait, PartitionWait, FreshnessWait, ConsumerWait)
}


def read_wait(kind: str, fields: Mapping[str, Any], edge: Edge | None = None) -> Wait:
    """The wait of a kind (`tag`, `snapshot`, `partition`, `freshness`, `consumer`) with these fields.

    Raises: InvalidArgumentError naming the kind, the field and its value.
    """
    if kind not in WAITS:
        raise InvalidArgumentError(f"kind={shown(kind)}: choose one of {', '.join(WAITS)}")
    wait: Wait = decode(WAITS[kind], fields, name=f"wait for {kind}", edge=edge or Edge())
    return wait.check()


def _check_kinds(kinds: Sequence[str] | None) -> None:
    if kinds is not None and not kinds:
        raise InvalidArgumentError("kinds=[]: no commit is of none of them; leave it out for all kinds")


def _newest(table: TableHandle, kinds: Sequence[str] | None, newer_than: int) -> Snapshot | None:
    """The newest snapshot of these kinds above an id."""
    if kinds is None:
        latest = latest_snapshot(table)
        return latest if latest is not None and latest.id > newer_than else None
    found = snapshots_newest_first(table, newer_than)
    return next((snapshot for snapshot in found if str(snapshot.commit_kind) in kinds), None)


def _has_values(columns: RowType, key: bytes, spec: Mapping[str, Any]) -> bool:
    values = dict(zip(columns.names, decode_row([field.type for field in columns], key), strict=True))
    return all(same_value(values[name], value) for name, value in spec.items())


def _described(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "snapshot_id": snapshot.id,
        "commit_kind": str(snapshot.commit_kind),
        "commit_time": datetime.fromtimestamp(snapshot.time_ms / 1000, UTC).isoformat(),
        "watermark": snapshot.watermark,
    }
