# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""NUMA cells as hypothesis draws them: small ones, so that they often just fit or just do not."""

import math

from hypothesis import strategies as st

from inventory.objects.pci_and_network import NetworkMetadata
from tests.devices import a_pool, devices, wanted
from tests.numa import a_cell, a_guest_cell, a_room, needs, pages

RATIOS = st.sampled_from([1.0, 1.0, 1.5, 2.0, 4.0, 0.5, math.nan])
_NETWORKS = st.builds(NetworkMetadata, st.sets(st.sampled_from(["p1", "p2"])), st.booleans())
_PAGES = st.lists(
    st.builds(pages, st.just(512), st.integers(0, 24), st.integers(0, 6), st.integers(0, 1)),
    max_size=1,
)
_LARGE_PAGES = st.lists(
    st.builds(pages, st.just(1024), st.integers(0, 6), st.integers(0, 3)), max_size=1
)


@st.composite
def cells(draw, number):
    """Draw a host cell of two cores of two threads, with no more in use than it has."""
    cpus = {4 * number + cpu for cpu in range(4)}
    floating = draw(st.sampled_from([cpus, cpus, {min(cpus)}]))
    pinning = draw(st.sampled_from([cpus, cpus - floating]))
    # As agents report them: nothing pinned but whole sets of what serves pinned guests.
    return a_cell(
        number,
        memory=draw(st.integers(0, 12)),
        memory_usage=draw(st.integers(0, 4)),
        cpuset=floating,
        pcpuset=pinning,
        cpu_usage=draw(st.integers(0, 4)),
        pinned_cpus=draw(_some(pinning)),
        siblings=draw(st.sampled_from([[], _pairs(cpus), [{cpu} for cpu in sorted(cpus)]])),
        mempages=draw(_PAGES) + draw(_LARGE_PAGES),
        network_metadata=draw(st.none() | _NETWORKS),
        socket=draw(st.sampled_from([None, 0, 1])),
    )


def _some(cpus):
    return st.sets(st.sampled_from(sorted(cpus)), max_size=2) if cpus else st.just(set())


def _pairs(cpus):
    first, *others = sorted(cpus)
    return [{first, others[1]}, {others[0], others[2]}]


@st.composite
def rooms(draw, most=4):
    """Draw a host of some cells, in any order, and devices on some of them."""
    count = draw(st.integers(1, most))
    numbers = draw(st.permutations(range(count)))
    drawn = [draw(cells(number)) for number in numbers]
    places = draw(st.none() | st.lists(st.none() | st.integers(0, most - 1), max_size=4))
    pools = None if places is None else devices(*(a_pool(1, place) for place in places))
    return a_room(*drawn, cpu=draw(RATIOS), ram=draw(RATIOS), pools=pools)


@st.composite
def guests(draw, most=3, plain=False):
    """Draw a guest; a plain one is all floating or all pinned and has no thread policy."""
    policy = draw(st.sampled_from([None, "shared", "dedicated"]))
    drawn = []
    for number in range(draw(st.integers(1, most))):
        if not plain:
            policy = draw(st.sampled_from([None, "shared", "dedicated", "mixed"]))
        drawn.append(draw(_guest_cells(number, policy, plain)))
    return needs(
        *drawn,
        emulator=draw(st.sampled_from([None, "share", "isolate"])),
        devices=draw(_DEVICES),
        networks=draw(st.none() | _NETWORKS),
    )


_DEVICES = st.just([]) | st.lists(
    st.builds(wanted, policy=st.sampled_from([None, "required", "preferred", "socket"])), max_size=2
)


@st.composite
def _guest_cells(draw, number, policy, plain):
    cell = a_guest_cell(
        number, draw(st.integers(0, 3)), draw(st.integers(0, 3)), policy, pagesize=draw(_SIZES)
    )
    if policy == "mixed":
        cell.pcpuset = set(range(10, 10 + draw(st.integers(0, 2))))
    if not plain:
        cell.cpu_thread_policy = draw(st.sampled_from([None, "prefer", "require", "isolate"]))
    return cell


_SIZES = st.sampled_from([None, None, None, None, None, -1, -2, -3, 512, 1024, 2048])
