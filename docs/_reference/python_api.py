"""What Python programs import, from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from _reference.markdown import docstring, signature


def catalogs() -> str:
    """`Catalog` and `open_table`."""
    import paimon_engine

    function = paimon_engine.open_table
    return "\n\n".join(
        [_class(paimon_engine.Catalog), "## open_table", signature("open_table", function), docstring(function)]
    )


def tables() -> str:
    """`Table` with its verbs."""
    import paimon_engine

    return _class(paimon_engine.Table)


def schema_changes() -> str:
    """Changes that `Table.alter` takes."""
    import paimon_engine

    return "\n\n".join(_short(each) for each in _public() if each.__module__ == paimon_engine.AddColumn.__module__)


def specs() -> str:
    """What is asked of each action."""
    from paimon_engine.jobs import ACTIONS

    return "\n".join(f"- `{info.spec.__name__}`: `{name}`, {info.summary}" for name, info in ACTIONS.items())


def results() -> str:
    """What actions give back."""
    return "\n\n".join(_short(each) for each in _public() if _is_result(each))


def other_types() -> str:
    """Public names that no other part of the page shows."""
    import paimon_engine
    from paimon_engine.jobs import ACTIONS

    shown = {paimon_engine.Catalog, paimon_engine.Table, paimon_engine.open_table}
    shown |= {info.spec for info in ACTIONS.values()}
    others = [each for each in _public() if each not in shown and not _is_result(each) and not _is_error(each)]
    changes = paimon_engine.AddColumn.__module__
    return "\n\n".join(_short(each) for each in others if each.__module__ != changes)


def errors() -> str:
    """Everything that the engine raises on purpose."""
    return "\n\n".join(f"## {each.__name__}\n\n{docstring(each)}" for each in _public() if _is_error(each))


def _is_error(each: Any) -> bool:
    import paimon_engine

    return inspect.isclass(each) and issubclass(each, paimon_engine.PaimonError)


def _is_result(each: Any) -> bool:
    from paimon_engine.action import Result

    return inspect.isclass(each) and issubclass(each, Result)


def _public() -> Iterator[Any]:
    import paimon_engine

    for name in paimon_engine.__all__:
        yield getattr(paimon_engine, name)


def _short(kind: Any) -> str:
    return f"### {kind.__name__}\n\n{signature(kind.__name__, kind)}\n\n{docstring(kind)}"


def _class(kind: Any) -> str:
    parts = [f"## {kind.__name__}", docstring(kind)]
    if kind.__name__ != "Table":
        parts.insert(1, signature(kind.__name__, kind))
    for name, member in sorted(inspect.getmembers(kind)):
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            parts += [f"### {kind.__name__}.{name}", signature(name, member), docstring(member)]
        elif isinstance(member, property) and member.fget is not None:
            parts += [f"### {kind.__name__}.{name}", docstring(member.fget)]
    return "\n\n".join(part for part in parts if part)
