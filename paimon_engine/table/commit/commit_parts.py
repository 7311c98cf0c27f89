"""Commits changes of many buckets; buckets that are in conflict are left out, and the others are committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.commit.abort import delete_uncommitted, uncommitted
from paimon_engine.table.commit.commit import CommitRequest, Committed, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle


@dataclass(frozen=True, slots=True)
class Parts:
    """What was committed.

    `snapshot` is None if nothing was; `committed` are the messages in it; `conflicting` are the buckets that other
    commits changed meanwhile. `done` is the snapshot by which another attempt of the same job has completed the job.
    """

    snapshot: Snapshot | None
    committed: Sequence[CommitMessage]
    conflicting: frozenset[Bucket]
    done: Snapshot | None = None


def commit_parts(table: TableHandle, request: CommitRequest, part_identifier: int) -> Parts:
    """Commits the messages of all buckets without a conflict. Files written for the others are deleted.

    If buckets were left out, the commit gets `part_identifier` instead of the request's own, so that the job is not
    taken for done when it is repeated for the rest. If another attempt of the same job has committed a part of that
    number, it may have been one of other buckets: those of the messages count as in conflict, to be planned again.

    Raises: what `commit` raises.
    """
    messages = list(request.messages)
    conflicting: frozenset[Bucket] = frozenset()
    while messages:
        identifier = part_identifier if conflicting else request.commit_identifier
        with uncommitted(table, messages):
            outcome = commit(table, replace(request, messages=messages, commit_identifier=identifier))
        if isinstance(outcome, Committed):
            if not outcome.by_other_attempt:
                return Parts(outcome.snapshot, messages, conflicting)
            delete_uncommitted(table, messages)
            if identifier != part_identifier:
                return Parts(None, (), conflicting, outcome.snapshot)
            return Parts(None, (), conflicting | {(m.partition, m.bucket) for m in messages})
        found = frozenset((conflict.partition, conflict.bucket) for conflict in outcome.conflicts)
        conflicting |= found
        delete_uncommitted(table, [m for m in messages if (m.partition, m.bucket) in found])
        messages = [m for m in messages if (m.partition, m.bucket) not in found]
    return Parts(None, (), conflicting)
