# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Of several processes one has the lease."""

from concurrent.futures import ThreadPoolExecutor

from inventory import leases
from inventory.engine import Database


def test_a_lease_is_taken_renewed_and_refused_to_others(database: Database) -> None:
    assert leases.hold(database, "mirror", "one", 60) == "one"
    assert leases.hold(database, "mirror", "two", 60) == "one"
    assert leases.hold(database, "mirror", "one", 60) == "one"
    assert leases.hold(database, "other", "two", 60) == "two"


def test_a_lease_that_expired_goes_to_the_next(database: Database) -> None:
    leases.hold(database, "mirror", "one", -1)
    assert leases.hold(database, "mirror", "two", 60) == "two"
    assert leases.hold(database, "mirror", "one", 60) == "two"


def test_a_lease_that_was_given_up_is_free_at_once(database: Database) -> None:
    leases.hold(database, "mirror", "one", 60)
    leases.release(database, "mirror", "two")
    assert leases.hold(database, "mirror", "two", 60) == "one"
    leases.release(database, "mirror", "one")
    assert leases.hold(database, "mirror", "two", 60) == "two"


def test_of_many_that_come_at_once_all_see_the_same_owner(database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda n: leases.hold(database, "mirror", f"o{n}", 60), range(8))]
    assert len({*found}) == 1


def test_leases_are_listed_with_their_owners_and_ends(database: Database) -> None:
    leases.hold(database, "mirror", "one", 60)
    leases.hold(database, "keeper", "two", -5)
    found = database.read(leases.listed)
    assert {name: owner for name, (owner, _) in found.items()} == {"mirror": "one", "keeper": "two"}
    assert 0 < found["mirror"][1] <= 60
    assert found["keeper"][1] <= -5
