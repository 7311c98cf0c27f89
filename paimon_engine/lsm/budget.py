"""What of a compaction to do in one run, and what of that in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from paimon_engine.lsm.plan import CompactTask
from paimon_engine.lsm.sections import Section, files_of
from paimon_engine.meta.conflict import Bucket

Left = tuple[CompactTask, str]
"""A task, or a part of one, that the budget does not allow, and why."""


@dataclass(frozen=True, slots=True)
class Round:
    """`chosen` is for the next commit, `later` for those after it; `left` is not done in this run.

    Of the tasks in `shortened`, which are among the chosen, only the first groups are done.
    """

    chosen: tuple[CompactTask, ...] = ()
    later: tuple[CompactTask, ...] = ()
    left: tuple[Left, ...] = ()
    shortened: tuple[Left, ...] = ()


@dataclass(slots=True)
class Budget:
    """Limits of a run, and what it has used of them. What had to be done again, as others came first, counts again."""

    max_bytes: int | None
    max_buckets: int | None
    round_bytes: int
    used_bytes: int = 0
    used_buckets: set[Bucket] = field(default_factory=set)

    def next_round(self, tasks: Sequence[CompactTask]) -> Round:
        """The first of the tasks that make up a commit; smaller ones pass those for which the budget is too small."""
        chosen: list[CompactTask] = []
        left: list[Left] = []
        shortened: list[Left] = []
        round_bytes = 0
        for number, task in enumerate(tasks):
            fitting, reason = self._fitting(task)
            if fitting is None:
                left.append((task, reason))
                continue
            if chosen and round_bytes + fitting.bytes_to_rewrite > self.round_bytes:
                return Round(tuple(chosen), tuple(tasks[number:]), tuple(left), tuple(shortened))
            chosen.append(fitting)
            if reason:
                shortened.append((fitting, reason))
            round_bytes += fitting.bytes_to_rewrite
            self.used_bytes += fitting.bytes_to_rewrite
            self.used_buckets.add((task.partition, task.bucket))
        return Round(tuple(chosen), (), tuple(left), tuple(shortened))

    def _fitting(self, task: CompactTask) -> tuple[CompactTask | None, str]:
        """The task, or what of it the budget allows, and why not more."""
        is_new = (task.partition, task.bucket) not in self.used_buckets
        if self.max_buckets is not None and is_new and len(self.used_buckets) >= self.max_buckets:
            return None, f"max_buckets={self.max_buckets} are done"
        if self.max_bytes is None or self.used_bytes + task.bytes_to_rewrite <= self.max_bytes:
            return task, ""
        size_bytes, room = task.bytes_to_rewrite, self.max_bytes - self.used_bytes
        if task.is_divisible:
            part = _first_groups(task, room)
            if part is not None:
                return (
                    part,
                    f"{size_bytes:,} bytes to rewrite, of which max_bytes={self.max_bytes} had room for {room:,}",
                )
            least = min(map(_size_bytes, task.rewrites))
            if least > self.max_bytes:
                return None, (
                    f"the smallest part of the bucket alone has {least:,} bytes to rewrite, "
                    f"more than max_bytes={self.max_bytes}"
                )
            return None, f"{least:,} bytes or more to rewrite, and max_bytes={self.max_bytes} has room for {room:,}"
        if size_bytes > self.max_bytes:
            return None, f"the bucket alone has {size_bytes:,} bytes to rewrite, more than max_bytes={self.max_bytes}"
        return None, f"{size_bytes:,} bytes to rewrite, and max_bytes={self.max_bytes} has room for {room:,}"


def _size_bytes(group: Sequence[Section]) -> int:
    return sum(file.size_bytes for file in files_of(group))


def _first_groups(task: CompactTask, room: int) -> CompactTask | None:
    kept = []
    for group in task.rewrites:
        size_bytes = _size_bytes(group)
        if size_bytes <= room:
            kept.append(group)
            room -= size_bytes
    return replace(task, rewrites=tuple(kept)) if kept else None
