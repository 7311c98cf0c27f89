"""Consumers: what streaming readers have read up to. Snapshots that a consumer has yet to read do not expire.

Source: `ConsumerManager` of the Java library.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from paimon_engine.errors import InvalidArgumentError, NotFoundError
from paimon_engine.format.json_text import pretty_json
from paimon_engine.meta.names import check_file_name
from paimon_engine.table.changelogs import earliest_change_id
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.snapshots import consumer_files, snapshot_ids


@dataclass(frozen=True, slots=True)
class ResetConsumer:
    """Let a consumer go on from a snapshot; without one it is forgotten."""

    consumer: str
    next_snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class ClearConsumers:
    """Forget the consumers whose whole names match the regular expression `including`, and not `excluding`."""

    including: str = ".*"
    excluding: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ExpireConsumers:
    """Forget consumers that have not moved since `older_than_ms` (epoch milliseconds).

    Without it, since the table's `consumer.expiration-time` ago; a table without that option keeps all.
    """

    older_than_ms: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ConsumersResult:
    """What became of consumers; `status` is `reset`, `removed`, `noop` or `dry_run` (then: what would be)."""

    status: str
    removed: tuple[str, ...] = ()
    consumer: str | None = None
    next_snapshot: int | None = None
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def reset_consumer(table: TableHandle, spec: ResetConsumer) -> ConsumersResult:
    """Sets where the consumer goes on. Safe to repeat.

    Raises: InvalidArgumentError for a bad name; NotFoundError if it could not go on there.
    """
    begun = time.monotonic()
    check_file_name("consumer", spec.consumer)
    path = table.paths.consumer(spec.consumer)
    if spec.next_snapshot is None:
        if not table.env.storage.exists(path):
            return ConsumersResult("noop", consumer=spec.consumer, seconds=time.monotonic() - begun)
        table.env.storage.delete([path])
        return ConsumersResult("removed", (spec.consumer,), spec.consumer, seconds=time.monotonic() - begun)
    ids = snapshot_ids(table)
    low, high = (earliest_change_id(table, ids[0]), ids[-1] + 1) if ids else (1, 1)
    # One beyond the latest: the consumer has read everything.
    if not low <= spec.next_snapshot <= high:
        raise NotFoundError(
            f"consumer {spec.consumer!r} cannot go on from snapshot {spec.next_snapshot}: choose {low} to {high}"
        )
    table.env.storage.overwrite(path, pretty_json({"nextSnapshot": spec.next_snapshot}).encode())
    return ConsumersResult(
        "reset", consumer=spec.consumer, next_snapshot=spec.next_snapshot, seconds=time.monotonic() - begun
    )


def clear_consumers(table: TableHandle, spec: ClearConsumers) -> ConsumersResult:
    """Forgets consumers by their names. Safe to repeat.

    Raises: InvalidArgumentError for a pattern that is none.
    """
    including = _pattern("including", spec.including)
    excluding = None if spec.excluding is None else _pattern("excluding", spec.excluding)

    def goes(name: str, _modified_ms: int) -> bool:
        return bool(including.fullmatch(name)) and not (excluding is not None and excluding.fullmatch(name))

    return _forget(table, goes, dry_run=spec.dry_run)


def _pattern(field: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgumentError(f"{field}={text!r} is no regular expression: {error}") from error


def expire_consumers(table: TableHandle, spec: ExpireConsumers) -> ConsumersResult:
    """Forgets consumers by their age. Safe to repeat.

    Raises: InvalidArgumentError if the option cannot be understood.
    """
    limit_ms = spec.older_than_ms
    age_ms = table.options.consumer_expiration_time_ms
    if limit_ms is None and age_ms is not None:
        limit_ms = table.env.clock() - age_ms
    return _forget(
        table, lambda _name, modified_ms: limit_ms is not None and modified_ms < limit_ms, dry_run=spec.dry_run
    )


def _forget(table: TableHandle, goes: Callable[[str, int], bool], *, dry_run: bool) -> ConsumersResult:
    begun = time.monotonic()
    gone = [(name, info.path) for name, info in consumer_files(table) if goes(name, info.modified_ms)]
    if not dry_run:
        table.env.storage.delete([path for _, path in gone])
    status = "dry_run" if dry_run else "removed" if gone else "noop"
    result = ConsumersResult(status, tuple(name for name, _ in gone))
    return replace(result, seconds=time.monotonic() - begun)
