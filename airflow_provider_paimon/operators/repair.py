"""Mending tables, emptying them, and bringing back what was moved aside, as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_paimon.operators.job import PaimonDeletingOperator, PaimonJobOperator
from airflow_provider_paimon.rendered import decimal_number, flag, moment_ms, number, text


class PaimonRestoreOperator(PaimonJobOperator):
    """Undoes a deletion that moved its files aside (`quarantine=True`).

    Args:
        quarantine: the name that the result of the deletion gave.
        as_tags: bring versions back as tags `restored-…`, whatever has taken their place.
        dry_run: say what would come back, and move nothing.
        files_per_second: move no more files than this in a second.
        parallelism: move with no more workers than this.
    """

    template_fields: Sequence[str] = (
        *PaimonJobOperator.template_fields,
        *("quarantine", "as_tags", "dry_run", "files_per_second", "parallelism"),
    )

    def __init__(
        self,
        *,
        quarantine: str,
        as_tags: bool | str = False,
        dry_run: bool | str = False,
        files_per_second: float | str | None = None,
        parallelism: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="restore", **kwargs)
        self.quarantine = quarantine
        self.as_tags = as_tags
        self.dry_run = dry_run
        self.files_per_second = files_per_second
        self.parallelism = parallelism

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "quarantine": self.quarantine,
            "as_tags": flag("as_tags", self.as_tags),
            "dry_run": flag("dry_run", self.dry_run),
            "files_per_second": decimal_number("files_per_second", self.files_per_second),
            "parallelism": number("parallelism", self.parallelism),
        }


class PaimonEmptyQuarantineOperator(PaimonJobOperator):
    """Deletes for good what was moved aside.

    Args:
        quarantine: name of one quarantine.
        older_than: instead, all that are older: a datetime, an ISO time, an age (timedelta, or a text such as `7 d`);
            30 days by default.
        dry_run: say what would be deleted, and delete nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "quarantine", "older_than", "dry_run")

    def __init__(
        self,
        *,
        quarantine: str | None = None,
        older_than: datetime | timedelta | int | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="empty_quarantine", **kwargs)
        self.quarantine = quarantine
        self.older_than = older_than
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "quarantine": text(self.quarantine),
            "older_than_ms": moment_ms("older_than", self.older_than),
            "dry_run": flag("dry_run", self.dry_run),
        }


class PaimonPurgeFilesOperator(PaimonDeletingOperator):
    """Empties a table: rows, older snapshots, tags, branches, consumers and all their files go; the schema stays.

    Args:
        keep_tags: leave tags and the files that they reach.
        keep_branches: leave branches and the files that they reach.
        older_than: files that nothing names go only if they are older; a day by default.
        dry_run: say what would go, and change nothing.
    """

    template_fields: Sequence[str] = (
        *PaimonDeletingOperator.template_fields,
        *("keep_tags", "keep_branches", "older_than", "dry_run"),
    )

    def __init__(
        self,
        *,
        keep_tags: bool | str = False,
        keep_branches: bool | str = False,
        older_than: datetime | timedelta | int | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(action="purge_files", **kwargs)
        self.keep_tags = keep_tags
        self.keep_branches = keep_branches
        self.older_than = older_than
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "keep_tags": flag("keep_tags", self.keep_tags),
            "keep_branches": flag("keep_branches", self.keep_branches),
            "older_than_ms": moment_ms("older_than", self.older_than),
            "dry_run": flag("dry_run", self.dry_run),
            **self.disposal_arguments(),
        }


class PaimonRemoveUnexistingFilesOperator(PaimonJobOperator):
    """Takes data files that are gone out of a table's lists, so that the rest can be read; their rows are lost.

    Args:
        dry_run: say what is gone, and change nothing.
        parallelism: look into no more directories at a time than this.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "dry_run", "parallelism")

    def __init__(self, *, dry_run: bool | str = False, parallelism: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(action="remove_unexisting_files", **kwargs)
        self.dry_run = dry_run
        self.parallelism = parallelism

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "dry_run": flag("dry_run", self.dry_run),
            "parallelism": number("parallelism", self.parallelism),
        }


class PaimonRemoveUnexistingManifestsOperator(PaimonJobOperator):
    """Takes manifests that are gone out of a table's lists; what they alone named is lost.

    Args:
        dry_run: say what is gone, and change nothing.
    """

    template_fields: Sequence[str] = (*PaimonJobOperator.template_fields, "dry_run")

    def __init__(self, *, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="remove_unexisting_manifests", **kwargs)
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {"dry_run": flag("dry_run", self.dry_run)}


class PaimonRepairEarliestSnapshotOperator(PaimonDeletingOperator):
    """Lets a table begin behind a gap in its snapshots, or behind a damaged one; those before it go.

    Args:
        snapshot: id of the one that should be the first; it is found without.
        dry_run: say what would go, and change nothing.
    """

    template_fields: Sequence[str] = (*PaimonDeletingOperator.template_fields, "snapshot", "dry_run")

    def __init__(self, *, snapshot: int | str | None = None, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(action="repair_earliest_snapshot", **kwargs)
        self.snapshot = snapshot
        self.dry_run = dry_run

    def action_arguments(self, context: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of the action."""
        return {
            "snapshot": number("snapshot", self.snapshot),
            "dry_run": flag("dry_run", self.dry_run),
            **self.disposal_arguments(),
        }
