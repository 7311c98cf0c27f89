"""`@task.paimon_write`: what a function returns is written into a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    TaskDecorator,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)

from airflow_provider_paimon.hooks.paimon import PaimonHook
from airflow_provider_paimon.transfers.table_transfer import PaimonRowsTransfer


class PaimonWriteDecoratedOperator(DecoratedOperator, PaimonRowsTransfer):
    """Calls the function and writes what it returns: an Arrow table or reader, or a data frame of pandas or polars."""

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *PaimonRowsTransfer.template_fields)
    template_fields_renderers: Mapping[str, str] = {
        **DecoratedOperator.template_fields_renderers,
        **PaimonRowsTransfer.template_fields_renderers,
    }
    custom_operator_name = "@task.paimon_write"

    def execute(self, context: Any) -> dict[str, Any]:
        """Calls the function, and writes; returns what the write did."""
        return PaimonRowsTransfer.execute(self, context)

    def work(self) -> Mapping[str, Any]:
        """The arguments of the function, if it has any, and what it replaces."""
        if not (self.op_args or self.op_kwargs):
            return {}
        return {"op_args": self.op_args, "op_kwargs": self.op_kwargs, "overwrite": self.overwrite}

    def transfer(self, hook: PaimonHook, context: Mapping[str, Any]) -> dict[str, Any]:
        """Writes what the function returns."""
        table, attempt = self.opened(hook), self.attempt(context)
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        return self.written(table, self.python_callable(*self.op_args, **arguments), attempt)


def paimon_write_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """A task that writes what the function returns into a table, once for its attempts.

        @task.paimon_write(table="shop.orders", paimon_conn_id="lake")
        def orders(): return pa.table({...})

    Takes the arguments of `PaimonRowsTransfer`: `table`, the connection, `overwrite`, `columns` and `create`,
    `idempotency_key`, `on_clear` and `force_rerun`.
    """
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=PaimonWriteDecoratedOperator, **kwargs
    )
