"""The verbs of `Table` on its versions: tags, branches, consumers, rollback. Each verb is one call of an action."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from paimon_engine import actions, inspect
from paimon_engine.errors import InvalidArgumentError, shown
from paimon_engine.table.state.moments import newest_at_time, only_tidied
from paimon_engine.table.state.snapshots import HELD_PREFIX, tag_names
from paimon_engine.table.state.vanished import check_is_there
from paimon_engine.verbs import DurationLike, MomentLike, Verbs, time_of

if TYPE_CHECKING:
    from paimon_engine.specs import IfExists
    from paimon_engine.table.removal.file_removal import DisposalWords


class VersionVerbs(Verbs):
    """What `Table` does with tags, branches, consumers and earlier snapshots."""

    # ── tags ────────────────────────────────────────────────────────────────────────────────────

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        timestamp: MomentLike | None = None,
        watermark: int | None = None,
        as_of: MomentLike | None = None,
        if_exists: actions.tags.IfTagExists = "verify",
        time_retained: DurationLike | None = None,
        dry_run: bool = False,
        **how: Unpack[DisposalWords],
    ) -> actions.tags.TagResult:
        """Names a snapshot (the latest by default); the same tag on the same snapshot is fine.

        `timestamp` chooses the first snapshot committed then or later, `watermark` the first that has got so far,
        `as_of` the table's state then: the newest snapshot committed by that time. The tag is kept for `time_retained`,
        such as `30 d`; without it as the table's options say.

        Raises: ConflictError naming both snapshots if the tag is on a different one; NotFoundError,
        InvalidArgumentError.
        """
        return self._act(actions.tags.create_tag, actions.tags.CreateTag, locals(), tag=name)

    def snapshot_as_of(self, moment: MomentLike) -> int:
        """Id of the snapshot of the table's state then: the newest committed at that time or before.

        Raises: NotFoundError if there was none yet, or if snapshots of then have expired; InvalidArgumentError.
        """
        timestamp_ms = time_of(self._handle, "moment", moment)
        if timestamp_ms is None:
            raise InvalidArgumentError("moment=None: give a time")
        return newest_at_time(self._handle, timestamp_ms).id

    def have_same_rows(self, one: int, other: int) -> bool:
        """Whether two snapshots hold the same rows for sure: only compactions and statistics are between them."""
        return only_tidied(self._handle, one, other)

    def rename_tag(self, name: str, to: str) -> actions.tags.TagResult:
        """Gives a tag another name.

        Raises: NotFoundError; ConflictError if the new name is taken; InvalidArgumentError.
        """
        return self._act(actions.tags.rename_tag, actions.tags.RenameTag, locals(), tag=name)

    def delete_tag(
        self, name: str, *, dry_run: bool = False, **how: Unpack[DisposalWords]
    ) -> actions.tags.DeleteTagResult:
        """Deletes a tag, and the files that only it kept."""
        return self._act(actions.tags.delete_tag, actions.tags.DeleteTag, locals(), tag=name)

    def expire_tags(
        self, older_than: MomentLike | None = None, *, dry_run: bool = False, **how: Unpack[DisposalWords]
    ) -> actions.expire_tags.ExpireTagsResult:
        """Deletes expired tags, with `older_than` all made before then, and the files that only they kept.

        Raises: CorruptTableError, UnsupportedError, StorageError.
        """
        return self._act(actions.expire_tags.expire_tags, actions.expire_tags.ExpireTags, locals())

    def create_day_tags(
        self,
        since: str | None = None,
        until: str | None = None,
        *,
        timezone: str = "UTC",
        time_retained: DurationLike | None = None,
        dry_run: bool = False,
    ) -> actions.create_day_tags.DayTagsResult:
        """Creates the missing tags of days, from `since` to `until`, on the latest snapshot at each day's end.

        The result says which days stay without one, and why.

        Raises: InvalidArgumentError.
        """
        return self._act(actions.create_day_tags.create_day_tags, actions.create_day_tags.CreateDayTags, locals())

    def create_due_tags(
        self, *, dry_run: bool = False, **how: Unpack[DisposalWords]
    ) -> actions.create_due_tags.DueTagsResult:
        """Makes the tags that are due by `tag.automatic-creation`, and drops the oldest of too many.

        Raises: InvalidArgumentError, ConflictError, UnsupportedError, StorageError.
        """
        return self._act(actions.create_due_tags.create_due_tags, actions.create_due_tags.CreateDueTags, locals())

    def tags(
        self, like: str | None = None, *, since: MomentLike | None = None, until: MomentLike | None = None
    ) -> pa.Table:
        """Tags by snapshot; columns as in the system table `$tags`.

        `like` is a pattern of names such as `2013-01-*`; `since` and `until` bound the commit time of the snapshot.
        """
        if like is not None and not isinstance(like, str):
            raise InvalidArgumentError(f"like={shown(like)}: give a pattern of names, such as '2013-01-*'")
        found = inspect.tags(self._handle)
        low, high = time_of(self._handle, "since", since), time_of(self._handle, "until", until)
        times = found["commit_time"].cast(pa.int64()).to_pylist()
        keep = [
            (like is None or fnmatchcase(name, like))
            and (low is None or low <= time)
            and (high is None or time <= high)
            for name, time in zip(found["tag_name"].to_pylist(), times, strict=True)
        ]
        return found.filter(pa.array(keep, pa.bool_()))

    def tag_names(self) -> list[str]:
        """Names of all tags, sorted; from one listing, no tag is read.

        Without those by which jobs keep a version while they work, `at-work-…`, which `tags` shows, too.

        Raises: NotFoundError, ConflictError if others have dropped the table since it was opened.
        """
        found = tag_names(self._handle)
        if not found:
            check_is_there(self._handle)
        return [name for name in found if not name.startswith(HELD_PREFIX)]

    # ── going back ──────────────────────────────────────────────────────────────────────────────

    def rollback(
        self,
        snapshot: int | None = None,
        tag: str | None = None,
        *,
        timestamp: MomentLike | None = None,
        watermark: int | None = None,
        dry_run: bool = False,
        **how: Unpack[DisposalWords],
    ) -> actions.rollback.RollbackResult:
        """Makes that snapshot or tag the latest; newer snapshots and tags go, with their files.

        `timestamp` chooses the newest snapshot not younger, `watermark` the newest that is not beyond.

        Raises: NotFoundError, InvalidArgumentError, ConflictError.
        """
        return self._act(actions.rollback.rollback, actions.rollback.Rollback, locals())

    def rollback_to_as_latest(
        self,
        snapshot: int | None = None,
        tag: str | None = None,
        *,
        timestamp: MomentLike | None = None,
        watermark: int | None = None,
        commit_user: str | None = None,
    ) -> actions.rollback_to_as_latest.RollbackToAsLatestResult:
        """Makes a new snapshot with the rows of that one; nothing is lost.

        A `commit_user` makes repeating the call safe: it commits once.

        Raises: NotFoundError, InvalidArgumentError, ConflictError, UnsupportedError, StorageError.
        """
        return self._act(
            actions.rollback_to_as_latest.rollback_to_as_latest,
            actions.rollback_to_as_latest.RollbackToAsLatest,
            locals(),
        )

    # ── branches ────────────────────────────────────────────────────────────────────────────────

    def create_branch(
        self, name: str, tag: str | None = None, snapshot: int | None = None, *, if_exists: IfExists = "error"
    ) -> actions.branches.BranchResult:
        """Makes a branch of a tag or a snapshot, or an empty one.

        Raises: ConflictError if it exists; NotFoundError, InvalidArgumentError, UnsupportedError.
        """
        return self._act(actions.branches.create_branch, actions.branches.CreateBranch, locals(), branch=name)

    def rename_branch(self, name: str, to: str) -> actions.branches.BranchResult:
        """Gives a branch another name.

        Raises: NotFoundError; ConflictError if the new name is taken; InvalidArgumentError, UnsupportedError.
        """
        return self._act(actions.branches.rename_branch, actions.branches.RenameBranch, locals(), branch=name)

    def delete_branch(
        self, name: str, *, dry_run: bool = False, **how: Unpack[DisposalWords]
    ) -> actions.branches.BranchResult:
        """Deletes a branch, and the files that only it needed.

        Raises: InvalidArgumentError, CorruptTableError, UnsupportedError, StorageError.
        """
        return self._act(actions.branches.delete_branch, actions.branches.DeleteBranch, locals(), branch=name)

    def fast_forward(
        self, branch: str, *, dry_run: bool = False, **how: Unpack[DisposalWords]
    ) -> actions.branches.BranchResult:
        """Makes main what the branch is, from the branch's first snapshot on; what main had since then is removed.

        Raises: NotFoundError, InvalidArgumentError, ConflictError, UnsupportedError, StorageError.
        """
        return self._act(actions.branches.fast_forward, actions.branches.FastForward, locals())

    def merge_branch(
        self, branch: str, *, dry_run: bool = False, commit_user: str | None = None
    ) -> actions.merge_branch.MergeBranchResult:
        """Brings what the branch has changed since it began, or was last merged, into the table in one commit.

        Both may have changed since, as long as they have not changed the same bucket; additions to append tables
        conflict with nothing. `conflicts` of a dry run says what is in the way.

        Raises: NotFoundError, InvalidArgumentError, ConflictError, UnsupportedError.
        """
        return self._act(actions.merge_branch.merge_branch, actions.merge_branch.MergeBranch, locals())

    def branches(self) -> pa.Table:
        """Branches by name; columns as in the system table `$branches`."""
        return inspect.branch_table(self._handle)

    # ── consumers ───────────────────────────────────────────────────────────────────────────────

    def consumers(self) -> pa.Table:
        """Consumers, and the snapshot that each will read next; columns as in the system table `$consumers`."""
        return inspect.consumer_table(self._handle)

    def reset_consumer(
        self, name: str, next_snapshot: int | None = None, *, quarantine: bool = False
    ) -> actions.consumers.ConsumersResult:
        """Lets a consumer continue from a snapshot; without one it is deleted, or quarantined.

        Raises: InvalidArgumentError, NotFoundError.
        """
        return self._act(actions.consumers.reset_consumer, actions.consumers.ResetConsumer, locals(), consumer=name)

    def clear_consumers(
        self, including: str = ".*", excluding: str | None = None, *, dry_run: bool = False, quarantine: bool = False
    ) -> actions.consumers.ConsumersResult:
        """Deletes consumers whose full names match one regular expression, and not the other.

        Raises: InvalidArgumentError.
        """
        return self._act(actions.consumers.clear_consumers, actions.consumers.ClearConsumers, locals())

    def expire_consumers(
        self, older_than: MomentLike | None = None, *, dry_run: bool = False, quarantine: bool = False
    ) -> actions.consumers.ConsumersResult:
        """Forgets consumers that have not moved since then, or for `consumer.expiration-time`.

        Raises: InvalidArgumentError.
        """
        return self._act(actions.consumers.expire_consumers, actions.consumers.ExpireConsumers, locals())
