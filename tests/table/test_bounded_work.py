"""The requests of a commit, a plan and a scan do not grow with the number of commits, with maintenance on.

`python -m tests.bench.commits` shows the same to 2,000 commits, with times.
"""

from __future__ import annotations

import pytest

from tests.bench.commits import Cost, measured

FEW, MANY = 20, 200
"""Ten times as many: work that reads the history needs ten times as much."""


@pytest.mark.parametrize("keyed", [True, False], ids=["primary key", "append"])
def test_requests_and_bytes_do_not_grow_with_the_number_of_commits(keyed: bool):
    few, many = {}, {}
    for cost in measured(keyed=keyed, maintained=True, commits=(FEW, MANY)):
        (few if cost.commits < MANY else many)[cost.what] = cost

    assert few.keys() == many.keys() == {"latest", "plan", "scan", "commit", "commit of a job", "maintain"}
    for what, before in few.items():
        after: Cost = many[what]
        # Up to thirty manifests are collected before they are merged, so figures vary by that much.
        assert after.calls <= before.calls * 2, (before, after)
        assert after.bytes_read <= before.bytes_read * 2, (before, after)
        assert after.listed <= before.listed * 2, (before, after)


def test_the_latest_snapshot_is_found_without_a_listing():
    lookups = [cost for cost in measured(keyed=True, maintained=False, commits=(5, 25)) if cost.what == "latest"]

    assert [(cost.calls, cost.listed) for cost in lookups] == [(3, 0), (3, 0)]
