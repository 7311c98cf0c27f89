"""Where a job runs and what it may take there: decided before anything starts, and said in one line of the task's log.

Work on metadata runs in the task's own process. Work on rows is planned first, from metadata alone: what reads fewer
bytes than a limit stays in the task's process, too, since a Spark takes longer to start than such work takes; the rest
runs on Spark. With a connection to a Spark all work on rows runs there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_paimon import engine
from airflow_provider_paimon.environment import environment
from airflow_provider_paimon.rendered import templates, text
from paimon_engine.errors import InvalidArgumentError

CLUSTERS: Final = {
    "spark_submit": ("spark", "a cluster that takes spark-submit"),
    "spark_connect": ("spark_connect", "a Spark Connect server"),
}
"""Launchers on clusters, each with the type of its connections."""
PLACES: Final = ("auto", "in_process", "subprocess", *CLUSTERS)
SECTION: Final = "paimon"
"""Section of Airflow's configuration."""
IN_PROCESS_LIMIT: Final = "256 mb"
"""About what is done before an embedded Spark has started; measured, see docs/sizing.md."""
OPTIONS: Final = ("in_process_limit", "local_cores", "memory", "spark_conf")
"""What operators, connections and the configuration may say, by the same names."""

_OPERATOR: Final = "the operator"
_TASK_MEMORY: Final = "task_memory_bytes"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job runs, and why: `in_process`, `subprocess`, one of CLUSTERS, or `cluster`, by its connection."""

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What operator, connection and configuration say together; `by_operator` names what the operator says."""

    resources: engine.Resources
    by_operator: frozenset[str] = frozenset()

    @property
    def limit_bytes(self) -> int:
        """Work on fewer bytes stays in the task's process."""
        limit = self.resources.in_process_limit
        assert limit is not None, "it has a default"
        return limit


def wanted_resources(operator: Mapping[str, Any], extra: Mapping[str, Any]) -> Wanted:
    """What a job may take: each option as the operator says, else the connection's extra, else the configuration.

    Raises: InvalidArgumentError naming the option, its value and its source.
    """
    found: dict[str, Any] = {}
    by_operator = set()
    for name in OPTIONS:
        for source, value in (
            (_OPERATOR, operator.get(name)),
            ("the connection's extra", extra.get(name)),
            (f"the configuration, section [{SECTION}]", conf.get(SECTION, name, fallback=None)),
        ):
            if _is_given(value):
                found[name] = _read(name, value, source)
                if source == _OPERATOR:
                    by_operator.add(name)
                break
    found.setdefault("in_process_limit", IN_PROCESS_LIMIT)
    return Wanted(engine.decode(engine.Resources, found, name="resources"), frozenset(by_operator))


def _is_given(value: Any) -> bool:
    return value is not None and (not isinstance(value, str) or text(value) is not None)


def _read(name: str, value: Any, source: str) -> Any:
    """The value of one option, checked. Raises: InvalidArgumentError."""
    if name == "spark_conf" and isinstance(value, Mapping):
        value = {key: item if isinstance(item, str) else json.dumps(item) for key, item in value.items()}
    try:
        return getattr(engine.decode(engine.Resources, {name: value}, edge=templates()), name)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{source}: {error}") from error


def with_task_memory(job_action: engine.Action, wanted: Wanted) -> Mapping[str, int]:
    """The field of the action that limits the memory of its tasks, where it has one that is not given."""
    memory = wanted.resources.memory
    has_limit = getattr(job_action, _TASK_MEMORY, memory) is None
    return {_TASK_MEMORY: memory} if memory is not None and has_limit else {}


def place(
    job: engine.Job, secrets: Mapping[str, str], wanted: Wanted, launcher: str, spark_conn_id: str | None
) -> Placement:
    """Where the job runs, which is logged with the reason; nothing is started, and nothing written.

    Raises: InvalidArgumentError for an unknown launcher, or an option that has no effect there; PaimonError of all
    kinds if the job cannot be planned.
    """
    if launcher not in PLACES:
        raise InvalidArgumentError(f"launcher={launcher!r}; choose one of {', '.join(PLACES)}")
    with environment(secrets):
        # A mistake that can be found now should not cost the start of Spark.
        engine.check_job(job)
    placement = _chosen(job, secrets, wanted, launcher, spark_conn_id)
    logger.info("%s", placement.why)
    return placement


def _chosen(
    job: engine.Job, secrets: Mapping[str, str], wanted: Wanted, launcher: str, spark_conn_id: str | None
) -> Placement:
    """The launcher that was requested, or with `auto` the one that suits the job, with the reason as a text.

    Raises: InvalidArgumentError if a cluster has no connection, or an option has no effect there.
    """
    if launcher == "auto":
        placement = _planned(job, secrets, wanted, spark_conn_id)
        if placement.where != "cluster":
            return placement
        placement = replace(placement, where=_cluster_of(spark_conn_id))
        _check_effect(job, wanted, placement.where, f"spark_conn_id={spark_conn_id!r}", limit_matters=True)
        return placement
    if launcher in CLUSTERS and not spark_conn_id:
        raise InvalidArgumentError(
            f"launcher={launcher!r} needs spark_conn_id, a connection of type {CLUSTERS[launcher][0]}"
        )
    _check_effect(job, wanted, launcher, f"launcher={launcher!r}", limit_matters=False)
    return Placement(launcher, f"{engine.name_of(job.action)}: {_named(launcher, spark_conn_id)}, as launcher= says")


def _planned(job: engine.Job, secrets: Mapping[str, str], wanted: Wanted, spark_conn_id: str | None) -> Placement:
    """Where `auto` runs a job: on metadata here, on rows where the connection says, or by the bytes to be read.

    Only the last case plans the job, which reads metadata; `cluster` means whichever kind the connection has.
    """
    name, on_spark = engine.name_of(job.action), "cluster" if spark_conn_id else "subprocess"
    here, there = _named("in_process", None), _named(on_spark, spark_conn_id)
    if not engine.ACTIONS[name].on_tasks:
        how = "passes rows through one process" if engine.ACTIONS[name].is_stream else "works on metadata"
        return Placement("in_process", f"{name} {how}: {here}{_without_spark(wanted)}")
    if spark_conn_id and "in_process_limit" not in wanted.by_operator:
        return Placement("cluster", f"{name} works on rows: {there}")
    with environment(secrets):
        planned = engine.planned_bytes(job)
    if planned is None:
        return Placement(on_spark, f"how much {name} has to read is not known before: {there}")
    size, limit = f"{engine.size_text(planned)} to {_verb(job)}", engine.size_text(wanted.limit_bytes)
    is_dry = getattr(job.action, "dry_run", False)
    if is_dry or planned < wanted.limit_bytes:
        why = "a dry run reads metadata only" if is_dry else f"{size}, below {limit}"
        return Placement("in_process", f"{name}: {why}: {here}{_without_spark(wanted)}")
    return Placement(on_spark, f"{name}: {size}, not below {limit}: {there}")


def _cluster_of(conn_id: str | None) -> str:
    """The launcher for a connection's type; `cluster` where that is not known, which the launcher's choice refuses."""
    try:
        found = BaseHook.get_connection(conn_id or "").conn_type
    except AirflowNotFoundException:
        return "cluster"
    return next((name for name, (conn_type, _) in CLUSTERS.items() if conn_type == found), "cluster")


def _verb(job: engine.Job) -> str:
    return "rewrite" if hasattr(job.action, "max_bytes") else "read"


def _named(where: str, spark_conn_id: str | None) -> str:
    names = {"in_process": "in this process", "subprocess": "on an embedded Spark, in a separate process"}
    return names.get(where, f"on the Spark of the connection {spark_conn_id}")


def _without_spark(wanted: Wanted) -> str:
    """A warning for options of Spark where there is none: they were given and have no effect."""
    idle = sorted(wanted.by_operator & {"spark_conf"})
    return f" (without Spark, {' and '.join(idle)} has no effect)" if idle else ""


def _check_effect(job: engine.Job, wanted: Wanted, where: str, what: str, *, limit_matters: bool) -> None:
    """Raises InvalidArgumentError for options of the operator that have no effect with that launcher."""
    idle = {}
    if not limit_matters:
        idle["in_process_limit"] = "the limit chooses for launcher='auto' only"
    if where == "in_process":
        idle["spark_conf"] = "there is no Spark"
    if where not in ("in_process", "subprocess"):
        idle["local_cores"] = "the work is not done on this machine; set the cores of that Spark"
    if where not in ("subprocess", "spark_submit") and not hasattr(job.action, _TASK_MEMORY):
        idle["memory"] = f"it limits the driver that is started and compactions, not {engine.name_of(job.action)} there"
    for name, reason in idle.items():
        if name in wanted.by_operator:
            raise InvalidArgumentError(f"{name} has no effect with {what}: {reason}; leave one of them out")
