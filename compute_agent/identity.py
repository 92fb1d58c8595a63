# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The names and the uuid under which a host is known, and refusing to run under wrong ones.

A node that has no uuid of its own gets one in the file compute_id of state_path. It outlives
restarts and reinstallations of the agent and shows when a second machine claims to be this host.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.virt.driver import Driver, NodeName
from inventory import compute_nodes, services
from inventory.compute_nodes import RowVersion
from inventory.engine import Database

FILE = "compute_id"
_SAME_NAME = "two nodes of the same name: {} and {}"


class IdentityError(Exception):
    """Who this agent says it is contradicts what the database or its own file says."""


def path(conf: cfg.ConfigOpts) -> Path:
    """Return the path of the file with the uuid of the node."""
    return Path(conf.state_path) / FILE


def establish(conf: cfg.ConfigOpts, database: Database, driver: Driver) -> None:
    """Check the hosts' names and make a missing uuid, before anything is written.

    Raises IdentityError.
    """
    _refuse_twins(database, driver)
    if driver.knows_uuids:
        return
    (host,) = driver.hosts()
    known = _read_uuid(path(conf))
    rows = database.read(lambda connection: compute_nodes.of_host_or_uuid(connection, host, known))
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
        _write_uuid(path(conf), str(uuid4()))


def confirm(conf: cfg.ConfigOpts, database: Database, name: NodeName) -> str:
    """Return the uuid of a node from its file; raises IdentityError if another node has it."""
    known = _read_uuid(path(conf))
    if known is None:
        raise IdentityError(
            f"{path(conf)} is gone: restart the agent, which checks the identity of this host again"
        )
    for row in database.read(lambda each: compute_nodes.of_host_or_uuid(each, name.host, known)):
        if (row.host, row.hypervisor_hostname) != (name.host, name.node):
            raise IdentityError(
                f"the hypervisor calls itself {name.node}, but host {row.host} has been node "
                f"{row.hypervisor_hostname} so far: give the machine its old name back"
            )
    return known


def refusals(
    connection: sa.Connection, uuids: dict[NodeName, str], marks: Mapping[NodeName, RowVersion]
) -> dict[NodeName, IdentityError]:
    """Return which nodes must not be written, and why; marks are those of all nodes' own rows.

    One that has a row must have its uuid. One that has none must not have another one's, which is
    what a renamed node has, nor a name that MariaDB takes for another one's.
    """
    refused = {
        name: IdentityError(
            f"node {name.node} of host {name.host} is in the database with the uuid "
            f"{marks[name].uuid}, and here it has {uuid}: another machine has the same names; "
            "give one of them another [DEFAULT] host"
        )
        for name, uuid in uuids.items()
        if name in marks and marks[name].uuid != uuid
    }
    new = {name: uuid for name, uuid in uuids.items() if name not in marks}
    if not new:
        return refused
    rows = compute_nodes.with_uuids(connection, new.values())
    owners = [(row.uuid, NodeName(row.host, row.hypervisor_hostname)) for row in rows]
    owner = dict([*((uuid, name) for name, uuid in reversed(uuids.items())), *owners])
    folded = {_folded(name): name for name in marks}
    for name, uuid in new.items():
        twin = folded.get(_folded(name))
        if owner[uuid] != name:
            other = owner[uuid]
            refused[name] = IdentityError(
                f"node {name.node} of host {name.host} has the uuid {uuid}, which is that of node "
                f"{other.node} of host {other.host}: give it its old names back, or a uuid of its "
                "own if it is another machine"
            )
        elif twin is not None:
            refused[name] = IdentityError(_SAME_NAME.format(name, twin))
    return refused


def rivals(conf: cfg.ConfigOpts, driver: Driver) -> IdentityError:
    """Return the error for an agent that finds another one beating for its hosts."""
    file = "" if driver.knows_uuids else f"remove {path(conf)} there if it is a copy, and "
    return IdentityError(
        f"another agent or nova-compute sends heartbeats as host {driver.hosts()[0]} too: stop one"
        f" of them; if it is another machine's, {file}give that machine another [DEFAULT] host"
    )


def distinct(names: list[NodeName]) -> list[NodeName]:
    """Return the names without outer blanks; raises IdentityError unless all of them differ.

    Names that differ by letter case alone are two, which people and Nova would not tell apart.
    """
    stripped = [NodeName(name.host.strip(), name.node.strip()) for name in names]
    seen: dict[tuple[str, str], NodeName] = {}
    for name in stripped:
        if not (name.host and name.node):
            raise IdentityError(f"a node without a name: {name}")
        other = seen.setdefault(_folded(name), name)
        if other is not name:
            raise IdentityError(_SAME_NAME.format(other, name))
    return stripped


def shortened(names: Sequence[str]) -> str:
    """Return a short text for names, of which there may be thousands."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return names[0] + more if names else "none"


def _folded(name: NodeName) -> tuple[str, str]:
    return name.host.casefold(), name.node.casefold()


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


def _read_uuid(file: Path) -> str | None:
    try:
        # Some editors begin a file with a byte order mark.
        text = file.read_text(encoding="utf-8-sig").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(f"{file} cannot be read: {error}") from error
    try:
        return str(UUID(text))
    except ValueError as error:
        raise IdentityError(f"{file} holds {text!r}, which is no uuid") from error


def _write_uuid(file: Path, uuid: str) -> None:
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
