"""Options of the Iceberg metadata that a table keeps beside its own.

Source: `IcebergOptions` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.options.texts import OptionTexts

HIVE_CLIENT: Final = "org.apache.hadoop.hive.metastore.HiveMetaStoreClient"
REST_PREFIX: Final = "metadata.iceberg.rest."
_REST_SHOWN: Final = frozenset(
    {
        *("uri", "warehouse", "prefix", "clients", "scope", "audience", "resource", "oauth2-server-uri"),
        *("rest.sigv4-enabled", "rest.signing-region", "rest.signing-name", "snapshot-loading-mode"),
    }
)
"""Settings of the client of a REST catalog that hold no secret."""
_VERSIONS: Final = (2, 3)


def may_be_secret(name: str) -> bool:
    """Whether a setting of the client of a REST catalog may hold a secret."""
    return name not in _REST_SHOWN


def check_stored(key: str) -> None:
    """Raises InvalidArgumentError for an option that must not be written into the schema of a table."""
    if key.startswith(REST_PREFIX) and may_be_secret(key.removeprefix(REST_PREFIX)):
        raise InvalidArgumentError(
            f"'{key}' may hold a secret, which would be stored in the table's schema, where all its readers see it: "
            "give it when the table is opened, as open_table(path, options={…}), or in a job's table_secrets"
        )


@dataclass(frozen=True)
class IcebergOptions(OptionTexts):
    """A table's options `metadata.iceberg.*`."""

    @property
    def iceberg_storage(self) -> str:
        """Where Iceberg metadata is kept; `disabled` where there is none."""
        storages = ("disabled", "table-location", "hadoop-catalog", "hive-catalog", "rest-catalog")
        return self._choice("metadata.iceberg.storage", "disabled", storages)

    @property
    def iceberg_storage_location(self) -> str:
        """`table-location`, in the table's directory, or `catalog-location`, in a warehouse of its own."""
        default = "table-location" if self.iceberg_storage == "table-location" else "catalog-location"
        choices = ("table-location", "catalog-location")
        return self._choice("metadata.iceberg.storage-location", default, choices)

    @property
    def iceberg_format_version(self) -> int:
        """2, or 3 for deletion vectors."""
        key = "metadata.iceberg.format-version"
        version = self._int(key, 2)
        if version not in _VERSIONS:
            raise InvalidArgumentError(f"option '{key}' = '{version}'; choose one of 2, 3")
        return version

    @property
    def iceberg_compaction_min_file_num(self) -> int:
        """Small manifests from which on they are merged when they are large enough together."""
        return self._int("metadata.iceberg.compaction.min.file-num", 10)

    @property
    def iceberg_compaction_max_file_num(self) -> int:
        """Small manifests from which on they are merged in any case."""
        return self._int("metadata.iceberg.compaction.max.file-num", 50)

    @property
    def iceberg_delete_after_commit(self) -> bool:
        """Whether old metadata files are deleted after a commit."""
        return self._bool("metadata.iceberg.delete-after-commit.enabled", default=True)

    @property
    def iceberg_previous_versions_max(self) -> int:
        """Old metadata files that stay."""
        return self._int("metadata.iceberg.previous-versions-max", 0)

    @property
    def iceberg_manifest_compression(self) -> str:
        """Codec of Iceberg manifests and their lists."""
        return self.raw.get("metadata.iceberg.manifest-compression", "snappy").lower()

    @property
    def iceberg_manifest_legacy_version(self) -> bool:
        """Whether fields of manifest lists are called as in Iceberg 1.4."""
        return self._bool("metadata.iceberg.manifest-legacy-version", default=False)

    # ── catalogs ────────────────────────────────────────────────────────────────────────────────

    @property
    def iceberg_databases(self) -> tuple[str, ...]:
        """Names of the databases in which an Iceberg catalog shows the table; empty for that of the table itself."""
        return tuple(name.strip() for name in self.raw.get("metadata.iceberg.database", "").split(";") if name.strip())

    @property
    def iceberg_table(self) -> str | None:
        """The table's name in an Iceberg catalog, if it has another one there."""
        return self.raw.get("metadata.iceberg.table") or None

    @property
    def iceberg_rest(self) -> dict[str, str]:
        """Settings of the client of an Iceberg REST catalog, which may hold secrets."""
        items = self.raw.items()
        return {key.removeprefix(REST_PREFIX): text for key, text in items if key.startswith(REST_PREFIX)}

    @property
    def iceberg_uri(self) -> str | None:
        """Addresses of the Hive metastore that shows the table to Iceberg."""
        return self.raw.get("metadata.iceberg.uri") or None

    @property
    def iceberg_hive_conf_dir(self) -> str | None:
        """Directory of a `hive-site.xml`, which names the metastore."""
        return self.raw.get("metadata.iceberg.hive-conf-dir") or None

    @property
    def iceberg_hadoop_conf_dir(self) -> str | None:
        """Directory of Hadoop's configuration, which may name the metastore."""
        return self.raw.get("metadata.iceberg.hadoop-conf-dir") or None

    @property
    def iceberg_hive_client_class(self) -> str:
        """Java's client of the metastore."""
        return self.raw.get("metadata.iceberg.hive-client-class", HIVE_CLIENT)

    @property
    def iceberg_glue_skip_archive(self) -> bool:
        """Whether Glue behind the metastore's protocol keeps no earlier version of an entry."""
        return self._bool("metadata.iceberg.glue.skip-archive", default=False)

    @property
    def iceberg_hive_skip_update_stats(self) -> bool:
        """Whether the metastore counts no files of the table."""
        return self._bool("metadata.iceberg.hive-skip-update-stats", default=False)
