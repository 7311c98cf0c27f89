"""The figures of `docs/benchmarks.md`, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_COLOURS: Final = ("#1f6f8b", "#b0b7bf", "#d9822b", "#7a5c99")
_BAR: Final = 0.8
"""Share of a line that its bars take."""


def draw_comparison(seconds: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Bars of the CPU time of each contender for each work, as multiples of the first contender's."""
    plt = _plt()
    contenders = list(dict.fromkeys(who for costs in seconds.values() for who in costs))
    colours = {who: _COLOURS[number % len(_COLOURS)] for number, who in enumerate(contenders)}
    figure, axes = plt.subplots(figsize=(9, 0.6 + 0.5 * len(seconds)))
    named = set()
    for line, costs in enumerate(seconds.values()):
        height, first = _BAR / len(costs), next(iter(costs.values()))
        for number, (who, cost) in enumerate(costs.items()):
            middle = line + height * (number - (len(costs) - 1) / 2)
            label = who if who not in named else None
            bar = axes.barh(middle, cost / first, height, color=colours[who], label=label)
            axes.bar_label(bar, [f"{cost:.3g} s"], padding=3, fontsize=7)
            named.add(who)
    axes.set_yticks(range(len(seconds)), list(seconds))
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.5)
    axes.margins(x=0.12)
    axes.set_xlabel(f"CPU time, {contenders[0]} = 1; less is better")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.4, -0.6 / figure.get_figheight()), ncols=len(contenders), frameon=False
    )
    _save(figure, path)


def draw_growth(points: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> None:
    """CPU time by size of the table, a line for each work; both axes are logarithmic."""
    plt = _plt()
    figure, axes = plt.subplots(figsize=(9, 6))
    for number, (work, found) in enumerate(points.items()):
        sizes, seconds = zip(*sorted(found), strict=True)
        axes.loglog(sizes, seconds, marker="os^Dv"[number % 5], linewidth=1, label=work)
    axes.set_xlabel("files, partitions or snapshots of the table")
    axes.set_ylabel("CPU seconds")
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8, frameon=False)
    _save(figure, path)


def _plt() -> Any:
    from matplotlib import pyplot as plt

    plt.switch_backend("svg")
    # Texts stay texts, and the same figures give the same bytes.
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "paimon"}
    return plt


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
