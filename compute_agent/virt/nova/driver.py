# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver of a whole Nova cloud, which reads Nova's databases and asks no hypervisor."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from compute_agent.virt.driver import (
    Driver,
    DriverMisconfigured,
    DriverUnavailable,
    Guest,
    Move,
    NodeFacts,
    NodeName,
)
from compute_agent.virt.nova.cell import CellMirror
from compute_agent.virt.nova.inventories import PlacementInventories, placement_client
from compute_agent.virt.nova.poller import Depth, Intervals, Poller
from conf import loading
from conf.service import liveness_limit
from inventory.aggregates import AggregateRecord
from inventory.nova.aggregates import aggregates_version, read_aggregates
from inventory.nova.cells import (
    Cell,
    CellAccess,
    CellMappings,
    CellTemplateError,
    mappings_version,
    read_mappings,
)
from inventory.nova.database import NovaDatabase, NovaDatabaseUnavailable
from inventory.services import ServiceState

LOG = log.getLogger(__name__)


class _PolledCell:
    """A cell with the thread that polls it, and the database that it reads."""

    def __init__(self, cell: Cell, database: NovaDatabase, mirror: CellMirror) -> None:
        self.cell = cell
        self.database = database
        self.mirror = mirror
        self.poller: Poller

    def stop(self) -> None:
        self.poller.stop()
        self.database.close()


class NovaDriver(Driver):
    """Reports the hosts of a cloud that have a host mapping, and what Nova has on them."""

    knows_uuids = True
    lease = "nova mirror"

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        url = conf.api_database.connection
        if not url:
            raise DriverMisconfigured(
                "compute_driver = nova needs [api_database] connection, as in Nova's own nova.conf"
            )
        try:
            self._api = NovaDatabase("API", url)
        except NovaDatabaseUnavailable as error:
            where = loading.source(conf, "api_database", "connection")
            raise DriverMisconfigured(
                f"option [api_database] connection in {where}: {error}"
            ) from error
        own = conf.nova
        self._access = CellAccess(
            own.cell_template_connection, own.cell_username, own.cell_password
        )
        self._limit = liveness_limit(conf)
        self._intervals = Intervals(
            own.quick_poll_interval, own.poll_interval, own.full_poll_interval
        )
        self._mappings = CellMappings([], {})
        # Changes with the mappings, and what nodes() found for one of them.
        self._version: object = None
        self._listed: tuple[object, dict[NodeName, _PolledCell]] = (None, {})
        self._states: dict[str, ServiceState] = {}
        self._cells: dict[str, _PolledCell] = {}
        self._aggregates: Sequence[AggregateRecord] | None = None
        self._aggregates_version: object = None
        self._poller = self._a_poller("API", self._poll_api, lambda: self.changes.wake())
        client = placement_client(conf)
        self._inventories = PlacementInventories(client, own.poll_interval, self.changes.note)
        self._started = self._is_read = self._closed = False

    def hosts(self) -> Sequence[str]:
        return list(self._states)

    def nodes(self) -> Sequence[NodeName]:
        return list(self._places())

    def facts(self, node: NodeName) -> NodeFacts:
        mirror = self._mirror(node)
        try:
            return self._inventories.applied(node, mirror.facts(node))
        except KeyError:
            raise _gone(node) from None

    def guests(self, node: NodeName) -> Sequence[Guest]:
        return self._mirror(node).guests(node)

    def moves(self, node: NodeName) -> Sequence[Move]:
        return self._mirror(node).moves(node)

    def service_states(self) -> Mapping[str, ServiceState]:
        """Return the states of all hosts with nodes; one whose cell is away for long is down."""
        found = {}
        for name, each in self._places().items():
            if name.host not in found:
                found[name.host] = _state(each, name.host)
        self._states = found
        return found

    def aggregates(self) -> Sequence[AggregateRecord] | None:
        return self._aggregates

    def stand_by(self) -> None:
        """Read all that is to be known when the other agent dies."""
        self._places()
        failures = [each.poller.failure for each in self._cells.values()]
        if failures and all(failures):
            raise DriverUnavailable(failures[0])

    def is_current(self, since: float) -> bool:
        if not self._started:
            # All of it will be read now.
            return True
        pollers = [self._poller, *(each.poller for each in list(self._cells.values()))]
        late = [each for each in pollers if each.tried_at < since]
        for each in late:
            each.hurry()
        if not late and self._poller.failure:
            # Another agent may have written newer ones; the next poll that succeeds reads all.
            self._aggregates = self._aggregates_version = None
        return not late

    def polled_at(self) -> float:
        cells = [each for each in self._cells.values() if not each.poller.failure]
        return min((each.mirror.polled_at or 0.0 for each in cells), default=0.0)

    def metrics(self) -> Iterator[GaugeMetricFamily]:
        cells = dict(self._cells)
        names = ((uuid, name) for uuid, each in cells.items() for name in each.mirror.nodes.names())
        mapped = self._mappings.hosts
        yield GaugeMetricFamily(
            "berthmaster_nova_hosts_without_mapping",
            "Hosts that get no instances until nova-manage cell_v2 discover_hosts has been run.",
            len({name.host for uuid, name in names if mapped.get(name.host) != uuid}),
        )
        answering = GaugeMetricFamily(
            "berthmaster_nova_cell_answering",
            "1 if the database of a cell was read at the last poll.",
            labels=["cell"],
        )
        for each in cells.values():
            answering.add_metric([each.cell.name], float(not each.poller.failure))
        yield answering

    def close(self) -> None:
        self._closed = True
        self._poller.stop()
        self._inventories.close()
        self.changes.close()
        for each in list(self._cells.values()):
            each.stop()
        self._api.close()

    def _places(self) -> dict[NodeName, _PolledCell]:
        """Return the cell of each node, once every cell has been asked.

        Raises DriverUnavailable.
        """
        self._wait_for_first_polls()
        cells = list(self._cells.values())
        version = (self._version, *((id(each), each.mirror.nodes.version) for each in cells))
        if version != self._listed[0]:
            mapped = self._mappings.hosts
            found = {
                name: each
                for each in cells
                for name in each.mirror.nodes.names()
                if mapped.get(name.host) == each.cell.uuid
            }
            self._listed = version, found
        return self._listed[1]

    def _wait_for_first_polls(self) -> None:
        if not self._started:
            self._started = True
            self._poller.start()
            self._inventories.start()
        # Not for cells that are added later, whose hosts are not here yet.
        if not self._is_read:
            self._poller.tried.wait()
            for each in list(self._cells.values()):
                each.poller.tried.wait()
        if self._closed:
            raise DriverUnavailable("the driver is closed")
        if self._version is None:
            raise DriverUnavailable(self._poller.failure)
        self._is_read = True

    def _mirror(self, node: NodeName) -> CellMirror:
        """Return where to ask about a node; raises DriverUnavailable."""
        place = self._places().get(node)
        if place is None or node not in place.mirror.nodes:
            raise _gone(node)
        if place.poller.failure:
            raise DriverUnavailable(place.poller.failure)
        return place.mirror

    def _poll_api(self, depth: Depth) -> None:
        whole = depth is Depth.WHOLE
        if depth is not Depth.QUICK:
            self._poll_mappings(whole)
        version = aggregates_version(self._api)
        if whole or version != self._aggregates_version:
            self._aggregates, self._aggregates_version = read_aggregates(self._api), version
            self.changes.wake()

    def _poll_mappings(self, whole: bool) -> None:
        """Read which cells and hosts there are, if that has changed."""
        version = mappings_version(self._api)
        if version == self._version and not whole:
            return
        mappings = read_mappings(self._api)
        self._follow_cells(mappings.cells)
        before, self._mappings, self._version = self._mappings.hosts, mappings, version
        moved = {
            host
            for host in before.keys() | mappings.hosts.keys()
            if before.get(host) != mappings.hosts.get(host)
        }
        cells = [each.mirror.nodes.names() for each in self._cells.values()]
        self._note([name for name in chain(*cells) if name.host in moved])

    def _follow_cells(self, cells: Sequence[Cell]) -> None:
        """Begin to poll new cells, and end with those that are gone or have changed."""
        for uuid in self._cells.keys() - {each.uuid for each in cells}:
            polled = self._cells.pop(uuid)
            polled.stop()
            self._note(polled.mirror.nodes.names())
        for cell in cells:
            known = self._cells.get(cell.uuid)
            if known is None or known.cell.database_url != cell.database_url:
                self._open(cell, known)
            elif known.cell != cell:
                known.cell = cell
                self._note(known.mirror.nodes.names())

    def _open(self, cell: Cell, known: _PolledCell | None) -> None:
        """Begin to poll a cell; one that has moved keeps its hosts meanwhile."""
        try:
            database = NovaDatabase(cell.name, self._access.database_url(cell))
        except (CellTemplateError, NovaDatabaseUnavailable) as error:
            LOG.error("Cannot read the hosts of cell %s: %s", cell.name, error)
            return
        if known is None:
            mirror = CellMirror(database, self._limit)
        else:
            known.stop()
            mirror = known.mirror
            mirror.move_to(database)
        self._cells[cell.uuid] = self._polled(_PolledCell(cell, database, mirror))

    def _polled(self, polled: _PolledCell) -> _PolledCell:
        mirror = polled.mirror

        def poll(depth: Depth) -> None:
            quick = depth is Depth.QUICK
            self._note(mirror.poll_services() if quick else mirror.poll(depth is Depth.WHOLE))

        polled.poller = self._a_poller(
            polled.cell.name, poll, lambda: self._note(mirror.nodes.names())
        )
        polled.poller.start()
        return polled

    def _a_poller(self, name: str, poll: Any, switched: Any = lambda: None) -> Poller:
        return Poller(f"Nova's database {name}", poll, switched, self._limit, self._intervals)

    def _note(self, names: Any) -> None:
        for name in names:
            self.changes.note(name)


def _gone(node: NodeName) -> DriverUnavailable:
    return DriverUnavailable(f"Nova no longer has node {node.node} of host {node.host}")


def _state(polled: _PolledCell, host: str) -> ServiceState:
    """Return the state of a host's service; without a row of Nova's it is down."""
    found = polled.mirror.services.by_host.get(host, ServiceState(is_alive=False))
    found = replace(found, cell_uuid=polled.cell.uuid)
    if polled.cell.is_disabled:
        found = replace(found, disabled_reason=f"cell {polled.cell.name} is disabled in Nova")
    return replace(found, is_alive=False) if polled.poller.is_lost else found
