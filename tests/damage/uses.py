"""What people do with a table, tried on one that may be damaged; and the results."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from paimon_engine.action import Context
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.tags import DeleteTag, delete_tag
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import PaimonError
from paimon_engine.executor import LocalExecutor
from paimon_engine.inspect.system_tables import SYSTEM_TABLES, open_system_table
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.reach.reachability import DataPaths, all_roots, root_files, with_branch_paths
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import live_entries
from tests.damage.subjects import ROOT, Files, store

NOW_MS: Final = 4_000_000_000_000
_ROOT_FILE: Final = re.compile(r"(branch/[^/]+/)?(snapshot/snapshot-\d+|tag/tag-.+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`what` is done (then `said` is a digest), refused (then the error), or escaped (then the traceback)."""

    use: str
    what: str
    message: str


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the undamaged table: its tags and snapshots, and which files each root file needs."""

    snapshots: tuple[int, ...]
    tags: tuple[str, ...]
    branches: tuple[str, ...]
    needed: dict[str, frozenset[str]]


def known_of(files: Files) -> Known:
    """From the undamaged table."""
    table = _open(store(files))
    needed: dict[str, frozenset[str]] = {}
    paths = DataPaths(table)
    for root in all_roots(table):
        line = with_branch_paths(table, root.branch).paths
        path = line.snapshot(root.snapshot.id) if root.tag is None else line.tag(root.tag)
        reached = {*root_files(table, root.snapshot).metadata}
        reached |= {location for entry in live_entries(table, root.snapshot) for location, _ in paths.of(entry)}
        needed[_inner(path)] = frozenset(_inner(location) for location in reached) & files.keys()
    roots = all_roots(table)
    return Known(
        tuple(root.snapshot.id for root in roots if root.branch == "main" and root.tag is None),
        tuple(root.tag for root in roots if root.branch == "main" and root.tag is not None),
        tuple(dict.fromkeys(root.branch for root in roots if root.branch != "main")),
        needed,
    )


def _inner(path: str) -> str:
    return path.removeprefix(f"{ROOT}/")


def _open(storage: MemoryStorage) -> TableHandle:
    return load_table(ROOT, EnvConfig(ROOT), env=Env(storage, clock=lambda: NOW_MS))


def uses(files: Files, known: Known, system_tables: Sequence[str] = SYSTEM_TABLES) -> Iterator[Outcome]:
    """Everything that people do, each on a table of its own; of the system tables only these."""
    storage = store(files)
    for use, request in _reads(known):
        yield _tried(use, lambda request=request: _rows(storage, request))  # type: ignore[misc]
    for name in system_tables:
        yield _tried(f"${name}", lambda name=name: _system(storage, name))  # type: ignore[misc]
    yield _tried("check", lambda: _text([(one.where, one.what) for one in check_table(_open(storage))]))
    yield _tried("compact", lambda: _compacted(files))
    yield _tried("expire dry", lambda: _expired(files, known, dry_run=True))
    yield _tried("expire", lambda: _expired(files, known, dry_run=False))
    for tag in known.tags:
        yield _tried(f"delete tag {tag}", lambda tag=tag: _without_tag(files, known, tag))  # type: ignore[misc]


def _reads(known: Known) -> Iterator[tuple[str, ReadRequest]]:
    yield "rows", ReadRequest()
    for snapshot in sorted({known.snapshots[location] for location in (0, len(known.snapshots) // 2, -1)}):
        yield f"rows of snapshot {snapshot}", ReadRequest(snapshot=snapshot)
    for tag in known.tags:
        yield f"rows of tag {tag}", ReadRequest(tag=tag)
    for branch in known.branches:
        yield f"rows of branch {branch}", ReadRequest(branch=branch)
    if len(known.snapshots) > 1:
        yield "changes", ReadRequest(incremental=(known.snapshots[0], known.snapshots[-1]))


def _tried(use: str, run: Callable[[], str]) -> Outcome:
    try:
        return Outcome(use, "done", run())
    except PaimonError as error:
        return Outcome(use, "refused", f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 - whatever else comes out is what the test looks for
        return Outcome(use, "escaped", traceback.format_exc())


def _text(value: Sequence[Any]) -> str:
    """How many there are, and a digest of them."""
    return f"{len(value)} {hashlib.sha256(repr(value).encode()).hexdigest()[:16]}"


def _rows(storage: MemoryStorage, request: ReadRequest) -> str:
    schema, batches = open_read(_open(storage), request)
    return _digest(schema, batches)


def _digest(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
    # The schema last, so that the number is that of the rows and one.
    return _text([*sorted(repr(row) for batch in batches for row in batch.to_pylist()), str(schema)])


def _system(storage: MemoryStorage, name: str) -> str:
    schema, batches = open_system_table(_open(storage), name, ReadRequest())
    return _digest(schema, batches)


def _compacted(files: Files) -> str:
    storage = store(files)
    table = _open(storage)
    result = compact(Context(table, LocalExecutor(1, env=table.env)), Compact(full=True))
    for failure in result.failed:
        raise PaimonError(failure)
    return _rows(storage, ReadRequest())


def _expired(files: Files, known: Known, *, dry_run: bool) -> str:
    storage = store(files)
    table = _open(storage)
    spec = ExpireSnapshots(retain_max=1, older_than=NOW_MS, dry_run=dry_run)
    expire_snapshots(Context(table, LocalExecutor(1, env=table.env)), spec)
    _assert_nothing_lost(files, storage, known)
    return ""


def _without_tag(files: Files, known: Known, tag: str) -> str:
    storage = store(files)
    table = _open(storage)
    delete_tag(Context(table, LocalExecutor(1, env=table.env)), DeleteTag(tag))
    _assert_nothing_lost(files, storage, known)
    return ""


def _assert_nothing_lost(before: Files, storage: MemoryStorage, known: Known) -> None:
    """Every root that is still there has all the files that it had."""
    after = {_inner(info.path) for info in storage.walk(ROOT)}
    for root in after & known.needed.keys():
        lost = (known.needed[root] & before.keys()) - after
        assert not lost, f"{root} lost {sorted(lost)}"
