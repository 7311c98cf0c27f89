"""Committing changes of many buckets, of which some may no longer apply: those that do are committed without them."""

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
    """The snapshot, None where nothing applied; the messages in it; the buckets that others changed meanwhile."""

    snapshot: Snapshot | None
    committed: Sequence[CommitMessage]
    conflicting: frozenset[Bucket]


def commit_parts(table: TableHandle, request: CommitRequest, part_identifier: int) -> Parts:
    """Commits what still applies. Files written for buckets that conflict are deleted.

    Where that is not everything the commit has another identifier, so that a repeated job goes on with the rest.

    Raises: what `commit` raises.
    """
    messages = list(request.messages)
    conflicting: frozenset[Bucket] = frozenset()
    while messages:
        identifier = part_identifier if conflicting else request.commit_identifier
        with uncommitted(table, messages):
            outcome = commit(table, replace(request, messages=messages, commit_identifier=identifier))
        if isinstance(outcome, Committed):
            if outcome.by_other_attempt:
                delete_uncommitted(table, messages)
            return Parts(outcome.snapshot, messages, conflicting)
        found = frozenset((conflict.partition, conflict.bucket) for conflict in outcome.conflicts)
        conflicting |= found
        delete_uncommitted(table, [m for m in messages if (m.partition, m.bucket) in found])
        messages = [m for m in messages if (m.partition, m.bucket) not in found]
    return Parts(None, (), conflicting)
