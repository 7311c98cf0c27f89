"""What users should know when rows are written again on purpose: whether they replace those of the first time."""

from __future__ import annotations

import logging

from paimon_engine.errors import PaimonError
from paimon_engine.meta.snapshot import CommitKind
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


def _why(table: TableHandle) -> str | None:
    options = table.options
    if not table.schema.primary_keys:
        return (
            "its rows stay beside those of this run, since the table has no primary key. To have them once, roll back "
            "to the snapshot before it while no one else has committed, or delete them; for runs to come, overwrite "
            "the partition, or let the job run once (in Airflow: on_clear='once', or an idempotency_key)"
        )
    if options.merge_engine == "first-row":
        return "keys that it brought keep their rows, since 'merge-engine' = 'first-row': corrections were passed over"
    aggregates = options.merge_engine == "aggregation" or options.aggregate_functions
    if aggregates:
        return "its values are aggregated already and were aggregated once more"
    return None
