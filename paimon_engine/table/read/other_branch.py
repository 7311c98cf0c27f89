"""A branch from which a read takes whole partitions: `scan.fallback-branch` and `scan.primary-branch`.

Source: `FallbackReadFileStoreTable` of the Java library (2.0).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.paths import OTHER_BRANCHES, PRIMARY_BRANCH
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options.older_names import with_newest_names
from paimon_engine.table.read.read_request import SCAN_MODE, ReadRequest, Scope, State, locate, way_of
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import choose_snapshot, earliest_snapshot_id, read_snapshot
from paimon_engine.types import type_to_json, with_nullable


class OtherBranch(NamedTuple):
    """A branch from which a read takes whole partitions, and its state.

    If it `comes_first`, all of its partitions are read from it, else those that the table lacks.
    """

    table: TableHandle
    state: State
    comes_first: bool


def locate_other_branch(table: TableHandle, request: ReadRequest, found: Scope) -> OtherBranch | None:
    """The branch of `scan.fallback-branch` or `scan.primary-branch` at the same time or tag as the table.

    None without these options; the first counts, as in Java. Snapshot ids are those of the table; the branch is read as
    of their time.

    Raises: InvalidArgumentError if the branch has other columns or keys; UnsupportedError for changes; NotFoundError.
    """
    given_names = {key: table.options.raw.get(key, "").strip() for key in OTHER_BRANCHES}
    option, name = next(((key, value) for key, value in given_names.items() if value), ("", ""))
    if not name or name == table.paths.branch:
        return None
    if not isinstance(found, State):
        raise UnsupportedError(f"reading changes with '{option}' = '{name}' is not supported yet")
    options = with_newest_names({key: str(value) for key, value in request.options.items() if key != "branch"})
    request = replace(request, branch=None, options=options)
    branch = table.on_branch(name)
    mode, way, value = way_of(table, request, options)
    if way == "scan.snapshot-id" or (way == "scan.version" and found.snapshot is not None and str(value).isdigit()):
        assert found.snapshot is not None
        snapshot = _as_of(branch, found.snapshot.time_ms)
        branch, state = (branch if snapshot is None else branch.at_schema(snapshot.schema_id)), State(snapshot)
    else:
        given = {key: str(value) for key in (way,) if key is not None}
        if mode != "default":
            given[SCAN_MODE] = mode
        branch, located = locate(branch, ReadRequest(options=given))
        assert isinstance(located, State)
        state = located
    check_alike(table, branch, option)
    return OtherBranch(branch, state, comes_first=option == PRIMARY_BRANCH)


def _as_of(branch: TableHandle, time_ms: int) -> Snapshot | None:
    """The newest snapshot of the branch at that time; its first, where all are younger."""
    earliest = earliest_snapshot_id(branch)
    if earliest is None:
        return None
    first = read_snapshot(branch, earliest)
    return first if first.time_ms > time_ms else choose_snapshot(branch, timestamp_ms=time_ms)


def check_alike(table: TableHandle, branch: TableHandle, option: str) -> None:
    """Raises InvalidArgumentError if the branch that the option names has other columns or keys than the table."""

    def shape(handle: TableHandle) -> list[tuple[str, object]]:
        return [
            (field.name, type_to_json(with_nullable(field.type, nullable=True))) for field in handle.schema.row_type
        ]

    name = branch.paths.branch
    if shape(table) != shape(branch):
        raise InvalidArgumentError(f"'{option}' = '{name}': the branch has other columns than {table.paths.branch}")
    keys, others = table.schema.primary_keys, branch.schema.primary_keys
    # The partitions of a primary branch may be without keys, as rows come before they are merged.
    differ = keys != others and (bool(others) or option != PRIMARY_BRANCH)
    if (keys and differ) or table.schema.partition_keys != branch.schema.partition_keys:
        raise InvalidArgumentError(
            f"'{option}' = '{name}': the branch has other primary or partition keys than {table.paths.branch}"
        )
