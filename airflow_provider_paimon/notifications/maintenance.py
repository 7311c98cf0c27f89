"""A notifier that says what a run has done to tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from airflow.sdk import BaseNotifier
from airflow.sdk.log import redact

from airflow_provider_paimon.returned import returned_by
from airflow_provider_paimon.summary import is_result, summary_line

_SUCCESS: Final = "success"
"""What Airflow calls a DAG's callback with where no task has failed."""


class PaimonMaintenanceNotifier(BaseNotifier):
    """Says what the tasks of a run did to tables, in one line each; as a callback of a DAG or of its last task.

    `on_success_callback=PaimonMaintenanceNotifier()` writes it into the log. `send` passes it on: it is given the text,
    and gives another notifier, or None if it has sent it itself:

        PaimonMaintenanceNotifier(send=lambda text: SlackWebhookNotifier(text=text))

    As `on_failure_callback` it also says what has failed, of a task with the error, and sends that in any case.

    Args:
        send: what becomes of the text.
        title: first line, a template.
        only_changes: leave out tasks that had nothing to do, and say nothing if all had not.
    """

    template_fields: Sequence[str] = ("title",)

    def __init__(
        self,
        send: Callable[[str], Any] | None = None,
        *,
        title: str = "{{ dag.dag_id }}, run {{ run_id }}",
        only_changes: bool = False,
    ) -> None:
        super().__init__()
        self.send = send
        self.title = title
        self.only_changes = only_changes

    def notify(self, context: Any) -> None:
        """Makes the text and sends it."""
        lines = [*_failure(context), *(summary_line(item) for item in self.results(context))]
        if not lines:
            self.log.info("No task of this run changed a table")
            return
        text = "\n".join([self.title, *lines])
        if self.send is None:
            self.log.info("%s", text)
            return
        further = self.send(text)
        if further is not None:
            further.notify(context)

    def results(self, context: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """What tasks of the run returned, of operators of this provider; of mapped ones each."""
        dag, instance = context.get("dag"), context.get("ti") or context.get("task_instance")
        if dag is None or instance is None:
            return
        returned = returned_by(instance, sorted(dag.task_ids))
        for item in (one for found in returned for one in (found if isinstance(found, list) else [found])):
            if is_result(item) and not (self.only_changes and item["status"] in ("noop", "dry_run")):
                yield item


def _failure(context: Mapping[str, Any]) -> Iterator[str]:
    """What Airflow says of a failure to a callback: of a task its error, of a DAG a reason such as `task_failure`."""
    error, reason = context.get("exception"), context.get("reason")
    if error is not None:
        name = getattr(context.get("ti") or context.get("task_instance"), "task_id", "a task")
        yield f"{name} failed: {redact(' '.join(str(error).split()) or type(error).__name__)}"
    elif reason not in (None, _SUCCESS):
        yield f"the run failed: {reason}"
