"""Facts for OpenLineage: the tables that operators read and wrote, columns, amounts, and the version that resulted.

A table is the dataset `shop.orders` of the namespace `paimon://lake`, as its asset is; a symlink names its directory,
which Spark and others use. Nothing of OpenLineage is imported before its provider asks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from airflow_provider_paimon.assets import CHANGES_ROWS, MAKES_TAGS, UNCHANGED, TableAddress
from airflow_provider_paimon.hooks.paimon import PaimonHook
from paimon_engine.errors import PaimonError, masked

if TYPE_CHECKING:
    from airflow_provider_paimon import engine

_REWRITES: Final = frozenset(
    {"compact", "compact_chain_table", "cluster", "rescale", "rewrite_file_index", "compact_manifests", "delete_rows"}
)
"""Actions that read the table's rows, and write them in another form."""
_ONLY_READS: Final = frozenset({"compatibility", "verify"})
_LIFE_CYCLE: Final[Mapping[str, str]] = {"alter_table": "ALTER", "purge_files": "TRUNCATE"}

logger = logging.getLogger(__name__)


def lineage(
    hook: PaimonHook,
    table: str,
    action: str,
    *,
    sources: Sequence[str] = (),
    source_table: tuple[PaimonHook, str] | None = None,
    is_overwrite: bool = False,
    result: engine.JobResult | None = None,
) -> Any:
    """The `OperatorLineage` of a task; with a `result` when it has ended, which may have changed nothing.

    `source_table` is another table that was read, with its warehouse. Looks at the schemas of the tables; where that
    fails, as for a table that does not exist yet, only names are reported.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage

    seen = _Table(hook, table)
    inputs = list(_source_datasets(sources))
    if source_table is not None:
        read = None if result is None else result.details.get("source_snapshot_id")
        inputs.append(_Table(*source_table).as_input(read))
    if action in _REWRITES | _ONLY_READS:
        inputs.append(seen.as_input())
    has_changed = result is None or result.status not in UNCHANGED
    if action in _ONLY_READS or not has_changed:
        return OperatorLineage(inputs=inputs)
    return OperatorLineage(
        inputs=inputs, outputs=[seen.as_output(result, _life_cycle(action, is_overwrite=is_overwrite))]
    )


def read_lineage(
    hook: PaimonHook, table: str, *, targets: Sequence[str] = (), result: engine.JobResult | None = None
) -> Any:
    """The `OperatorLineage` of a task that reads the table and writes files; with a `result` when it has ended."""
    from airflow.providers.common.compat.openlineage.facet import OutputDataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    seen = _Table(hook, table)
    counted = {} if result is None else _statistics(result)
    outputs = [OutputDataset(*_place(target), outputFacets=counted) for target in targets]
    is_left = result is not None and result.status == "exists"
    snapshot_id = None if result is None else result.snapshot_id
    return OperatorLineage(inputs=[seen.as_input(snapshot_id)], outputs=[] if is_left else outputs)


def with_query(lineage: Any, conn_id: str, sql: str) -> Any:
    """The `OperatorLineage` of a task with what its query reads as further inputs, and the query as the job's facet.

    The hook's own support of OpenLineage says what they are called; hooks without it, such as that of SQLite, add
    nothing.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage

    found = _parsed(conn_id, sql)
    if found is None:
        return lineage
    return OperatorLineage(
        inputs=[*lineage.inputs, *found.inputs],
        outputs=lineage.outputs,
        run_facets={**lineage.run_facets, **found.run_facets},
        job_facets={**lineage.job_facets, **found.job_facets},
    )


def with_sql_target(lineage: Any, conn_id: str, target: str, result: engine.JobResult | None) -> Any:
    """The `OperatorLineage` of a task with the database's table that it inserts rows into as an output."""
    from airflow.providers.common.compat.openlineage.facet import OutputDataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    # The parser of SQL knows the database's rules for names; this statement is never executed.
    found = _parsed(conn_id, f"INSERT INTO {target} VALUES (1)")  # noqa: S608 - read, not run
    counted = {} if result is None else _statistics(result)
    outputs = [
        OutputDataset(table.namespace, table.name, facets=table.facets, outputFacets=counted)
        for table in (() if found is None else found.outputs)
    ]
    return OperatorLineage(inputs=lineage.inputs, outputs=[*lineage.outputs, *outputs])


def _parsed(conn_id: str, sql: str) -> Any:
    """What OpenLineage's provider knows of a statement; None where the hook has no support, or that fails.

    The columns of tables are those in the database, unless the configuration of OpenLineage forbids to ask it.
    """
    from airflow.providers.openlineage.sqlparser import get_openlineage_facets_with_sql
    from airflow.providers.openlineage.utils.utils import should_use_external_connection
    from airflow.sdk import BaseHook

    try:
        hook = BaseHook.get_connection(conn_id).get_hook()
        asks = should_use_external_connection(hook)
        return get_openlineage_facets_with_sql(hook, sql, conn_id, database=None, use_connection=asks)
    except Exception as error:  # noqa: BLE001 - drivers raise anything, and the rest of the lineage is still true
        logger.info("Lineage names no table of the connection %s: %s", conn_id, masked(str(error)))
        return None


def _life_cycle(action: str, *, is_overwrite: bool) -> str | None:
    return "OVERWRITE" if is_overwrite and action in CHANGES_ROWS else _LIFE_CYCLE.get(action)


class _Table:
    """The table as a dataset."""

    def __init__(self, hook: PaimonHook, table: str) -> None:
        self.namespace, self.name = _named(hook, table)
        self.columns: list[Any] | None = None
        self.comment: str | None = None
        self.path: str | None = None
        try:
            self.path = hook.table(table).path
            schemas = hook.table(f"{table.rstrip('/')}$schemas").to_arrow(["fields", "comment"]).to_pylist()
            self.columns, self.comment = json.loads(schemas[-1]["fields"]), schemas[-1]["comment"]
        except (PaimonError, OSError) as error:
            logger.info("Lineage names no columns of %s: %s", table, masked(str(error)))

    def as_input(self, snapshot_id: int | None = None) -> Any:
        """The table as it is read, at a snapshot if that is known."""
        from airflow.providers.common.compat.openlineage.facet import InputDataset

        facets = self._facets()
        if snapshot_id is not None:
            facets["version"] = _version(snapshot_id)
        return InputDataset(self.namespace, self.name, facets=facets)

    def as_output(self, result: engine.JobResult | None, life_cycle: str | None) -> Any:
        """The table as it came out, with what was written into it."""
        from airflow.providers.common.compat.openlineage.facet import (
            LifecycleStateChange,
            LifecycleStateChangeDatasetFacet,
            OutputDataset,
        )

        facets, counted = self._facets(), {}
        if life_cycle is not None:
            facets["lifecycleStateChange"] = LifecycleStateChangeDatasetFacet(LifecycleStateChange[life_cycle])
        if result is not None:
            counted = _statistics(result)
            if result.snapshot_id is not None:
                facets["version"] = _version(result.snapshot_id)
        return OutputDataset(self.namespace, self.name, facets=facets, outputFacets=counted)

    def _facets(self) -> dict[str, Any]:
        """The facets that describe the table itself; its path is a symlink where the dataset is named by a catalog."""
        from airflow.providers.common.compat.openlineage.facet import (
            DocumentationDatasetFacet,
            Identifier,
            SchemaDatasetFacet,
            SymlinksDatasetFacet,
        )

        facets: dict[str, Any] = {}
        if self.columns is not None:
            facets["schema"] = SchemaDatasetFacet(fields=[_column(field) for field in self.columns])
        if self.comment:
            facets["documentation"] = DocumentationDatasetFacet(description=self.comment)
        if self.path is not None and _place(self.path) != (self.namespace, self.name):
            namespace, name = _place(self.path)
            facets["symlinks"] = SymlinksDatasetFacet(identifiers=[Identifier(namespace, name, "TABLE")])
        return facets


def _named(hook: PaimonHook, table: str) -> tuple[str, str]:
    """Namespace and name: of the asset's address, or of a directory."""
    if "/" in table:
        return _place(table)
    address = TableAddress.parse(hook.asset_uri(table))
    return address.namespace, address.table


def _place(path: str) -> tuple[str, str]:
    """Namespace and name of a file or directory, as OpenLineage's naming has them; without credentials."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return "file", str(Path(parts.path).absolute()) if parts.scheme == "" else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.strip("/")


def _source_datasets(sources: Sequence[str]) -> Iterator[Any]:
    from airflow.providers.common.compat.openlineage.facet import InputDataset

    for source in sources:
        namespace, name = _place(source)
        yield InputDataset(namespace, name)


def _column(field: Mapping[str, Any]) -> Any:
    """A column, with those nested in it."""
    from airflow.providers.common.compat.openlineage.facet import SchemaDatasetFacetFields

    kind = field["type"]
    return SchemaDatasetFacetFields(
        name=field["name"],
        type=kind if isinstance(kind, str) else kind["type"],
        description=field.get("description"),
        fields=[_column(item) for item in _nested(kind)],
    )


def _nested(kind: Any) -> Sequence[Mapping[str, Any]]:
    """Fields of a row, also of rows in a list or as values of a map."""
    while isinstance(kind, Mapping):
        if "fields" in kind:
            return list(kind["fields"])
        kind = kind.get("element", kind.get("value"))
    return ()


def _version(snapshot_id: int) -> Any:
    from openlineage.client.facet_v2 import dataset_version_dataset

    return dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(snapshot_id))


def _statistics(result: engine.JobResult) -> dict[str, Any]:
    """Rows, files and bytes that were written, where the action counts them."""
    from airflow.providers.common.compat.openlineage.facet import OutputStatisticsOutputDatasetFacet

    if result.action in MAKES_TAGS:
        return {}
    rows, files, size = (_counted(result.details, name) for name in ("rows", "files", "bytes"))
    if rows is None and size is None:
        return {}
    return {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size, fileCount=files)}


def _counted(details: Mapping[str, Any], name: str) -> int | None:
    found = details.get(name, details.get(f"{name}_after"))
    return found if isinstance(found, int) else None
