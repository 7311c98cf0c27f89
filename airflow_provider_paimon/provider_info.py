"""The description that Airflow reads of a provider, at every start of every Airflow process, so it imports nothing."""

from __future__ import annotations

from typing import Any

_NAME = "Apache Paimon"


def get_provider_info() -> dict[str, Any]:
    """The provider's parts, in the form of Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "airflow-provider-paimon",
        "name": _NAME,
        "description": "Apache Paimon lake tables: write, compact, tag, expire and roll back, with plain PySpark.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://paimon.apache.org/",
                "tags": ["apache"],
            }
        ],
        "operators": _modules(
            "operators",
            *("alter", "branches", "chain_table", "clean_up", "cluster", "compact", "consumers", "create", "delete"),
            *("expire", "file_index", "job", "list_tables", "metadata", "partitions", "repair", "rescale"),
            *("rollback", "tag_partitions", "tags", "write"),
        ),
        "sensors": _modules("sensors", "consumer", "partition", "snapshot", "table", "tag"),
        "hooks": _modules("hooks", "commit", "paimon"),
        "triggers": _modules("triggers", "events", "job", "table", "watch"),
        "connection-types": [_connection_type()],
        "extra-links": ["airflow_provider_paimon.links.table.PaimonTableLink"],
        "notifications": ["airflow_provider_paimon.notifications.maintenance.PaimonMaintenanceNotifier"],
        "asset-uris": [
            {
                "schemes": ["paimon"],
                "handler": "airflow_provider_paimon.assets.sanitize_uri",
                "factory": "airflow_provider_paimon.assets.create_asset",
                "to_openlineage_converter": "airflow_provider_paimon.assets.openlineage_dataset",
            }
        ],
        "cli": ["airflow_provider_paimon.cli.definition.get_cli_commands"],
        "task-decorators": [
            {"name": "paimon_write", "class-name": "airflow_provider_paimon.decorators.write.paimon_write_task"}
        ],
        "transfers": [
            _transfer("Common SQL", _NAME, "sql_to_paimon"),
            _transfer(_NAME, "Common SQL", "paimon_to_sql"),
            _transfer(_NAME, "Files", "paimon_to_files"),
        ],
        "config": _config(),
    }


def _transfer(source: str, target: str, module: str) -> dict[str, str]:
    return {
        "source-integration-name": source,
        "target-integration-name": target,
        "python-module": f"airflow_provider_paimon.transfers.{module}",
    }


def _config() -> dict[str, Any]:
    """The section of the configuration; operators and connections take precedence over it."""
    options = {
        "in_process_limit": _option(
            "Work on rows that reads fewer bytes of files than this runs in the task's own process, without Spark. "
            "0 keeps all work on rows on Spark. Sizes are such as `256 mb`.",
            example="1 gb",
            default="256 mb",
        ),
        "local_cores": _option(
            "How many threads a job in the task's process takes, and how many cores an embedded Spark. "
            "All cores of the machine where this is empty.",
            example="2",
        ),
        "memory": _option(
            "Heap of an embedded Spark's JVM, and what a task of a compaction may take by estimate. "
            "Where this is empty the heap is 1 GiB, and compactions have no limit.",
            example="2 gb",
        ),
        "spark_conf": _option(
            "Settings of Spark, as a JSON object.",
            example='{"spark.sql.shuffle.partitions": "8"}',
        ),
        "table_url": _option(
            "Where the link of a task to its table leads: an address with placeholders for {{conn_id}}, {{warehouse}}, "
            "{{database}}, {{table}}, {{path}} and {{snapshot_id}}. The table's directory where this is empty.",
            example="https://catalog.example.com/{{conn_id}}/{{database}}/{{table}}",
        ),
    }
    return {"paimon": {"description": "Where jobs on Paimon tables run, and what they take.", "options": options}}


def _option(description: str, *, example: str, default: str = "") -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": "string",
        "example": example,
        "default": default,
    }


def _modules(package: str, *names: str) -> list[dict[str, Any]]:
    modules = [f"airflow_provider_paimon.{package}.{name}" for name in names]
    return [{"integration-name": _NAME, "python-modules": modules}]


def _connection_type() -> dict[str, Any]:
    """The connection's form. Values of `conn-fields` are stored in the connection's extra under the same names."""
    return {
        "connection-type": "paimon",
        "hook-name": _NAME,
        "hook-class-name": "airflow_provider_paimon.hooks.paimon.PaimonHook",
        "ui-field-behaviour": {
            "hidden-fields": ["port", "schema"],
            "relabeling": {"host": "Warehouse", "login": "Access key", "password": "Secret key"},
            "placeholders": {
                "host": "s3://bucket/warehouse, hdfs://namenode:8020/warehouse, or a directory",
                "login": "S3 only; empty where the machine has a role",
            },
        },
        "conn-fields": {
            "endpoint": {
                "label": "S3 endpoint",
                "description": "Address of an S3 server that is not Amazon's.",
                "schema": {"type": ["string", "null"]},
            },
            "region": {
                "label": "S3 region",
                "schema": {"type": ["string", "null"]},
            },
            "token": {
                "label": "S3 session token",
                "schema": {"type": ["string", "null"], "format": "password"},
            },
            "storage_options": {
                "label": "Storage options",
                "description": "More options of the file system (fsspec; hadoop-conf-dir …), as a JSON object.",
                "schema": {"type": ["object", "null"]},
            },
            "in_process_limit": {
                "label": "In-process limit",
                "description": "Work on rows that reads less than this, such as 256 mb, runs without Spark.",
                "schema": {"type": ["string", "null"]},
            },
            "local_cores": {
                "label": "Local cores",
                "description": "Threads in a task's process, or cores of an embedded Spark; all where empty.",
                "schema": {"type": ["integer", "null"], "minimum": 1},
            },
            "memory": {
                "label": "Memory",
                "description": "Such as 2 gb: heap of an embedded Spark, and limit of each task of a compaction.",
                "schema": {"type": ["string", "null"]},
            },
            "spark_conf": {
                "label": "Spark settings",
                "description": "Settings of Spark for jobs on tables of this warehouse, as a JSON object.",
                "schema": {"type": ["object", "null"]},
            },
            "catalog_options": {
                "label": "Catalog options",
                "description": "Where names are kept, if not in directories: metastore, uri, token … as a JSON object.",
                "schema": {"type": ["object", "null"]},
            },
        },
    }
