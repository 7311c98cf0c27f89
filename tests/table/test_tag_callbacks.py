"""Those whom `tag.callbacks` names hear of tags through what is installed here, and through nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import CallbackError, Catalog, Table, TagCallback, TagEvent, UnsupportedError, open_table
from paimon_engine.action import Context
from paimon_engine.actions.branches import CreateBranch
from paimon_engine.actions.create_due_tags import CreateDueTags
from paimon_engine.actions.expire_tags import ExpireTags
from paimon_engine.actions.purge_files import PurgeFiles
from paimon_engine.actions.restore import Restore
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.actions.tags import CreateTag, create_tag
from paimon_engine.errors import ConflictError
from paimon_engine.jobs import Job, TableRef
from paimon_engine.jobs import run as run_job
from paimon_engine.storage import LocalStorage
from paimon_engine.table.branches_tags.tag_callbacks import TAG_CALLBACKS
from tests.support import tag_hooks
from tests.support.tag_hooks import Heard
from tests.support.world import HOUR_MS
from tests.support.world.made_up import History

DAY_MS = 24 * HOUR_MS
DAILY = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"}
FILES = {"tag.create-success-file": "true"}


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Heard:
    monkeypatch.syspath_prepend(str(tag_hooks.install(tmp_path / "site")))
    return Heard(tmp_path / "heard")


def history_of(tmp_path: Path, options: dict[str, str]) -> History:
    """A history on the local disk, where callbacks can look."""
    return History(options, storage=LocalStorage(), root=str(tmp_path / "lake" / "t"))


def send_due_notices(history: History, options: dict[str, str]) -> None:
    """Other options for the next runs, as `table_options` of a job."""
    schema = replace(history.handle.schema, options={**history.handle.schema.options, **options})
    history.handle = replace(history.handle, schema=schema)


def pending(history: History) -> list[str]:
    """The tags of which notes say that somebody has not heard."""
    notes = history.storage.list(f"{history.root}/pending-notifications")
    return sorted(name for info in notes for name in json.loads(history.storage.read(info.path))["tags"])


def stored(history: History) -> dict[str, bytes]:
    return {info.path: history.storage.read(info.path) for info in history.storage.walk(history.root)}


# ── when, with what, in which order ─────────────────────────────────────────────────────────────


def test_a_callback_hears_of_a_tag_that_is_there_before_its_success_file(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, {**heard.options(), **FILES}).write("a")

    history.tag("t")
    history.delete_tag("t")

    made, gone = heard.lines
    assert made == {
        "class": "Note",
        "word": "created",
        "tag": "t",
        "snapshot": 1,
        "branch": "main",
        "table": history.root,
        "is_there": True,
        "has_success_file": False,
    }
    assert (gone["word"], gone["snapshot"], gone["is_there"], gone["has_success_file"]) == ("deleted", 1, False, True)
    assert not history.storage.exists(history.handle.paths.tag_success("t"))


def test_all_classes_are_called_in_the_order_of_the_option_and_closed(heard: Heard, tmp_path: Path):
    options = {
        "tag.callbacks": " com.acme.Other, com.acme.Note ,,com.acme.Other",
        "tag.callback.com.acme.Note.param": str(heard.file),
        "tag.callback.com.acme.other.param": str(heard.file),
    }
    history = history_of(tmp_path, options).write("a")

    history.tag("t")

    assert [(line["class"], line["word"]) for line in heard.lines] == [
        ("Other", "created"),
        ("Note", "created"),
        ("Other", "closed"),
    ]


def test_those_that_were_made_before_one_that_cannot_be_are_closed(heard: Heard):
    options = {"tag.callbacks": "com.acme.Other,com.acme.Broken", "tag.callback.com.acme.Other.param": str(heard.file)}
    history = History(options).write("a")

    with pytest.raises(UnsupportedError, match="Broken"):
        history.tag("t")

    assert [line["word"] for line in heard.lines] == ["closed"]


def test_every_action_that_makes_or_removes_tags_notifies(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a").write("b").write("c")

    def newly(act: Callable[[], Any]) -> list[tuple[str, str, int | None]]:
        heard.forget()
        act()
        return heard.words

    assert newly(lambda: history.tag("t", 1)) == [("created", "t", 1)]
    assert newly(lambda: history.tag("t", 2, if_exists="replace")) == [("created", "t", 2)]
    assert newly(lambda: history.tag("short", 2, time_retained=1)) == [("created", "short", 2)]
    history.now_ms += HOUR_MS
    assert newly(lambda: history.run(ExpireTags())) == [("deleted", "short", 2)]
    history.tag("late", 3)
    rolled = newly(lambda: history.rollback(snapshot=2, quarantine=True))
    assert rolled == [("deleted", "late", 3)]
    (aside,) = (info.path.rpartition("/")[2] for info in history.storage.list(f"{history.root}/quarantine"))
    back = newly(lambda: history.run(Restore(quarantine=aside)))
    assert back == [("created", "late", 3)]
    as_latest = newly(lambda: history.run(RollbackToAsLatest(snapshot=1), "one"))
    assert [(word, number) for word, _, number in as_latest] == [("created", 1)]
    kept = as_latest[0][1]
    purged = newly(lambda: history.run(PurgeFiles()))
    assert sorted(purged) == [("deleted", "late", 3), ("deleted", kept, 1), ("deleted", "t", 2)]
    assert pending(history) == []


def test_a_fast_forward_notifies_of_the_tags_that_it_makes_and_deletes(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a")
    history.tag("base")
    history.branch("dev", "base")
    history.write("b").tag("of-main")
    history.write("c", branch="dev").tag("of-branch", branch="dev")
    heard.forget()

    history.fast_forward("dev")

    assert heard.words == [("deleted", "of-main", 2), ("created", "of-branch", 2)]
    assert history.tags() == ["base", "of-branch"]


def test_due_tags_are_notified_when_made_moved_and_deleted(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, {**heard.options(), **DAILY, "tag.num-retained-max": "1"})

    def due_at(day: int) -> None:
        history.now_ms = day * DAY_MS
        history.write()
        history.run(CreateDueTags())

    due_at(1)
    due_at(2)
    send_due_notices(history, {"tag.automatic-creation": "batch", "tag.batch.customized-name": "batch"})
    due_at(3)
    due_at(4)

    assert heard.words == [
        ("created", "1970-01-01", 1),
        ("created", "1970-01-02", 2),
        ("deleted", "1970-01-01", 1),
        ("created", "batch", 3),
        ("created", "batch", 4),
    ]


def test_another_name_notifies_nobody_and_needs_no_class_as_in_java(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, {**heard.options(), **FILES}).write("a")
    history.tag("t")
    heard.forget()
    send_due_notices(history, {"tag.callbacks": "com.acme.Note, com.acme.NotInstalled"})

    history.rename_tag("t", "u")

    assert heard.words == []
    assert history.storage.exists(history.handle.paths.tag_success("u"))
    assert not history.storage.exists(history.handle.paths.tag_success("t"))


def test_branches_notify_of_their_own_tags_but_not_of_themselves(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a")
    history.tag("base")
    heard.forget()

    history.run(CreateBranch("dev", tag="base"))
    assert heard.words == []
    history.tag("t", branch="dev")
    assert [(line["branch"], line["is_there"]) for line in heard.lines] == [("dev", True)]
    history.delete_branch("dev")
    assert heard.words == [("created", "t", 1)]


def test_a_dry_run_notifies_nobody_and_needs_no_class(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, {**heard.options(), **DAILY}).write("a")
    history.tag("t", time_retained=1)
    history.now_ms += DAY_MS
    history.write("b")
    heard.forget()
    send_due_notices(history, {"tag.callbacks": "com.acme.NotInstalled"})
    before = stored(history)

    history.tag("u", dry_run=True)
    history.tag("t", 2, if_exists="replace", dry_run=True)
    history.delete_tag("t", dry_run=True)
    assert history.run(ExpireTags(dry_run=True)).expired
    assert history.run(CreateDueTags(dry_run=True)).created
    history.run(PurgeFiles(dry_run=True))

    assert heard.words == []
    assert stored(history) == before


# ── at least once ───────────────────────────────────────────────────────────────────────────────


def test_a_repeated_job_that_finds_its_tag_made_notifies_again(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, {**heard.options(), **FILES}).write("a")
    history.tag("t")
    history.storage.delete([history.handle.paths.tag_success("t")])

    assert history.tag("t").status == "already_done"

    assert heard.words == [("created", "t", 1)] * 2
    assert history.storage.exists(history.handle.paths.tag_success("t"))


def test_a_notification_that_a_run_did_not_send_is_sent_by_the_next_one(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, {**heard.options("die"), **DAILY, **FILES}).write("a")
    history.now_ms = DAY_MS
    history.write("b")
    with pytest.raises(KeyboardInterrupt):
        history.run(CreateDueTags())
    assert pending(history) == history.tags() == ["1969-12-31"]
    assert not history.storage.exists(history.handle.paths.tag_success("1969-12-31"))
    heard.forget()
    send_due_notices(history, heard.options())

    assert history.run(CreateDueTags()).created == {"1970-01-01": 2}
    assert history.run(CreateDueTags()).created == {}

    assert heard.words == [("created", "1970-01-01", 2), ("created", "1969-12-31", 1)]
    assert pending(history) == []
    assert history.storage.exists(history.handle.paths.tag_success("1969-12-31"))


def test_a_deletion_that_died_before_its_notification_is_notified_by_the_next_run(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a")
    history.tag("t")
    send_due_notices(history, heard.options("die-deleted"))
    with pytest.raises(KeyboardInterrupt):
        history.delete_tag("t")
    assert (history.tags(), pending(history)) == ([], ["t"])
    send_due_notices(history, heard.options())
    heard.forget()

    assert history.delete_tag("t").status == "already_done"

    assert heard.words == [("deleted", "t", 1)]
    assert pending(history) == []


def test_a_tag_that_is_made_and_deleted_in_one_run_is_notified_twice(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, {**heard.options("die-deleted"), **DAILY, "tag.num-retained-max": "1"})
    for day in (1, 2):
        history.now_ms = day * DAY_MS
        history.write()

    with pytest.raises(KeyboardInterrupt):
        history.run(CreateDueTags())

    assert heard.words == [("created", "1970-01-01", 1), ("created", "1970-01-02", 2), ("deleted", "1970-01-01", 1)]
    assert pending(history) == ["1970-01-01"]
    assert history.tags() == ["1970-01-02"]


def test_a_note_of_what_has_not_come_true_yet_waits_a_day(heard: Heard, tmp_path: Path):
    """Somebody else may be just about to make the tag."""
    history = history_of(tmp_path, heard.options()).write("a")
    notes = {
        "soon": b'{"gone": false, "tags": {"soon": 1}}',
        "torn": b'{"gone": ',
        "odd": b'{"gone": true, "tags": {"../t": 1}}',
        "half": b'{"gone": true, "tags": [1]}',
    }
    for name, data in notes.items():
        history.storage.overwrite(history.handle.paths.pending_notification(name), data)
    history.now_ms = history.storage.stat(history.handle.paths.pending_notification("soon")).modified_ms

    history.tag("t")
    assert heard.words == [("created", "t", 1)]
    assert len(list(history.storage.list(f"{history.root}/pending-notifications"))) == len(notes)
    history.now_ms += 2 * DAY_MS
    history.tag("u")

    assert heard.words[1:] == [("created", "u", 1), ("deleted", "soon", 1)]
    assert list(history.storage.list(f"{history.root}/pending-notifications")) == []


def test_notes_of_an_earlier_release_are_sent_and_removed(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a")
    note = f"{history.root}/untold/1.json"
    history.storage.overwrite(note, b'{"gone": true, "tags": {"t": 1}}')

    history.tag("u")

    assert heard.words == [("created", "u", 1), ("deleted", "t", 1)]
    assert not history.storage.exists(note)


def test_a_tag_that_was_taken_back_is_no_news(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a").write("b")

    class Late(LocalStorage):
        def create(self, path: str, data: bytes) -> bool:
            history.expire(retain_max=1)
            return super().create(path, data)

    late = replace(history.handle, env=replace(history.handle.env, storage=Late()))
    with pytest.raises(ConflictError, match="expired"):
        create_tag(Context(late, history.executor), CreateTag("t", 1))

    assert (heard.words, pending(history), history.tags()) == ([], [], [])


def test_a_tag_with_a_name_as_long_as_a_disk_allows_is_notified_too(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a")
    history.tag("t")
    name = "x" * 250
    (Path(history.root) / "tag" / "tag-t").rename(Path(history.root) / "tag" / f"tag-{name}")

    history.delete_tag(name)

    assert heard.words[1:] == [("deleted", name, 1)]
    assert history.tags() == []


# ── failures ────────────────────────────────────────────────────────────────────────────────────


def test_a_callback_that_fails_stops_neither_the_work_nor_the_others(heard: Heard, tmp_path: Path):
    options = {**heard.options("fail"), **FILES, "tag.callback.com.acme.Other.param": str(heard.file)}
    history = history_of(tmp_path, {**options, "tag.callbacks": "com.acme.Note,com.acme.Other"}).write("a")

    with pytest.raises(CallbackError, match=r"tag 't' of .+ exists, but com\.acme\.Note .*ValueError") as raised:
        history.tag("t")

    assert str(heard.file) not in str(raised.value)
    assert raised.value.__cause__ is None
    assert history.tags() == ["t"]
    assert history.storage.exists(history.handle.paths.tag_success("t"))
    assert [line["class"] for line in heard.lines] == ["Note", "Other", "Other"]
    send_due_notices(history, heard.options())
    heard.forget()
    history.tag("u")
    assert heard.words == [("created", "u", 1), ("created", "t", 1)]


def test_deletions_continue_though_notifications_fail(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options("fail-deleted")).write("a")
    history.tag("t")
    history.compact("b").write("c")
    history.expire(retain_max=1)

    with pytest.raises(CallbackError, match=r"tag 't' of .+ was deleted, but com\.acme\.Note"):
        history.delete_tag("t")

    assert "a" not in history.names()
    history.assert_exact()


def test_the_error_that_ended_the_work_comes_first(heard: Heard, tmp_path: Path):
    history = history_of(tmp_path, heard.options()).write("a")
    history.tag("t")
    send_due_notices(history, heard.options("fail"))

    with pytest.raises(ConflictError):
        history.tag("t", if_exists="error")


# ── what a table may not do ─────────────────────────────────────────────────────────────────────


def acts() -> dict[str, Callable[[History], Any]]:
    return {
        "create": lambda history: history.tag("u"),
        "again": lambda history: history.tag("t"),
        "replace": lambda history: history.tag("t", 2, if_exists="replace"),
        "delete": lambda history: history.delete_tag("t"),
        "expire": lambda history: history.run(ExpireTags()),
        "due": lambda history: history.run(CreateDueTags()),
        "rollback": lambda history: history.rollback(snapshot=1),
        "purge": lambda history: history.run(PurgeFiles()),
        "as latest": lambda history: history.run(RollbackToAsLatest(snapshot=1), "one"),
        "forward": lambda history: history.fast_forward("dev"),
    }


@pytest.mark.parametrize("act", acts())
def test_a_class_without_an_entry_point_is_refused_before_anything_is_done(act: str):
    history = History(DAILY).write("a")
    history.tag("base")
    history.branch("dev", "base")
    history.write("b").write("c", branch="dev").tag("t", 2, time_retained=1)
    history.now_ms += DAY_MS
    history.write("d")
    send_due_notices(history, {"tag.callbacks": "com.acme.NotInstalled"})
    before = stored(history)

    with pytest.raises(UnsupportedError, match=r"com\.acme\.NotInstalled.*install a package.*or set the option to ''"):
        acts()[act](history)

    assert stored(history) == before


@pytest.mark.parametrize(
    "name",
    [
        "tag_hooks_of_acme:Note",
        "tag_hooks_of_acme.Note",
        "tag_hooks_of_acme",
        "os.system",
        "../site/tag_hooks_of_acme",
        "com.acme.note",
        "com.acme.Note\0",
        "[paimon_engine.tag_callbacks]",
        "x" * 10_000,
    ],
)
def test_a_table_cannot_name_what_is_to_be_imported(name: str, heard: Heard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "tag_hooks_of_acme", raising=False)
    history = History({"tag.callbacks": name}).write("a")

    with pytest.raises(UnsupportedError, match=TAG_CALLBACKS.group) as raised:
        history.tag("t")
    assert len(str(raised.value)) < 1_000

    assert "tag_hooks_of_acme" not in sys.modules
    assert history.tags() == []
    assert heard.words == []


def test_two_packages_with_one_class_are_refused(heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    points = "[paimon_engine.tag_callbacks]\ncom.acme.Note = tag_hooks_of_acme:Other\n"
    monkeypatch.syspath_prepend(str(tag_hooks.install(tmp_path / "more", "rival-hooks", points)))
    history = History(heard.options()).write("a")

    with pytest.raises(UnsupportedError, match="tag_hooks_of_acme:Note, tag_hooks_of_acme:Other"):
        history.tag("t")


@pytest.mark.parametrize(
    ("name", "why"), [("Broken", "ValueError"), ("Lost", "ModuleNotFoundError"), ("Deaf", "lacks tag_created")]
)
@pytest.mark.usefixtures("heard")
def test_a_callback_that_cannot_be_made_is_refused_without_its_parameter(name: str, why: str):
    key = f"com.acme.{name}"
    history = History({"tag.callbacks": key, f"tag.callback.{key}.param": "https://me:hunter22@hook"}).write("a")

    with pytest.raises(UnsupportedError, match=rf"{key}.*{why}") as raised:
        history.tag("t")

    chain = f"{raised.value}{raised.value.__cause__}"
    assert "hunter22" not in chain
    assert history.tags() == []


def test_an_empty_option_for_one_run_notifies_nobody(heard: Heard, tmp_path: Path):
    table = written(tmp_path, {"tag.callbacks": "com.acme.NotInstalled"})
    with pytest.raises(UnsupportedError, match="NotInstalled"):
        table.create_tag("t")

    open_table(str(tmp_path / "lake/db.db/t"), options={"tag.callbacks": ""}).create_tag("t")

    assert table.tags().column("tag_name").to_pylist() == ["t"]
    assert heard.words == []


# ── Python, jobs, the command line ──────────────────────────────────────────────────────────────


def written(tmp_path: Path, options: dict[str, str]) -> Table:
    catalog = Catalog(str(tmp_path / "lake"))
    table = catalog.create_table("db.t", schema=pa.schema([("k", pa.int64())]), options=options)
    table.write(pa.table({"k": [1]}))
    return table


def test_a_class_of_the_documented_shape_is_a_callback():
    class Mine:
        def tag_created(self, event: TagEvent) -> None: ...

        def tag_deleted(self, event: TagEvent) -> None: ...

    callback: TagCallback = Mine()
    assert isinstance(callback, TagCallback)


def test_jobs_notify_and_may_be_repeated(heard: Heard, tmp_path: Path):
    written(tmp_path, heard.options())
    job = Job(TableRef(path=str(tmp_path / "lake/db.db/t")), CreateTag("t"), "one")

    assert [run_job(Job.from_json(job.to_json())).status for _ in range(2)] == ["created", "already_done"]

    assert heard.words == [("created", "t", 1)] * 2


def test_the_command_line_finds_what_is_installed_in_its_environment(heard: Heard, tmp_path: Path):
    table = written(tmp_path, heard.options())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(Path.cwd())])}

    def paimon(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "paimon_engine", *arguments]
        return subprocess.run(
            command, env={**environment, **variables}, capture_output=True, text=True, timeout=120, check=False
        )

    job = Job(TableRef(path=table.path), CreateTag("by-job"), "one")
    (tmp_path / "job.json").write_text(job.to_json(), encoding="utf-8")
    assert paimon("tag", "create", table.path, "t").returncode == 0
    ran = paimon("run", "--job", str(tmp_path / "job.json"))
    assert json.loads(ran.stdout)["status"] == "created", ran.stderr
    heard_so_far = heard.words
    refused = paimon("tag", "create", table.path, "u", PYTHONPATH=str(Path.cwd()))

    assert heard_so_far == heard.words == [("created", "t", 1), ("created", "by-job", 1)]
    assert refused.returncode == 1
    assert "com.acme.Note" in refused.stderr
    assert table.tags().column("tag_name").to_pylist() == ["by-job", "t"]


# ── Java ────────────────────────────────────────────────────────────────────────────────────────


def test_java_sees_no_difference_where_notes_are_left(oracle: Any, heard: Heard, tmp_path: Path):
    table = written(tmp_path, heard.options("fail"))
    with pytest.raises(CallbackError):
        table.create_tag("t")
    assert len(list((Path(table.path) / "pending-notifications").iterdir())) == 1
    table.write(pa.table({"k": [2]}))

    assert len(oracle.read(table.path, tag="t")) == 1
    oracle.assert_sound(table.path)
