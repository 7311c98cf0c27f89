"""Drop partitions: those that are named, or those that are too old by the table's options.

1. The latest snapshot says which partitions there are; by name or by age some of them are chosen. A dry run ends here.
2. One commit of the kind OVERWRITE removes all of their files. Older snapshots still have them, until these expire.

By name, and by the time that its values mean, a partition is dropped with all that is in it at the commit, also rows
that others wrote meanwhile, as in Java. By the time of its newest file only the files that were planned are dropped: a
file that others have added since makes the partition young, so the commit is refused, and the plan is made again.

Source: `FileStoreCommitImpl.dropPartitions`, `PartitionExpire` and its strategies in the Java library. Differences:
partitions whose values mean no time are in the result; the limit per run, `partition.expiration-max-num`, applies only
where it is set, as in 0.9, and then takes the oldest partitions by the text of their values.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final

from paimon_engine.action import Context, Result, action_once
from paimon_engine.errors import ConflictError, InvalidArgumentError, UnsupportedError
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.partition_rules import check_strategy
from paimon_engine.meta.partition_time import local_moment, partition_time
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import Count, DryRun, Duration, Name, PartitionValues, Spec
from paimon_engine.table.commit.commit import Conflict, OverwriteScope, commit
from paimon_engine.table.commit.job_commit import conflict_error, look_up_commit
from paimon_engine.table.read.chain_table import chain_branches
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.partitions import (
    Partition,
    live_partitions,
    matching,
    partition_names,
    partition_spec,
    partition_texts,
    resolve_partition_spec,
)
from paimon_engine.table.state.snapshots import branches, latest_snapshot, read_at_latest
from paimon_engine.table.state.table_entry import TableEntry
from paimon_engine.table.write.chain_overwrites import check_partitions_removable, expired_links
from paimon_engine.units import local_wall_clock_ms

logger = logging.getLogger(__name__)

_MAX_NUM: Final = "partition.expiration-max-num"
_REMEDY: Final = "others wrote meanwhile, run it again"
_PLANS: Final = 10
"""How often others may write into an old partition between plan and commit before expiry fails."""


@dataclass(frozen=True, slots=True)
class DropPartition(Spec):
    """Drop the partitions that equal one of `partitions`: values by column, all of the columns or some of them."""

    partitions: Annotated[
        Sequence[PartitionValues], "values by column, all of the columns or some: day=2013-01-01,hour=5"
    ]
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class ExpirePartitions(Spec):
    """Drop the partitions that are too old; what is None comes from the table's options `partition.*`.

    `expiration_time` is a duration such as `7 d`. `strategy` is `values-time` (the time that the values mean) or
    `update-time` (that of the newest file). At most `max_num` partitions are dropped at once.
    """

    expiration_time: Annotated[Duration | None, "how old, such as 30 d"] = None
    strategy: Annotated[Name | None, "values-time, or update-time for the time of the newest file"] = None
    timestamp_pattern: Annotated[str | None, "time of a partition, such as $day $hour:00:00; else its first column"] = (
        None
    )
    timestamp_formatter: Annotated[str | None, "how that reads, such as yyyyMMdd HH:mm:ss"] = None
    max_num: Annotated[Count | None, "drop at most so many at once"] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class DropPartitionResult(Result):
    """What was dropped; `status` is `committed`, `already_done`, `noop` or `dry_run` (then: what would be).

    `partitions` are values by column, as text, and `why` has the reason for each. Their files stay until the snapshots
    that have them expire. `stopped` names the partitions that were kept since their values mean
    no time, and says where a limit was reached: `remaining` partitions that are old enough are left then.
    """

    status: str
    snapshot_id: int | None = None
    partitions: tuple[Mapping[str, str | None], ...] = ()
    files: int = 0
    rows: int = 0
    bytes: int = 0
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0
    why: tuple[str, ...] = ()
    remaining: int = 0


@action_once(CommitKind.OVERWRITE, Maker.DROP_PARTITION, DropPartitionResult)
def drop_partition(context: Context, spec: DropPartition) -> DropPartitionResult:
    """Drops the named partitions; once for a `commit_user`. Those that are not there are fine.

    Raises: InvalidArgumentError for a column that is not a partition column, or a value that does not fit its type;
    ConflictError; StorageError.
    """
    table = context.table
    if not spec.partitions:
        raise InvalidArgumentError("name the partitions to drop: a list of {column: value}")
    for given in spec.partitions:
        partition_spec(table, given)
    live = read_at_latest(table, partial(live_partitions, table))
    specs = [resolve_partition_spec(table, live, given) for given in spec.partitions]
    found = matching(table, live, specs)
    check_partitions_removable(table, [item.key for item in found])
    named = [(item, "named") for item in found]
    done = _drop(context, named, (), dry_run=spec.dry_run)
    if isinstance(done, Conflict):
        raise conflict_error(table, done, _REMEDY)
    return done


@action_once(CommitKind.OVERWRITE, Maker.EXPIRE_PARTITIONS, DropPartitionResult)
def expire_partitions(context: Context, spec: ExpirePartitions) -> DropPartitionResult:
    """Drops the partitions that are too old; once for a `commit_user`.

    Raises: InvalidArgumentError if no age is given, or for a table without partitions; UnsupportedError for
    another strategy, or letters of the formatter that are not supported; ConflictError; StorageError.
    """
    table = context.table
    settings = _settings(table, spec)
    if table.options.chain_branches is not None:
        return _expire_chain(context, settings, dry_run=spec.dry_run)
    only_seen = settings.strategy == "update-time"
    for _ in range(_PLANS):
        live = read_at_latest(table, partial(live_partitions, table))
        expired, stopped = _expired(table, settings, live)
        expired.sort(key=lambda item: [str(value) for value in partition_texts(table, item[0]).values()])
        remaining = max(0, len(expired) - (settings.max_num or len(expired)))
        if remaining:
            stopped.append(_limit_text(settings, remaining))
            expired = expired[: settings.max_num]
        done = _drop(context, expired, stopped, dry_run=spec.dry_run, only_seen=only_seen)
        if isinstance(done, DropPartitionResult):
            return replace(done, remaining=remaining)
        error = conflict_error(table, done, _REMEDY)
        logger.info("%s; planning again", error)
    raise error


def _limit_text(settings: _Settings, remaining: int) -> str:
    which = f"the limit of {settings.max_num} partitions ('max_num' or '{_MAX_NUM}')"
    return f"{which} is reached, and {remaining} more are old enough; run again for the rest"


# ── chain tables ────────────────────────────────────────────────────────────────────────────────


def _expire_chain(context: Context, settings: _Settings, *, dry_run: bool) -> DropPartitionResult:
    """Drops the oldest links of the chains, whichever branch the table was opened as.

    Changes go first: if the run ends then, readers still see the complete partitions as they were, and the next run
    drops them. In the other order they would see changes without what these change. Files that were not seen are never
    dropped, since a late change needs its anchor.

    Raises: UnsupportedError for another strategy; ConflictError.
    """
    if settings.strategy != "values-time":
        raise UnsupportedError(
            f"partitions of a chain table expire by their values; 'partition.expiration-strategy' = "
            f"'{settings.strategy}' is not supported there"
        )
    chain = chain_branches(context.table)
    problem = ""
    for _ in range(_PLANS):
        complete = _LinksSeen.of(chain.complete, settings)
        delta = _LinksSeen.of(chain.delta, settings)
        old = complete.old.keys() | delta.old.keys()
        gone, changes = expired_links(chain, complete.all, delta.all, old, settings.max_num)
        without_limit, _ = expired_links(chain, complete.all, delta.all, old, None)
        stopped = tuple(dict.fromkeys((*complete.stopped, *delta.stopped)))
        results = []
        for branch, seen, keys in ((chain.delta, delta, changes), (chain.complete, complete, gone)):
            job = look_up_commit(branch, None, CommitKind.OVERWRITE, identifier_of(Maker.EXPIRE_PARTITIONS))
            own = replace(context, table=branch, looked_up=job)
            try:
                if branch is chain.complete and not dry_run:
                    check_partitions_removable(branch, keys)
                done = _drop(own, [seen.old[key] for key in sorted(keys)], (), dry_run=dry_run, only_seen=True)
            except InvalidArgumentError as error:
                problem = str(error)
                break
            if isinstance(done, Conflict):
                problem = str(conflict_error(branch, done, _REMEDY))
                break
            results.append(done)
        else:
            remaining = len(without_limit) - len(gone)
            if remaining:
                stopped = (*stopped, _limit_text(settings, remaining))
            return _both(results, stopped, remaining=remaining)
        logger.info("%s; planning again", problem)
    raise ConflictError(problem)


@dataclass(frozen=True, slots=True)
class _LinksSeen:
    """The partitions of a branch of a chain, those of them that are old, and of which that cannot be said."""

    all: tuple[bytes, ...]
    old: Mapping[bytes, tuple[Partition, str]]
    stopped: tuple[str, ...]

    @classmethod
    def of(cls, branch: TableHandle, settings: _Settings) -> _LinksSeen:
        """What the branch has now."""

        def look(snapshot: Snapshot | None) -> _LinksSeen:
            live = live_partitions(branch, snapshot)
            expired, stopped = _expired(branch, settings, live)
            keys = tuple(item.key for item in live)
            return cls(keys, {item.key: (item, why) for item, why in expired}, tuple(stopped))

        return read_at_latest(branch, look)


def _both(results: Sequence[DropPartitionResult], stopped: Sequence[str], *, remaining: int) -> DropPartitionResult:
    """One result of drops in two branches, whose snapshots it does not name."""
    statuses = {result.status for result in results}
    return DropPartitionResult(
        status=next((status for status in ("committed", "dry_run") if status in statuses), "noop"),
        partitions=tuple(item for result in results for item in result.partitions),
        files=sum(result.files for result in results),
        rows=sum(result.rows for result in results),
        bytes=sum(result.bytes for result in results),
        stopped=tuple(stopped),
        why=tuple(text for result in results for text in result.why),
        remaining=remaining,
    )


# ── which partitions are too old ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Settings:
    age_ms: int
    strategy: str
    pattern: str | None
    formatter: str | None
    max_num: int | None
    now_ms: int
    """When the job began: it also counts where the job plans again later."""


def _settings(table: TableHandle, spec: ExpirePartitions) -> _Settings:
    """What the spec says, else the table's options.

    Raises: InvalidArgumentError, UnsupportedError.
    """
    options = table.options
    if not table.schema.partition_keys:
        raise InvalidArgumentError(f"{table.paths.root} has no partition columns; its partitions cannot expire")
    age_ms = options.partition_expiration_time_ms if spec.expiration_time is None else spec.expiration_time
    if age_ms is None:
        raise InvalidArgumentError("give an expiration time such as '7 d', or set 'partition.expiration-time'")
    strategy = spec.strategy.lower() if spec.strategy else options.partition_expiration_strategy
    check_strategy(strategy)
    max_num = options.partition_expiration_max_num if spec.max_num is None else spec.max_num
    if max_num is not None and max_num < 1:
        what = f"option '{_MAX_NUM}' = '{max_num}'" if spec.max_num is None else f"max_num={max_num}"
        raise InvalidArgumentError(f"{what}: it must be at least 1")
    return _Settings(
        age_ms,
        strategy,
        spec.timestamp_pattern or options.partition_timestamp_pattern,
        spec.timestamp_formatter or options.partition_timestamp_formatter,
        max_num,
        table.env.clock(),
    )


def _expired(
    table: TableHandle, settings: _Settings, partitions: Sequence[Partition]
) -> tuple[list[tuple[Partition, str]], list[str]]:
    """Partitions that are too old, each with the reason, and reasons for those of which it cannot be said."""
    if settings.strategy == "update-time":
        limit_ms = local_wall_clock_ms(settings.now_ms) - settings.age_ms
        old = [item for item in partitions if item.newest_ms is not None and item.newest_ms < limit_ms]
        return [(item, f"its newest file is older than {settings.age_ms} ms") for item in old], []
    now = local_moment(settings.now_ms)
    # Nothing is older than the calendar.
    age_ms = min(settings.age_ms, (now - datetime.min.replace(tzinfo=now.tzinfo)) // timedelta(milliseconds=1))
    limit = now - timedelta(milliseconds=age_ms)
    expired: list[tuple[Partition, str]] = []
    stopped: list[str] = []
    columns = table.schema.partition_type
    ways = {"pattern": settings.pattern, "formatter": settings.formatter}
    how = "".join(f", {name} {text!r}" for name, text in ways.items() if text is not None)
    for item in partitions:
        moment = partition_time(columns, item.values, pattern=settings.pattern, formatter=settings.formatter)
        if moment is None:
            stopped.append(f"partition {partition_texts(table, item)} is kept: its values mean no time{how}")
        elif moment < limit:
            expired.append((item, f"{_clock(moment)} is before {_clock(limit)}, local time"))
    return expired, stopped


def _clock(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ", "seconds")


# ── dropping them ───────────────────────────────────────────────────────────────────────────────


def _drop(
    context: Context,
    found: Sequence[tuple[Partition, str]],
    stopped: Sequence[str],
    *,
    dry_run: bool,
    only_seen: bool = False,
) -> DropPartitionResult | Conflict:
    """Drops the partitions that were found in one commit; with `only_seen` only the files that were found in them."""
    table, partitions = context.table, [item for item, _ in found]

    def result(status: str, snapshot_id: int | None) -> DropPartitionResult:
        done = status in ("committed", "dry_run")
        dropped = partitions if done else ()
        return DropPartitionResult(
            status,
            snapshot_id,
            tuple(partition_texts(table, item) for item in dropped),
            sum(item.files for item in dropped),
            sum(item.rows for item in dropped),
            sum(item.size_bytes for item in dropped),
            tuple(stopped),
            why=tuple(why for _, why in found) if done else (),
        )

    if not partitions or dry_run:
        return result("dry_run" if partitions else "noop", None)
    seen = frozenset(file for item in partitions for file in item.file_names) if only_seen else None
    scope = OverwriteScope(partitions=frozenset(item.key for item in partitions), seen=seen)
    outcome = commit(table, replace(context.job.request(), overwrite=scope))
    if isinstance(outcome, Conflict):
        return outcome
    if table.entry is not None:
        _unlist(table.entry, table, outcome.snapshot, partitions)
    return result(outcome.status, outcome.snapshot.id)


def _unlist(entry: TableEntry, table: TableHandle, after: Snapshot, partitions: Sequence[Partition]) -> None:
    """Has the catalog forget the partitions that are empty now, in every branch; others have new files."""
    live = {item.key for item in live_partitions(table, after)}
    empty = [partition_names(table, item.key) for item in partitions if item.key not in live]
    for name in (MAIN_BRANCH, *branches(table)) if empty else ():
        if name != table.paths.branch:
            other = table.on_branch(name)
            there = [partition_names(other, item.key) for item in live_partitions(other, latest_snapshot(other))]
            empty = [item for item in empty if item not in there]
    if empty:
        entry.drop_partitions(table, empty)
