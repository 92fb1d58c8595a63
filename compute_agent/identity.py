# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The names and the uuid under which a host is known, and refusing to run under wrong ones.

A node that has no uuid of its own gets one in the file compute_id of state_path. It outlives
restarts and reinstallations of the agent and shows when a second machine claims to be this host.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID, uuid4

from oslo_config import cfg

from compute_agent.virt.driver import Driver, NodeName
from inventory import compute_nodes, services
from inventory.engine import Database

FILE = "compute_id"


class IdentityError(Exception):
    """Who this agent says it is contradicts what the database or its own file says."""


def path(conf: cfg.ConfigOpts) -> Path:
    """Return where the uuid of the node is kept."""
    return Path(conf.state_path) / FILE


def establish(conf: cfg.ConfigOpts, database: Database, driver: Driver) -> None:
    """Check the hosts' names and see to it that there is a uuid, before anything is written.

    Raises IdentityError.
    """
    _refuse_twins(database, driver)
    if driver.knows_uuids:
        return
    (host,) = driver.hosts()
    known = _kept(path(conf))
    rows = database.read(lambda connection: compute_nodes.claiming(connection, host, known))
    for row in rows:
        if row.host != host:
            raise IdentityError(
                f"{path(conf)} holds {known}, which the database has as host {row.host}, not "
                f"{host}: set [DEFAULT] host = {row.host}, or remove the file if it was copied "
                "from another machine"
            )
        if row.uuid != known:
            raise IdentityError(
                f"host {host} is in the database with the uuid {row.uuid}, but {path(conf)} "
                f"{f'holds {known}' if known else 'is missing'}: write {row.uuid} into it if this "
                "is the same machine, else give this one another [DEFAULT] host"
            )
    if known is None:
        _keep(path(conf), str(uuid4()))


def confirm(conf: cfg.ConfigOpts, database: Database, name: NodeName) -> str:
    """Return the kept uuid of a node; raises IdentityError if it was another node's so far."""
    known = _kept(path(conf))
    if known is None:
        raise IdentityError(f"{path(conf)} is gone: restart the agent to have it checked")
    for row in database.read(lambda each: compute_nodes.claiming(each, name.host, known)):
        if (row.host, row.hypervisor_hostname) != (name.host, name.node):
            raise IdentityError(
                f"the hypervisor calls itself {name.node}, but host {name.host} has been node "
                f"{row.hypervisor_hostname} so far: give the machine its old name back"
            )
    return known


def refuse_renamed(database: Database, names: Mapping[str, NodeName]) -> None:
    """Raise IdentityError if a uuid was another node's so far; names are new ones by uuid."""
    for row in database.read(lambda each: compute_nodes.with_uuids(each, names)):
        name = names[row.uuid]
        if (row.host, row.hypervisor_hostname) != (name.host, name.node):
            raise IdentityError(
                f"node {name.node} of host {name.host} has the uuid {row.uuid}, which is that of "
                f"node {row.hypervisor_hostname} of host {row.host}: give it its old names back, "
                "or a uuid of its own if it is another machine"
            )


def distinct(names: list[NodeName]) -> list[NodeName]:
    """Return the names without outer blanks; raises IdentityError unless all of them differ.

    Names that differ by letter case alone are one name for MariaDB and two for SQLite.
    """
    stripped = [NodeName(name.host.strip(), name.node.strip()) for name in names]
    seen: dict[tuple[str, str], NodeName] = {}
    for name in stripped:
        if not (name.host and name.node):
            raise IdentityError(f"a node without a name: {name}")
        other = seen.setdefault((name.host.casefold(), name.node.casefold()), name)
        if other is not name:
            raise IdentityError(f"two nodes of the same name: {other} and {name}")
    return stripped


def _refuse_twins(database: Database, driver: Driver) -> None:
    binary = services.COMPUTE[0]
    rows = database.read(lambda connection: services.all_live(connection, binary))
    taken = {row.host.casefold(): row.host for row in rows}
    for host in driver.hosts():
        twin = taken.get(host.casefold(), host)
        if twin != host:
            raise IdentityError(
                f"the database knows a host {twin}, and this one is called {host}: names must "
                "differ by more than letter case; set [DEFAULT] host"
            )


def _kept(file: Path) -> str | None:
    try:
        text = file.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(f"{file} cannot be read: {error}") from error
    try:
        return str(UUID(text))
    except ValueError as error:
        raise IdentityError(f"{file} holds {text!r}, which is no uuid") from error


def _keep(file: Path, uuid: str) -> None:
    """Write the file whole or not at all; one that is there stays."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("w") as stream:
            stream.write(f"{uuid}\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(draft, file)
    except OSError as error:
        raise IdentityError(f"{file} cannot be written: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
