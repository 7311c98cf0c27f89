"""Index files in commits: what a message adds and removes, also if others have committed meanwhile.

The index files are empty: a commit looks at their entries, and whether they are there, not into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.index_manifest import DELETION_VECTORS, HASH, IndexFile, VectorRange
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict, OverwriteScope, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.manifests import live_entries, live_index_files
from paimon_engine.table.write.writer import write_batches, write_state
from tests.table.conftest import MakeTable, Subject

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture(params=["bucketed", "unaware"])
def subject(request: pytest.FixtureRequest, make_table: MakeTable) -> Subject:
    table = make_table(COLUMNS, primary_keys=["k"] if request.param == "bucketed" else [])
    return table.write({"k": [1, 2], "v": ["a", "b"]}).write({"k": [3], "v": ["c"]})


def vectors(table: Subject, name: str, *data_files: int) -> IndexFile:
    """An index file with vectors of the data files with these numbers, in order of their rows."""
    entries = live_entries(table.handle, table.snapshot)
    names = [entry.file.name for entry in sorted(entries, key=lambda entry: entry.file.min_sequence_number)]
    ranges = tuple(VectorRange(names[file], 1 + 30 * number, 22, 1) for number, file in enumerate(data_files))
    entry = IndexFile(b"\0" * 12, 0, DELETION_VECTORS, name, 100, len(ranges), ranges)
    return replace(entry, partition=table.messages({"k": [9], "v": ["x"]})[0].partition)


def message(table: Subject, *, new: Sequence[IndexFile] = (), gone: Sequence[IndexFile] = ()) -> CommitMessage:
    place = (new or gone)[0]
    total = table.handle.options.bucket
    for file in new:
        table.handle.env.storage.overwrite(table.handle.paths.index(file.name), b"")
    return CommitMessage(place.partition, 0, total, new_index_files=tuple(new), deleted_index_files=tuple(gone))


def committed(table: Subject, *messages: CommitMessage, kind: CommitKind = CommitKind.APPEND) -> Committed | Conflict:
    table.commits += 1
    return commit(table.handle, CommitRequest(messages, kind, f"user-{table.commits}"))


def live(table: Subject) -> list[str]:
    return [file.name for file in live_index_files(table.handle, table.snapshot)]


@pytest.mark.parametrize("kind", [CommitKind.APPEND, CommitKind.COMPACT])
def test_index_files_are_added_removed_and_kept(subject: Subject, kind: CommitKind):
    one, two = vectors(subject, "index-1", 0), vectors(subject, "index-2", 0, 1)

    assert isinstance(committed(subject, message(subject, new=[one]), kind=kind), Committed)
    manifest = subject.snapshot.index_manifest
    subject.write({"k": [4], "v": ["d"]})
    assert (live(subject), subject.snapshot.index_manifest) == (["index-1"], manifest)
    assert isinstance(committed(subject, message(subject, new=[two], gone=[one]), kind=kind), Committed)
    assert live_index_files(subject.handle, subject.snapshot) == [two]
    assert isinstance(committed(subject, message(subject, gone=[two]), kind=kind), Committed)
    assert subject.snapshot.index_manifest is None


def test_a_file_that_others_have_replaced_is_a_conflict(subject: Subject):
    one, two, three = (vectors(subject, f"index-{number}", 0) for number in (1, 2, 3))
    committed(subject, message(subject, new=[one]))
    committed(subject, message(subject, new=[two], gone=[one]))
    before = subject.snapshot

    outcome = committed(subject, message(subject, new=[three], gone=[one]))

    assert isinstance(outcome, Conflict)
    assert "index-1 was already replaced" in outcome.conflicts[0].reason
    assert subject.snapshot == before


def test_vectors_of_a_data_file_that_is_not_live_are_a_conflict(subject: Subject):
    one = vectors(subject, "index-1", 0)
    [vector] = one.vectors
    lost = replace(one, vectors=(replace(vector, data_file="data-of-before"),))

    outcome = committed(subject, message(subject, new=[lost]))

    assert isinstance(outcome, Conflict)
    assert "data-of-before was already replaced" in outcome.conflicts[0].reason
    # What an engine has left in an index file goes with it, or stays: it marks nothing.
    left = message(subject, new=[replace(lost, name="index-2")], gone=[lost])
    assert left.marked_files() == set()


def test_a_file_whose_place_others_have_taken_is_a_conflict(subject: Subject):
    one, two = vectors(subject, "index-1", 0), vectors(subject, "index-2", 1)
    committed(subject, message(subject, new=[one]))

    outcome = committed(subject, message(subject, new=[two]))

    if subject.handle.schema.primary_keys:
        assert isinstance(outcome, Conflict)
    else:
        # Without buckets a partition has as many files as writers made, each for data files of its own.
        assert isinstance(outcome, Committed)
        assert live(subject) == ["index-1", "index-2"]
        again = committed(subject, message(subject, new=[vectors(subject, "index-3", 1)]))
        assert isinstance(again, Conflict)


def test_files_of_different_kinds_do_not_replace_each_other(make_table: MakeTable):
    table = make_table(COLUMNS, primary_keys=["k"]).write({"k": [1], "v": ["a"]})
    one = vectors(table, "index-1", 0)
    two = IndexFile(one.partition, 0, HASH, "index-2", 4, 1)
    committed(table, message(table, new=[one, two]))

    committed(table, message(table, new=[replace(two, name="index-3")], gone=[two]))

    assert sorted(live(table)) == ["index-1", "index-3"]


def test_an_overwrite_drops_the_index_files_of_its_partitions(make_table: MakeTable):
    columns = pa.schema([pa.field("p", pa.int32(), nullable=False), *COLUMNS])
    table = make_table(columns, partition_keys=["p"]).write({"p": [1, 2], "k": [1, 2], "v": ["a", "b"]})
    parts = {part.partition: part for part in table.messages({"p": [1, 2], "k": [1, 2], "v": ["a", "b"]})}
    for number, partition in enumerate(parts):
        file = replace(IndexFile(partition, 0, DELETION_VECTORS, f"index-{number}", 9, 0))
        assert isinstance(committed(table, message(table, new=[file])), Committed)
    _, second = parts
    scope = OverwriteScope(partitions=frozenset([second]))

    commit(table.handle, CommitRequest([parts[second]], CommitKind.OVERWRITE, "over", overwrite=scope))

    assert live(table) == ["index-0"]
    commit(table.handle, CommitRequest([], CommitKind.OVERWRITE, "all", overwrite=OverwriteScope()))
    assert table.snapshot.index_manifest is None


def test_a_dynamic_bucket_without_its_index_is_not_written_to(make_table: MakeTable):
    table = make_table(COLUMNS, primary_keys=["k"], options={"bucket": "-1"})
    (written,) = table.messages({"k": [1], "v": ["a"]})
    table.handle.env.storage.delete([table.handle.paths.index(file.name) for file in written.new_index_files])
    table.commit([replace(written, new_index_files=())], CommitKind.APPEND)

    with pytest.raises(CorruptTableError, match="bucket-0.*no hash index"):
        write_state(table.handle)
    assert any("no hash index" in problem.what for problem in check_table(table.handle))
    state = write_state(table.handle, replacing=True)
    assert write_batches(table.handle, state, [pa.record_batch([[1], ["b"]], schema=COLUMNS)])
