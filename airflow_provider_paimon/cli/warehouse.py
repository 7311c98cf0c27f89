"""The warehouse that a command is about."""

from __future__ import annotations

from airflow.exceptions import AirflowNotFoundException
from airflow.models.connection import Connection

from airflow_provider_paimon.hooks.paimon import PaimonHook


def hook_of(conn_id: str | None, warehouse: str | None) -> PaimonHook:
    """The warehouse of a connection, as secrets backends, the environment and Airflow's database know it.

    Raises: AirflowNotFoundException for a connection that none of them has, unless it is the default one.
    """
    hook = PaimonHook(conn_id, warehouse)
    if conn_id is None and warehouse is not None:
        return hook
    # Hooks get connections from the task's supervisor, which a command does not have.
    try:
        hook.use_connection(Connection.get_connection_from_secrets(conn_id or hook.default_conn_name))
    except AirflowNotFoundException as error:
        if conn_id is not None:
            raise AirflowNotFoundException(
                f"the connection {conn_id} is not defined: airflow paimon init --conn-id {conn_id} --warehouse ADDRESS "
                "defines it"
            ) from error
        hook.use_connection(None)
    return hook
