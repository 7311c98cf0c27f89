"""Where sequence numbers begin again, so that what is newer has smaller ones.

A writer goes on from the highest number in the files of its bucket. It finds a lower one than the writer before after
an overwrite, and after a compaction that dropped the newest records, which were deletes. What it writes then is newer
than all that is gone. Java 0.9 takes the order of the numbers also there, so that of its changes a row may be missing
that was deleted and written again; 2.0 gives all records, and leaves it to the reader which one is the newest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paimon_engine.errors import NotFoundError
from paimon_engine.lsm.sections import Section
from paimon_engine.meta.conflict import Bucket
from paimon_engine.meta.manifest import DataFile, FileKind
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.read.joined_buckets import by_joined_bucket, names_of
from paimon_engine.table.state.changelogs import Commit
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries

if TYPE_CHECKING:
    from paimon_engine.table.read.split import Split


def begin_again(section: Section, commit_of: Mapping[str, int]) -> bool:
    """Whether numbers of a later commit are not all higher than those before; `commit_of` has each file's, by name."""
    highest, of_commit, last = -1, -1, -1
    files = [file for run in section for file in run]
    for file in sorted(files, key=lambda file: commit_of[file.name]):
        if commit_of[file.name] != last:
            highest, last = max(highest, of_commit), commit_of[file.name]
        if file.min_sequence_number <= highest:
            return True
        of_commit = max(of_commit, file.max_sequence_number)
    return False


class Restarts:
    """What was gone each time when numbers began again within a range of commits."""

    def __init__(self, table: TableHandle, commits: Iterable[Commit], moved: frozenset[bytes]) -> None:
        """Reads the deltas of compactions and overwrites; `moved` partitions are read as if they had one bucket.

        Raises: NotFoundError, CorruptTableError.
        """
        self._gone: dict[Bucket, list[frozenset[str]]] = defaultdict(list)
        removed: dict[Bucket, set[str]] = defaultdict(set)
        for commit in commits:
            kind = commit.snapshot.commit_kind
            if kind not in (CommitKind.COMPACT, CommitKind.OVERWRITE):
                continue
            try:
                entries = delta_entries(table, commit.snapshot)
            except NotFoundError:
                # What an expired commit did beside its changes may be gone: then numbers decide.
                if commit.is_expired:
                    continue
                raise
            for place, of_place in by_joined_bucket(entries, moved).items():
                # A key that is in another bucket now has numbers that say nothing of those in the bucket before.
                begins_again = kind is CommitKind.OVERWRITE and place[0] in moved
                for of_bucket in by_joined_bucket(of_place, frozenset()).values():
                    came = {entry.file.name: entry.file for entry in of_bucket if entry.kind is FileKind.ADD}
                    gone = (entry.file for entry in of_bucket if entry.kind is FileKind.DELETE)
                    went = [file for file in gone if file.name not in came]
                    removed[place].update(file.name for file in went)
                    begins_again |= _highest(went) > _highest(came.values())
                if begins_again:
                    self._gone[place].append(frozenset(removed[place]))

    def epochs(self, split: Split) -> dict[str, int]:
        """For each file in how many of the bucket's restarts it was not gone: with more it is newer."""
        gone = self._gone.get((split.partition, split.bucket), ())
        return {name: sum(name not in names for names in gone) for name in names_of(split)}


def _highest(files: Iterable[DataFile]) -> int:
    return max((file.max_sequence_number for file in files), default=-1)
