"""How a run that fails ends, and what help there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer

from paimon_engine import Table
from paimon_engine.cli import app
from tests.support.command_line import Run


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["read", "db.t"], 2, "add --warehouse"),
        (["read", "{lake}/db.db/none"], 1, "there is no table in"),
        (["read", "{t}", "--where", "nope = 1"], 2, "no column 'nope'"),
        (["read", "{t}", "--where", "k ="], 2, "cannot read the filter"),
        (["read", "{t}", "--columns", "nope"], 2, "no column 'nope'"),
        (["read", "{t}", "--tag", "nope"], 1, "no tag 'nope'"),
        (["read", "{t}", "--snapshot", "9"], 1, "no snapshot 9"),
        (["read", "{t}", "--timestamp", "noon"], 2, "'noon' is not a time"),
        (["read", "{t}", "-o", "parquet"], 2, "add --to FILE"),
        (["read", "{t}", "--to", "rows.xls"], 2, "the format is not clear from the name"),
        (["read", "{t}", "--to", "{lake}/no/rows.csv"], 1, "No such file or directory"),
        (["read", "{t}", "-s", "key"], 2, "write KEY=VALUE"),
        (["compact", "{t}", "--spark", "yarn"], 2, "sc://"),
        (["compact", "{t}", "--where", "k = 1"], 2, "partition columns only"),
        (["compact", "{t}", "--max-bytes", "much"], 2, "a size such as"),
        (["analyze", "{t}", "--columns", "nope"], 2, "nope"),
        (["tag", "create", "{t}", "7"], 2, "is a number"),
        (["tag", "delete", "{t}", "nope"], 0, ""),
        (["expire", "{t}", "--older-than", "x"], 2, "expire_snapshots: older_than='x' is not allowed"),
        (["rollback", "{t}"], 2, "one of --snapshot ID, --tag NAME"),
        (["run", "--job", "{lake}/none.json"], 1, "none.json: No such file or directory"),
    ],
)
def test_errors_are_one_line(paimon: Run, table: Table, arguments: list[str], code: int, message: str):
    lake = table.path.removesuffix("/db.db/t")

    ended = paimon(*(argument.format(t=table.path, lake=lake) for argument in arguments))

    assert ended.code == code
    assert message in ended.err
    if code:
        assert ended.err.startswith("error: ")
        assert ended.err.count("\n") == 1
        assert ended.out == ""


@pytest.mark.parametrize("arguments", [["fly"], ["read"], ["read", "{t}", "--limit", "x"], ["tag", "create", "{t}"]])
def test_wrong_usage_ends_with_2(paimon: Run, arguments: list[str]):
    ended = paimon(*arguments)

    assert ended.code == 2
    assert "Usage:" in ended.err


def commands() -> Iterator[tuple[str, ...]]:
    group = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        yield from ((name, inner) for inner in below) if below else [(name,)]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_has_help_with_an_example(paimon: Run, command: tuple[str, ...]):
    ended = paimon(*command, "--help")

    assert ended.code == 0
    assert f"paimon-engine {' '.join(command)} " in ended.out.split("Examples:")[1]
    assert max(len(line) for line in ended.lines) <= 80


def test_storage_options_of_the_local_disk_are_reported(paimon: Run, table: Table):
    warehouse = table.path.removesuffix("/db.db/t")
    warned = "--storage s3.regoin: no effect, since {} is on the local disk\n"

    for address, command in (
        (table.path, ["snapshots", table.path]),
        (table.path, ["compact", table.path]),
        (warehouse, ["snapshots", "db.t", "-w", warehouse]),
        (warehouse, ["tables", warehouse]),
    ):
        ended = paimon(*command, "--storage", "s3.regoin=eu", "--storage", "external-paths.allowed=/other")
        assert (ended.code, warned.format(address) in ended.err) == (0, True)
        assert paimon(*command, "--storage", "external-paths.allowed=/other").err.count("no effect") == 0


def test_the_commands_are_those_that_are_promised():
    assert [" ".join(command) for command in commands()] == [
        "alter add-column", "alter rename-column", "alter drop-column", "alter type", "alter nullable",
        "alter move-column", "alter default", "alter comment", "alter set", "alter unset", "alter apply", "analyze",
        "branch list", "branch create", "branch rename", "branch delete", "branch merge", "branch fast-forward", "cluster",
        "compact", "compact-chain-table", "compact-manifests", "compatibility", "consumer list", "consumer reset", "consumer clear", "consumer expire",
        "create", "delete-rows", "doctor", "drop-partition", "empty-quarantine", "expire", "expire-changelogs", "expire-partitions", "export", "files",
        "jobs schema", "mark-partition-done", "pack", "purge", "quarantines", "read", "remove-lost-files", "remove-lost-manifests",
        "remove-orphans", "repair-earliest", "rescale", "restore", "rewrite-file-index", "rollback", "run", "snapshots",
        "tables",
        "tag create", "tag rename", "tag delete", "tag expire", "tag create-due", "tag create-days", "tags", "verify", "warm-up", "write",
    ]  # fmt: skip
