"""Which sorted runs to compact, and to which level.

`pick_full` takes all runs to the highest level. `pick_minor` is universal compaction; of its rules the first that
applies decides:

1. options: the last full compaction was long ago (`compaction.optimization-interval`), the bucket is still
   small, or much is outside the highest level → all runs;
2. size amplification: the newer runs together are much larger than the oldest one → all runs;
3. size ratio: the newest runs, as long as the next one is not larger than those before it together;
4. run count: at least so many runs that no more than the trigger remain;
5. level 0, if `compaction.force-up-level-0` is set, or readers or a changelog wait for it: all its runs.

No state says when a bucket was last compacted fully: the newest file of the highest level shows it, as in
newer releases. Every new writer of 0.9 begins with a full compaction where the option is set.

Source: `UniversalCompaction`, `EarlyFullCompaction`, `ForceUpLevel0Compaction`, `CompactStrategy` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_engine.lsm.levels import SortedRun
from paimon_engine.options import TableOptions

_OPTIMIZATION_INTERVAL = "compaction.optimization-interval"
_TOTAL_SIZE_THRESHOLD = "compaction.total-size-threshold"
_INCREMENTAL_SIZE_THRESHOLD = "compaction.incremental-size-threshold"
_FORCE_UP_LEVEL_0 = "compaction.force-up-level-0"


@dataclass(frozen=True, slots=True)
class Pick:
    """Compact these runs, the newest of the bucket, to `output_level`."""

    runs: tuple[SortedRun, ...]
    output_level: int
    reason: str


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """No compaction, and why not."""

    reason: str


def pick_full(runs: Sequence[SortedRun], level_max: int) -> Pick | NothingToDo:
    """All runs to the highest level, unless they are in it already."""
    if not runs:
        return NothingToDo("the bucket is empty")
    if all(run.level == level_max for run in runs):
        return NothingToDo("everything is at the highest level already")
    return Pick(tuple(runs), level_max, "full compaction")


def pick_minor(runs: Sequence[SortedRun], level_max: int, options: TableOptions, *, now_ms: int) -> Pick | NothingToDo:
    """What universal compaction would do at `now_ms`, a wall clock as files have it."""
    crossed = _early_full(runs, level_max, options, now_ms)
    if crossed is not None:
        return Pick(tuple(runs), level_max, crossed)
    found = _pick_universal(runs, level_max, options)
    level_0 = sum(run.level == 0 for run in runs)
    is_forced = options.compaction_forces_up_level_0
    if isinstance(found, Pick) or not level_0 or not (is_forced or options.needs_lookup):
        return found
    count = runs_of_similar_size(runs, level_0, options.compaction_size_ratio_percent)
    return _to_level(runs, count, level_max, f"'{_FORCE_UP_LEVEL_0}'" if is_forced else "level 0 is waited for")


def _early_full(runs: Sequence[SortedRun], level_max: int, options: TableOptions, now_ms: int) -> str | None:
    """The option that requires a full compaction now, None if none does."""
    if len(runs) < 2:
        return None
    interval_ms = options.compaction_optimization_interval_ms
    if interval_ms is not None:
        highest = [file.creation_time_ms or 0 for run in runs if run.level == level_max for file in run.files]
        if not highest or now_ms - max(highest) > interval_ms:
            return f"the last full compaction is longer ago than '{_OPTIMIZATION_INTERVAL}'"
    total = options.compaction_total_size_threshold_bytes
    if total is not None and sum(run.size_bytes for run in runs) < total:
        return f"smaller than '{_TOTAL_SIZE_THRESHOLD}'"
    incremental = options.compaction_incremental_size_threshold_bytes
    if incremental is not None and sum(run.size_bytes for run in runs if run.level != level_max) > incremental:
        return f"more than '{_INCREMENTAL_SIZE_THRESHOLD}' outside the highest level"
    return None


def _pick_universal(runs: Sequence[SortedRun], level_max: int, options: TableOptions) -> Pick | NothingToDo:
    """The runs, newest first, that a universal compaction merges.

    1. All, if the newer ones are large compared with the oldest; 2. the newest ones that are of similar size; 3. at
    least as many of the newest as there are above the trigger.
    """
    trigger = options.num_sorted_run_compaction_trigger
    if len(runs) < trigger:
        return NothingToDo(f"sorted runs: {len(runs)}, compaction begins at {trigger}")
    newer, oldest = sum(run.size_bytes for run in runs[:-1]), runs[-1].size_bytes
    limit = options.compaction_max_size_amplification_percent
    if 100 * newer > limit * oldest:
        return Pick(tuple(runs), level_max, f"newer runs exceed {limit} % of the oldest")
    count = runs_of_similar_size(runs, 1, options.compaction_size_ratio_percent)
    if count > 1:
        return _to_level(runs, count, level_max, "runs of similar size")
    if len(runs) > trigger:
        count = runs_of_similar_size(runs, len(runs) - trigger + 1, options.compaction_size_ratio_percent)
        return _to_level(runs, count, level_max, f"more than {trigger} sorted runs")
    return NothingToDo("the newest run is small compared with the others")


def runs_of_similar_size(runs: Sequence[SortedRun], count: int, ratio_percent: int) -> int:
    """How many of the first runs to take, `count` at least, while the next one is not larger than they are together."""
    size = sum(run.size_bytes for run in runs[:count])
    while count < len(runs) and size * (100 + ratio_percent) / 100 >= runs[count].size_bytes:
        size += runs[count].size_bytes
        count += 1
    return count


def _to_level(runs: Sequence[SortedRun], count: int, level_max: int, reason: str) -> Pick | NothingToDo:
    """Output just below the first run that stays; level 0 never receives output."""
    if count == len(runs):
        return Pick(tuple(runs), level_max, reason)
    level = runs[count].level - 1
    if level <= 0:
        while count < len(runs):
            level = runs[count].level
            count += 1
            if level > 0:
                break
        if level <= 0 or count == len(runs):
            return Pick(tuple(runs), level_max, reason)
    picked = tuple(runs[:count])
    if len(picked) == 1 and len(picked[0].files) == 1 and picked[0].level == level:
        return NothingToDo("the only file to compact is at its level already")
    return Pick(picked, level, reason)
