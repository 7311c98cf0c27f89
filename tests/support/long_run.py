"""What the long runs of resilience tests have in common: choose scenarios, carry out their trials, count, and report."""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

Trial = tuple[str, Callable[[], str]]
"""What is tried, for messages, and the trial: it gives the kind of outcome, and raises for a finding."""

_MESSAGE_MAX = 700


def main(
    program: str,
    text: str | None,
    scenarios: Sequence[str],
    trials: Callable[[str], Iterable[Trial]],
    *,
    arguments: Sequence[str] | None = None,
) -> None:
    """Carries out the trials of each scenario, prints a line for it and one for its findings, and the totals at the end.

    `--scenarios` chooses some by a part of their names, `--every 5` takes every fifth trial. Ends the process with exit
    code 1 if there were findings, or no trial.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=text)
    parser.add_argument("--scenarios", nargs="+", default=[""])
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    total: Counter[str] = Counter()
    findings = 0
    for name in (name for name in scenarios if any(part in name for part in given.scenarios)):
        begun, outcomes, wrong = time.monotonic(), Counter[str](), []
        for what, trial in list(trials(name))[:: given.every]:
            try:
                outcomes[trial()] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                wrong.append(f"  {what}: {error!r:.{_MESSAGE_MAX}}")
        print(f"{name}: {dict(outcomes)}, {time.monotonic() - begun:.0f} s", *wrong, sep="\n", flush=True)
        total += outcomes
        findings += len(wrong)
    print(f"{total.total() + findings} trials: {dict(total)}, {findings} findings")
    raise SystemExit(findings > 0 or not total)
