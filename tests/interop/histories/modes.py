"""Options that change during a history: what they are after each step, and whether a table is ready for another
meaning.

Two options decide what the levels of a table mean: with deletion vectors each key is live in one file, and with a
lookup compaction a record above level 0 includes all older ones of its key. Java 0.9 changes them whatever the
levels hold, and reads other rows then; this engine refuses what would do so. The table here says when, from what Java
shows of files.

| change | ready, if | | --- | --- | | to what it was at the latest snapshot | always | | vectors on | each bucket has
one level, which is not level 0, and has no delete records | | vectors off | nothing is marked | | lookup on or off,
where versions add up | each bucket has one level above level 0 at most; off also if a partial update only fills in
values, which may be done again |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.oracle import JavaPaimon

VECTORS = "deletion-vectors.enabled"
PRODUCER = "changelog-producer"
ADDING = ("partial-update", "aggregation")


def marks(options: Mapping[str, str]) -> bool:
    """Whether deleted rows are marked in vectors."""
    return options.get(VECTORS) == "true"


def producer_of(options: Mapping[str, str]) -> str:
    """What makes the changelog."""
    return options.get(PRODUCER, "none")


def is_whole(options: Mapping[str, str]) -> bool:
    """Whether a record above level 0 includes all older ones of its key."""
    return producer_of(options) == "lookup" or options.get("force-lookup") == "true"


def adds_up(options: Mapping[str, str]) -> bool:
    """Whether it matters what older versions a record has taken in."""
    return options.get("merge-engine") in ADDING


def only_fills_in(options: Mapping[str, str]) -> bool:
    """Whether versions only add up by values that replace nulls."""
    ordering = ("sequence-group", "aggregate-function", "partial-update.remove-record-on-delete")
    return options.get("merge-engine") == "partial-update" and not any(name.endswith(ordering) for name in options)


def options_after(options: Mapping[str, str], changes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The options that changes leave."""
    found = dict(options)
    for change in changes:
        if change["change"] == "set_option":
            found[change["name"]] = change["value"]
        elif change["change"] == "remove_option":
            found.pop(change["name"], None)
    return found


def as_then(then: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Dynamic options with which a state of another mode is read as it was meant; none where the modes are one."""
    if marks(then) == marks(now) and is_whole(then) == is_whole(now):
        return {}
    return {VECTORS: str(marks(then)).lower(), PRODUCER: producer_of(then)}


def why_not_ready(
    oracle: JavaPaimon, path: Path, before: Mapping[str, str], after: Mapping[str, str], *, is_keyed: bool
) -> str | None:
    """Why rows of the latest snapshot, made `before`, would be others `after`; None if they would not."""
    if marks(before) and not marks(after):
        entries = oracle.call("index", table=str(path))["entries"]
        if any(vector["cardinality"] for entry in entries for vector in entry.get("vectors", {}).values()):
            return "rows are deleted by vectors only"
    if not is_keyed:
        return None
    buckets = defaultdict(list)
    for file in oracle.call("files", table=str(path))["files"]:
        buckets[str(file["partition"]), file["bucket"]].append(file)
    levels = [{file["level"] for file in files} for files in buckets.values()]
    if marks(after) and not marks(before):
        if any(0 in held or len(held) > 1 for held in levels):
            return "a bucket has more than one level, or level 0"
        if any(file.get("delete_rows") for files in buckets.values() for file in files):
            return "a bucket has delete records"
    is_switched = is_whole(before) != is_whole(after) and not marks(before)
    may_be_repeated = is_whole(before) and only_fills_in(after)
    if is_switched and adds_up(after) and not may_be_repeated and any(len(held - {0}) > 1 for held in levels):
        return "a bucket has several levels above level 0"
    return None
