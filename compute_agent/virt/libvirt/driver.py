# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver of one libvirt host, its guests and their file system."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from oslo_log import log

from compute_agent import device_spec
from compute_agent.host_memory import HostMemory
from compute_agent.virt.driver import CpuCounters, Driver, DriverCannot, Guest, NodeFacts, NodeName
from compute_agent.virt.event_mailbox import EventMailbox
from compute_agent.virt.libvirt import image_store
from compute_agent.virt.libvirt.connection import Connection, SerialWorker, library
from compute_agent.virt.libvirt.devices import Devices
from compute_agent.virt.libvirt.disks import DiskSizes
from compute_agent.virt.libvirt.events import Events
from compute_agent.virt.libvirt.guests import Guests
from compute_agent.virt.libvirt.host import TEST, Host
from compute_agent.virt.libvirt.session import Link, Timeouts, ask, is_local
from compute_agent.virt.libvirt.storage import Storage
from conf import libvirt as options

LOG = log.getLogger(__name__)
STAT = Path("/proc/stat")


class LibvirtDriver(Driver):
    """Reports the host that [libvirt] connection_uri leads to."""

    def __init__(self, conf: Any, libvirt: ModuleType | None = None) -> None:
        super().__init__(conf)
        self._name: str = conf.host
        self._file_backed_mb: int = conf.libvirt.file_backed_memory
        uri = options.uri(conf)
        self._is_local = is_local(uri, conf.host, str(conf.my_ip))
        if not self._is_local:
            LOG.warning(
                "libvirt at %s seems to run on another machine: disks of its guests do not count"
                " in disk_available_least, and local_gb is the disk of this machine",
                uri,
            )
        self._libvirt = libvirt or library()
        self._wakeup = _WakeupEvent(self.changes)
        # Hosts without devices for guests need not run libvirt's daemon for devices.
        offers_devices = bool(device_spec.parse(conf.pci.device_spec))
        self._events = Events(self._libvirt, self._wakeup.set, offers_devices)
        timeouts = _timeouts(conf)
        self._connection = Connection(self._libvirt, uri, timeouts, self._events)
        self._host = Host(conf, self._libvirt, self._connection, self._is_local)
        self._devices = (
            Devices(self._libvirt, self._connection, self._events) if offers_devices else None
        )
        # A worker of its own: a guest may hang while libvirt answers.
        self._reader = SerialWorker(f"a guest of libvirt at {uri}", timeouts.answer)
        self._guests = Guests(self._libvirt, self._connection, self._events, self._reader)
        store = image_store.configured(conf)
        if store is not None:
            LOG.info("local_gb is the size of %s", store.subject)
        self._storage = store or Storage(Path(conf.instances_path), timeouts)
        self._sizes = DiskSizes(self._libvirt, self._connection, timeouts.answer)
        self._last_name = ""
        self._booted = _booted() if self._is_local else None

    def hosts(self) -> Sequence[str]:
        return [self._name]

    def nodes(self) -> Sequence[NodeName]:
        name = self._connection.call(lambda link: link.getHostname())
        known = self._wakeup.node = self._wakeup.node or NodeName(host=self._name, node=name)
        if name not in (known.node, self._last_name):
            # Seen when DNS comes or goes. Two rows for one machine would double its capacity.
            LOG.warning("The hypervisor is now called %s; the node stays %s", name, known.node)
        self._last_name = name
        return [known]

    def facts(self, node: NodeName) -> NodeFacts:
        host = self._host.look()
        if not self._guests.looked:
            self.guests(node)
        # The files of an imaginary host, or of one elsewhere, are not on this machine.
        is_here = self._is_local and host.hypervisor.kind != TEST
        disks = self._guests.disks if is_here else ()
        local_gb, least = self._storage.look(
            disks, lambda paths: self._sizes.of(paths, self._guests.owners)
        )
        memory = host.memory
        if self._file_backed_mb:
            # Files are the memory of guests, which may take up to this total.
            memory = HostMemory(self._file_backed_mb, self._guests.running_mb)
        return NodeFacts(
            vcpus=host.vcpus,
            memory_mb=memory.total_mb,
            memory_used_mb=memory.used_mb,
            local_gb=local_gb,
            disk_available_least=least,
            hypervisor_type=host.hypervisor.kind,
            hypervisor_version=host.hypervisor.version,
            cpu_info=host.hypervisor.cpu_info,
            supported_instances=host.hypervisor.capabilities.supported_instances,
            numa=host.numa,
            pci_devices=self._devices.look() if self._devices else (),
            booted=self._booted if is_here else None,
        )

    def guests(self, node: NodeName) -> Sequence[Guest]:
        return self._guests.look(self._host.cells)

    def cpu_counters(self, node: NodeName) -> CpuCounters:
        def read(link: Link) -> tuple[dict[str, int] | None, int]:
            times = ask(self._libvirt, link, lambda: link.getCPUStats(-1), None)
            return times, link.getInfo()[3]

        times, frequency = self._connection.call(read)
        if times is None:
            raise DriverCannot("count the time of CPUs")
        kinds = {kind: times.get(kind, 0) for kind in ("user", "kernel", "idle", "iowait")}
        return CpuCounters(**kinds, frequency_mhz=frequency)

    def close(self) -> None:
        self._events.close()
        self._connection.close()
        self._reader.close()
        self._storage.close()
        self._sizes.close()
        self.changes.close()


class _WakeupEvent:
    """Wakes the agent from threads of libvirt, without a reference to the driver."""

    def __init__(self, changes: EventMailbox) -> None:
        self.node: NodeName | None = None
        self._changes = changes

    def set(self) -> None:
        """Request an audit of the node, once its name is known."""
        if self.node is not None:
            self._changes.note(self.node)


def _timeouts(conf: Any) -> Timeouts:
    return Timeouts(
        answer=conf.libvirt.poll_timeout,
        slow_answer=conf.libvirt.call_timeout,
        keepalive_interval=conf.libvirt.keepalive_interval,
        keepalive_count=conf.libvirt.keepalive_count,
    )


def _booted() -> int | None:
    """Return when this machine was booted, in seconds since 1970."""
    with suppress(OSError, ValueError):
        for line in STAT.read_text().splitlines():
            if line.startswith("btime "):
                return int(line.split()[1])
    return None
