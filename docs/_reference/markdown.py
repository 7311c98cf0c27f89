"""Docstrings and signatures as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_ARGUMENT: Final = re.compile(r"^ {4}(\w+): (.*)$")
_SECTION: Final = re.compile(r"^(Args|Raises|Returns|Yields|Attributes):\s*(.*)$")
_RAISES: Final = "**Raises:** "
MISSING: Final = inspect.Parameter.empty


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; line ends and bars in cells do no harm."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Text in the type of code; empty stays empty."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Text in which nothing is markup but code: a `<` starts no tag."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts)


def docstring(thing: Any) -> str:
    """The docstring without its sections of arguments."""
    kept: list[str] = []
    is_argument = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        found = _SECTION.match(line)
        if found is not None and found[1] == "Raises":
            kept += ["", f"{_RAISES}{plain(found[2])}"]
            is_argument = False
        elif found is not None:
            is_argument = True
        elif not is_argument or (line and not line.startswith(" ")):
            is_argument = False
            kept.append(plain(line))
    return "\n".join(kept).strip()


def arguments(thing: Any) -> dict[str, str]:
    """What the docstring says of each argument."""
    found: dict[str, str] = {}
    name = ""
    is_open = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        if _SECTION.match(line):
            is_open = line.startswith("Args")
        elif not line.startswith(" ") and line:
            is_open = False
        elif is_open:
            match = _ARGUMENT.match(line)
            if match is not None:
                name = match[1]
                found[name] = match[2]
            elif name:
                found[name] += " " + line.strip()
    return {name: plain(text) for name, text in found.items()}


def type_of(parameter: inspect.Parameter) -> str:
    """The annotation as it stands in the source."""
    annotation = parameter.annotation
    return "" if annotation is MISSING else str(annotation if isinstance(annotation, str) else annotation.__name__)


def default_of(parameter: inspect.Parameter) -> str:
    """The default as code; empty where the argument must be given."""
    return "" if parameter.default is MISSING else repr(parameter.default)


def signature(name: str, function: Any) -> str:
    """`name(a, *, b=None)` in a block of code, cut into lines where it is long."""
    parts: list[str] = []
    is_keyword = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            parts.append("*")
            is_keyword = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        is_keyword = is_keyword or stars == "*"
        kind, default = type_of(parameter), default_of(parameter)
        parts.append(f"{stars}{parameter.name}" + (f": {kind}" if kind else "") + (f" = {default}" if default else ""))
    line = f"{name}({', '.join(parts)})"
    if len(line) > 100:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"
    return f"```python\n{line}\n```"
