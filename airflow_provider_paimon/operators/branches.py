"""Branches, as operators: write to one, check it, then let the table continue from there."""

from __future__ import annotations

from typing import Any

from airflow_provider_paimon.operators.job import PaimonActionOperator, PaimonDeletingOperator


class PaimonCreateBranchOperator(PaimonActionOperator):
    """Makes a branch of a tag or a snapshot, or an empty one.

    Args:
        branch: its name.
        tag: name of the tag to begin with.
        snapshot: instead, id of the snapshot to begin with.
        if_exists: `error` fails if the branch exists; `ignore` does not change it.
    """

    action_name = "create_branch"

    def __init__(
        self,
        *,
        branch: str,
        tag: str | None = None,
        snapshot: int | str | None = None,
        if_exists: str = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonDeleteBranchOperator(PaimonDeletingOperator):
    """Deletes a branch, and the files that only it needed. A branch that is not there counts as deleted.

    Args:
        branch: its name.
        dry_run: say what would be deleted, and delete nothing.
    """

    action_name = "delete_branch"

    def __init__(self, *, branch: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonRenameBranchOperator(PaimonActionOperator):
    """Gives a branch another name.

    Args:
        branch: its name.
        to: its new name.
    """

    action_name = "rename_branch"

    def __init__(self, *, branch: str, to: str, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonFastForwardOperator(PaimonDeletingOperator):
    """Sets the table to the state of a branch; what was committed to the table since the branch began is deleted.

    Args:
        branch: the branch's name.
        dry_run: say what would be deleted, and change nothing.
    """

    action_name = "fast_forward"

    def __init__(self, *, branch: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonMergeBranchOperator(PaimonActionOperator):
    """Brings what a branch has changed into the table, in one commit; fails where both have changed the same bucket.

    Args:
        branch: the branch's name.
        dry_run: say what would be merged and what is in the way, and change nothing.
    """

    action_name = "merge_branch"

    def __init__(self, *, branch: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
