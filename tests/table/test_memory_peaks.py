"""Peaks of memory, each in a separate process, held against what `docs/sizing.md` promises."""

from __future__ import annotations

from paimon_engine.format.layout import ROW_GROUP_BYTES_MAX
from tests.bench.memory import measured

ROW_GROUP_MB = ROW_GROUP_BYTES_MAX >> 20
FIRST_WORK_MB = 48
"""What a process takes once, for the code and the threads that its first work needs; measured 31 to 39."""


def test_an_orphan_clean_up_takes_three_kilobytes_per_file() -> None:
    files = 12_000

    peaks = measured("orphans", files)

    assert peaks["remove orphans"] <= FIRST_WORK_MB + 3 * files // 1_000


def test_a_compaction_stays_within_twice_its_memory() -> None:
    task_memory_mb = 32

    # The bucket has ten times the memory of the task.
    peaks = measured("bucket", task_memory_mb)

    assert peaks["compact"] <= FIRST_WORK_MB + 2 * task_memory_mb


def test_a_keyed_write_takes_five_row_groups_beside_its_rows() -> None:
    # All rows wait in memory at first, several times as many bytes as the write may take.
    peaks = measured("shuffled", 400)

    assert peaks["write"] <= FIRST_WORK_MB + 5 * ROW_GROUP_MB


def test_a_keyed_write_of_several_buckets_does_not_copy_its_rows_for_that() -> None:
    peaks = measured("buckets", 400)

    assert peaks["write"] <= FIRST_WORK_MB + 5 * ROW_GROUP_MB


def test_a_read_takes_no_more_memory_for_more_runs() -> None:
    # A batch of each run is decoded, together as much as a row group; then they are joined, sorted and merged.
    peaks = measured("runs", 24)

    assert peaks["read"] <= FIRST_WORK_MB + 7 * ROW_GROUP_MB
