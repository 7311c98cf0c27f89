"""A notifier that says what a run has done to tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_provider_paimon.returned import returned_by
from airflow_provider_paimon.summary import is_result, summary_line


class PaimonMaintenanceNotifier(BaseNotifier):
    """Says what the tasks of a run did to tables, in one line each; as a callback of a DAG or of its last task.

    `on_success_callback=PaimonMaintenanceNotifier()` writes it into the log. `send` passes it on: it is given the text,
    and gives another notifier, or None if it has sent it itself:

        PaimonMaintenanceNotifier(send=lambda text: SlackWebhookNotifier(text=text))

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
        lines = [summary_line(item) for item in self.results(context)]
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
