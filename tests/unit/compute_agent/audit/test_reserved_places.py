# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of compute_agent.audit.reserved_places: what places hold after an audit."""

from compute_agent.audit.reserved_places import settled
from inventory.claims.places import Place

SIZE = (4, 4096, 10240)
SMALL = (1, 1024, 1024)


def a_place(uuid="p", by=None, size=SIZE, holds=None):
    free = Place(1, uuid, 7, "reserved", None, size, size)
    return free if by is None else free.taken(by, holds or size)


def test_a_free_place_stays_as_it_is():
    assert settled([a_place()], {"u": SIZE}, {}) == [a_place()]


def test_a_place_waits_for_its_instance_in_any_letter_case():
    (found,) = settled([a_place(by="ABC")], {"abc": SMALL}, {})
    assert (found.state, found.taken_by, found.holds) == ("waiting", "ABC", (3, 3072, 9216))
    (found,) = settled([a_place(by="ABC")], {"abc": (9, 1024, 20000)}, {})
    assert found.holds == (0, 3072, 0)
    assert settled([a_place(by="ABC")], {"other": SMALL}, {}) == [a_place()]


def test_a_place_waits_for_an_instance_on_its_way():
    (found,) = settled([a_place(by="u")], {}, {"p": SMALL})
    assert (found.state, found.holds) == ("waiting", (3, 3072, 9216))
    # What is claimed counts, not the guest that is there until then.
    assert settled([a_place(by="u")], {"u": SIZE}, {"p": SMALL}) == [found]


def test_an_instance_keeps_the_smallest_place_that_it_fits_into():
    small, large = a_place("s", "u", SMALL), a_place("l", "u")
    for size, kept in ((SMALL, "s"), (SIZE, "l"), ((9, 9, 9), "s")):
        found = settled([small, large], {"u": size}, {})
        assert [each.uuid for each in found if each.taken_by] == [kept]
        assert all(each.holds == each.size for each in found if not each.taken_by)
    # Both are taken while it is resized.
    found = settled([small, large], {"u": SMALL}, {"l": SIZE})
    assert [each.taken_by for each in found] == ["u", "u"]
