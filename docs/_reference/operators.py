"""Operators, sensors and hooks of the provider, from their classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from _reference.markdown import MISSING, arguments, code, default_of, docstring, table, type_of

_BASES: Final = ("PaimonJobOperator", "PaimonActionOperator", "PaimonDeletingOperator")
"""Operators whose arguments the others take as well: said once."""


def operators() -> str:
    """All of them, those that others build on first."""
    from airflow_provider_paimon.provider_info import get_provider_info

    info = get_provider_info()
    parts = []
    for title, kind in (("Operators", "operators"), ("Sensors", "sensors"), ("Hooks", "hooks")):
        modules = [name for entry in info[kind] for name in entry["python-modules"]]
        classes = sorted(_classes(modules), key=lambda each: (each.__name__ not in _BASES, each.__name__))
        parts += [f"## {title}", *(_described(each) for each in classes)]
    return "\n\n".join(parts)


def _classes(modules: list[str]) -> Iterator[Any]:
    for name in modules:
        for member in vars(import_module(name)).values():
            is_own = inspect.isclass(member) and member.__module__ == name
            if is_own and not member.__name__.startswith("_") and member.__name__.startswith("Paimon"):
                yield member


def _described(operator: Any) -> str:
    said = arguments(operator)
    parameters = [
        item
        for item in inspect.signature(operator.__init__).parameters.values()
        if item.name != "self" and item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
    ]
    own = {item.name for item in parameters}
    rows = [[code(item.name), code(type_of(item)), _default(item, own), said.get(item.name, "")] for item in parameters]
    parts = [f"### {operator.__name__}", f"```python\nfrom {operator.__module__} import {operator.__name__}\n```"]
    parts.append(docstring(operator))
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


def _default(item: inspect.Parameter, _own: set[str]) -> str:
    return "required" if item.default is MISSING else code(default_of(item))
