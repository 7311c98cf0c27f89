"""Table options: what the properties of `TableOptions` read, and what the engine makes of all others."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from _reference.markdown import code, plain, table

_KNOWN: Final = Path(__file__).parents[2] / "tests" / "meta" / "known_options.json"
"""What the engine makes of each option of Java; a test holds it to the engine."""
_KINDS: Final = {
    "_bool": "true or false",
    "_by_column": "text",
    "_choice": "one of a list",
    "_duration": "duration",
    "_float": "number",
    "_int": "integer",
    "_list": "names, by comma",
    "_name_part": "part of a file name",
    "_per_level": "values by level",
    "_size": "size in bytes",
    "get": "text",
}


@dataclass(frozen=True)
class _Option:
    key: str
    kind: str
    default: str
    says: str


def options() -> str:
    """What the engine reads, with type and default."""
    found = sorted(_found(), key=lambda option: option.key)
    rows = [[code(option.key), plain(option.kind), option.default, option.says] for option in found]
    return table(["Option", "Type", "Default", "What it says"], rows)


def other_options() -> str:
    """Options without a typed default: those of reads and of columns, those without an effect here, those refused."""
    known = json.loads(_KNOWN.read_text(encoding="utf-8"))
    listed = {option.key for option in _found()}
    more = [name for name in known["implemented"] if name not in listed]
    parts = ["## Other options that the engine obeys", ", ".join(map(code, more)) + "."]
    parts += ["## Without an effect here", "Java reads these; here nothing depends on them, for the reason given."]
    harmless = {reason: [name for name in names if name not in listed] for reason, names in known["harmless"].items()}
    rows = [[plain(reason), ", ".join(map(code, names))] for reason, names in harmless.items() if names]
    parts.append(table(["Why", "Options"], rows))
    parts += ["## Refused", "A table that sets one of these gets an `UnsupportedError` that names it."]
    rows = [[doing, ", ".join(map(code, names))] for doing, names in known["refused"].items()]
    parts.append(table(["Refused when", "Options"], rows))
    rows = [[code(name), plain(how)] for name, how in known["refused elsewhere"].items()]
    parts.append(table(["Option", "How it is refused"], rows))
    return "\n\n".join(parts)


def _found() -> Iterator[_Option]:
    """Options that a property or method reads, each once: the first reader in the source tells of it."""
    from paimon_engine.options import TableOptions

    seen: set[str] = set()
    empty = TableOptions({})
    for owner in TableOptions.__mro__[:-1]:
        for name, member in vars(owner).items():
            function = member.fget if isinstance(member, property) else member
            if not inspect.isfunction(function) or name.startswith("_") or name == "check":
                continue
            default = getattr(empty, name) if isinstance(member, property) else None
            for key, call in _calls(function):
                if key not in seen:
                    seen.add(key)
                    kind = _kind(call)
                    says = plain((inspect.getdoc(function) or "").splitlines()[0])
                    yield _Option(key, kind, _default(default, call, kind), says)


def _calls(function: Any) -> Iterator[tuple[str, ast.Call]]:
    """Calls of the readers of texts, with the key that they read."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        of_raw = isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "raw"
        of_self = isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
        if node.func.attr in _KINDS and (of_raw if node.func.attr == "get" else of_self):
            key = _text(node.args[0], names)
            if key is not None:
                yield (f"fields.<column>.{key}" if node.func.attr == "_by_column" else key), node


def _text(node: ast.expr, names: Mapping[str, ast.expr]) -> str | None:
    """A key as it stands in the source; columns in it as `<column>`."""
    if isinstance(node, ast.Name) and node.id in names:
        return _text(names[node.id], {})
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [_part(part) for part in node.values]
        return None if None in parts else "".join(part or "" for part in parts)
    return None


def _part(node: ast.expr) -> str | None:
    """A part of an f-string; None where it is filled with anything but the name of a column."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    is_column = isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name) and node.value.id == "column"
    return "<column>" if is_column else None


def _kind(call: ast.Call) -> str:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "_choice" and isinstance(call.args[-1], ast.Tuple):
        values = [part.value for part in call.args[-1].elts if isinstance(part, ast.Constant)]
        return " or ".join(code(str(value)) for value in values if value)
    return _KINDS[name]


def _default(value: Any, call: ast.Call, kind: str) -> str:
    if value is None or value == () or isinstance(value, Mapping):
        given = call.args[1] if len(call.args) > 1 else None
        is_shown = value is None and isinstance(given, ast.Constant) and "<column>" in (_text(call.args[0], {}) or "")
        return code(str(given.value)) if is_shown and given is not None and given.value else "none"
    if kind == _KINDS["_size"]:
        return code(_size(value))
    if kind == _KINDS["_duration"]:
        return code(_duration(value))
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(str(value)) if isinstance(value, str | int | float) and value != "" else "none"


def _size(number: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if number and number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number} B"


def _duration(number: int) -> str:
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if number and number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number} ms"
