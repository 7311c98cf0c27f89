"""Fences: how a clean-up of orphan files stops commits whose files it is about to delete.

The files of a commit that is being prepared look like orphans. Their age alone does not protect them: a writer may be
paused for longer than the minimum age, and a wrong clock of the storage, or a copy that keeps times, may make a new
file look old. The only atomic operation is *create snapshot n+1 if absent*. So a clean-up that has found orphans

1. writes a *plan* `deletion/orphans/<id>.json` (`table.reach.clean_up_plan`) with the paths that it will delete;
2. commits a *fence* on every branch that has snapshots: an empty snapshot of kind COMPACT, which readers of changes
   skip, under a commit user that starts with `FENCE_USER`. A commit that was already prepared as the next snapshot
   loses the race against the fence, and has to try again;
3. reads again everything that roots name, up to the fence and beyond, and takes files that are named now off its list;
4. deletes the files, or moves them into a quarantine;
5. deletes the plan.

A commit that finds a fence made after its own work began (`table.commit.own_files`) checks whether its files are in a
plan, and then whether they exist. The order matters, as the clean-up deletes the plan last. So, for a file that the
clean-up has listed as an orphan:

- if it was committed before the fence, step 3 sees it, and it stays;
- if its commit comes after the fence, that commit finds it in the plan, or finds it deleted, and is refused;
- if it was written after the fence, it is in no plan, since files are listed before the fence. This holds however long
  the clean-up takes.

A clean-up that is killed leaves its plan. Commits with files in it are refused until the next clean-up has deleted
these files and the plan. Another process may delete a plan only if each of its files is deleted or named by a root:
then the clean-up that wrote it, should it still run, deletes nothing that is needed.

There is no fence in a table that this engine cannot commit to (`manifest.format` is not Avro): none of our commits is
being prepared there. There is none on a branch without snapshots either, since an empty first snapshot would change
the branch's meaning; instead, the first commit of a branch checks its files again after it has published. Other
engines do not read plans: their files are protected by their age only.
"""

from __future__ import annotations

from collections.abc import Collection

from paimon_engine.errors import PaimonError
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.supported import can_write_metadata
from paimon_engine.table.commit.commit import CommitRequest, Conflict, commit
from paimon_engine.table.reach.clean_up_plan import FENCE_USER, CleanUpPlan, forget_plan, plans
from paimon_engine.table.reach.reachability import with_branch_paths
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import branch_exists, branches, snapshot_ids


def raise_fences(table: TableHandle, plan: CleanUpPlan) -> list[str]:
    """Commits a fence on every branch that has snapshots; returns messages for branches where that failed."""
    problems: list[str] = []
    if not can_write_metadata(table.options):
        return problems
    for branch in (MAIN_BRANCH, *branches(table)):
        try:
            on_branch = table if branch == table.paths.branch else table.on_branch(branch)
            if not snapshot_ids(on_branch):
                continue
            outcome = commit(on_branch, CommitRequest((), CommitKind.COMPACT, FENCE_USER + plan.id))
        except PaimonError as error:
            if _was_deleted(table, branch):
                continue
            problems.append(f"commits to branch {branch!r} could not be stopped: {error}")
            continue
        assert not isinstance(outcome, Conflict), "a fence changes no files"
    return problems


def _was_deleted(table: TableHandle, branch: str) -> bool:
    """Whether there is no such branch any more: then no commit to it can be made."""
    if branch == MAIN_BRANCH or branch_exists(table, branch):
        return False
    return not snapshot_ids(with_branch_paths(table, branch))


def forget_finished_plans(table: TableHandle, named: Collection[str]) -> None:
    """Deletes plans of clean-ups that died, if each of their files is deleted or among the file names `named`."""
    for plan in plans(table):
        waiting = [path for path in plan.paths if path.rpartition("/")[2] not in named]
        if not any(in_threads(table, _exists, waiting)):
            forget_plan(table, plan.id)


def _exists(table: TableHandle, path: str) -> bool:
    return table.env.storage.exists(path)
