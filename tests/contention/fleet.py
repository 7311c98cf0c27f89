"""Several processes on one table, each with a role, for some time; then accounts are settled.

Every row has a unique key, and the table has no primary key, or one: so that a row which is lost, or is there
twice, shows. The processes are forked off one that has imported everything.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from paimon_engine import Catalog, Table
from tests.contention.roles import ACTS, Worker, held
from tests.support.world import Real
from tests.support.world.check import assert_kept, assert_sound
from tests.support.world.kinds import CONTENDED
from tests.support.world.model import Rows

_LONGEST_COMMIT_S = 240


def new_table(warehouse: str, *, keyed: bool, storage: Mapping[str, str] | None = None) -> Table:
    return CONTENDED[keyed].create(Catalog(warehouse, storage_options=dict(storage or {})))


# ── the fleet ───────────────────────────────────────────────────────────────────────────────────


def _child(path: str, storage: Mapping[str, str], role: str, name: str, seconds: float, pipe: int) -> None:
    worker = None
    failure = ""
    try:
        location = Real(path, storage)
        kind = CONTENDED[bool(location.handle.schema.primary_keys)]
        worker = Worker(location, kind, name, random.Random(name))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ACTS[role](worker)
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is to hear of it
        failure = f"{role} {name}: {traceback.format_exc()}"
    report: dict[str, Any] = {"failure": failure}
    if worker is not None:
        report |= {name: getattr(worker, name) for name in ("tally", "unsure", "tags")}
        report["rows"] = worker.model.main.rows.rows
    with os.fdopen(pipe, "w") as out:
        json.dump(report, out)
    os._exit(0)


def sail(path: str, seconds: float, storage: Mapping[str, str], roles: Sequence[str]) -> list[dict[str, Any]]:
    """What each process says, once all have ended."""
    started = []
    for number, role in enumerate(roles):
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            signal.alarm(int(seconds) + _LONGEST_COMMIT_S)
            _child(path, storage, role, f"{role.replace(' ', '_')}-{number}", seconds, theirs)
        os.close(theirs)
        started.append((child, ours))
    reports = []
    for child, pipe in started:
        with os.fdopen(pipe) as stream:
            text = stream.read()
        os.waitpid(child, 0)
        reports.append(dict(json.loads(text or '{"failure": "a process died"}')))
    return reports


def settle(path: str, reports: list[dict[str, Any]], storage: Mapping[str, str]) -> Counter[str]:
    """What all processes together did, with `rows` of the table.

    Raises: AssertionError if an acknowledged row is not there once, one that was deleted is, a tag reads other rows
    than it did, or the table is not valid.
    """
    failures = [report["failure"] for report in reports if report["failure"]]
    assert not failures, failures[0]
    location = Real(path, storage)
    table = location.table()
    kind = CONTENDED[bool(table.schema.primary_keys)]
    known = Rows(kind, (row for report in reports for row in report["rows"]))
    found = Rows(kind, table.to_arrow().to_pylist())
    assert_kept(found, known, "k", unsure={key for report in reports for key in report["unsure"]})
    for report in reports:
        for tag, rows in report["tags"].items():
            assert held(table, tag) == rows, f"tag {tag} reads other rows than it did"
    assert_sound(location.handle)
    total: Counter[str] = sum((Counter(report["tally"]) for report in reports), Counter())
    return total + Counter(rows=len(found.rows))


def main() -> None:
    """`fleet.py`'s own process: path, seconds, options of the store and roles, as JSON on standard input."""
    given = json.load(sys.stdin)
    print(json.dumps(sail(given["path"], given["seconds"], given["storage"], given["roles"])))


if __name__ == "__main__":
    main()
