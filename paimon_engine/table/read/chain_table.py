"""Chain tables: a partition is complete in one branch, or the last complete one before it and all changes since.

1. A partition that the branch itself has is read from it; else the one of the snapshot branch, which is complete, too.
2. What only the delta branch has is merged with the changes of earlier partitions, back to the last complete one that
   is earlier (the anchor), or of all of them if there is none. The rows become rows of the partition that is read.
3. Earlier are partitions with smaller values of `chain-table.chain-partition-keys`, and the same values of the others.

Java 2.0 takes the changes after an anchor from each day, or hour, that the pattern and the formatter of partitions
give; partitions between these are read here, as by later releases.

Source: `ChainGroupReadTable`, `ChainTableUtils`, `ChainTableFileStoreTable` of the Java library.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from paimon_engine.errors import ConflictError, UnsupportedError
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.options.chain import CHAIN_TABLE, COMPLETE_BRANCH, DELTA_BRANCH
from paimon_engine.predicate import Predicate, columns_of, conjunction, conjuncts_of
from paimon_engine.table.read.chain_links import ChainLinks
from paimon_engine.table.read.joined_buckets import directories_of, joined, rescaled_partitions, with_directories
from paimon_engine.table.read.other_branch import check_alike
from paimon_engine.table.read.pruning import matching_partitions
from paimon_engine.table.read.read_request import State
from paimon_engine.table.read.scan import splits_of, usable_conjuncts, visible_entries
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.level_mode import check_mode
from paimon_engine.table.state.snapshots import latest_snapshot, read_at_latest

_LOOKS_MAX: Final = 20

Partitions = Mapping[bytes, Sequence[ManifestEntry]]
"""The live files of each partition."""


@dataclass(frozen=True, slots=True)
class ChainBranches:
    """The branches of a chain table: `complete` has whole partitions, `delta` changes."""

    complete: TableHandle
    delta: TableHandle


@dataclass(frozen=True, slots=True)
class ChainState:
    """The partitions of both branches at one moment, and the snapshots that have them."""

    complete: Partitions
    delta: Partitions
    complete_snapshot: Snapshot | None
    delta_snapshot: Snapshot | None


def chain_of(table: TableHandle) -> ChainBranches | None:
    """The branches that a read of the table looks at besides its own; None if it is no chain table, or one of them.

    Raises: NotFoundError, UnsupportedError; InvalidArgumentError as `check_alike`.
    """
    names = table.options.chain_branches
    if names is None or table.paths.branch.lower() in (name.lower() for name in names):
        return None
    for key, name in zip((COMPLETE_BRANCH, DELTA_BRANCH), names, strict=True):
        check_alike(table, table.on_branch(name), key)
    chain = ChainBranches(*(table.on_branch(name) for name in names))
    if chain.complete.options.deletion_vectors_enabled or chain.delta.options.deletion_vectors_enabled:
        raise UnsupportedError(
            f"reading this table is not supported yet: '{CHAIN_TABLE}' together with 'deletion-vectors.enabled'; its "
            f"branches {names[0]!r} and {names[1]!r} can be read by themselves"
        )
    return chain


def chain_branches(table: TableHandle) -> ChainBranches:
    """The branches of complete partitions and of changes, given any branch of a chain table.

    Raises: UnsupportedError if the table has none to read from; as `chain_of`.
    """
    chain = chain_of(table if table.paths.branch == MAIN_BRANCH else table.on_branch(MAIN_BRANCH))
    if chain is None:
        raise UnsupportedError(
            f"{table.paths.root} is not a chain table: it needs '{CHAIN_TABLE}' = 'true', and its branches' names "
            f"in '{COMPLETE_BRANCH}' and '{DELTA_BRANCH}'"
        )
    return chain


def chain_splits(
    table: TableHandle, state: State, chain: ChainBranches, where: Predicate | None
) -> list[tuple[TableHandle, list[Split]]]:
    """Splits of the partitions that the table has no files of, each list with the branch as which it is read.

    Raises: UnsupportedError if the branches have different schemas; NotFoundError, CorruptTableError.
    """
    present = frozenset(entry.partition for entry in visible_entries(table, state.snapshot, where))
    both = chain_state(chain)
    complete, delta = both.complete, both.delta
    whole = [entry for partition, found in complete.items() if partition not in present for entry in found]
    wanted = matching_partitions(
        chain.delta.schema,
        [found[0] for found in delta.values()],
        usable_conjuncts(chain.delta, where),
    )
    missing = [entry.partition for entry in wanted if entry.partition not in present | complete.keys()]
    merged = merged_splits(chain, complete, delta, missing, where)
    return [(chain.complete, splits_of(chain.complete, whole, where)), (chain.delta, merged)]


def merged_splits(
    chain: ChainBranches,
    complete: Partitions,
    delta: Partitions,
    wanted: Sequence[bytes],
    where: Predicate | None = None,
) -> list[Split]:
    """Splits of partitions of `delta`: of each the changes up to it, and its anchor.

    Raises: UnsupportedError if the branches have different schemas; InvalidArgumentError.
    """
    links = ChainLinks(chain.delta.schema, complete, delta)
    same_schema = _schema_ids(chain)
    merged = []
    for partition in wanted:
        anchor, changes = links.of(partition)
        old = [] if anchor is None else [same_schema(entry) for entry in complete[anchor]]
        new = [entry for link in changes for entry in delta[link]]
        merged += _as_one_partition(chain.delta, partition, [*old, *new], where)
    return merged


def chain_state(chain: ChainBranches) -> ChainState:
    """All partitions of both branches as they were at one moment; a filter may leave out the anchor of what it chooses.

    Between two reads others may make a later partition complete and expire what came before it. Changes would then lack
    those before them. So the changes count only if the complete partitions are still the same once they are read.

    Raises: NotFoundError, CorruptTableError; ConflictError if others change the complete partitions all the time.
    """
    snapshot, complete = _at_latest(chain.complete)
    for _ in range(_LOOKS_MAX):
        delta_snapshot, delta = _at_latest(chain.delta)
        again = latest_snapshot(chain.complete)
        if again == snapshot:
            return ChainState(complete, delta, snapshot, delta_snapshot)
        snapshot, complete = _at_latest(chain.complete)
    raise ConflictError(
        f"{chain.complete.paths.root}: branch {chain.complete.paths.branch!r} changed {_LOOKS_MAX} times while it was "
        "read; read again when fewer jobs write to it"
    )


def _at_latest(branch: TableHandle) -> tuple[Snapshot | None, Partitions]:
    """The partitions of a branch with their files, and the snapshot that has them."""

    def look(snapshot: Snapshot | None) -> tuple[Snapshot | None, Partitions]:
        check_mode(branch, snapshot)
        found: dict[bytes, list[ManifestEntry]] = defaultdict(list)
        for entry in visible_entries(branch, snapshot):
            found[entry.partition].append(entry)
        return snapshot, found

    return read_at_latest(branch, look)


def _schema_ids(chain: ChainBranches) -> Callable[[ManifestEntry], ManifestEntry]:
    """Gives files of the complete branch the id that the same schema has in the other one, as which they are read.

    Raises: UnsupportedError if there is none.
    """
    known: dict[int, int] = {}

    def find(schema_id: int) -> int:
        wanted = chain.complete.schema_of(schema_id)
        for number in range(chain.delta.schema.id, -1, -1):
            if _is_alike(chain.delta.schema_of(number), wanted):
                return number
        raise UnsupportedError(
            f"branch {chain.complete.paths.branch!r} has files of schema {schema_id}, whose columns no schema of "
            f"branch {chain.delta.paths.branch!r} has; make the same changes of the schema in both branches"
        )

    def same_schema(entry: ManifestEntry) -> ManifestEntry:
        number = entry.file.schema_id
        known[number] = known[number] if number in known else find(number)
        return replace(entry, file=replace(entry.file, schema_id=known[number]))

    return same_schema


def _is_alike(one: TableSchema, other: TableSchema) -> bool:
    return one.row_type == other.row_type and one.primary_keys == other.primary_keys


def _as_one_partition(
    table: TableHandle, partition: bytes, entries: Sequence[ManifestEntry], where: Predicate | None
) -> list[Split]:
    """Splits of files of several partitions whose rows are merged as those of this one.

    Conditions on partition columns are met by it; the files have other values in these columns. Where the
    branches have different numbers of buckets, or a partition is older than a change of them, all are merged as one
    bucket. Java refuses to read these.
    """
    as_one = [replace(entry, partition=partition) for entry in entries]
    as_one = joined(as_one, rescaled_partitions(as_one))
    own = [part for part in conjuncts_of(where) if columns_of(part).isdisjoint(table.schema.partition_keys)]
    directories = directories_of(table, entries)
    return [
        with_directories(split, directories) for split in splits_of(table, as_one, conjunction(*own) if own else None)
    ]
