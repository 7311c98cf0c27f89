"""Where the table of a job is, as plain values, and how it is opened, or made where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from paimon_engine.env import EnvConfig
from paimon_engine.errors import ConflictError, InvalidArgumentError, UnsupportedError, hide
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.metastores import CatalogConfig, open_metastore
from paimon_engine.metastores.base import TableName
from paimon_engine.options.names import check_names
from paimon_engine.secrecy import check_address, hidden_values, shows_table_option
from paimon_engine.specs import Spec, Texts, check_fields
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.warehouse import (
    SYSTEM_MARK,
    TableDraft,
    create_table,
    split_system_name,
    table_path,
)


@dataclass(frozen=True, slots=True)
class TableRef(Spec):
    """A table: a warehouse and `database.table`, or the path of its directory; `$branch_b` after it is its branch."""

    warehouse: str | None = None
    name: str | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for what is not a text, or an address that holds a password."""
        check_fields(self)
        for address in (self.warehouse, self.path):
            check_address(address or "", "the table")

    def location(self) -> str:
        """Path of the table's directory, where its place follows from its name.

        Raises: InvalidArgumentError if it is named in no way, or in both.
        """
        if self.path is not None and self.name is None:
            return self.path.rstrip("/")
        if self.path is None and self.name is not None and self.warehouse:
            return table_path(self.warehouse, self.name)
        raise InvalidArgumentError("name a table either by warehouse and database.table, or by its path")


@dataclass(frozen=True, slots=True)
class StorageRef(Spec):
    """Options of the store; `secrets` maps an option to the environment variable that holds its value."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogRef(Spec):
    """Options of the catalog that knows the table's name, as in `Catalog(options=…)`; secrets as in `StorageRef`.

    Without any the warehouse is a directory.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewTable(Spec):
    """How to create the table of a write if it is not there.

    `columns` maps names to Paimon's types; without them the columns are those of the first source file, if that has
    types.
    """

    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    columns: Annotated[Texts | None, "columns with their types"] = None


@dataclass(frozen=True, slots=True)
class SourceRef(Spec):
    """The warehouse of a table that a write reads, where it is not that of the table that is written."""

    warehouse: str | None = None
    storage: StorageRef = field(default_factory=StorageRef)
    catalog: CatalogRef = field(default_factory=CatalogRef)

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for an address that holds a password."""
        check_address(self.warehouse or "", "the source")


def open_table(ref: TableRef, storage: StorageRef, catalog: CatalogRef, options: Mapping[str, str]) -> TableHandle:
    """The table, with `options` laid over those that are stored; its branch where `branch` is among them.

    Raises: NotFoundError if it or the branch is missing; InvalidArgumentError; UnsupportedError for a system table;
    StorageError.
    """
    ref, options = _with_branch(ref, _checked(options))
    branch = options.pop("branch", MAIN_BRANCH)
    if catalog.options:
        name, metastore = _name_in_catalog(ref), open_metastore(_catalog_config(ref, storage, catalog))
        return metastore.load_table(name, branch=branch, options=options)
    location = ref.location()
    config = EnvConfig(location, storage.options, storage.secrets)
    return load_table(location, config, branch=branch, options=options)


def open_or_make(
    ref: TableRef,
    storage: StorageRef,
    catalog: CatalogRef,
    options: Mapping[str, str],
    draft: Callable[[], TableDraft],
) -> tuple[TableHandle, bool]:
    """The table, made by the draft unless it is there; and whether it was made.

    Raises: as `open_table` and the draft; NotFoundError for a branch of a table that is missing, and makes neither.
    """
    ref, options = _with_branch(ref, options)
    if options.get("branch", MAIN_BRANCH) != MAIN_BRANCH:
        return open_table(ref, storage, catalog, options), False
    is_new = True
    try:
        if catalog.options:
            config = _catalog_config(ref, storage, catalog)
            open_metastore(config).create_table(_name_in_catalog(ref), draft(), if_not_exists=False)
        else:
            _make(ref.location(), storage, draft())
    except ConflictError:
        is_new = False
    return open_table(ref, storage, catalog, options), is_new


def _with_branch(ref: TableRef, options: Mapping[str, str]) -> tuple[TableRef, dict[str, str]]:
    """The table itself, and the options with the branch that its name names.

    Raises: InvalidArgumentError if the options name another one; UnsupportedError for a system table.
    """
    part = "path" if ref.name is None else "name"
    given = getattr(ref, part)
    if not given or SYSTEM_MARK not in given:
        return ref, dict(options)
    table, branch, system = split_system_name(given.rstrip("/"))
    if system is not None:
        raise UnsupportedError(f"{given} names a system table, which can only be read; name the table itself")
    if branch is None:
        return ref, dict(options)
    if options.get("branch", branch) != branch:
        raise InvalidArgumentError(f"{given} names one branch and the option branch={options['branch']!r} another")
    return replace(ref, **{part: table}), {**options, "branch": branch}


def _make(location: str, storage: StorageRef, draft: TableDraft) -> None:
    config = EnvConfig(location, storage.options, storage.secrets)
    create_table(
        config.build(),
        config,
        location,
        schema=draft.columns,
        primary_keys=draft.primary_keys,
        partition_keys=draft.partition_keys,
        options=draft.options,
        comment=draft.comment,
    )


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    hide(hidden_values(options, shows_table_option))
    check_names(options)
    return dict(options)


def _name_in_catalog(ref: TableRef) -> TableName:
    if ref.name is None or ref.path is not None:
        raise InvalidArgumentError("a table of a catalog is named by database.table, not by its path")
    return TableName.parse(ref.name)


def _catalog_config(ref: TableRef, storage: StorageRef, catalog: CatalogRef) -> CatalogConfig:
    return CatalogConfig.of(
        ref.warehouse,
        catalog.options,
        secrets=catalog.secrets,
        storage_options=storage.options,
        storage_secrets=storage.secrets,
    )
