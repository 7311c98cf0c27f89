"""Options of the Iceberg metadata that a table keeps beside its own.

Source: `IcebergOptions` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.options.texts import OptionTexts

_VERSIONS: Final = (2, 3)


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
