# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of claims on nodes that agents of an older release, or with other totals, have written."""

import pytest

from inventory import compute_nodes
from inventory.claims import claims
from inventory.claims.types import ClaimLost
from tests.contract.database.test_claims_together import a_claim, an_order, claiming
from tests.databases import a_node, a_uuid, execute, save

U1, U2 = a_uuid("one"), a_uuid("two")
LARGEST = 2**30
# No float of four bytes is any of these.
RATIOS = {"cpu_allocation_ratio": 16.3, "ram_allocation_ratio": 1.1, "disk_allocation_ratio": 0.7}
TOTALS = {"vcpus": 16, "memory_mb": 65536, "local_gb": 1000}


def node(database):
    (row,) = database.read(compute_nodes.all_live)
    return row


def write(database, **changes):
    ordinary = {"memory_mb_used": 0, "free_ram_mb": 65536, "local_gb_used": 10}
    ordinary |= {"free_disk_gb": 990} | RATIOS
    save(database, a_node("h1", id=1, **ordinary | changes))


def figures(database):
    row = node(database)
    return (
        (row.disk_mb_used, row.free_disk_mb),
        (row.local_gb_used, row.free_disk_gb),
        (row.vcpus_used, row.memory_mb_used, row.claims),
    )


@pytest.mark.parametrize("changes", [*({name: 7} for name in TOTALS), *({n: 0.3} for n in RATIOS)])
def test_limits_count_only_for_the_totals_that_they_were_made_from(database, changes):
    write(database)
    known = TOTALS | RATIOS
    claiming(an_order("req-1", a_claim(U1, 1, limits={}, known=known)))(database)
    write(database, **changes)
    before = figures(database)
    late = an_order("req-2", a_claim(U2, 1, limits={}, known=known))
    with pytest.raises(ClaimLost, match="a host has less room") as lost:
        claiming(late)(database)
    assert lost.value.nodes == {1}
    assert figures(database) == before
    again = an_order("req-2", a_claim(U2, 1, limits={}, known=known | changes))
    assert not claiming(again)(database).repeated


@pytest.mark.parametrize(
    ("least", "free_mb"), [(None, 990 * 1024), (500, 500 * 1024), (995, 990 * 1024)]
)
def test_an_agent_that_knows_of_no_exact_disk_is_claimed_on(database, least, free_mb):
    write(database, disk_available_least=least)
    execute(database, "UPDATE compute_nodes SET disk_mb_used = NULL, free_disk_mb = NULL")
    claiming(an_order("req-1", a_claim(U1, 1)))(database)
    taken = (10 * 1024 + 1500, free_mb - 1500), (12, 988), (4, 4096, 1)
    assert figures(database) == taken
    claiming(an_order("req-2", a_claim(U2, 1)))(database)
    database.write(lambda c: claims.release(c, [U2]))
    assert figures(database) == taken


@pytest.mark.parametrize("free_gb", [0, None])
def test_a_full_disk_of_such_an_agent_has_no_room(database, free_gb):
    write(database, free_disk_gb=free_gb)
    execute(database, "UPDATE compute_nodes SET disk_mb_used = NULL, free_disk_mb = NULL")
    claiming(an_order("req-1", a_claim(U1, 1, limits={})))(database)
    assert figures(database)[0] == (10 * 1024 + 1500, -1500)


def test_its_limits_hold_as_well(database):
    write(database)
    execute(database, "UPDATE compute_nodes SET disk_mb_used = NULL, free_disk_mb = NULL")
    # 10 GB and 1500 MB are more than 11 GB.
    with pytest.raises(ClaimLost, match="a host has less room"):
        claiming(an_order("req-1", a_claim(U1, 1, limits={"disk_gb": 11.0})))(database)
    claiming(an_order("req-1", a_claim(U1, 1, limits={"disk_gb": 12.0})))(database)
    assert node(database).disk_mb_used == 10 * 1024 + 1500


def test_a_forced_host_of_an_agent_that_knows_of_no_exact_disk_is_claimed_on(database):
    write(database)
    execute(database, "UPDATE compute_nodes SET disk_mb_used = NULL, free_disk_mb = NULL")
    claiming(an_order("req-1", a_claim(U1, 1, limits={})))(database)
    assert figures(database) == ((10 * 1024 + 1500, 990 * 1024 - 1500), (12, 988), (4, 4096, 1))


def test_what_was_claimed_is_given_back_where_no_exact_disk_is_known_any_more(database):
    write(database)
    claiming(an_order("req-1", a_claim(U1, 1)))(database)
    execute(database, "UPDATE compute_nodes SET disk_mb_used = NULL, free_disk_mb = NULL")
    database.write(lambda c: claims.release(c, [U1]))
    # It was rounded up to 2 GB, and less than that is given back.
    assert figures(database)[1:] == ((11, 989), (0, 0, 0))


@pytest.mark.parametrize(
    "size", [{"vcpus": LARGEST}, {"memory_mb": LARGEST}, {"disk_mb": 1024 * LARGEST}]
)
def test_a_forced_host_is_given_no_more_than_its_columns_count(database, size):
    write(database)
    claiming(an_order("req-1", a_claim(U1, 1, limits={}, **size)))(database)
    before = figures(database)
    with pytest.raises(ClaimLost):
        claiming(an_order("req-2", a_claim(U2, 1, limits={}, **size)))(database)
    assert figures(database) == before
