# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check the configuration, the databases of a Nova cloud, its flavors, computes and hosts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from oslo_config import cfg

from conf.service import liveness_limit
from inventory.errors import counted, some
from inventory.nova import computes
from inventory.nova.cells import Cell, CellAccess, CellMappings, CellTemplateError, read_mappings
from inventory.nova.database import NovaDatabase, NovaDatabaseUnavailable
from scheduler import plugins
from scheduler.claims.resource_request import resource_request
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec

OK, WARNING, ERROR = "ok", "warning", "error"
CONFIGURE = (
    "set it to what it is in nova.conf, or read that file as well, ours last: berthmaster"
    " --config-file /etc/nova/nova.conf --config-file /etc/berthmaster/berthmaster.conf nova check"
)
DISCOVER = "nova-manage cell_v2 discover_hosts --by-service"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part of the cloud; cure is "" where there is nothing to do."""

    state: str
    subject: str
    text: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class _CellContents:
    """The services and hosts with nodes of one cell; none of one that cannot be read."""

    cell: Cell
    services: Sequence[Any] = ()
    hosts: Sequence[str] = ()


def check(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    """Yield what is found, in the order in which an operator would put it right."""
    yield _plugins(conf)
    if not conf.api_database.connection:
        text = "[api_database] connection is not set, so there is no Nova cloud to check"
        yield Finding(ERROR, "API database", text, CONFIGURE)
        return
    try:
        with closing(NovaDatabase("nova_api", conf.api_database.connection)) as api:
            mappings = read_mappings(api)
            cells, hosts = len(mappings.cells), len(mappings.hosts)
            summary = f"{counted(cells, 'cell')}, {counted(hosts, 'host')} mapped"
            yield from _database(conf, "API database", api, summary)
            yield from _flavors(api)
    except NovaDatabaseUnavailable as error:
        yield Finding(ERROR, "API database", str(error), "check [api_database] connection")
        return
    yield from _cells(conf, mappings)


def _plugins(conf: cfg.ConfigOpts) -> Finding:
    try:
        names = [type(each).__name__ for each in plugins.load_filters(conf)]
        plugins.load_weighers(conf)
    except plugins.PluginError as error:
        cure = "install the package that contains the plug-in, or remove the name from the list"
        return Finding(ERROR, "filters and weighers", str(error), cure)
    return Finding(OK, "filters and weighers", f"all known: {', '.join(names)}")


def _database(
    conf: cfg.ConfigOpts, subject: str, database: NovaDatabase, contents: str
) -> Iterator[Finding]:
    """Yield what a database has, and what is wrong with its account and with ours."""
    yield Finding(OK, subject, contents)
    if database.may_write():
        text = "the account may write, but only the right SELECT is needed"
        cure = f"GRANT SELECT ON `{database.schema}`.* TO an account of its own, and use that one"
        yield Finding(WARNING, subject, text, cure)
    # With a nova.conf alone, [database] connection is that of a cell.
    if NovaDatabase("own", conf.database.connection).place == database.place:
        text = f"[database] connection is {database.place} as well, where Nova's tables are"
        cure = "make a database for Berthmaster, and set the option in the file that is read last"
        yield Finding(ERROR, subject, text, cure)


def _flavors(api: NovaDatabase) -> Iterator[Finding]:
    """Yield which flavors have properties that mean nothing to Placement; Nova ignores those."""
    specs: dict[int, dict[str, str]] = defaultdict(dict)
    for row in api.rows("flavor_extra_specs", "flavor_id", "key", "value"):
        specs[row.flavor_id][row.key] = row.value or ""
    flavors = api.rows("flavors", "id", "name", "vcpus", "memory_mb", "root_gb")
    wrong = False
    for row in flavors:
        size = row.vcpus, row.memory_mb, row.root_gb
        try:
            resource_request(RequestSpec(Flavor(*size, extra_specs=specs[row.id])))
        except ValueError as error:
            wrong = True
            cure = "correct the property, or remove it: openstack flavor unset --property"
            yield Finding(WARNING, f"flavor {row.name}", f"is refused here: {error}", cure)
    if not wrong:
        yield Finding(OK, "flavors", f"{counted(len(flavors), 'flavor')}, all understood")


def _cells(conf: cfg.ConfigOpts, mappings: CellMappings) -> Iterator[Finding]:
    access, found = cell_access(conf), []
    for cell in mappings.cells:
        contents, findings = _read_cell(conf, cell, access)
        yield from findings
        found.append(contents)
    if not mappings.cells:
        text = "no cell but cell0 is mapped, so there are no hosts"
        yield Finding(ERROR, "cells", text, "nova-manage cell_v2 create_cell")
    yield from _hosts(mappings, found)


def cell_access(conf: cfg.ConfigOpts) -> CellAccess:
    own = conf.nova
    return CellAccess(own.cell_template_connection, own.cell_username, own.cell_password)


def _read_cell(
    conf: cfg.ConfigOpts, cell: Cell, access: CellAccess
) -> tuple[_CellContents, Sequence[Finding]]:
    subject = f"cell {cell.name}"
    try:
        with closing(NovaDatabase(cell.name, access.database_url(cell))) as database:
            services = database.read(lambda each: computes.services(each, database))
            nodes = database.read(lambda each: computes.nodes(each, database))
            contents = _CellContents(cell, services, sorted({each.host for each in nodes}))
            summary = f"{counted(len(services), 'compute service')}, {counted(len(nodes), 'node')}"
            findings = [*_database(conf, subject, database, summary)]
    except CellTemplateError as error:
        return _CellContents(cell), [Finding(ERROR, subject, str(error))]
    except NovaDatabaseUnavailable as error:
        cure = "check its row in nova-manage cell_v2 list_cells, and [nova] cell_username"
        return _CellContents(cell), [Finding(ERROR, subject, str(error), cure)]
    if cell.is_disabled:
        text = "is disabled: no instance is placed there"
        findings.append(Finding(WARNING, subject, text, "nova-manage cell_v2 update_cell --enable"))
    findings += _services(subject, contents.services, liveness_limit(conf))
    return contents, findings


def _services(subject: str, services: Iterable[Any], limit: float) -> Iterator[Finding]:
    """Yield which compute services get no instances, by the reason."""
    # Heartbeats are times of Nova's machines, as this is: a clock that is wrong counts as in Nova.
    now = datetime.now(UTC).replace(tzinfo=None)
    states: dict[str, list[str]] = defaultdict(list)
    for each in services:
        if each.disabled:
            states["disabled"].append(each.host)
        if each.forced_down:
            states["forced down"].append(each.host)
        elif not computes.is_alive(each, now, limit):
            states[f"silent for more than {limit:g} s (service_down_time)"].append(each.host)
    for state, hosts in states.items():
        cure = "these hosts get no instances, as in Nova; see openstack compute service list"
        yield Finding(WARNING, subject, f"{state}: {_named(sorted(hosts))}", cure)


def _hosts(mappings: CellMappings, cells: Sequence[_CellContents]) -> Iterator[Finding]:
    """Yield how the hosts of the cells agree with their mappings."""
    wrong = False
    for contents in cells:
        uuid, there = contents.cell.uuid, contents.hosts
        unmapped = [host for host in there if host not in mappings.hosts]
        elsewhere = [host for host in there if mappings.hosts.get(host, uuid) != uuid]
        subject = f"hosts of cell {contents.cell.name}"
        if unmapped:
            text = f"no mapping, so Nova places no instances there: {_named(unmapped)}"
            yield Finding(ERROR, subject, text, DISCOVER)
        if elsewhere:
            text = f"mapped to another cell: {_named(elsewhere)}"
            cure = f"nova-manage cell_v2 delete_host for the wrong mapping, then {DISCOVER}"
            yield Finding(ERROR, subject, text, cure)
        wrong = wrong or bool(unmapped or elsewhere)
    if not wrong:
        yield Finding(OK, "host mappings", f"{counted(len(mappings.hosts), 'host')}, all in order")


def _named(hosts: Sequence[str]) -> str:
    return f"{counted(len(hosts), 'host')} ({some(hosts)})"
