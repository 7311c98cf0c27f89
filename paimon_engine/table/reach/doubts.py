"""Doubts: roots whose files are not known, and which files must therefore stay.

A doubt means

1. a snapshot, tag or changelog that cannot be read, or one of whose manifests cannot;
2. a gap: snapshots missing between others, because of damage or because they expired while the table was read.

A file stays if a root in doubt may need it. It may need every file, except those that later commits of the same branch
created. Example: a doubt about snapshot 7 of main protects all files of main that commits up to 7 created, and all
files of other branches; files created by commit 8 may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paimon_engine.meta.paths import MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class Doubt:
    """A commit of a branch whose files are not known, and the reason.

    `snapshot_id` is None if not even the commit is known. `path` is the snapshot, tag or changelog file that cannot be
    parsed. `may_pass` says that a later try may succeed, as after an error of the storage; until then nothing should be
    deleted. `is_certain`: a version certainly exists that the listing lacks.
    """

    branch: str
    snapshot_id: int | None
    reason: str
    may_pass: bool = False
    path: str | None = None
    is_certain: bool = False
    lasts: bool = False

    def might_need(self, branch: str, born: int | None) -> bool:
        """Whether it may need a file of `branch` that was created by snapshot id `born`; None: unknown."""
        return self.branch != branch or born is None or self.snapshot_id is None or self.snapshot_id >= born


def missing_between(branch: str, ids: Sequence[int]) -> Iterator[Doubt]:
    """The gaps between the ids of a branch's snapshots, ascending."""
    for one, following in pairwise(ids):
        first, last = one + 1, following - 1
        if first <= last:
            what = f"snapshot {first}" if first == last else f"each of the snapshots {first} to {last}"
            where = "" if branch == MAIN_BRANCH else f" of branch {branch!r}"
            yield Doubt(branch, last, f"{what}{where} is missing and may have needed them")
