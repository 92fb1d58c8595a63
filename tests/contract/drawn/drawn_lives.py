# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What happens to a table between two decisions, as hypothesis draws it."""

from hypothesis import strategies as st

from scheduler.hosts.host_state import HostState
from scheduler.hosts.row_index import MAX_WRITES
from scheduler.hosts.snapshots import COLUMNS
from tests.builders import a_request
from tests.contract.drawn.drawn_hosts import INSTANCES, MIXES, hosts
from tests.contract.drawn.drawn_requests import requests
from tests.devices import all_of
from tests.hosts import a_host, a_table
from tests.numa_drawn import guests, rooms

WRITTEN = sorted(set(COLUMNS) - {"host", "nodename", "node_id", "last_seen"})
# What is stored by the text that it was parsed of; two texts may have one value.
PARSED = ("supported_instances", "metrics", "stats", "numa_topology", "pci_stats", "aggregates")
MOMENTS = st.floats(0, 1e9)


class Life:
    """A table, another host whose attributes its hosts may get, and requests."""

    def __init__(self, data, table, other, specs):
        self.data, self.table, self.other, self.specs = data, table, other, specs
        self.number = 0

    def row(self):
        return self.data.draw(st.sampled_from(sorted(self.table.rows())))

    def happen(self):
        chosen = [self.consume, self.set, self.write, self.add, self.remove, self.house, self.see]
        events = st.sampled_from([*chosen, self.flood, self.pack, self.mix, self.take_on_a_copy])
        for event in self.data.draw(st.lists(events, max_size=4)):
            if len(self.table):
                event()
        self.table.set_time(self.data.draw(MOMENTS))

    def consume(self):
        self.number += 1
        spec = self.data.draw(st.sampled_from(self.specs)).for_instance(f"taken{self.number}")
        HostState.of(self.table, self.row()).consume_from_request(spec)

    def set(self):
        name = self.data.draw(st.sampled_from(WRITTEN))
        value = self.other.table.get(self.other.row, name)
        if name in PARSED and self.data.draw(st.booleans()):
            self.table.share([self.row()], name, ["one key"], lambda _: value)
        else:
            self.table.set(self.row(), name, value)

    def write(self):
        rows = [self.row(), self.row()]
        for name in self.data.draw(st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=5)):
            value = self.other.table.get(self.other.row, name)
            self.table.write(rows, name, [value, value])

    def add(self):
        self.number += 1
        row = self.table.add(f"more{self.number}", "n")
        if self.data.draw(st.booleans()):
            become(self.table, row, self.other)

    def remove(self):
        self.table.remove(self.row())

    def house(self):
        self.table.instances.replace(self.row(), self.data.draw(INSTANCES))

    def see(self):
        self.table.set(self.row(), "last_seen", self.data.draw(st.none() | MOMENTS))

    def flood(self):
        """So much is written that nobody knows any more where."""
        self.table.fill("free_ram_mb", self.table.free_ram_mb + self.table.present)
        self.table.instances.changes.note([self.row()] * 2 * MAX_WRITES)

    def pack(self):
        self.table.numa_packing = not self.table.numa_packing

    def mix(self):
        self.table.set_flavor_mix(self.data.draw(MIXES))

    def take_on_a_copy(self):
        """A decision changes its working copy, which nobody sees."""
        copy = self.table.working_copy()
        row = self.row()
        HostState.of(copy, row).consume_from_request(self.specs[0].for_instance("unseen"))
        copy.set(row, "free_disk_mb", -77)
        copy.instances.replace(row, {})
        HostState.of(copy, row).something = object()


def become(table, row, other):
    """Write what another host has into a row."""
    for name in WRITTEN:
        table.set(row, name, other.table.get(other.row, name))


@st.composite
def _with_cells(draw):
    """Draw hosts with cells and devices, and requests that often fit into them."""
    kinds = draw(st.lists(rooms(), min_size=2, max_size=3))
    drawn = []
    for number in range(4):
        room = kinds[number % len(kinds)]
        cells = {"numa_topology": room.topology, "pci_stats": room.pools}
        drawn.append(a_host(f"h{number}", cpu_allocation_ratio=4.0, **cells))
    specs = [
        a_request(
            numa_topology=each.topology,
            pci_requests=all_of(*each.devices),
            network_metadata=each.networks,
        )
        for each in draw(st.lists(guests(most=2), min_size=1, max_size=2))
    ]
    return drawn, specs


_ANY = st.tuples(hosts(least=4), st.lists(requests(), min_size=1, max_size=2))


@st.composite
def lives(draw):
    """Draw a table and what is to happen to it."""
    (*kept, other), specs = draw(_ANY | _with_cells())
    table = a_table(*kept)
    # With few rows all are looked at again when one has changed.
    for number in range(2 * len(kept)):
        become(table, table.add(f"as{number}", "n"), kept[number % len(kept)])
    table.set_time(draw(MOMENTS))
    return Life(draw(st.data()), table, other, specs)
