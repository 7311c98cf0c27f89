"""Branches, as operators: write to one beside the table, check it, then let the table go on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_paimon.operators.job import PaimonDeletingOperator, PaimonJobOperator
from airflow_provider_paimon.rendered import flag, number, text


class PaimonCreateBranchOperator(PaimonJobOperator):
    """Makes a branch of a tag or a snapshot, or an empty one.

    Args:
        branch: its name.
        tag: name of the tag to begin with.
        snapshot: instead, id of the snapshot to begin with.
        if_exists: `error` fails if the branch exists; `ignore` leaves it as it is.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "branch", "tag", "snapshot", "if_exists")

    def __init__(
        self,
        *,
        branch: str,
        tag: str | None = None,
        snapshot: int | str | None = None,
        if_exists: str = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(action="create_branch", **kwargs)
        self.branch = branch
        self.tag = tag
        self.snapshot = snapshot
        self.if_exists = if_exists

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "branch": self.branch,
            "tag": text(self.tag),
            "snapshot": number("snapshot", self.snapshot),
            "if_exists": self.if_exists,
        }


class PaimonDeleteBranchOperator(PaimonDeletingOperator):
    """Deletes a branch, and the files that only it needed. A branch that is not there counts as deleted.

    Args:
        branch: its name.
        dry_run: say what would be deleted, and delete nothing.
    """

    template_fields: Sequence[str] = (*PaimonDeletingOperator.template_fields, "branch", "dry_run")

    def __init__(self, *, branch: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="delete_branch", **kwargs)
        self.branch = branch
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"branch": self.branch, "dry_run": flag("dry_run", self.dry_run), **self.disposal_arguments()}


class PaimonRenameBranchOperator(PaimonJobOperator):
    """Gives a branch another name.

    Args:
        branch: its name.
        to: its new name.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "branch", "to")

    def __init__(self, *, branch: str, to: str, **kwargs: Any) -> None:
        super().__init__(action="rename_branch", **kwargs)
        self.branch = branch
        self.to = to

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"branch": self.branch, "to": self.to}


class PaimonFastForwardOperator(PaimonDeletingOperator):
    """Makes the table what a branch of it is; what the table had since the branch began goes.

    Args:
        branch: the branch's name.
        dry_run: say what would be deleted, and change nothing.
    """

    template_fields: Sequence[str] = (*PaimonDeletingOperator.template_fields, "branch", "dry_run")

    def __init__(self, *, branch: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="fast_forward", **kwargs)
        self.branch = branch
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"branch": self.branch, "dry_run": flag("dry_run", self.dry_run), **self.disposal_arguments()}


class PaimonMergeBranchOperator(PaimonJobOperator):
    """Brings what a branch has changed into the table, in one commit; fails where both have changed the same bucket.

    Args:
        branch: the branch's name.
        dry_run: say what would be merged and what is in the way, and change nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "branch", "dry_run")

    def __init__(self, *, branch: str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="merge_branch", **kwargs)
        self.branch = branch
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"branch": self.branch, "dry_run": flag("dry_run", self.dry_run)}
