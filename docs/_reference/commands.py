"""Commands of `paimon-engine`, from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from _reference.markdown import code, plain, table


def commands() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command

    from paimon_engine.cli import app

    return "\n\n".join(_described(name, command) for name, command in _leaves("paimon-engine", get_command(app)))


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if not below:
        yield name, command
        return
    for part in sorted(below):
        yield from _leaves(f"{name} {part}", below[part])


def _described(name: str, command: Any) -> str:
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    options = [item for item in command.params if item.param_type_name == "option" and "--help" not in item.opts]
    usage = " ".join([name, *(_usage(item) for item in arguments)])
    parts = [f"## {name}", f"```text\n{usage} [OPTIONS]\n```", plain(command.help or "")]
    if arguments:
        rows = [[code(_name(item)), plain(getattr(item, "help", None) or "")] for item in arguments]
        parts.append(table(["Argument", "What it says"], rows))
    if options:
        parts.append(table(["Option", "Default", "What it says"], [_option(item) for item in options]))
    if command.epilog:
        # Typer's examples are paragraphs of code already.
        parts.append(command.epilog)
    return "\n\n".join(parts)


def _name(item: Any) -> str:
    return item.metavar or item.name.upper()


def _usage(item: Any) -> str:
    text = _name(item) + ("..." if item.nargs == -1 else "")
    return text if item.required else f"[{text}]"


def _option(item: Any) -> list[str]:
    names = ", ".join(item.opts) + (f" / {', '.join(item.secondary_opts)}" if item.secondary_opts else "")
    takes = "" if item.is_flag else f" {item.metavar or _kind(item)}"
    default = item.default
    is_given = default not in (None, False, (), []) and not callable(default)
    shown = getattr(default, "value", default)
    variable = f" Also read from `{item.envvar}`." if item.envvar else ""
    required = "required" if item.required else ""
    return [code(names + takes), code(str(shown)) if is_given else required, plain(item.help or "") + variable]


def _kind(item: Any) -> str:
    """What an option takes that has no word for it: the members of an enumeration, or the name of a type."""
    annotation = item.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return f"[{'|'.join(str(each.value) for each in annotation)}]"
    return {int: "NUMBER", float: "NUMBER"}.get(annotation, "TEXT")
