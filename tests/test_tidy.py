"""House rules that no linter knows: short functions, short files, nothing left open, nothing of one machine."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("paimon_engine", "airflow_provider_paimon")
FILE_LINES_MAX = 500
BODY_LINES_MAX = 60
INTERRUPTIONS = {"KeyboardInterrupt", "SystemExit"}
HELPER_NAMES = {"base_utils", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

# Written in parts, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/" + r"(?:work|farm|root|Users|home/\w+)/")
LEFT_OPEN = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error"]) + r")\b")
NOT_OURS = {
    ".venv",
    ".cache",
    ".git",
    ".airflow",
    ".demo",
    "build",
    "dist",
    ".hypothesis",
    "node_modules",
    "__pycache__",
}
TEXTS = {".py", ".toml", ".md", ".sh", ".cfg", ".txt", ".yml", ".yaml", ".json", ""}


@cache
def _sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (PROJECT / package).rglob("*.py"))


def _texts() -> Iterator[Path]:
    for folder, folders, names in os.walk(PROJECT):
        # Not entered: environments have ten thousands of files.
        folders[:] = sorted(name for name in folders if not _is_not_ours(name))
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix in TEXTS and path.is_file() and not _is_not_ours(name):
                yield path


def _is_not_ours(name: str) -> bool:
    return name in NOT_OURS or name.endswith(("_cache", ".egg-info"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _name(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


# A test looks at all files: one for each of them made 3,000 tests, each slower than its check.


def test_files_have_one_subject():
    lines = {_name(path): path.read_text(encoding="utf-8").count("\n") for path in _sources()}

    assert {name: count for name, count in lines.items() if count > FILE_LINES_MAX} == {}, "split it by concept"
    assert [_name(path) for path in _sources() if path.stem in HELPER_NAMES] == [], "name the file for its subject"


def test_functions_fit_on_a_screen():
    found = [
        f"{_name(path)}:{node.lineno}: {node.name} has {_body_lines(node)} lines"
        for path in _sources()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _body_lines(node) > BODY_LINES_MAX
    ]

    assert found == []


def test_nothing_is_left_open():
    found = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in _sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFT_OPEN.search(line)
    ]

    assert found == []


def test_nothing_is_aborted_by_an_interruption_that_nobody_sent():
    """Work is given up by `abort`; KeyboardInterrupt and SystemExit come from people and are only caught."""
    found = []
    for path in _sources():
        tree = _tree(path)
        handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
        caught = {id(name) for node in handlers for name in _names_in(node.type)}
        made = [name for name in _names_in(tree) if name.id in INTERRUPTIONS and id(name) not in caught]
        found += [f"{_name(path)}:{name.lineno}: {name.id}" for name in made]

    assert found == []


def _names_in(tree: ast.AST | None) -> list[ast.Name]:
    return [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _types_of(path: Path) -> Iterator[tuple[str, str]]:
    """Names of the classes and type aliases of a module, with what distinguishes two of one name."""
    for node in _tree(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, _name(path)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if re.fullmatch("_?[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", name):
                yield name, ast.unparse(node.value)


KEPT_FOR_TESTS = {"check_table", "hidden_within"}


def _defined(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and names of the functions, classes and constants of a module, but for commands, which `face` registers."""
    for node in _tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not any(ast.unparse(decorator).startswith("face(") for decorator in node.decorator_list):
                yield node.lineno, node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((node.lineno, target.id) for target in targets if isinstance(target, ast.Name))


def _used(path: Path) -> Iterator[str]:
    """Names that a module uses, also in texts: what is imported late is named there."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.:]+", node.value):
            yield re.split("[.:]", node.value)[-1]


def test_every_name_is_used():
    """What nothing uses, or tests only, is deleted. Public names of the provider are used by DAGs."""
    used = {name for path in _sources() for name in _used(path)} | KEPT_FOR_TESTS
    found = [
        f"{_name(path)}:{line}: {name}"
        for path in _sources()
        for line, name in _defined(path)
        if name not in used and not name.startswith("__")
        if name.startswith("_") or _name(path).startswith("paimon_engine/")
    ]

    assert found == []


def test_the_name_of_a_type_means_one_thing():
    meanings: dict[str, set[str]] = {}
    for path in _sources():
        for name, meaning in _types_of(path):
            meanings.setdefault(name, set()).add(meaning)

    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_modules_say_what_they_are():
    assert [_name(path) for path in _sources() if _tree(path).body and not ast.get_docstring(_tree(path))] == []


def test_no_file_knows_one_machine():
    found = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]

    assert found == []


def test_no_module_imports_from_a_test_module():
    """What several tests need is in `tests/support` or in a helper module of their folder."""
    from_a_test = re.compile(r"^ *from tests\.[\w.]*\btest_\w+ import .*", re.MULTILINE)
    found = [
        f"{_name(path)}: {line}"
        for path in sorted((PROJECT / "tests").rglob("*.py"))
        for line in from_a_test.findall(path.read_text(encoding="utf-8"))
    ]

    assert found == []


# Idioms that readers abroad do not know, each with the plain word. Written in parts, as above.
IDIOMS = {
    "half a char" + "acter": "a lone surrogate",
    "whole num" + "bers?": "integer",
    "bea" + "ten": "conflict",
    "doo" + "med": "expiring",
    "me" + "nd(s|ed|ing)?": "repair",
    "ane" + "w": "again",
    "(in|out of) sig" + "ht": "visible, not visible",
    "for go" + "od": "permanently",
    "vou" + "ch(es)?": "confirm",
    "who" + "ever": "a caller that, another process",
    "stands? fo" + "r": "means, represents",
    "in va" + "in": "without use",
    "takes? bac" + "k": "retract, undo, remove",
    "what came o" + "f": "result",
    "as to" + "ld": "as given",
    "told ap" + "art": "distinguished",
    "cut sh" + "ort": "interrupted",
    "all the sa" + "me": "nevertheless",
    "way o" + "ut": "remedy, what to do",
    "makes? su" + "re": "check, confirm",
    "at ha" + "nd": "available",
    "of another mak" + "ing": "foreign",
    "keeps? o" + "ut": "block, refuse",
    "lets? g" + "o": "delete, release",
    "lives? o" + "n": "is kept",
    "in the mid" + "st": "in the middle",
    "whose tu" + "rn": "the next",
    "gets? thro" + "ugh": "succeed",
    "for ev" + "er": "always, without end",
    "(?:held|holds?) u" + "p": "pause, delay",
    "(?:come|comes|came) ba" + "ck": "be restored, be returned",
    "stands? i" + "n for": "replace",
    "nobody underst" + "ands": "unreadable",
    "becam" + "e of": "outcome",
    "(?:bring|brings|brought|bringing) (?:it |them |these |this )?bac" + "k": "restore",
    "fit for (?:pickling|travel" + "ling)": "picklable",
    "signs? of lif" + "e": "heartbeat",
    "ask(?:s|ed)? fo" + "r(?! confirmation)": "require, request",
    "takes? (?:the|its|their) plac" + "e": "replace",
    "goes int" + "o": "is written to, is part of",
    "(?:told|tells?) o" + "f": "report",
    "half-wa" + "y": "in the middle",
    "speaks? o" + "f": "name",
    "moved? asid" + "e": "quarantined",
    "cannot be under" + "stood": "cannot be parsed",
    "whole in its" + "elf": "complete",
    "safe besid" + "e": "safe concurrently with",
    "is no (?:Paimon|Parquet|integer|number|text|name|time|type|filter|file|date|size)"
    "\\b(?! [a-z]+ (?:is|are))": "is not a",
}
IDIOM = re.compile(r"(?<!there )\b(" + "|".join(IDIOMS) + r")\b", re.IGNORECASE)


def test_the_text_is_plain_english():
    """What engineers read, in packages, tests and documentation, avoids these idioms."""
    pages = [
        PROJECT / "README.md",
        PROJECT / "CHANGELOG.md",
        *sorted((PROJECT / "tests").rglob("*.md")),
        *sorted(path for path in (PROJECT / "tests").rglob("*.py") if path != Path(__file__)),
        *sorted((PROJECT / "docs").rglob("*.md")),
        PROJECT / "paimon_engine/ARCHITECTURE.md",
    ]
    found = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in [*_sources(), *pages]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if IDIOM.search(line)
    ]

    assert found == []


LONG_FUNCTION: Final = 15
"""Lines from which on a private function says in a docstring what goes in and comes out."""


def test_long_private_functions_have_docstrings():
    found = [
        f"{_name(path)}:{node.lineno}: {node.name}"
        for path in _sources()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.startswith("__")
        if (node.end_lineno or 0) - node.lineno >= LONG_FUNCTION - 1 and ast.get_docstring(node) is None
    ]

    assert found == []


def test_ids_come_from_the_environment():
    """`Env.new_id` names what is stored; only names of temporary files, sessions and command lines are made elsewhere."""
    elsewhere = ("paimon_engine/env.py", "paimon_engine/storage/", "paimon_engine/spark/", "paimon_engine/cli/")
    found = [
        _name(path)
        for path in _sources()
        if _name(path).startswith("paimon_engine/")
        and re.search(r"^import uuid|^from uuid", path.read_text(encoding="utf-8"), re.MULTILINE)
        and not _name(path).startswith((*elsewhere, "paimon_engine/inspect/doctor.py"))
    ]

    assert found == []


def test_tests_replace_no_private_name():
    """What a test needs to choose has a public name, an argument or a store of its own; names of libraries excepted."""
    private = re.compile(
        r"""setattr\([^)]*?["'](?:[\w.]*\.)?_(?!call")[a-z]\w*["']|\b(?:inner|storage)\._files\b""", re.IGNORECASE
    )
    found = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in (PROJECT / "tests").rglob("*.py")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if private.search(line)
    ]

    assert found == []


def test_what_the_provider_names_in_texts_keeps_to_its_contract():
    """import-linter sees statements only; the provider also loads modules by their names when they are first used."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    contract = next(each for each in settings["contracts"] if each["name"].startswith("The provider sees"))
    allowed = {line.rpartition(" ")[2] for line in contract["ignore_imports"]}
    named = {
        (_name(path), node.value)
        for path in (PROJECT / "airflow_provider_paimon").rglob("*.py")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Constant) and re.fullmatch(r"paimon_engine(\.\w+)*\.?", str(node.value))
    }

    assert {found for found in named if found[1] not in allowed} == set()
