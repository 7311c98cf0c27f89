"""Identifiers of batch commits: with the kind of a snapshot they say which action made it.

A commit is named by its user, its identifier and its kind. Java's batch jobs commit under `Long.MAX_VALUE`, and so do
writes, whole compactions and analyses here. Every other action has a separate range of numbers below that, so that
several actions of one job, under one user, never mistake each other's snapshots for their own. All of them are far
above the numbers that streaming writers count up.

Readers use the identifier for one purpose only: a COMPACT under `Long.MAX_VALUE` counts as a full compaction.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER

_PARTS: Final = 1 << 32
"""Commits that one action can number."""
_FIRST_BATCH: Final = BATCH_COMMIT_IDENTIFIER - (1 << 48)
"""Batch commits have identifiers from here on."""


class Maker(IntEnum):
    """What makes a batch commit. The numbers are stored: new makers go to the end."""

    JOB = 0
    PREPARED = 1
    DELETE_ROWS = 2
    REWRITE_FILE_INDEX = 3
    COMPACT_MANIFESTS = 4
    RESCALE = 5
    DROP_PARTITION = 6
    EXPIRE_PARTITIONS = 7
    ROLLBACK_TO_AS_LATEST = 8
    CLUSTER = 9
    PURGE_FILES = 10
    MERGE_BRANCH = 11
    REMOVE_UNEXISTING_FILES = 12
    REMOVE_UNEXISTING_MANIFESTS = 13
    UPDATE_COLUMNS = 14
    COMPACT_CHAIN_TABLE = 15


def identifier_of(maker: Maker, part: int = 0) -> int:
    """The identifier of the commit that completes what a maker does; with `part`, from 1 on, of one before it."""
    assert 0 <= part < _PARTS, part
    return BATCH_COMMIT_IDENTIFIER - maker * _PARTS - part


def part_of(whole: int, identifier: int) -> int:
    """Which part a commit under `identifier` was of what one under `whole` completes; 0 if it was none."""
    part = whole - identifier
    return part if whole > _FIRST_BATCH and 0 < part < _PARTS else 0


def is_done_by(asked: int, found: int) -> bool:
    """Whether a commit under `found` shows that the commit under `asked` was done.

    Of identifiers that a streaming writer counts up, a later one shows it too: what came before it may have expired.
    """
    return found == asked or (asked < found < _FIRST_BATCH)


def counts_up(identifier: int) -> bool:
    """Whether the identifier is one that a streaming writer counts up, not one of a batch commit."""
    return identifier < _FIRST_BATCH


def maker_of(identifier: int) -> Maker | None:
    """What makes the batch commits that this identifier completes; None if it is none of these, or one of a part."""
    number, part = divmod(BATCH_COMMIT_IDENTIFIER - identifier, _PARTS)
    return Maker(number) if part == 0 and number in Maker.__members__.values() else None
