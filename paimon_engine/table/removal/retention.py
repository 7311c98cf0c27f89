"""Which snapshots and changelogs expire, by number, age and consumers; and the check of `older_than`.

Source: `ExpireSnapshotsImpl`, `ExpireChangelogImpl` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.specs import name_of_spec
from paimon_engine.table.state.handle import TableHandle


class OlderThan(Protocol):
    """A spec of an action that removes what is older than a time in epoch milliseconds; None if none is given."""

    @property
    def older_than(self) -> int | None: ...


def check_older_than(table: TableHandle, spec: OlderThan) -> None:
    """Checks that `older_than` of a spec is not in the future, by the table's clock; the current time is allowed.

    A time in the future is a mistake: everything would count as old, even files that are being written at this moment.

    Raises: InvalidArgumentError naming the action, the field, its value and now.
    """
    now_ms = table.env.clock()
    if spec.older_than is not None and spec.older_than > now_ms:
        raise InvalidArgumentError(
            f"{name_of_spec(type(spec))}: older_than={spec.older_than} is in the future, now is {now_ms} "
            "(epoch milliseconds); give a time up to now, or an age such as '7 d'"
        )


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept: at most `retain_max` (None: any number), at least `retain_min`.

    Between these, those stay whose time is not before `older_than_ms` (epoch milliseconds). One run expires at most
    `limit` ids; None: any number.
    """

    retain_max: int | None
    retain_min: int
    older_than_ms: int
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ExpiryChoice:
    """The ids that expire, and the reasons why others do not."""

    expired: tuple[int, ...]
    reasons: tuple[str, ...] = ()


def snapshot_retention(
    table: TableHandle,
    retain_max: int | None,
    retain_min: int | None,
    older_than_ms: int | None,
    limit: int | None = None,
) -> Retention:
    """The retention of snapshots; arguments that are None come from the table's options.

    There is a limit only if it is given or if the table sets the option: Java's default of 50 per run is meant for
    expiry after every commit. A run per hour with that limit would never catch up with a table that gets more commits
    in an hour.

    Raises: InvalidArgumentError.
    """
    options = table.options
    stored = Retention(
        options.snapshot_num_retained_max,
        options.snapshot_num_retained_min,
        table.env.clock() - options.snapshot_time_retained_ms,
        options.snapshot_expire_limit,
    )
    return _with_arguments(stored, retain_max, retain_min, older_than_ms, limit, what="snapshot")


def changelog_retention(
    table: TableHandle,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_ms: int | None = None,
    limit: int | None = None,
) -> Retention:
    """The retention of changelogs; arguments that are None come from the table's options.

    Raises: InvalidArgumentError.
    """
    options = table.options
    stored = Retention(
        options.changelog_num_retained_max,
        options.changelog_num_retained_min,
        table.env.clock() - options.changelog_time_retained_ms,
        options.snapshot_expire_limit,
    )
    return _with_arguments(stored, retain_max, retain_min, older_than_ms, limit, what="changelog")


def _with_arguments(
    stored: Retention,
    retain_max: int | None,
    retain_min: int | None,
    older_than_ms: int | None,
    limit: int | None,
    *,
    what: str,
) -> Retention:
    """The arguments, and what the table's options say where one is None; `what` is the kind of version, for messages.

    A maximum that is given alone also lowers the minimum of the table's option.

    Raises: InvalidArgumentError.
    """
    most = stored.retain_max if retain_max is None else retain_max
    least = retain_min
    if least is None:
        least = stored.retain_min if retain_max is None else min(stored.retain_min, retain_max)
    if least < 1 or (most is not None and most < 1):
        raise InvalidArgumentError(f"retain_max={most}, retain_min={least}: keep at least one {what}")
    if most is not None and most < least:
        raise InvalidArgumentError(f"retain_max={most} is less than retain_min={least}")
    if limit is not None and limit < 1:
        raise InvalidArgumentError(f"limit={limit}: it must be at least 1 {what}")
    limit_ms = stored.older_than_ms if older_than_ms is None else older_than_ms
    return Retention(most, least, limit_ms, stored.limit if limit is None else limit)


def choose_expired(
    times_ms: Mapping[int, int], retention: Retention, *, consumers: Mapping[str, int], already: int = 0
) -> ExpiryChoice:
    """Ids that expire, given the commit times (epoch milliseconds) of existing snapshots by id.

    These are always the oldest ones, never the latest. The age of a snapshot counts from the commit that replaced it.
    `already` is the number that expired earlier in this run.
    """
    ids = sorted(times_ms)
    if not ids:
        return ExpiryChoice(())
    latest = ids[-1]
    replaced_ms = {one: times_ms[following] for one, following in pairwise(ids)}
    return _choose(ids, latest, replaced_ms, retention, consumers=consumers, already=already)


def choose_expired_changelogs(
    times_ms: Mapping[int, int],
    latest_snapshot_id: int,
    retention: Retention,
    *,
    consumers: Mapping[str, int],
    already: int = 0,
) -> ExpiryChoice:
    """Ids that expire, given the commit times (epoch milliseconds) of changelogs by id.

    Numbers of retained changelogs count down from the latest snapshot, so snapshots count as changelogs, too. The age
    of a changelog counts from its commit. As in the Java library the newest changelog never expires: Java's
    expiry deletes only files that it does not name.
    """
    ids = sorted(times_ms)
    return (
        _choose(ids, latest_snapshot_id, times_ms, retention, consumers=consumers, already=already)
        if ids
        else ExpiryChoice(())
    )


def _choose(
    ids: list[int],
    latest: int,
    since_ms: Mapping[int, int],
    retention: Retention,
    *,
    consumers: Mapping[str, int],
    already: int,
) -> ExpiryChoice:
    """The ids below the first one that has to stay, of `ids` ascending; `since_ms` is when each began to age.

    A consumer keeps everything from the snapshot on that it reads next.
    """
    earliest = ids[0]
    reasons = []
    end = latest - retention.retain_min + 1
    by_number = earliest if retention.retain_max is None else max(latest - retention.retain_max + 1, earliest)
    for number in ids[:-1]:
        if by_number <= number < end and since_ms[number] >= retention.older_than_ms:
            end = number
    for name, next_id in sorted(consumers.items()):
        if max(next_id, earliest) < end:
            end = max(next_id, earliest)
            reasons.append(f"consumer {name!r} will read snapshot {next_id} next")
    if retention.limit is not None and end > earliest + retention.limit - already:
        end = earliest + retention.limit - already
        # As an argument it is at least 1.
        reasons.append(
            f"the limit of {retention.limit} ('limit' or 'snapshot.expire.limit') is reached; run again for the rest"
            if retention.limit > 0
            else f"'snapshot.expire.limit' = '{retention.limit}' lets no snapshot expire; set a positive number, or "
            "give 'limit'"
        )
    return ExpiryChoice(tuple(item for item in ids[:-1] if item < end), tuple(reasons))
