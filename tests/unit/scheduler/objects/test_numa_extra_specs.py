# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.objects.numa_extra_specs."""

import pytest

from inventory.errors import Malformed
from scheduler.objects.numa_extra_specs import numa_topology
from tests.builders import a_flavor
from tests.numa import a_guest, a_guest_cell


def cells(vcpus=4, memory_mb=2048, **specs):
    named = {f"hw:{name}": text for name, text in specs.items()}
    return numa_topology(a_flavor(vcpus=vcpus, memory_mb=memory_mb, extra_specs=named))


def test_a_flavor_without_wishes_needs_no_cells():
    assert cells() is None
    assert cells(cpu_policy="shared") is None


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ({"numa_nodes": "2"}, a_guest(a_guest_cell(0, 2, 1024), a_guest_cell(1, 2, 1024))),
        ({"cpu_policy": "dedicated"}, a_guest(a_guest_cell(0, 4, 2048, "dedicated"))),
        (
            {"cpu_policy": "shared", "numa_nodes": "1", "emulator_threads_policy": "share"},
            a_guest(a_guest_cell(0, 4, 2048, "shared"), emulator_threads_policy="share"),
        ),
        (
            {"cpu_policy": "dedicated", "numa_nodes": "1", "cpu_thread_policy": "isolate"},
            a_guest(a_guest_cell(0, 4, 2048, "dedicated", cpu_thread_policy="isolate")),
        ),
        ({"mem_page_size": "large"}, a_guest(a_guest_cell(0, 4, 2048, pagesize=-2))),
        ({"mem_page_size": "2048"}, a_guest(a_guest_cell(0, 4, 2048, pagesize=2048))),
        ({"mem_page_size": "2MB"}, a_guest(a_guest_cell(0, 4, 2048, pagesize=2048))),
        ({"mem_page_size": "1GB"}, a_guest(a_guest_cell(0, 4, 2048, pagesize=1048576))),
    ],
)
def test_cells_are_made_as_nova_makes_them(specs, expected):
    assert cells(**specs) == expected


@pytest.mark.parametrize(
    ("specs", "output"),
    [
        ({"numa_nodes": "3"}, "hw:numa_nodes: 4 vCPUs and 2048 MB cannot be divided evenly by 3"),
        ({"numa_nodes": "0"}, "hw:numa_nodes: '0' is not a number of cells"),
        ({"numa_nodes": "many"}, "'many' is not a number"),
        ({"cpu_policy": "mixed"}, "hw:cpu_policy: 'mixed' is not one of shared, dedicated"),
        (
            {"cpu_policy": "dedicated", "cpu_thread_policy": "x"},
            "'x' is not one of prefer, isolate",
        ),
        ({"mem_page_size": "huge"}, "hw:mem_page_size: 'huge' is neither a size, such as 2MB"),
        ({"mem_page_size": "2XB"}, "'2XB' is neither a size"),
        ({"numa_cpus.0": "1"}, "hw:numa_cpus.0: is not supported here"),
    ],
)
def test_what_is_not_understood_is_refused(specs, output):
    with pytest.raises(Malformed, match=output):
        cells(**specs)
