"""New schema files: the checks that a schema goes through, and the race for the next id.

Source: `SchemaManager` of the Java library.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paimon_engine.env import Env
from paimon_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    OutcomeUnknownError,
    PaimonError,
    UnsupportedError,
)
from paimon_engine.meta.codec_rules import check_codecs, has_codecs
from paimon_engine.meta.paths import OTHER_BRANCHES, TablePaths
from paimon_engine.meta.schema import TableSchema, parse_schema, schema_to_json
from paimon_engine.options import TableOptions
from paimon_engine.options.changed import check_changed
from paimon_engine.supported import check_writable
from paimon_engine.table.state.handle import TableHandle, gone, latest_schema_id
from paimon_engine.table.state.level_mode import check_switch
from paimon_engine.table.state.old_types import check_old_types
from paimon_engine.table.state.schema_service import SchemaService
from paimon_engine.table.state.snapshots import latest_snapshot

if TYPE_CHECKING:
    from paimon_engine.meta.schema_change import SchemaChange

logger = logging.getLogger(__name__)

_TRIES_MAX: Final = 20


class _LostError(Exception):
    """Another schema took the id."""


def check_rules(schema: TableSchema, before: Mapping[str, str] | None = None) -> None:
    """Checks a schema that is about to be stored, in which options were those of `before`; without it, a new one.

    Raises: InvalidArgumentError or UnsupportedError for one that no table should get.
    """
    from paimon_engine.merge.functions import check_merge_options
    from paimon_engine.meta.schema_rules import check_schema

    check_schema(schema, before or {})
    check_merge_options(schema)


def check_branch(env: Env, paths: TablePaths, schema: TableSchema) -> None:
    """Raises InvalidArgumentError if the schema names a branch to read from that is not there, or two."""
    named = {key: schema.options.get(key, "").strip() for key in OTHER_BRANCHES}
    for option, branch in named.items():
        if branch and latest_schema_id(env, TablePaths(paths.root, branch)) is None:
            raise InvalidArgumentError(f"'{option}' = '{branch}': there is no such branch; create it first")
    if all(named.values()):
        raise InvalidArgumentError(f"{' and '.join(map(repr, OTHER_BRANCHES))} cannot both be set")


def alter_schema(table: TableHandle, changes: Sequence[SchemaChange]) -> tuple[TableSchema, TableSchema]:
    """The stored schema before and after the changes; one and the same if they change nothing.

    Where others alter the table at the same time, the changes are made again on top of theirs.

    Raises: InvalidArgumentError, UnsupportedError; ConflictError if others are always faster; OutcomeUnknownError.
    """
    import tenacity

    if table.schema_service is not None:
        return _through_service(table, table.schema_service, changes)
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_TRIES_MAX),
        wait=tenacity.wait_random_exponential(multiplier=0.01, max=1),
        retry=tenacity.retry_if_exception_type(_LostError),
    )
    try:
        return retrying(_attempt, table, changes)
    except tenacity.RetryError as error:
        raise ConflictError(
            f"{table.paths.root}: others changed the schema first in {_TRIES_MAX} tries; run again"
        ) from error


def stored_schema(table: TableHandle) -> TableSchema:
    """The newest schema as it is stored, without dynamic options.

    Raises: NotFoundError.
    """
    if table.schema_service is not None:
        return table.schema_service.latest(table)
    latest = latest_schema_id(table.env, table.paths)
    if latest is None:
        raise gone(table.paths)
    path = table.paths.schema(latest)
    return parse_schema(table.env.storage.read(path).decode(), path)


def _through_service(
    table: TableHandle, service: SchemaService, changes: Sequence[SchemaChange]
) -> tuple[TableSchema, TableSchema]:
    """The server makes the changes; ours are the checks before it, so that they are those of any table."""
    before, after = _planned(table, changes)
    if after is before:
        return before, before
    try:
        service.alter(table, before, changes)
    except OutcomeUnknownError:
        found = service.latest(table)
        if replace(after, id=found.id, time_ms=found.time_ms, version=found.version) != found:
            raise
        return before, found
    logger.info("had the server change the schema of %s", table.paths.root)
    return before, service.latest(table)


def _planned(table: TableHandle, changes: Sequence[SchemaChange]) -> tuple[TableSchema, TableSchema]:
    """The stored schema, and what the changes make of it after all checks; the very same if they change nothing."""
    from paimon_engine.meta.alteration import altered

    before = stored_schema(table)
    latest = latest_snapshot(table)
    after = altered(before, changes, has_snapshots=latest is not None, time_ms=table.env.clock())
    if after is before:
        return before, before
    check_changed(before.options, after.options)
    check_rules(after, before.options)
    check_branch(table.env, table.paths, after)
    if _is_writable(before.table_options):
        # A change must not take the table out of this engine's reach; one that is out of it already may change.
        check_writable(after.table_options)
    if has_codecs(before.table_options):
        check_codecs(after.table_options)
    check_switch(table, latest, before, after)
    check_old_types(table, latest, before, after)
    return before, after


def _attempt(table: TableHandle, changes: Sequence[SchemaChange]) -> tuple[TableSchema, TableSchema]:
    """The schema before and after one try, the same where nothing changes.

    An entry in a metastore is changed first, and made to agree with what is stored where the schema is not.

    Raises: _LostError if another process has made the next schema.
    """
    before, after = _planned(table, changes)
    if table.entry is not None:
        # Also without changes: then it repairs an entry that an earlier run has not finished.
        table.entry.follow(table, before, after)
    if after is before:
        return before, before
    try:
        made = _create(table, after)
    except BaseException:
        _follow_stored(table, after)
        raise
    if not made:
        _follow_stored(table, after)
        raise _LostError
    path = table.paths.schema(after.id)
    logger.info("changed the schema of %s: %s", table.paths.root, path)
    return before, after


def _create(table: TableHandle, schema: TableSchema) -> bool:
    """Whether this call created the schema's file; False if another schema has its id."""
    path, data = table.paths.schema(schema.id), schema_to_json(schema).encode()
    try:
        return table.env.storage.create(path, data)
    except OutcomeUnknownError:
        return table.env.storage.exists(path) and table.env.storage.read(path) == data


def _follow_stored(table: TableHandle, announced: TableSchema) -> None:
    """Sets the catalog's entry back to the schema that is stored, as the announced one was not."""
    if table.entry is None:
        return
    try:
        table.entry.follow(table, announced, stored_schema(table))
    except PaimonError as error:
        logger.warning(
            "the catalog's entry of %s shows a schema that was not created, until its next change: %s",
            table.paths.root,
            error,
        )


def _is_writable(options: TableOptions) -> bool:
    try:
        check_writable(options)
    except UnsupportedError:
        return False
    return True
