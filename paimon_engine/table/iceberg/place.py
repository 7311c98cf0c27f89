"""Where a table's Iceberg metadata is, and reading and writing its files.

Source: `IcebergCommitCallback.catalogDatabasePath`, `IcebergPathFactory`, `IcebergManifestFile`, `IcebergManifestList`
of the Java library.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro

from paimon_engine.errors import CorruptTableError, InvalidArgumentError, NotFoundError, UnsupportedError, damaged
from paimon_engine.format.avro import write_record_files, write_records
from paimon_engine.format.stored import parse_object
from paimon_engine.meta.iceberg.manifests import (
    AvroRecord,
    Content,
    described,
    entry_schema,
    from_list_record,
    list_schema,
    to_list_record,
)
from paimon_engine.meta.iceberg.metadata import Metadata, parse_metadata
from paimon_engine.meta.iceberg.values import stored_value
from paimon_engine.storage import Storage
from paimon_engine.storage.fenced import fenced, unfenced
from paimon_engine.storage.local import local_path
from paimon_engine.storage.locations import is_local
from paimon_engine.table.state.handle import TableHandle

_DATABASE_END: Final = ".db"
_METADATA_END: Final = ".metadata.json"
_ENTRIES_STEP: Final = 1_000
_WITH_SERVERS: Final = ("hdfs", "viewfs")
_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3"}
"""What Hadoop calls the store whose paths Iceberg's catalogs begin with `s3://`."""


def metadata_directory(table: TableHandle) -> str:
    """Directory of the metadata. Raises: UnsupportedError if the table is not in a warehouse, and has to be."""
    root = table.paths.root
    if table.options.iceberg_storage_location == "table-location":
        return f"{root}/metadata"
    database, _, name = root.rpartition("/")
    warehouse, _, directory = database.rpartition("/")
    if not directory.endswith(_DATABASE_END) or directory == _DATABASE_END:
        raise UnsupportedError(
            f"'metadata.iceberg.storage' = '{table.options.iceberg_storage}' puts Iceberg metadata beside the "
            f"databases of a warehouse, and {root} is not in a directory <database>.db; set "
            "'metadata.iceberg.storage-location' = 'table-location'"
        )
    return f"{warehouse}/iceberg/{directory.removesuffix(_DATABASE_END)}/{name}/metadata"


@dataclass
class Place:
    """The files in the metadata directory of a table; `written` are those that this object has made.

    `location` is the table's directory as Iceberg's metadata has it: Java compares paths by their text, so that a
    table keeps the form that its first writer gave it (`file:/x`, `/x`).
    """

    table: TableHandle
    directory: str
    storage: Storage
    location: str
    uuid: str
    written: list[str] = field(default_factory=list)

    def as_written(self, path: str) -> str:
        """A path in the form that metadata has."""
        head, rest = _split(self.table.paths.root)
        theirs = self.location.removesuffix(rest) if self.location.endswith(rest) else head
        return f"{theirs}{path.removeprefix(head)}"

    def versions(self) -> list[int]:
        """Versions of the metadata files, ascending."""
        found = []
        for path in self.paths():
            name = path.rpartition("/")[2]
            number = name.removeprefix("v").removesuffix(_METADATA_END)
            if name == f"v{number}{_METADATA_END}" and number.isascii() and number.isdigit():
                found.append(int(number))
        return sorted(found)

    def paths(self) -> set[str]:
        """Paths of all files in the directory."""
        return {info.path for info in self.storage.list(self.directory) if not info.is_dir}

    def version_path(self, version: int) -> str:
        """Path of a metadata file."""
        return f"{self.directory}/v{version}{_METADATA_END}"

    @property
    def hint_path(self) -> str:
        """File with the number of the newest version, for Iceberg's Hadoop catalogs."""
        return f"{self.directory}/version-hint.text"

    def hint(self) -> int | None:
        """The version that Iceberg's Hadoop catalogs take for the newest; None if it is not known."""
        try:
            text = self.storage.read(self.hint_path)
        except NotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def write_hint(self, version: int) -> None:
        """Names the newest version."""
        if self.hint() != version:
            self.storage.overwrite(self.hint_path, str(version).encode())

    def metadata(self, version: int) -> Metadata:
        """Raises: NotFoundError, CorruptTableError."""
        path = self.version_path(version)
        return parse_metadata(self.storage.read(path), path)

    def check_owner(self, versions: Sequence[int]) -> None:
        """Raises InvalidArgumentError if the directory, outside of the table, has the metadata of another table."""
        root = self.table.paths.root
        if not versions or self.directory.startswith(f"{root}/"):
            return
        path = self.version_path(versions[-1])
        try:
            location = str(parse_object(self.storage.read(path), path).get("location"))
        except CorruptTableError:
            return
        if not is_location_of(self.table, location):
            raise InvalidArgumentError(
                f"{path} is the Iceberg metadata of a table in {location}, not of {root}: it stays as it is. Set "
                "'metadata.iceberg.storage-location' = 'table-location', or move that metadata away"
            )

    def here(self, path: str) -> str:
        """A file of the metadata, of which only the name counts, as in Java."""
        return f"{self.directory}/{path.rpartition('/')[2]}"

    # ── manifests ───────────────────────────────────────────────────────────────────────────────

    def manifests(self, list_path: str) -> list[AvroRecord]:
        """Manifests of a list. Raises: NotFoundError, CorruptTableError."""
        return [from_list_record(record) for record in self._records(self.here(list_path))]

    def entries(self, manifest: AvroRecord) -> list[AvroRecord]:
        """Entries of a manifest. Raises: NotFoundError, CorruptTableError."""
        types = {column.name: column.type for column in self.table.schema.partition_type}
        entries = self._records(self.here(manifest["manifest_path"]))
        for entry in entries:
            values = entry["data_file"]["partition"]
            entry["data_file"]["partition"] = {name: stored_value(types[name], value) for name, value in values.items()}
        return entries

    def _records(self, path: str) -> list[AvroRecord]:
        data = self.storage.read(path)
        try:
            return [dict(record) for record in fastavro.reader(io.BytesIO(data)) if isinstance(record, dict)]
        except Exception as error:
            raise damaged(path, f"no valid Avro file: {type(error).__name__}: {error}") from error

    def write_manifests(
        self, entries: Sequence[AvroRecord], snapshot_id: int, content: Content = Content.DATA
    ) -> list[AvroRecord]:
        """Writes manifests with the entries. Returns: what a list says of them."""
        options, partition = self.table.options, self.table.schema.partition_type
        files = write_record_files(
            entry_schema(partition),
            entries,
            options.iceberg_manifest_compression,
            target_bytes=options.manifest_target_file_size_bytes,
            step=_ENTRIES_STEP,
        )
        found, begin = [], 0
        for data, count in files:
            path = self._write(f"{self.uuid}-m{len(self.written) + 1}.avro", data)
            part = entries[begin : begin + count]
            found.append(
                described(self.as_written(path), len(data), part, partition, content=content, snapshot_id=snapshot_id)
            )
            begin += count
        return found

    def write_list(self, manifests: Iterable[AvroRecord]) -> str:
        """Writes a manifest list. Returns: its path, as metadata has it."""
        options = self.table.options
        legacy = options.iceberg_manifest_legacy_version
        records = [to_list_record(manifest, legacy=legacy) for manifest in manifests]
        data = write_records(list_schema(legacy=legacy), records, options.iceberg_manifest_compression)
        return self.as_written(self._write(f"snap-{len(self.written) + 1}-{self.uuid}.avro", data))

    def _write(self, name: str, data: bytes) -> str:
        path = f"{self.directory}/{name}"
        self.written.append(path)
        self.storage.overwrite(path, data)
        return path

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes files of the metadata."""
        self.storage.delete(list(dict.fromkeys(paths)))


def _split(path: str) -> tuple[str, str]:
    """What a path says of its store, and the path in it."""
    if path.startswith("file:/"):
        rest = "/" + path.removeprefix("file:").lstrip("/")
        return path.removesuffix(rest), rest
    scheme, separator, rest = path.partition("://")
    return (f"{scheme}{separator}", rest) if separator else ("", path)


def place_of(table: TableHandle, metadata: dict[str, Any] | None = None) -> Place:
    """The place of a table's metadata, with paths in the form of that metadata. Raises: UnsupportedError."""
    directory, root = metadata_directory(table), table.paths.root
    storage = table.env.storage
    if not directory.startswith(f"{root}/"):
        storage = fenced(unfenced(storage), directory)
    location = root
    if metadata is not None and is_location_of(table, metadata["location"]):
        location = metadata["location"]
    return Place(table, directory, storage, location, table.env.new_id())


def is_location_of(table: TableHandle, location: str) -> bool:
    """Whether that is the table's directory, in whichever form a writer gives it.

    Writers may come to a local directory through links, and name the servers of a file system in several ways.
    """
    root = table.paths.root
    if is_local(root) and is_local(location):
        return os.path.realpath(local_path(root)) == os.path.realpath(local_path(location))
    return _parts(root) == _parts(location)


def _parts(address: str) -> tuple[str, ...]:
    scheme, _, rest = address.partition("://")
    named = [part for part in rest.split("/") if part]
    if scheme in _WITH_SERVERS:
        # The table's own file system: `hdfs:///x`, and with the name of a server, or of several.
        named = named[0 if rest.startswith("/") else 1 :]
    return (_SAME_STORE.get(scheme, scheme), *named)
