"""Operators, sensors, triggers and hooks of the provider, from their classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from _reference.markdown import MISSING, arguments, code, default_of, docstring, table, type_of

_BASES: Final = ("PaimonJobOperator", "PaimonDeletingOperator", "PaimonTableSensor")
"""Operators whose arguments the others take as well: said once."""
_NOT_SHOWN: Final = ("PaimonActionOperator",)
"""What only subclasses are about."""


def operators() -> str:
    """All of them, those that others build on first."""
    from airflow_provider_paimon.provider_info import get_provider_info

    info = get_provider_info()
    parts = []
    for title, kind in (
        ("Operators", "operators"),
        ("Sensors", "sensors"),
        ("Triggers", "triggers"),
        ("Hooks", "hooks"),
    ):
        modules = [name for entry in info[kind] for name in entry["python-modules"]]
        classes = sorted(_classes(modules), key=lambda each: (_rank(each.__name__), each.__name__))
        parts += [f"## {title}", *(_described(each) for each in classes)]
    return "\n\n".join(parts)


def _rank(name: str) -> int:
    return _BASES.index(name) if name in _BASES else len(_BASES)


def _classes(modules: list[str]) -> Iterator[Any]:
    for name in modules:
        for member in vars(import_module(name)).values():
            is_own = inspect.isclass(member) and member.__module__ == name
            if is_own and member.__name__.startswith("Paimon") and member.__name__ not in _NOT_SHOWN:
                yield member


def _described(operator: Any) -> str:
    said = arguments(operator)
    parameters = [
        item
        for item in inspect.signature(operator.__init__).parameters.values()
        if item.name not in ("self", "fields") and item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
    ]
    own = {item.name for item in parameters}
    rows = [[code(item.name), code(type_of(item)), _default(item), said.get(item.name, "")] for item in parameters]
    parts = [f"### {operator.__name__}", f"```python\nfrom {operator.__module__} import {operator.__name__}\n```"]
    parts.append(docstring(operator))
    action = _action(operator)
    if action is not None:
        parts.append(f"Action: [`{action}`](actions.md#{action}).")
    if rows:
        parts.append(table(["Argument", "Type", "Default", "What it says"], rows))
    base = next((each.__name__ for each in operator.__mro__[1:] if each.__name__ in _BASES), None)
    if base is not None:
        parts.append(f"And the arguments of [{base}](#{base.lower()}).")
    fields = getattr(operator, "template_fields", ())
    templated = [code(name) for name in fields if name in own]
    if templated:
        parts.append("Templates are rendered in: " + ", ".join(templated) + ".")
    return "\n\n".join(parts)


def _action(operator: Any) -> str | None:
    """Name of the action whose fields the arguments are."""
    name: str | None = vars(operator).get("action_name")
    return name


def _default(item: inspect.Parameter) -> str:
    return "required" if item.default is MISSING else code(default_of(item))
