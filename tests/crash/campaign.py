"""A campaign: steps on a real table on disk by processes that are killed, and what must be true after every kill.

After a kill: the table verifies; nothing that anything needs is deleted; its rows are those before or after the step;
its tags read as they did. The job repeated under the same commit user, and perhaps killed again, then finishes: rows,
tags and branches are those of the model, and no commit is there twice. Now and then orphans are removed, and no file
may be left that nothing needs, and every snapshot is read.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paimon_engine import Catalog, Table, open_table
from paimon_engine.jobs import Job, TableRef
from paimon_engine.storage import LocalStorage
from tests.crash.model import Line, Model, Rows
from tests.crash.steps import COLUMNS, Step, Steps
from tests.support.world.reach import unreached

KINDS: dict[str, dict[str, Any]] = {
    "keyed": {"bucket": 2},
    "lookup": {"bucket": 2, "changelog-producer": "lookup"},
    "vectors": {"bucket": 1, "deletion-vectors.enabled": "true"},
    "append": {"bucket": -1, "deletion-vectors.enabled": "true"},
    "dynamic": {"bucket": -1, "dynamic-bucket.target-row-num": "9"},
}
_STEPS_BETWEEN_CLEANINGS = 8
_CHANGES_AT_FIRST = 40
_ANSWER_MAX_S = 120


@dataclass
class Tally:
    """What a campaign did."""

    kills: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    finished_before_the_kill: int = 0

    def __str__(self) -> str:
        killed = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        return f"{self.kills.total()} kills in {self.steps.total()} steps: {killed}"


class Worker:
    """The process that forks, and is never killed itself."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash.worker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=_ANSWER_MAX_S)
        self._process.stdout.close()


@contextmanager
def worker() -> Iterator[Worker]:
    started = Worker()
    try:
        yield started
    finally:
        started.close()


class Campaign:
    """One table of a kind; `seed` decides on steps and kills."""

    def __init__(self, directory: Path, kind: str, seed: int, worker: Worker) -> None:
        self._chance = random.Random(f"{kind} {seed}")
        self._worker = worker
        self._vectors = "deletion-vectors.enabled" in KINDS[kind] and kind != "append"
        keyed = kind != "append"
        options = {"manifest.merge-min-count": 4, **KINDS[kind]}
        keys = ["p", "k"] if keyed else []
        catalog = Catalog(str(directory / "lake"))
        self.root = catalog.create_table(
            "db.t", schema=COLUMNS, primary_keys=keys, partition_keys=["p"], options=options
        ).path
        self._steps = Steps(self._chance, directory, keyed=keyed, fixed=KINDS[kind]["bucket"] > 0)
        self.model = Model()
        self.tally = Tally()
        self._changes: dict[str, int] = {}
        self._ever: dict[tuple[str, int], set[int]] = {}

    def run(self, kills: int) -> Tally:
        """Steps until so many processes were killed."""
        while self.tally.kills.total() < kills:
            self.step()
            if self.tally.steps.total() % _STEPS_BETWEEN_CLEANINGS == 0:
                self.clean()
        self.clean()
        return self.tally

    def table(self, branch: str | None = None) -> Table:
        return open_table(self.root if branch is None else f"{self.root}$branch_{branch}")

    # ── a step ──────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        """One step, killed once, twice or not at all, and then finished."""
        step = self._steps.draw(self.model)
        number = self.tally.steps.total()
        self.tally.steps[step.name] += 1
        user, before, after = f"job-{number}", self.model.copy(), self.model.copy()
        step.apply(after)
        for line in (after.main, *after.branches.values()):
            for key, value in line.rows.items():
                self._ever.setdefault(key, set()).add(value)
        for tries_left in reversed(range(3)):
            said = self._worker.ask(self._request(step, user, may_kill=tries_left > 0))
            if said:
                break
            self.tally.kills[step.name] += 1
            self._check_between(step, before, after)
        assert "error" not in said, f"{step} of {user}: {said}"
        self._changes[step.name] = max(said["changes"], self._changes.get(step.name, 0))
        self.model = after
        self._check_after(step, user)

    def _request(self, step: Step, user: str, *, may_kill: bool) -> dict[str, Any]:
        request: dict[str, Any] = {"root": self.root}
        if step.action is not None:
            request["job"] = Job(TableRef(path=self.root), step.action, user).to_json()
        else:
            request |= {"branch": step.branch, "source": step.source, "user": user}
        if may_kill and self._chance.random() < 0.8:
            request["at"] = self._chance.randrange(self._changes.get(step.name, _CHANGES_AT_FIRST) + 1)
        elif may_kill:
            request["after_ms"] = self._chance.uniform(1, 120)
        return request

    # ── what must hold ──────────────────────────────────────────────────────────────────────────

    def _check_between(self, step: Step, before: Model, after: Model) -> None:
        self._check_sound(f"killed in {step.name}")
        table = self.table()
        rows = read(table)
        if self._vectors:
            # What is read is never made up, but may be older than all snapshots that are left.
            assert all(value in self._ever.get(key, ()) for key, value in rows.items())
        elif step.passes_through:
            known = [before.main.rows, after.main.rows, *before.main.at.values()]
            known += [found for line in before.branches.values() for found in line.at.values()]
            assert rows in known, f"killed in {step.name}: rows that never were"
        else:
            assert rows in (before.main.rows, after.main.rows), f"killed in {step.name}: rows neither old nor new"
        for name in table.tags()["tag_name"].to_pylist():
            if not name.startswith("rollback-to-as-latest-"):
                found = [line.tagged[name] for line in (before.main, after.main) if name in line.tagged]
                self._check_rows(read(table, tag=name), found, f"killed in {step.name}: tag {name}")

    def _check_after(self, step: Step, user: str) -> None:
        self._check_sound(step.name)
        table = self.table()
        self._check_line(self.model.main, table, step.name)
        assert set(table.branches()["branch_name"].to_pylist()) == self.model.branches.keys()
        for name, line in self.model.branches.items():
            self._check_line(line, self.table(name), f"{step.name}, branch {name}")
        names = Counter(
            (item["commit_user"], item["commit_identifier"], item["commit_kind"])
            for item in table.snapshots().to_pylist()
        )
        assert all(count == 1 for name, count in names.items() if name[0] == user), f"{step.name} was done twice"

    def _check_line(self, line: Line, table: Table, where: str) -> None:
        self._check_rows(read(table), [line.rows], where)
        line.saw(table.snapshots()["snapshot_id"].to_pylist())
        tags = {item["tag_name"]: item["snapshot_id"] for item in table.tags().to_pylist()}
        tags = {name: number for name, number in tags.items() if not name.startswith("rollback-to-as-latest-")}
        assert tags == line.tags, where
        for name in tags:
            self._check_rows(read(table, tag=name), [line.tagged[name]], f"{where}, tag {name}")

    def _check_rows(self, rows: Rows, known: list[Rows], where: str) -> None:
        if self._vectors:
            # Rows of level 0 are not read before they are compacted: what is read may be older, and is never made up.
            return
        assert rows in known, f"{where}: other rows than in the model"

    def _check_sound(self, where: str) -> None:
        problems = self.table().verify().problems
        if where in ("killed in roll back to tag", "killed in fast-forward"):
            # Where the snapshots between have expired, there is no way from one row to the other without a gap.
            problems = tuple(problem for problem in problems if "those between are missing" not in problem.what)
        assert problems == (), f"{where}: {problems}"
        unreached(LocalStorage(), self.root)

    def clean(self) -> None:
        """Removes orphans, and then no file is left that nothing needs; reads every snapshot."""
        time.sleep(0.005)
        table = self.table()
        # What was killed a moment ago is newer than the newest commit.
        result = table.remove_orphan_files(int(time.time() * 1000), confirm_latest_snapshot=table.latest_snapshot_id())
        assert result.stopped == ()
        # It blocks commits by snapshots that change nothing.
        self.model.main.saw(table.snapshots()["snapshot_id"].to_pylist())
        for name, line in self.model.branches.items():
            line.saw(self.table(name).snapshots()["snapshot_id"].to_pylist())
        left = unreached(LocalStorage(), self.root)
        if table.quarantines():
            # What a quarantine has a copy of stays until that is emptied or restored, and so does a plan that names it.
            left = {path for path in left if not path.startswith("deletion/orphans/")}
        assert left == set(), left
        table = self.table()
        if self._vectors and self.model.main.at:
            # Only now all rows are to be seen.
            table.compact(full=True)
            assert read(table) == self.model.main.rows
            self.model.main.saw(table.snapshots()["snapshot_id"].to_pylist())
        for number, rows in self.model.main.at.items():
            self._check_rows(read(table, snapshot=number), [rows], f"snapshot {number}")


def read(table: Table, **kwargs: Any) -> Rows:
    found = table.to_arrow(columns=["p", "k", "v"], **kwargs).to_pylist()
    rows = {(row["p"], row["k"]): row["v"] for row in found}
    assert len(rows) == len(found), "a key is there twice"
    return rows
