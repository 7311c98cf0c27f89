"""Warnings of writes that were done before: on purpose again, or by a stream that counts its commits from the begin."""

from __future__ import annotations

import logging

from paimon_engine.errors import PaimonError
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.commit.own_commits import find_own_commit
from paimon_engine.table.state.handle import TableHandle

logger = logging.getLogger(__name__)


def warn_of_earlier_commits(table: TableHandle, user: str | None, kind: CommitKind, identifier: int) -> tuple[str, ...]:
    """Warnings about what the commit of that name has left in the table, which a second one does not replace."""
    if user is None or kind is not CommitKind.APPEND:
        return ()
    why = _why(table)
    if why is None:
        return ()
    try:
        own = find_own_commit(table, user, kind, identifier).snapshot
    except PaimonError as error:
        which = f"it is not known whether an earlier run of this job has committed ({error}); if so"
    else:
        if own is None:
            return ()
        which = f"an earlier run of this job has committed snapshot {own.id}"
    warning = f"{table.paths.root}: {which}: {why}"
    logger.warning("%s", warning)
    return (warning,)


def warn_of_later_commit(table: TableHandle, done: Snapshot, identifier: int) -> tuple[str, ...]:
    """Warnings of a write that was taken as done by `done`, if that is a later one of the same user."""
    if done.commit_identifier == identifier:
        return ()
    warning = (
        f"{table.paths.root}: commit_identifier={identifier} was not written, as {done.commit_user!r} has committed "
        f"snapshot {done.id} with the later one {done.commit_identifier}. If these are other rows, such as those of a "
        "stream that began again with a new checkpoint, give it a commit_user of its own"
    )
    logger.warning("%s", warning)
    return (warning,)


def _why(table: TableHandle) -> str | None:
    options = table.options
    if not table.schema.primary_keys:
        return (
            "its rows are kept in addition to those of this run, as the table has no primary key. To keep one copy, "
            "roll back to the snapshot before it if no other process has committed, or delete them; for runs to come, "
            "overwrite the partition, or let the job run once (in Airflow: on_clear='once', or an idempotency_key)"
        )
    if options.merge_engine == "first-row":
        return "keys that it wrote keep their rows, since 'merge-engine' = 'first-row': corrections were ignored"
    aggregates = options.merge_engine == "aggregation" or options.aggregate_functions
    if aggregates:
        return "its values were already aggregated and were aggregated again"
    return None
