"""Actions, as jobs name them, from their specs."""

from __future__ import annotations

import typing
from dataclasses import MISSING, fields
from typing import Any

from _reference.markdown import code, docstring, plain, table


def actions() -> str:
    """All actions, sorted by name."""
    from paimon_engine.action_table import ACTIONS

    return "\n\n".join(_described(name, ACTIONS[name]) for name in sorted(ACTIONS))


def _described(name: str, info: Any) -> str:
    from paimon_engine.specs import described

    hints = typing.get_type_hints(info.spec, include_extras=True)
    rows = []
    helps = []
    for item in fields(info.spec):
        if not item.init:
            continue
        is_required = item.default is MISSING and item.default_factory is MISSING
        helps.append(_help(hints[item.name]))
        default = "required" if is_required else code(_shown(item))
        rows.append([code(item.name), plain(described(hints[item.name])), default, helps[-1]])
    header = ["Field", "What it may hold", "Default", "What it says"]
    if not any(helps):
        header, rows = header[:3], [row[:3] for row in rows]
    runs = " Its work runs as tasks, on Spark where there is one." if info.on_tasks else ""
    parts = [f"## {name}", f"*{plain(info.summary)}.*{runs}", docstring(info.spec)]
    return "\n\n".join([*parts, table(header, rows)] if rows else [*parts, "It has no fields."])


def _shown(item: Any) -> str:
    return repr(item.default if item.default is not MISSING else item.default_factory())


def _help(hint: Any) -> str:
    """The line of help that an annotation carries, if any."""
    if typing.get_origin(hint) is not typing.Annotated:
        return ""
    return plain(next((mark for mark in reversed(typing.get_args(hint)[1:]) if isinstance(mark, str)), ""))
