"""The commit by which a job is done: its name, and what an earlier attempt of the same job has left in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_engine.errors import ConflictError
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.table.commit.commit_callbacks import call_again, check_commit_callbacks
from paimon_engine.table.commit.own_commits import find_own_commit
from paimon_engine.table.commit.records import CommitKey
from paimon_engine.table.commit.request import CommitRequest, Conflict
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle


@dataclass(frozen=True, slots=True)
class JobCommit:
    """The name of a commit, and the result of the search for it.

    `done` is the snapshot that an earlier attempt has committed. `checked_up_to` is the newest snapshot id in which the
    commit was searched for; None if the user is a new id, which no snapshot can have. `parts` is the highest number of
    a part that earlier attempts have committed, 0 if none.
    """

    kind: CommitKind
    user: str
    identifier: int
    done: Snapshot | None = None
    checked_up_to: int | None = None
    parts: int = 0

    @property
    def key(self) -> CommitKey:
        """The name under which the commit is recorded."""
        return CommitKey(self.user, self.kind, self.identifier)

    def request(self, messages: Sequence[CommitMessage] = ()) -> CommitRequest:
        """A request to commit these messages under this name."""
        return CommitRequest(messages, self.kind, self.user, self.identifier, checked_up_to=self.checked_up_to)

    def next_like(
        self, snapshot: Snapshot, latest: Snapshot, base: tuple[str, int], delta: tuple[str, int], time_ms: int
    ) -> Snapshot:
        """The snapshot after `latest` under this name, with these lists and no changelog; all else as in `snapshot`.

        `base` and `delta` are names and sizes in bytes of the manifest lists, `time_ms` is in epoch milliseconds.
        """
        return replace(
            snapshot,
            id=latest.id + 1,
            base_manifest_list=base[0],
            base_manifest_list_size=base[1],
            delta_manifest_list=delta[0],
            delta_manifest_list_size=delta[1],
            changelog_manifest_list=None,
            changelog_manifest_list_size=None,
            changelog_record_count=0,
            commit_user=self.user,
            commit_identifier=self.identifier,
            commit_kind=self.kind,
            time_ms=time_ms,
        )


def look_up_commit(
    table: TableHandle, commit_user: str | None, kind: CommitKind, identifier: int, *, search: bool = True
) -> JobCommit:
    """The commit of that name, searched for in the table; under a new id if there is no `commit_user`.

    Call it before anything is planned: what is committed after the search is found by the commit itself. Without
    `search`, which a dry run does not need, nothing is read.

    Raises: as `find_own_commit`; UnsupportedError if the table names a commit callback that is not installed.
    """
    if search:
        check_commit_callbacks(table)
    if commit_user is None or not search:
        return JobCommit(kind, commit_user or table.env.new_id(), identifier)
    own = find_own_commit(table, commit_user, kind, identifier)
    if own.snapshot is not None:
        call_again(table, own.snapshot)
    return JobCommit(kind, commit_user, identifier, own.snapshot, own.checked_up_to, own.parts)


def conflict_error(table: TableHandle, conflict: Conflict, remedy: str) -> ConflictError:
    """The error for a commit that others prevented; `remedy` says what to do now."""
    return ConflictError(f"{table.paths.root}: {conflict.conflicts[0].reason}; {remedy}")
