# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of amounts."""

from types import SimpleNamespace

import pytest

from inventory.objects.amounts import amounts_of, covers, larger, plus, taken_amounts, without


def test_each_resource_is_counted_by_itself():
    assert amounts_of(SimpleNamespace(vcpus=1, memory_mb=2, disk_mb=3)) == (1, 2, 3)
    assert larger((1, 5, 0), (2, 3, 0)) == (2, 5, 0)
    assert plus((1, 2, 3), (1, 1, 1), -1) == (0, 1, 2)
    assert without((4, 2, 3), (1, 3, 3)) == (3, 0, 0)


def test_a_place_covers_what_needs_no_more_of_any_resource():
    assert covers((1, 2, 3), (1, 2, 3))
    assert not covers((1, 2, 3), (1, 3, 3))


@pytest.mark.parametrize(
    ("specs", "taken"),
    [
        ({}, (4, 512, 2048)),
        ({"resources:VCPU": "0"}, (0, 512, 2048)),
        ({"resources:PCPU": "3"}, (3, 512, 2048)),
        ({"resources:VCPU": "1", "resources:PCPU": "3"}, (4, 512, 2048)),
        ({"resources1:VCPU": "1", "resources_A:VCPU": "2"}, (3, 512, 2048)),
        ({"resources:MEMORY_MB": "513", "resources:DISK_GB": "1"}, (4, 513, 1024)),
        # None of an amount of these.
        ({"resources:VCPU": "-1", "resources:MEMORY_MB": "some"}, (4, 512, 2048)),
        ({"resources:VGPU": "1", "trait:VCPU": "0", "resourcesé:VCPU": "1"}, (4, 512, 2048)),
    ],
    ids=str,
)
def test_amounts_in_extra_specs_are_taken_in_place_of_the_flavor_s(specs, taken):
    assert taken_amounts((4, 512, 2048), specs) == taken
