"""Verifying tables, and removing files that nothing names, as operators."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_paimon.operators.job import PaimonActionOperator, PaimonDeletingOperator
from airflow_provider_paimon.rendered import flag, structure

_PROBLEMS_SHOWN: Final = 5


class PaimonRemoveOrphanFilesOperator(PaimonDeletingOperator):
    """Deletes old files that no snapshot, tag, branch or changelog names: such as those that killed jobs left.

    Args:
        older_than: only files that are older: a datetime, an ISO time, an age (timedelta, or a text such as `3 d`);
            a day by default. It must be longer than any job runs.
        dry_run: say what would be deleted, and delete nothing.
        confirm_latest_snapshot: confirm that this is the number of the table's latest snapshot (0: it has none)
            and that all versions are visible; for a single run, if the result's `stopped` requires it.
    """

    action_name = "remove_orphan_files"

    def __init__(
        self,
        *,
        older_than: datetime | timedelta | int | str | None = None,
        dry_run: bool | str = False,
        confirm_latest_snapshot: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fields=locals(), **kwargs)


class PaimonVerifyOperator(PaimonActionOperator):
    """Checks that a table is complete and not damaged, and fails if something is wrong. Nothing is written.

    Args:
        depth: `metadata`, `files` or `rows`: how much is checked.
        fail_on_problems: fail the task, without another try; else the result has the problems.
    """

    action_name = "verify"
    more_templates = ("fail_on_problems",)

    def __init__(self, *, depth: str = "files", fail_on_problems: bool | str = True, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
        self.fail_on_problems = fail_on_problems

    def execute(self, context: Any) -> dict[str, Any]:
        """Runs the job.

        Raises: AirflowFailException naming the first problems.
        """
        result = super().execute(context)
        problems = result["details"]["problems"]
        if problems and flag("fail_on_problems", self.fail_on_problems):
            some = "; ".join(f"{item['where']}: {item['what']}" for item in problems[:_PROBLEMS_SHOWN])
            raise AirflowFailException(f"{self.table} is damaged, {len(problems)} problems: {some}")
        return result


class PaimonCompatibilityOperator(PaimonActionOperator):
    """Says which engines and releases read the table right, wrongly or not at all, why, and what to change for them.

    Args:
        must_read: names of engines, as in the result, that must read the table right; else the task fails, without
            another try.
    """

    action_name = "compatibility"
    more_templates = ("must_read",)

    def __init__(self, *, must_read: list[str] | str | None = None, **kwargs: Any) -> None:
        super().__init__(fields=locals(), **kwargs)
        self.must_read = must_read

    def execute(self, context: Any) -> dict[str, Any]:
        """Runs the job.

        Raises: AirflowFailException naming the engines that do not read the table right, or that are not known.
        """
        wanted = structure("must_read", self.must_read, list) or []
        result = super().execute(context)
        known = {one["engine"]: one for one in result["details"]["engines"]}
        if unknown := [name for name in wanted if name not in known]:
            raise AirflowFailException(f"must_read: nothing is known of {unknown}; there are {', '.join(known)}")
        if left := [known[name] for name in wanted if known[name]["reads"] != "right"]:
            why = "; ".join(
                f"{one['engine']}: {one['reasons'][0]['what']}, {one['reasons'][0]['change']}" for one in left
            )
            raise AirflowFailException(f"{self.table} is not read right by all that must read it: {why}")
        return result
