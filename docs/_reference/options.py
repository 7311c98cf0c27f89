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
    "_choice": "choice",
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
class Option:
    """An option as Markdown; `reader` is the property that reads it, if one does."""

    key: str
    kind: str
    default: str
    says: str
    reader: str | None


def options() -> str:
    """What the engine reads, with type and default."""
    found = sorted(found_options(), key=lambda option: option.key)
    rows = [[code(option.key), plain(option.kind), option.default, option.says] for option in found]
    return table(["Option", "Type", "Default", "What it says"], rows)


def other_options() -> str:
    """Options without a typed default: those of reads and of columns, those without an effect here, those refused."""
    from paimon_engine.options.older_names import OLDER_NAMES

    known = json.loads(_KNOWN.read_text(encoding="utf-8"))
    listed = {option.key for option in found_options()}
    more = [name for name in known["implemented"] if name not in listed]
    parts = ["## Other options that the engine obeys", ", ".join(map(code, more)) + "."]
    parts += ["## Without an effect here", "Java reads these; here nothing depends on them, for the reason given."]
    harmless = {reason: [name for name in names if name not in listed] for reason, names in known["harmless"].items()}
    rows = [[plain(reason), ", ".join(map(code, names))] for reason, names in harmless.items() if names]
    parts.append(table(["Why", "Options"], rows))
    parts += ["## Older names", "An option under an older name means what its newest name means, as in Java."]
    parts.append(table(["Older name", "Newest name"], [[code(old), code(new)] for old, new in OLDER_NAMES.items()]))
    parts += ["## Refused", "A table that sets one of these gets an `UnsupportedError` that names it."]
    rows = [[doing, ", ".join(map(code, names))] for doing, names in known["refused"].items()]
    parts.append(table(["Refused when", "Options"], rows))
    rows = [[code(name), plain(how)] for name, how in known["refused elsewhere"].items()]
    parts.append(table(["Option", "How it is refused"], rows))
    return "\n\n".join(parts)


def found_options() -> Iterator[Option]:
    """Options that a property or method reads, each once: the first reader in the source reports it."""
    from paimon_engine.options import TableOptions

    seen: set[str] = set()
    for owner in TableOptions.__mro__[:-1]:
        for name, member in vars(owner).items():
            function = member.fget if isinstance(member, property) else member
            if not inspect.isfunction(function) or name.startswith("_") or name == "check":
                continue
            reader = name if isinstance(member, property) else None
            says = plain((inspect.getdoc(function) or "").splitlines()[0])
            for key, call in _calls(function).items():
                if key not in seen:
                    seen.add(key)
                    kind = _kind(call.node, call.names)
                    yield Option(
                        key, kind, _default(function, call, kind, is_property=reader is not None), says, reader
                    )


@dataclass(frozen=True)
class _Call:
    """A call that reads an option, and the variables around it; a conditional one happens with the option only."""

    node: ast.Call
    names: Mapping[str, ast.expr]
    is_conditional: bool


def _calls(function: Any) -> dict[str, _Call]:
    """Calls of the readers of texts, by the key that they read; of two for a key that which knows more of its type."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    nodes = list(ast.walk(tree))
    names = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    conditional = {node.body for node in nodes if isinstance(node, ast.IfExp)}
    found: dict[str, _Call] = {}
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        of_raw = isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "raw"
        of_self = isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
        if node.func.attr in _KINDS and (of_raw if node.func.attr == "get" else of_self):
            key = _text(node.args[0], names)
            if key is not None:
                key = f"fields.<column>.{key}" if node.func.attr == "_by_column" else key
                if key not in found or not of_raw:
                    found[key] = _Call(node, names, node in conditional)
    return found


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


def _kind(call: ast.Call, names: Mapping[str, ast.expr]) -> str:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "_choice":
        choices = call.args[-1]
        choices = names.get(choices.id, choices) if isinstance(choices, ast.Name) else choices
        values = [part.value for part in choices.elts if isinstance(part, ast.Constant)]  # type: ignore[attr-defined]
        return ", ".join(code(str(value)) for value in values if value)
    return _KINDS[name]


def _default(function: Any, call: _Call, kind: str, *, is_property: bool) -> str:
    """What counts without the option, as a text; for append tables as well where that differs."""
    from paimon_engine.options import TableOptions

    if call.is_conditional or kind == _KINDS["_per_level"]:
        return "none"
    keyed, append = (
        _shown(_value(function, call.node, TableOptions({}, has_primary_key=has_key), is_property=is_property), kind)
        for has_key in (True, False)
    )
    return keyed if keyed == append else f"{keyed}; append tables {append}"


def _value(function: Any, call: ast.Call, options: Any, *, is_property: bool) -> Any:
    """The default that the call gives, if the source alone says it; else what the property makes of no options."""
    value = function(options) if is_property else None
    given = next((item.value for item in call.keywords if item.arg == "default"), None)
    given = call.args[1] if given is None and len(call.args) > 1 else given
    if given is None or (is_property and value is None):
        return value
    try:
        return eval(compile(ast.Expression(given), "<default>", "eval"), function.__globals__, {"self": options})  # noqa: S307
    except NameError:  # a variable of the property
        return value


def _shown(value: Any, kind: str) -> str:
    if value is None or value in ((), "") or isinstance(value, Mapping):
        return "none"
    if kind == _KINDS["_size"]:
        return code(_size(value))
    if kind == _KINDS["_duration"]:
        return code(_duration(value))
    return code(str(value).lower() if isinstance(value, bool) else str(value))


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
