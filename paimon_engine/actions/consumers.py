"""Consumers: what streaming readers have read up to. Snapshots that a consumer has yet to read do not expire.

A deleted consumer can be quarantined, and `restore` restores it; the result says where it would have
continued.

Source: `ConsumerManager` of the Java library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import InvalidArgumentError, NotFoundError
from paimon_engine.format.json_text import pretty_json
from paimon_engine.meta.names import check_file_name
from paimon_engine.specs import DryRun, Moment, Name, Pattern, Spec, ToQuarantine
from paimon_engine.table.removal.deletion_plan import DeletionPlan, prepare
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.removal.retention import check_older_than
from paimon_engine.table.state.changelogs import earliest_change_id
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import consumer_files, next_snapshot_of, snapshot_ids
from paimon_engine.table.state.vanished import check_is_there


@dataclass(frozen=True, slots=True)
class ResetConsumer(Spec):
    """Let a consumer continue from a snapshot; without one it is deleted, or with `quarantine` moved to one."""

    consumer: Annotated[Name, "name of the consumer"]
    next_snapshot: Annotated[int | None, "id of the snapshot to continue from; without one the consumer is deleted"] = (
        None
    )
    quarantine: ToQuarantine = False


@dataclass(frozen=True, slots=True)
class ClearConsumers(Spec):
    """Delete the consumers whose full names match the regular expression `including`, and not `excluding`."""

    including: Annotated[Pattern, "regular expression for full names of consumers to delete"] = ".*"
    excluding: Annotated[Pattern | None, "regular expression for those that stay"] = None
    dry_run: DryRun = False
    quarantine: ToQuarantine = False


@dataclass(frozen=True, slots=True)
class ExpireConsumers(Spec):
    """Delete consumers that have not moved since `older_than` (epoch milliseconds).

    Without it, since the table's `consumer.expiration-time` ago; a table without that option keeps all.
    """

    older_than: Annotated[Moment | None, "not moved since: a time, or an age such as 7 d"] = None
    dry_run: DryRun = False
    quarantine: ToQuarantine = False


@dataclass(frozen=True, slots=True)
class ForgottenConsumer:
    """A consumer that is removed, the snapshot that it would have read next (None if unknown), and the reason."""

    consumer: str
    next_snapshot: int | None
    why: str


@dataclass(frozen=True, slots=True)
class ConsumersResult(Result):
    """Outcome of an action on consumers; `status` is `reset`, `removed`, `noop` or `dry_run` (then: what would be).

    `forgotten` has details of those that were `removed`, and `quarantine` where they are now, if they were quarantined.
    """

    status: str
    removed: tuple[str, ...] = ()
    consumer: str | None = None
    next_snapshot: int | None = None
    seconds: float = 0.0
    forgotten: tuple[ForgottenConsumer, ...] = ()
    quarantine: str | None = None


@action
def reset_consumer(context: Context, spec: ResetConsumer) -> ConsumersResult:
    """Sets where the consumer continues. Safe to repeat.

    Raises: InvalidArgumentError for a bad name; NotFoundError if it could not continue there, or the table is gone.
    """
    table = context.table
    check_file_name("consumer", spec.consumer)
    path = table.paths.consumer(spec.consumer)
    if spec.next_snapshot is None:
        if not table.env.storage.exists(path):
            return ConsumersResult("noop", consumer=spec.consumer)
        reasons = {spec.consumer: "named by the caller"}
        return replace(_forgotten(table, reasons, "reset_consumer", spec), consumer=spec.consumer)
    ids = snapshot_ids(table)
    if not ids:
        # The file would make the directory again, and the name could not be used for a table that is renamed.
        check_is_there(table)
    low, high = (earliest_change_id(table, ids[0]), ids[-1] + 1) if ids else (1, 1)
    # One beyond the latest: the consumer has read everything.
    if not low <= spec.next_snapshot <= high:
        raise NotFoundError(
            f"consumer {spec.consumer!r} cannot continue from snapshot {spec.next_snapshot}: choose {low} to {high}"
        )
    table.env.storage.overwrite(path, pretty_json({"nextSnapshot": spec.next_snapshot}).encode())
    return ConsumersResult("reset", consumer=spec.consumer, next_snapshot=spec.next_snapshot)


@action
def clear_consumers(context: Context, spec: ClearConsumers) -> ConsumersResult:
    """Forgets consumers by their names. Safe to repeat.

    Raises: InvalidArgumentError for a pattern that is none.
    """
    table = context.table
    including = _pattern("including", spec.including)
    excluding = None if spec.excluding is None else _pattern("excluding", spec.excluding)

    names = [name for name, _ in consumer_files(table) if including.fullmatch(name)]
    names = [name for name in names if excluding is None or not excluding.fullmatch(name)]
    reasons = dict.fromkeys(names, f"its name matches {spec.including!r}")
    return _forgotten(table, reasons, "clear_consumers", spec)


def _pattern(field: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgumentError(f"{field}={text!r} is not a regular expression: {error}") from error


@action
def expire_consumers(context: Context, spec: ExpireConsumers) -> ConsumersResult:
    """Forgets consumers by their age. Safe to repeat.

    Raises: InvalidArgumentError for a time in the future, or if the option cannot be parsed.
    """
    table = context.table
    check_older_than(table, spec)
    limit_ms = spec.older_than
    age_ms = table.options.consumer_expiration_time_ms
    if limit_ms is None and age_ms is not None:
        limit_ms = table.env.clock() - age_ms
    files = consumer_files(table) if limit_ms is not None else []
    reasons = {
        name: f"it has not moved since {info.modified_ms} (epoch milliseconds)"
        for name, info in files
        if limit_ms is not None and info.modified_ms < limit_ms
    }
    return _forgotten(table, reasons, "expire_consumers", spec)


def _forgotten(
    table: TableHandle,
    reasons: Mapping[str, str],
    what: str,
    spec: ResetConsumer | ClearConsumers | ExpireConsumers,
) -> ConsumersResult:
    """Removes consumers, given with why they go, for an action called `what`."""
    is_dry = not isinstance(spec, ResetConsumer) and spec.dry_run
    found = tuple(ForgottenConsumer(name, next_snapshot_of(table, name), why) for name, why in reasons.items())
    quarantine = None
    if reasons and not is_dry:
        paths = [table.paths.consumer(name) for name in reasons]
        how = Disposal(quarantine=spec.quarantine)
        quarantine = prepare(table, DeletionPlan({}, {}), how, what, roots=paths).quarantine
        table.env.storage.delete(paths)
    return ConsumersResult(
        "dry_run" if is_dry else "removed" if reasons else "noop",
        tuple(reasons),
        forgotten=found,
        quarantine=None if quarantine is None else quarantine.name,
    )
