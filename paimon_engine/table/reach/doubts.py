"""What cannot be known of a table, and which files might be needed for it.

1. A snapshot, tag or changelog that cannot be read, or one of whose manifests cannot.
2. A gap: snapshots between others that are gone, by damage or while we looked.

What such a root might reach stays. That is every file, but those that a later commit of the same branch has made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paimon_engine.meta.paths import MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class Doubt:
    """A commit of a branch of which we do not know what it reaches, and why.

    `snapshot_id` is None where not even the commit is known. `path` names a snapshot, tag or changelog file that nobody
    understands. With `may_pass` nothing should be forgotten for now: another try may well be able to tell. `is_certain`
    says that a version is there which the listing does not show.
    """

    branch: str
    snapshot_id: int | None
    reason: str
    may_pass: bool = False
    path: str | None = None
    is_certain: bool = False

    def might_need(self, branch: str, born: int | None) -> bool:
        """Whether it may reach a file of the branch that the commit `born` made; None stands for not known."""
        return self.branch != branch or born is None or self.snapshot_id is None or self.snapshot_id >= born


def missing_between(branch: str, ids: Sequence[int]) -> Iterator[Doubt]:
    """The gaps between the ids of a branch's snapshots, ascending."""
    for one, following in pairwise(ids):
        first, last = one + 1, following - 1
        if first <= last:
            what = f"snapshot {first}" if first == last else f"each of the snapshots {first} to {last}"
            where = "" if branch == MAIN_BRANCH else f" of branch {branch!r}"
            yield Doubt(branch, last, f"{what}{where} is missing and may have needed them")
