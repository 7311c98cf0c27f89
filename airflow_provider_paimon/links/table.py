"""The link from a task to its table."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException

from paimon_engine.errors import InvalidArgumentError, PaimonError

if TYPE_CHECKING:
    from airflow_provider_paimon.operators.job import PaimonJobOperator

_PARTS: Final = ("conn_id", "warehouse", "database", "table", "path", "snapshot_id")

logger = logging.getLogger(__name__)


class PaimonTableLink(BaseOperatorLink):
    """Leads to the table in a data catalog, or says where its directory is.

    The option `[paimon] table_url` is the address of tables in your data catalog or file browser, with placeholders for
    `{conn_id}`, `{warehouse}`, `{database}`, `{table}`, `{path}` and `{snapshot_id}`. Without it the link is the
    table's directory, such as `s3://lake/shop.db/orders`.
    """

    name = "Paimon table"

    def get_link(self, operator: PaimonJobOperator, *, ti_key: Any) -> str:  # noqa: ARG002
        """The address; requested once the task has ended, also by an error, and stored by Airflow.

        It is empty where there is no table: then the error of the task says why, and should be the last one in its log.

        Raises: InvalidArgumentError if `table_url` has an unknown placeholder.
        """
        template = conf.get("paimon", "table_url", fallback="")
        try:
            hook, name = operator.hook(), operator.table
            path = hook.table(name).path
        except (PaimonError, AirflowException, OSError) as error:
            logger.debug("There is no link to the table: %s", error)
            return ""
        if not template:
            return path if "://" in path else Path(path).absolute().as_uri()
        database, _, table = ("", "", "") if "/" in name else name.partition(".")
        values = {
            "conn_id": hook.paimon_conn_id or hook.default_conn_name,
            "warehouse": path if "/" in name else hook.warehouse,
            "database": database,
            "table": table or name,
            "path": path,
            "snapshot_id": operator.last_snapshot_id,
        }
        try:
            return str(template).format_map({part: quote(str(value or ""), safe="") for part, value in values.items()})
        except (KeyError, ValueError, IndexError) as error:
            placeholders = ", ".join(f"{{{part}}}" for part in _PARTS)
            raise InvalidArgumentError(
                f"[paimon] table_url = {template!r} cannot be filled in ({error}); it may have {placeholders}"
            ) from error
