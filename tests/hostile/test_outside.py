"""Locations outside the table that a stored file names are neither read nor deleted, unless the reader allows it."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pytest

from paimon_engine import CorruptTableError, PaimonError, StorageError, Table, UnsupportedError, open_table
from paimon_engine.env import now_ms
from paimon_engine.format.avro import read_records
from paimon_engine.storage.locations import is_below, leads_out, normal_path
from tests.hostile.sandbox import Sandbox, make_sandbox, rows
from tests.support.newest import NewestPaimon


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return make_sandbox(tmp_path)


def rewrite(path: Path, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Changes all records of a metadata file."""
    data = path.read_bytes()
    schema = fastavro.reader(io.BytesIO(data)).writer_schema
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [change(record) for record in read_records(data, str(path))], codec="zstandard")
    path.write_bytes(buffer.getvalue())


def resize(box: Sandbox) -> None:
    """Lets snapshots and manifest lists say again how large the files are that they name."""
    for path in box.path.glob("manifest/manifest-list-*"):
        rewrite(
            path, lambda record: record | {"_FILE_SIZE": (box.path / "manifest" / record["_FILE_NAME"]).stat().st_size}
        )
    for path in box.path.glob("snapshot/snapshot-*"):
        value = json.loads(path.read_text())
        for name in ("baseManifestList", "deltaManifestList", "changelogManifestList"):
            if value.get(name):
                value[f"{name}Size"] = (box.path / "manifest" / value[name]).stat().st_size
        path.write_text(json.dumps(value))


def move_out(box: Sandbox, target: Path, *, spelling: str = "{}") -> list[Path]:
    """Moves all data files to a directory, and names them by their full path, as later releases do."""
    target.mkdir(parents=True, exist_ok=True)
    moved = {}
    for path in list(box.path.glob("p=*/bucket-*/*")):
        moved[path.name] = target / path.name
        shutil.move(path, target / path.name)

    def outside(record: dict[str, Any]) -> dict[str, Any]:
        file = record["_FILE"]
        return record | {"_FILE": file | {"_EXTERNAL_PATH": spelling.format(target / file["_FILE_NAME"])}}

    for path in box.path.glob("manifest/manifest-*"):
        if not path.name.startswith("manifest-list"):
            rewrite(path, outside)
    resize(box)
    return list(moved.values())


def use_everything(table: Callable[[], Table]) -> None:
    """Every action that reads or deletes, whether it works or not."""
    for act in (
        lambda item: item.to_arrow(),
        lambda item: item.compact(full=True),
        lambda item: item.write(rows(("a", 9))),
        lambda item: item.drop_partition({"p": "a"}),
        lambda item: item.expire_snapshots(retain_max=1, retain_min=1),
        lambda item: item.delete_tag("t"),
        lambda item: item.delete_branch("b"),
        lambda item: item.rollback(1),
        lambda item: item.remove_orphan_files(older_than=now_ms()),
        lambda item: item.remove_orphan_files(older_than=now_ms(), quarantine=True),
        lambda item: item.analyze(),
        lambda item: item.verify("rows"),
        lambda item: item.files(),
    ):
        try:
            act(table())
        except PaimonError:
            continue


# ── full paths ──────────────────────────────────────────────────────────────────────────────────


def test_files_outside_the_table_are_refused_with_a_remedy(box: Sandbox):
    files = move_out(box, box.root / "far" / "away")

    with pytest.raises(UnsupportedError, match="is outside the table.*external-paths.allowed"):
        box.table.to_arrow()
    with pytest.raises(UnsupportedError, match="external-paths.allowed"):
        open_table(str(box.path), storage_options={"external-paths.allowed": f"{box.root}/far/aw"}).to_arrow()
    # What the table itself says counts for nothing.
    with pytest.raises(UnsupportedError, match="external-paths.allowed"):
        open_table(str(box.path), options={"external-paths.allowed": str(box.root)}).to_arrow()
    assert all(path.exists() for path in files)


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}"])
def test_files_outside_the_table_are_read_where_allowed(box: Sandbox, spelling: str):
    expected = box.table.to_arrow()
    move_out(box, box.root / "far" / "away", spelling=spelling)
    options = {"external-paths.allowed": f"/nowhere, {box.root}/far/"}

    table = open_table(str(box.path), storage_options=options)

    assert table.to_arrow().equals(expected)
    assert table.to_arrow(where="k = 1").num_rows == 2
    table.compact(full=True)
    assert table.to_arrow().sort_by([("p", "ascending"), ("k", "ascending")]).num_rows == expected.num_rows


def test_files_outside_the_table_are_looked_at_where_allowed(box: Sandbox):
    files = move_out(box, box.root / "far" / "away")
    open_one = {"external-paths.allowed": str(box.root / "far")}

    unseen = box.table.verify("rows")
    assert (unseen.status, unseen.data_files, unseen.rows, unseen.closed) == ("sound", 0, 0, 6)
    seen = open_table(str(box.path), storage_options=open_one).verify("rows")
    assert (seen.status, seen.data_files, seen.rows, seen.closed) == ("sound", 6, 6, 0)

    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-1])
    files[2].write_bytes(files[3].read_bytes())
    assert box.table.verify("rows").status == "sound", "reading there is not allowed"
    found = open_table(str(box.path), storage_options=open_one).verify("rows").problems
    assert {path.name for path in files[:3]} == {
        path.name for path in files if any(path.name in one.what or path.name in one.where for one in found)
    }
    assert any(f"{files[0]} is missing" in one.what for one in found)


def test_files_outside_the_table_are_never_deleted_without_permission(box: Sandbox):
    box.table.create_tag("t")
    box.table.create_branch("b", tag="t")
    files = move_out(box, box.root / "far" / "away")
    options = {"external-paths.allowed": str(box.root / "far")}

    use_everything(lambda: box.table)
    use_everything(lambda: open_table(str(box.path), storage_options=options))

    assert all(path.exists() for path in files)


def test_files_outside_the_table_are_deleted_with_permission_once_nothing_needs_them(box: Sandbox):
    files = move_out(box, box.root / "far" / "away")
    bystander = box.root / "far" / "away" / "bystander.txt"
    bystander.write_text("keep me")
    table = open_table(str(box.path), storage_options={"external-paths.deletable": str(box.root / "far")})
    expected = table.to_arrow().num_rows

    table.compact(full=True)
    assert all(path.exists() for path in files)
    result = table.expire_snapshots(retain_max=1, retain_min=1)

    assert not any(path.exists() for path in files)
    assert bystander.exists()
    assert {item.path for item in result.deleted} >= {str(path) for path in files}
    assert table.to_arrow().num_rows == expected


@pytest.mark.parametrize(
    "location",
    ["far/away/{}", "/far/../{}", "{root}/far/./{}", "{root}/far//{}", "{root}/far/other.parquet", "", "/{}\0"],
)
def test_a_full_path_that_is_none_is_refused_even_if_all_is_allowed(box: Sandbox, location: str):
    move_out(box, box.root / "far", spelling="{}")

    def elsewhere(record: dict[str, Any]) -> dict[str, Any]:
        file = record["_FILE"]
        path = location.format(file["_FILE_NAME"], root=box.root)
        return record | {"_FILE": file | {"_EXTERNAL_PATH": path}}

    for path in box.path.glob("manifest/manifest-*"):
        if not path.name.startswith("manifest-list"):
            rewrite(path, elsewhere)
    resize(box)

    options = {"external-paths.deletable": "/", "external-paths.allowed": "/"}
    with pytest.raises(CorruptTableError, match="_EXTERNAL_PATH"):
        open_table(str(box.path), storage_options=options).to_arrow()


def test_tables_of_the_newest_java_with_external_paths_are_read_where_allowed(box: Sandbox, newest: NewestPaimon):
    path, far = box.root / "java.db" / "t", box.root / "far"
    options = {
        "data-file.external-paths": f"file://{far}",
        "data-file.external-paths.strategy": "round-robin",
        "bucket": "1",
    }
    newest.create(path, like=box.path, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    newest.write(path, rows_of=box.path)
    assert list(far.rglob("*.parquet"))

    with pytest.raises(UnsupportedError, match="external-paths.allowed"):
        open_table(str(path)).to_arrow()
    table = open_table(str(path), storage_options={"external-paths.allowed": str(far)})
    order = [("p", "ascending"), ("k", "ascending")]

    assert table.to_arrow().sort_by(order).equals(box.table.to_arrow().sort_by(order))
    with pytest.raises(UnsupportedError, match=r"data-file.external-paths.*external-paths.allowed"):
        open_table(str(path)).write(rows(("a", 9)))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("file://host/a", None),
        ("a/b", None),
        ("/a/../b", None),
        ("s3://bucket/../b", None),
        ("/", None),
        ("", None),
        ("/a\\b", None),
    ],
)
def test_a_path_is_compared_in_one_spelling(path: str, found: str | None):
    assert normal_path(path) == found


def test_below_is_decided_by_complete_names():
    assert is_below("/a/b/c", ["/a/b"])
    assert is_below("file:/a/b/c", ["/x", "file:///a"])
    assert not is_below("/a/bc", ["/a/b"])
    assert not is_below("/a/b", ["/a/b"])
    assert not is_below("s3://bucket/x", ["/bucket", "s3://buck"])
    assert not is_below("/a/b", ["", "a"])


# ── links ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "linked", ["p=a", "p=a/bucket-0", "manifest", "statistics", "snapshot", "branch", "tag", "index"]
)
def test_links_out_of_the_table_are_not_followed_by_any_deletion(box: Sandbox, linked: str):
    box.table.create_tag("t")
    box.table.create_branch("b", tag="t")
    box.table.analyze()
    box.table.compact(full=True)
    inside, away = box.path / linked, box.root / "away"
    inside.mkdir(exist_ok=True)
    shutil.move(inside, away)
    (away / "data-of-others.parquet").write_text("keep me")
    (away / "bucket-7").mkdir()
    (away / "bucket-7" / "data-of-others.parquet").write_text("keep me")
    for path in away.rglob("*"):
        os.utime(path, (1, 1))
    inside.symlink_to(away)
    before = {path: path.read_bytes() for path in away.rglob("*") if path.is_file()}

    use_everything(lambda: box.table)

    # Writes follow the link, since that is what links are for.
    assert {path: data for path, data in before.items() if not path.exists()} == {}


def test_orphan_clean_up_takes_a_link_away_and_not_what_it_leads_to(box: Sandbox):
    link = box.path / "p=a" / "bucket-0" / "data-orphan.parquet"
    link.symlink_to(box.victim / "secret.txt")

    result = box.table.remove_orphan_files(older_than=now_ms())

    assert [item.path for item in result.deleted] == [str(link)]
    assert (box.victim / "secret.txt").read_text() == "keep me"


def test_dropping_a_table_takes_links_away_and_not_what_they_lead_to(box: Sandbox):
    (box.path / "p=a" / "home").symlink_to(box.victim)
    (box.path / "quarantine").symlink_to(box.victim)

    box.catalog.drop_table("db.t")

    assert not box.path.exists()
    assert (box.victim / "secret.txt").read_text() == "keep me"


def test_a_link_leads_out_or_stays(tmp_path: Path):
    table = tmp_path / "t"
    (table / "inner").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (table / "out").symlink_to(tmp_path / "other")
    (table / "in").symlink_to(table / "inner")

    assert leads_out(f"{table}/out/file", str(table))
    assert leads_out(f"file://{table}/out/file", f"file://{table}")
    assert not leads_out(f"{table}/in/file", str(table))
    assert not leads_out(f"{table}/out", str(table))
    assert not leads_out("s3://bucket/t/out/file", "s3://bucket/t")


# ── names ───────────────────────────────────────────────────────────────────────────────────────

POINTERS: dict[str, Callable[[Sandbox], None]] = {}


def pointer(what: str) -> Callable[[Callable[[Sandbox], None]], Callable[[Sandbox], None]]:
    def note(make: Callable[[Sandbox], None]) -> Callable[[Sandbox], None]:
        POINTERS[what] = make
        return make

    return note


def change_json(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


OUT = "../../../../victim/secret.txt"

for _name in ("baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics"):
    for _file in ("snapshot/snapshot-3", "tag/tag-t", "branch/branch-b/snapshot/snapshot-3"):
        for _value in (OUT, "/etc/passwd", ".."):
            POINTERS[f"{_name} of {_file}: {_value}"] = lambda box, file=_file, name=_name, value=_value: change_json(
                box.path / file, **{name: value}
            )


@pointer("a manifest list's manifest")
def _(box: Sandbox) -> None:
    for path in box.path.glob("manifest/manifest-list-*"):
        rewrite(path, lambda record: record | {"_FILE_NAME": OUT})


@pointer("a manifest's file")
def _(box: Sandbox) -> None:
    for path in box.path.glob("manifest/manifest-*"):
        if "list" not in path.name:
            rewrite(path, lambda record: record | {"_FILE": record["_FILE"] | {"_FILE_NAME": OUT}})
    resize(box)


@pointer("a manifest's extra files")
def _(box: Sandbox) -> None:
    for path in box.path.glob("manifest/manifest-*"):
        if "list" not in path.name:
            rewrite(path, lambda record: record | {"_FILE": record["_FILE"] | {"_EXTRA_FILES": [OUT, "/etc/passwd"]}})
    resize(box)


@pointer("a schema's partition column")
def _(box: Sandbox) -> None:
    path = box.path / "schema" / "schema-0"
    value = json.loads(path.read_text())
    value["fields"][0]["name"] = "../../../victim/x"
    value["partitionKeys"], value["primaryKeys"] = ["../../../victim/x"], ["../../../victim/x", "k"]
    path.write_text(json.dumps(value))


@pointer("a schema's options")
def _(box: Sandbox) -> None:
    path = box.path / "schema" / "schema-0"
    names = ("path", "branch", "scan.fallback-branch", "data-file.prefix", "data-file.path-directory", "scan.tag-name")
    change_json(path, options=json.loads(path.read_text())["options"] | dict.fromkeys(names, "../../../victim"))


@pointer("a consumer")
def _(box: Sandbox) -> None:
    (box.path / "consumer").mkdir()
    (box.path / "consumer" / "consumer-c").write_text(json.dumps({"nextSnapshot": OUT}))


@pointer("a quarantine")
def _(box: Sandbox) -> None:
    directory = box.path / "quarantine" / "q"
    directory.mkdir(parents=True)
    (directory / "moved.json").write_text(json.dumps({"files": {OUT: 7}}))


def test_nothing_outside_is_touched_wherever_stored_files_point(box: Sandbox, tmp_path_factory: pytest.TempPathFactory):
    box.table.create_tag("t")
    box.table.create_branch("b", tag="t")
    before = box.outside()
    sound = tmp_path_factory.mktemp("sound") / "t"
    shutil.copytree(box.path, sound)

    for make in POINTERS.values():
        shutil.rmtree(box.path)
        shutil.copytree(sound, box.path)
        make(box)
        use_few(box)
        assert box.outside() == before


def use_few(box: Sandbox) -> None:
    """The actions that follow names."""
    for act in (
        lambda item: item.to_arrow(),
        lambda item: item.expire_snapshots(retain_max=1, retain_min=1),
        lambda item: item.delete_tag("t"),
        lambda item: item.delete_branch("b"),
        lambda item: item.rollback(1),
        lambda item: item.remove_orphan_files(older_than=now_ms()),
        lambda item: item.restore("q"),
    ):
        try:
            act(box.table)
        except PaimonError:
            continue


def test_nothing_outside_is_deleted_though_an_action_requests_it(box: Sandbox):
    storage = box.table._handle.env.storage
    victim = box.victim / "secret.txt"
    (box.path / "link").symlink_to(box.victim)

    for paths in ([str(victim)], [f"{box.path}/../../../victim/secret.txt"], [f"{box.path}/link/secret.txt"]):
        with pytest.raises(StorageError, match="outside the table|leads out of the table"):
            storage.delete([f"{box.path}/nothing", *paths])
    with pytest.raises(StorageError, match="outside the table"):
        storage.delete_tree(str(box.victim))
    with pytest.raises(StorageError, match="leads out of the table"):
        storage.delete_tree(f"{box.path}/link/below")
    assert victim.read_text() == "keep me"
