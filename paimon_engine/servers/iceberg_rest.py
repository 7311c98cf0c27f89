"""A table in an Iceberg REST catalog, brought up to the table's own Iceberg metadata by updates of that catalog.

The catalog gives ids to schemas, so its table is compared with the metadata by what schemas say, and by the snapshots
and tags that both have. Where the catalog has another history, as after a rollback, its table is dropped, without its
files, and created again, since it takes no snapshot whose number is not greater than all before.

A table is ours if it has our mark (`paimon.path`), or if its snapshots are in the metadata directory, as those that
Java has committed. Any other one stays as it is.

Source: `IcebergRestMetadataCommitter` of the Java library. Differences: it sends the newest snapshot only, no tags, and
drops every table of that name whose newest snapshot is not the one before.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_engine.errors import ConflictError, InvalidArgumentError, StorageError, UnsupportedError, hide, shown_cause
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options import TableOptions
from paimon_engine.options.iceberg import may_be_secret
from paimon_engine.secrecy import check_address
from paimon_engine.servers.iceberg_catalog import Shown
from paimon_engine.storage.locations import normal_path

_OURS: Final = "paimon.path"
_MAIN: Final = "main"
_TRIES: Final = 3


@dataclass(frozen=True)
class RestIcebergCatalog:
    """`IcebergCatalog` of a REST server."""

    options: TableOptions
    database: str
    table: str

    def check(self, schema: TableSchema) -> None:  # noqa: ARG002 - all types of Iceberg are types of its catalogs
        _library()
        settings = self.options.iceberg_rest
        if not settings.get("uri"):
            raise InvalidArgumentError(
                "'metadata.iceberg.storage' = 'rest-catalog' needs 'metadata.iceberg.rest.uri', for example "
                "https://catalog:8181"
            )
        check_address(settings["uri"], "'metadata.iceberg.rest.uri'")

    def shows(self, shown: Shown) -> bool:
        with self._server() as server:
            found = server.table()
            return found is not None and not _plan(self.options, found.metadata, shown).updates

    def show(self, shown: Shown) -> None:
        for _ in range(_TRIES):
            with self._server() as server:
                if self._show(server, shown):
                    return
        raise ConflictError(f"others keep changing {self.database}.{self.table} in the Iceberg REST catalog")

    def _show(self, server: _Server, shown: Shown) -> bool:
        """One try; False if somebody else has changed the table meanwhile."""
        found = server.table()
        if found is None:
            found = server.create(shown)
        else:
            self._check_own(found.metadata, shown)
        plan = _plan(self.options, found.metadata, shown)
        if plan.must_begin_again:
            server.drop()
            found = server.create(shown)
            plan = _plan(self.options, found.metadata, shown)
        return not plan.updates or server.commit(found, plan.updates)

    def _check_own(self, metadata: Any, shown: Shown) -> None:
        """Raises ConflictError for any other table than this one."""
        current = metadata.current_snapshot()
        mark = metadata.properties.get(_OURS)
        if mark is not None:
            is_own = _same(mark, shown.root)
        elif current is not None:
            is_own = _same(current.manifest_list.rpartition("/")[0], shown.directory)
        else:
            # One without columns is what Java begins with.
            is_own = not metadata.schema().fields
        if not is_own:
            raise ConflictError(
                f"{self.database}.{self.table} in the Iceberg REST catalog is another table, in {metadata.location}, "
                f"and not that of {shown.root}: it stays as it is. Set 'metadata.iceberg.table' or "
                "'metadata.iceberg.database' to another name, or drop that table"
            )

    @contextlib.contextmanager
    def _server(self) -> Iterator[_Server]:
        """The server; what goes wrong in the block is raised as our errors, without values that are secret."""
        library, settings = _library(), self.options.iceberg_rest
        hide(text for name, text in settings.items() if may_be_secret(name))
        try:
            yield _Server(library, library.rest(f"paimon-{self.table}", **settings), (self.database, self.table))
        except library.all_errors as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise StorageError(f"the Iceberg REST catalog at {settings['uri']}: {text}") from shown_cause(error)


@dataclass(frozen=True)
class _Server:
    """Calls of the catalog for one table."""

    library: _Library
    catalog: Any
    name: tuple[str, str]

    def table(self) -> Any | None:
        """The table as the catalog has it; None without one."""
        try:
            return self.catalog.load_table(self.name)
        except (self.library.errors.NoSuchTableError, self.library.errors.NoSuchNamespaceError):
            return None

    def create(self, shown: Shown) -> Any:
        """A table without snapshots, with the table's columns of partitions where they have to be."""
        library, errors = self.library, self.library.errors
        with contextlib.suppress(errors.NamespaceAlreadyExistsError):
            if not self.catalog.namespace_exists(self.name[:1]):
                self.catalog.create_namespace(self.name[:1])
        schema, spec = _first_schema(library, shown.metadata)
        properties = {_OURS: shown.root, "format-version": str(shown.metadata["format-version"])}
        try:
            return self.catalog.create_table(self.name, schema, partition_spec=spec, properties=properties)
        except (errors.BadRequestError, errors.ServerError):
            # Some catalogs find no location for a table by themselves.
            location = _rest_location(shown.location)
            return self.catalog.create_table(
                self.name, schema, location=location, partition_spec=spec, properties=properties
            )
        except errors.TableAlreadyExistsError:
            return self.catalog.load_table(self.name)

    def drop(self) -> None:
        """Drops the table, and none of its files."""
        with contextlib.suppress(self.library.errors.NoSuchTableError):
            self.catalog.drop_table(self.name)

    def commit(self, found: Any, updates: Sequence[Mapping[str, Any]]) -> bool:
        """Sends the updates for the table as it was found; False if it is not that any more."""
        library, metadata = self.library, found.metadata
        current = metadata.current_snapshot()
        requirements = (
            library.update.AssertTableUUID(uuid=metadata.table_uuid),
            library.update.AssertRefSnapshotId(
                ref=_MAIN, **{"snapshot-id": None if current is None else current.snapshot_id}
            ),
            library.update.AssertLastAssignedFieldId(**{"last-assigned-field-id": metadata.last_column_id}),
            library.update.AssertCurrentSchemaId(**{"current-schema-id": metadata.current_schema_id}),
            library.update.AssertDefaultSpecId(**{"default-spec-id": metadata.default_spec_id}),
        )
        kinds = library.adapter.validate_python(list(updates))
        try:
            self.catalog.commit_table(found, requirements, tuple(kinds))
        except library.errors.CommitFailedException:
            return False
        return True


def _first_schema(library: _Library, metadata: Mapping[str, Any]) -> tuple[Any, Any]:
    """Columns and partition spec to create a table with.

    The catalog counts columns from 1, and Paimon from 0. So the table is created without columns, or, where there are
    partitions by others than column 0, with columns up to those, which then have the right ids.
    """
    fields = metadata["partition-specs"][-1]["fields"]
    sources = [one["source-id"] for one in fields]
    if not sources or 0 in sources:
        return library.schema(), library.spec()
    known = {one["id"]: one for one in metadata["schemas"][-1]["fields"]}
    columns = [
        known[number]
        if number in sources
        else {"id": number, "name": f"f{number}", "required": False, "type": "boolean"}
        for number in range(1, max(sources) + 1)
    ]
    schema = library.schema.model_validate({"type": "struct", "schema-id": 0, "fields": columns})
    return schema, library.spec.model_validate({"spec-id": 0, "fields": fields})


@dataclass
class _Plan:
    """Updates that make the catalog's table show what is wanted."""

    updates: list[dict[str, Any]] = field(default_factory=list)
    must_begin_again: bool = False

    def add(self, action: str, **facts: Any) -> None:
        """One more update."""
        self.updates.append({"action": action, **{key.replace("_", "-"): fact for key, fact in facts.items()}})


def _plan(options: TableOptions, there: Any, shown: Shown) -> _Plan:
    """What has to be sent to a table that the catalog has."""
    plan, wanted = _Plan(), shown.metadata
    have = {one.snapshot_id: one for one in there.snapshots}
    snapshots = {one["snapshot-id"]: one for one in wanted["snapshots"]}
    current = wanted["current-snapshot-id"]
    missing = [one for number, one in snapshots.items() if number not in have and number > max(have, default=0)]
    if not have:
        # Older ones would be older than the table.
        missing = [snapshots[current]]
    is_other = any(number in snapshots and not _is_same(one, snapshots[number]) for number, one in have.items())
    lasts = [one["sequence-number"] for one in missing]
    is_late = bool(have) and any(number <= there.last_sequence_number for number in lasts)
    if is_other or is_late or (current not in have and not missing):
        plan.must_begin_again = True
        plan.updates = [{}]
        return plan
    ids = _add_schemas(plan, there, wanted, [*missing, snapshots[current]])
    _set_spec(plan, there, wanted)
    _add_snapshots(plan, there, missing, ids)
    main = there.current_snapshot()
    if main is None or main.snapshot_id != current:
        plan.add("set-snapshot-ref", ref_name=_MAIN, type="branch", snapshot_id=current)
    _set_tags(plan, there, wanted, {*have, *(one["snapshot-id"] for one in missing)})
    if gone := sorted(have.keys() - snapshots.keys()):
        plan.add("remove-snapshots", snapshot_ids=gone)
    properties = {
        _OURS: shown.root,
        "write.metadata.previous-versions-max": str(options.iceberg_previous_versions_max),
        "write.metadata.delete-after-commit.enabled": str(options.iceberg_delete_after_commit).lower(),
    }
    changed = {key: text for key, text in properties.items() if there.properties.get(key) != text}
    if changed:
        plan.add("set-properties", updates=changed)
    return plan


def _is_same(there: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether both snapshots of one id are one: metadata that was begun again has other files, the old ones go."""
    return bool(there.manifest_list.rpartition("/")[2] == wanted["manifest-list"].rpartition("/")[2])


def _add_schemas(
    plan: _Plan, there: Any, wanted: Mapping[str, Any], snapshots: Sequence[Mapping[str, Any]]
) -> dict[int, int]:
    """Has the catalog know the schemas that are needed, the newest as the current one. Returns: its id of each."""
    schema = _library().schema
    needed = sorted({*(one["schema-id"] for one in snapshots), wanted["current-schema-id"]})
    known = [(one.as_struct(), one.schema_id) for one in there.schemas]
    number, ids = max(one.schema_id for one in there.schemas), {}
    for one in wanted["schemas"]:
        if one["schema-id"] not in needed:
            continue
        struct = schema.model_validate(one).as_struct()
        found = next((number for fields, number in known if fields == struct), None)
        if found is None:
            number += 1
            found = number
            plan.add("add-schema", schema={**one, "schema-id": number})
            known.append((struct, number))
        ids[one["schema-id"]] = found
    if ids[wanted["current-schema-id"]] != there.current_schema_id:
        plan.add("set-current-schema", schema_id=ids[wanted["current-schema-id"]])
    return ids


def _set_spec(plan: _Plan, there: Any, wanted: Mapping[str, Any]) -> None:
    """Has the catalog know the partition columns."""
    fields = [(one["source-id"], one["name"]) for one in wanted["partition-specs"][-1]["fields"]]
    if fields == [(one.source_id, one.name) for one in there.spec().fields]:
        return
    number = max(one.spec_id for one in there.partition_specs) + 1
    plan.add("add-spec", spec={**wanted["partition-specs"][-1], "spec-id": number})
    plan.add("set-default-spec", spec_id=number)


def _add_snapshots(plan: _Plan, there: Any, missing: Sequence[Mapping[str, Any]], ids: Mapping[int, int]) -> None:
    last_ms = there.last_updated_ms if there.snapshots else 0
    for one in missing:
        # The catalog refuses a time before that of its last change.
        last_ms = max(last_ms, one["timestamp-ms"])
        snapshot = {**one, "timestamp-ms": last_ms, "schema-id": ids[one["schema-id"]]}
        plan.add("add-snapshot", snapshot=snapshot)


def _set_tags(plan: _Plan, there: Any, wanted: Mapping[str, Any], known: set[int]) -> None:
    """Has the catalog have the tags of snapshots that it knows, and no others."""
    tags = {name: one for name, one in wanted["refs"].items() if one["snapshot-id"] in known}
    have = {name: one.snapshot_id for name, one in there.refs.items() if name != _MAIN}
    for name in sorted(have.keys() - tags.keys()):
        plan.add("remove-snapshot-ref", ref_name=name)
    for name, one in tags.items():
        if have.get(name) != one["snapshot-id"]:
            plan.add(
                "set-snapshot-ref",
                ref_name=name,
                type="tag",
                snapshot_id=one["snapshot-id"],
                max_ref_age_ms=one["max-ref-age-ms"],
            )


def _rest_location(location: str) -> str:
    """The location with the scheme that such catalogs require."""
    for scheme in ("s3a://", "s3n://"):
        location = location.replace(scheme, "s3://", 1) if location.startswith(scheme) else location
    return location


def _same(one: str, other: str) -> bool:
    return bool(one) and normal_path(one) == normal_path(other)


@dataclass(frozen=True)
class _Library:
    """What is used of pyiceberg."""

    rest: Any
    errors: Any
    update: Any
    adapter: Any
    schema: Any
    spec: Any
    all_errors: tuple[type[Exception], ...]


@functools.cache
def _library() -> _Library:
    """Imported when a table needs it. Raises: UnsupportedError if it is not installed."""
    try:
        import requests
        from pydantic import TypeAdapter
        from pyiceberg import exceptions
        from pyiceberg.catalog.rest import RestCatalog
        from pyiceberg.partitioning import PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.table import update
    except ImportError as error:
        raise UnsupportedError(
            f"an Iceberg REST catalog needs the package pyiceberg ({error}): "
            "pip install 'airflow-provider-paimon[iceberg]'"
        ) from error
    known = tuple(one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, Exception))
    found = (*known, requests.RequestException, ValueError, RuntimeError)
    adapter = TypeAdapter(list[update.TableUpdate])
    return _Library(RestCatalog, exceptions, update, adapter, Schema, PartitionSpec, found)
