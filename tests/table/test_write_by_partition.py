"""A writer looks up only the partitions that it writes to: on a large table little metadata is read for a few rows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_engine.env import Env
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.write.writer import write_batches, write_state
from tests.support.counting import CountingStorage
from tests.table.conftest import MakeTable, Subject

KEYED = {"k": pa.int64(), "day": pa.int32(), "v": pa.int64()}


def _keyed(make_table: MakeTable) -> Subject:
    return make_table(KEYED, primary_keys=["k", "day"], partition_keys=["day"], options={"bucket": "1"})


def _counted(subject: Subject) -> tuple[TableHandle, CountingStorage]:
    counting = CountingStorage(subject.handle.env.storage)
    env = Env(counting, clock=subject.handle.env.clock)
    return load_table(subject.path, subject.handle.config, env=env), counting


def _rows(days: list[int]) -> pa.RecordBatch:
    count = len(days)
    return pa.record_batch(
        {"k": pa.array(range(count), pa.int64()), "day": pa.array(days, pa.int32()), "v": [7] * count}
    )


def test_rows_of_a_partition_come_after_what_it_has(make_table: MakeTable) -> None:
    subject = _keyed(make_table)
    for _ in range(3):
        subject.write({"k": [1], "day": [1], "v": [1]})
    subject.write({"k": [1], "day": [2], "v": [1]})
    state = write_state(subject.handle, by_partition=True)
    batches = [_rows([2]), _rows([1, 2]), _rows([3])]
    messages = write_batches(subject.handle, state, batches)
    first = {message.partition: message.new_files[0].min_sequence_number for message in messages}
    assert sorted(first.values()) == [0, 1, 3]
    subject.commit(messages, CommitKind.APPEND)
    assert subject.rows() == [(0, 1, 7), (0, 2, 7), (0, 3, 7), (1, 1, 1), (1, 2, 7)]


def test_a_row_in_a_table_of_many_partitions_reads_the_manifests_of_its_own(make_table: MakeTable) -> None:
    subject = _keyed(make_table)
    for day in range(20):
        subject.write({"k": [1], "day": [day], "v": [1]})
    table, counting = _counted(subject)
    state = write_state(table, by_partition=True)
    counting.take()
    write_batches(table, state, [_rows([7])])
    read = counting.taken("read", "/manifest/manifest-")
    assert len([path for path in read if "manifest-list" not in path]) == 1


def test_rows_of_many_partitions_read_each_manifest_a_few_times(make_table: MakeTable) -> None:
    subject = _keyed(make_table)
    for _ in range(2):
        subject.write({"k": list(range(20)), "day": list(range(20)), "v": [1] * 20})
    table, counting = _counted(subject)
    state = write_state(table, by_partition=True)
    counting.take()
    messages = write_batches(table, state, [_rows([day]) for day in range(20)])
    read = counting.taken("read", "/manifest/manifest-")
    assert max(times for path, times in read.items() if "manifest-list" not in path) == 3
    assert {message.new_files[0].min_sequence_number for message in messages} == {2}


def test_appended_rows_read_no_manifests(make_table: MakeTable) -> None:
    subject = make_table(KEYED, partition_keys=["day"])
    for day in range(3):
        subject.write({"k": [1], "day": [day], "v": [1]})
    table, counting = _counted(subject)
    counting.take()
    messages = write_batches(table, write_state(table), [_rows([0, 1])])
    assert not counting.taken("read", "/manifest/")
    subject.commit(messages, CommitKind.APPEND)
    assert len(subject.rows()) == 5


def test_another_number_of_buckets_is_refused_before_a_file_is_written(make_table: MakeTable) -> None:
    subject = _keyed(make_table)
    subject.write({"k": [1], "day": [1], "v": [1]})
    schema = replace(subject.handle.schema, options={**subject.handle.schema.options, "bucket": "2"})
    table = replace(subject.handle, schema=schema)
    state = write_state(table, by_partition=True)
    before = subject.data_paths()
    write_batches(table, state, [_rows([5])])
    with pytest.raises(InvalidArgumentError, match="the partition has 1 buckets, but 'bucket' = '2'"):
        write_batches(table, state, [_rows([1])])
    assert len(subject.data_paths()) == len(before) + 1
