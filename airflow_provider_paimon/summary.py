"""What an operator returned, in one line for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
_NOT_SAID: Final = frozenset({"status", "snapshot_id", "seconds", "tag", "warnings"})
_PAIR: Final = ("_before", "_after")


def is_result(value: Any) -> bool:
    """Whether a task returned this as an operator of this provider does."""
    return isinstance(value, Mapping) and {"action", "table", "status", "details"} <= value.keys()


def summary_line(result: Mapping[str, Any]) -> str:
    """`compact shop.orders: committed, snapshot 12; files 14 → 2, bytes 1.2 MiB → 0.9 MiB`."""
    said = [str(result["status"])]
    if result.get("snapshot_id") is not None:
        said.append(f"snapshot {result['snapshot_id']}")
    details: Mapping[str, Any] = result["details"]
    if details.get("tag"):
        said.append(f"tag {details['tag']}")
    counted = ", ".join(_counted(details))
    warned = "".join(f"; {text}" for text in details.get("warnings", ()))
    return f"{result['action']} {result['table']}: {', '.join(said)}{'; ' if counted else ''}{counted}{warned}"


def _counted(details: Mapping[str, Any]) -> Iterator[str]:
    """Numbers before and after, numbers that are not 0, and how many there are of what is listed."""
    omitted = details.get("omitted") or {}
    for name, value in details.items():
        if name in _NOT_SAID or name.endswith(("_id", _PAIR[1])) or isinstance(value, bool | float):
            continue
        if name.endswith(_PAIR[0]):
            noun = name.removesuffix(_PAIR[0])
            after = details.get(noun + _PAIR[1])
            if isinstance(value, int) and isinstance(after, int) and value != after:
                yield f"{_noun(noun)} {_size(noun, value)} → {_size(noun, after)}"
        elif isinstance(value, int) and value:
            yield f"{_noun(name)} {_size(name, value)}"
        elif isinstance(value, list) and value:
            yield f"{_noun(name)} {len(value) + omitted.get(name, 0)}"


def _noun(name: str) -> str:
    return name.replace("_", " ")


def _size(name: str, value: int) -> str:
    """A number, of bytes in the unit that fits."""
    if not name.endswith("bytes") and not name.startswith("bytes"):
        return str(value)
    size, unit = float(value), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{value} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
