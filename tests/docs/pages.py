"""The pages of the documentation, and how the examples in them are run.

The blocks of a page are one program: Python shares its variables, commands of `paimon-engine` run in this process.
`/tmp/lake` is replaced by a folder of the test. `<!-- not run: WHY -->` before a block leaves it out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
WAREHOUSE = "/tmp/lake"
RUN = ("python", "bash")
SHOWN = ("text", "sql", "json", "toml", "ini")
"""Languages of blocks that are only to be read."""
DIRECTIVE = "{"
_NOT_RUN = "<!-- not run: "


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of code, counted from 1."""

    language: str
    code: str
    line: int
    not_run: str | None = None


def pages() -> list[Path]:
    """Everything that a reader may copy examples from."""
    return [PROJECT / "README.md", *sorted(page for page in DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(PROJECT))


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    why: str | None = None
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type == "fence" and token.map is not None:
            yield Block(token.info.strip(), token.content, token.map[0] + 2, why)
        if token.type in ("fence", "html_block", "paragraph_open", "heading_open"):
            text = token.content.strip()
            why = text.removeprefix(_NOT_RUN).removesuffix("-->").strip() if text.startswith(_NOT_RUN) else None


def commands(code: str) -> Iterator[list[str]]:
    """The commands of a block, as a shell would split them; a text in quotes may have several lines."""
    pending = ""
    for line in code.replace("\\\n", " ").splitlines():
        pending += line + "\n"
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # the text in quotes continues
            continue
        pending = ""
        if words:
            yield words
    assert not pending, f"a quote is not closed: {pending}"


def run_python(page: Path, block: Block, lake: str, names: dict[str, Any]) -> None:
    """Runs a block; errors name the line of the page."""
    code = "\n" * (block.line - 1) + block.code.replace(WAREHOUSE, lake)
    exec(compile(code, str(page), "exec"), names)
