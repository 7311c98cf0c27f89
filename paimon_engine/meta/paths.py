"""Paths of files in a table directory, and how partition values become directory names.

Source: `FileStorePathFactory`, `PartitionPathUtils`, `InternalRowPartitionComputer` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.binary_row import to_arrow_array
from paimon_engine.meta.casts import STRING, cast
from paimon_engine.meta.java_floats import float_text
from paimon_engine.types import AtomicType, DataType, RowType, TypeRoot

MAIN_BRANCH = "main"
BRANCH_DIRECTORY: Final = "/branch/branch-"
"""What stands between a table's directory and the name of a branch in the path of the branch's directory."""
PRIMARY_BRANCH: Final = "scan.primary-branch"
OTHER_BRANCHES: Final = ("scan.fallback-branch", PRIMARY_BRANCH)
"""Options that name a branch from which a read takes whole partitions: those that are missing, or all that it has."""
_YEAR_DIGITS: Final = 4
_ESCAPED = frozenset([chr(code) for code in range(32)] + [chr(127)] + list("\"#%'*/:=?\\{}[]^"))


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths of one table and branch. `root` has no trailing slash.

    Data, manifests, indexes and statistics of all branches are in the main directories.
    """

    root: str
    branch: str = MAIN_BRANCH

    @property
    def branch_root(self) -> str:
        """Directory of this branch's schemas, snapshots and tags."""
        return self.root if self.branch == MAIN_BRANCH else f"{self.root}{BRANCH_DIRECTORY}{self.branch}"

    @property
    def schema_dir(self) -> str:
        """Directory of schema files."""
        return f"{self.branch_root}/schema"

    @property
    def snapshot_dir(self) -> str:
        """Directory of snapshot files and hints."""
        return f"{self.branch_root}/snapshot"

    @property
    def changelog_dir(self) -> str:
        """Directory of changelogs that outlive their snapshots."""
        return f"{self.branch_root}/changelog"

    @property
    def tag_dir(self) -> str:
        """Directory of tag files."""
        return f"{self.branch_root}/tag"

    @property
    def consumer_dir(self) -> str:
        """Directory of consumer files."""
        return f"{self.branch_root}/consumer"

    @property
    def commit_dir(self) -> str:
        """Directory of records of named commits; no other engine looks there."""
        return f"{self.branch_root}/commits"

    @property
    def branch_dir(self) -> str:
        """Directory of branches."""
        return f"{self.root}/branch"

    @property
    def quarantine_dir(self) -> str:
        """Directory of files that were moved instead of deleted; no other engine looks there."""
        return f"{self.root}/quarantine"

    def schema(self, schema_id: int) -> str:
        """Schema file."""
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """Snapshot file."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def changelog(self, snapshot_id: int) -> str:
        """Changelog that outlives its snapshot."""
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    def tag(self, name: str) -> str:
        """Tag file."""
        return f"{self.tag_dir}/tag-{name}"

    def tag_success(self, name: str) -> str:
        """File that shows that a tag is complete, for processes that wait for it."""
        return f"{self.tag_dir}/tag-success-file/{name}_SUCCESS"

    def pending_notification(self, note_id: str) -> str:
        """Note of tags for which callbacks are still to be called; not among the tags, which Java may copy."""
        return f"{self.pending_notification_dirs[0]}/{note_id}.json"

    @property
    def pending_notification_dirs(self) -> tuple[str, str]:
        """Directories of pending notifications: the one that is written, and one with an earlier name, only read."""
        return f"{self.branch_root}/pending-notifications", f"{self.branch_root}/untold"

    @property
    def label(self) -> str:
        """What messages call it: the table's path, or its branch."""
        return self.root if self.branch == MAIN_BRANCH else f"branch {self.branch!r} of {self.root}"

    @property
    def pending_commit_dir(self) -> str:
        """Directory of notes of commits for which callbacks are still to be called."""
        return f"{self.branch_root}/pending-commits"

    def consumer(self, name: str) -> str:
        """Consumer file."""
        return f"{self.consumer_dir}/consumer-{name}"

    @property
    def latest_hint(self) -> str:
        """File with the number of the newest snapshot."""
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """File with the number of the oldest snapshot."""
        return f"{self.snapshot_dir}/EARLIEST"

    @property
    def latest_changelog_hint(self) -> str:
        """File with the number of the newest changelog that outlives its snapshot."""
        return f"{self.changelog_dir}/LATEST"

    @property
    def earliest_changelog_hint(self) -> str:
        """File with the number of the oldest changelog that outlives its snapshot."""
        return f"{self.changelog_dir}/EARLIEST"

    def manifest(self, name: str) -> str:
        """Manifest, manifest list or index manifest."""
        return f"{self.root}/manifest/{name}"

    def index(self, name: str) -> str:
        """Index file."""
        return f"{self.root}/index/{name}"

    def statistics(self, name: str) -> str:
        """Statistics file."""
        return f"{self.root}/statistics/{name}"

    def bucket_dir(self, partition_path: str, bucket: int) -> str:
        """Directory of a bucket's files; `partition_path`, below the table's, is empty on unpartitioned tables."""
        directory = "bucket-postpone" if bucket < 0 else f"bucket-{bucket}"
        return "/".join(part for part in (self.root, partition_path, directory) if part)


def escape_path_name(text: str) -> str:
    """Text with the characters that directory names must not contain replaced by `%` and two hex digits."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def partition_path(partition_type: RowType, values: Sequence[Any], *, default_name: str, legacy_name: bool) -> str:
    """Relative directory of a partition, such as `dt=2024-02-29/hour=3`; empty without partition columns.

    `values` are internal values (`format.binary_row`), in the order of the type's fields.
    """
    parts = []
    for field, value in zip(partition_type, values, strict=True):
        text = None if value is None else partition_text(field.type, value, legacy_name=legacy_name)
        name = default_name if text is None or not text.strip() else text
        parts.append(f"{escape_path_name(field.name)}={escape_path_name(name)}")
    return "/".join(parts)


def partition_text(data_type: DataType, value: Any, *, legacy_name: bool) -> str:
    """Text of one internal value: Java's `toString` of the internal form, or its cast to STRING.

    Raises: InvalidArgumentError for types that cannot be partition columns.
    """
    if not isinstance(data_type, AtomicType):
        raise InvalidArgumentError(f"{data_type} cannot be the type of a partition column")
    if not legacy_name:
        return str(partition_texts(data_type, [value])[0])
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT:
            return float_text(np.float32(value))
        case TypeRoot.DOUBLE:
            return float_text(np.float64(value))
        case TypeRoot.DECIMAL:
            return f"{Decimal(value):f}"
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_text(value)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return bytes(value).decode("utf-8", errors="replace")
        case _:
            return str(value)


def partition_texts(data_type: DataType, values: Sequence[Any]) -> list[str | None]:
    """Casts of internal values to STRING, None for nulls.

    Raises: InvalidArgumentError for types that cannot be partition columns.
    """
    if not isinstance(data_type, AtomicType):
        raise InvalidArgumentError(f"{data_type} cannot be the type of a partition column")
    return list(cast(to_arrow_array(values, data_type), data_type, STRING).to_pylist())


def _timestamp_text(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    moment = _iso(np.datetime64(seconds, "s"))
    if fraction == 0:
        return moment.removesuffix(":00") if seconds % 60 == 0 else moment
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{moment}.{digits}"


def _iso(moment: np.datetime64) -> str:
    """ISO text with at least four digits of the year, and a sign if there are more."""
    text = str(moment)
    return f"+{text}" if len(text.split("-", 1)[0]) > _YEAR_DIGITS else text
