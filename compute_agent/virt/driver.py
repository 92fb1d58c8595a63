# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of drivers, and the values that they return.

Errors that a driver may raise:

    DriverError
    +-- DriverMisconfigured     when it is made: start-up stops with this text
    +-- DriverUnavailable       the hypervisor does not answer; the last facts stay in the database
    |   +-- DriverHung          ... and a call to it is still waiting
    +-- DriverCannot            this kind of hypervisor cannot do it
    +-- DriverAnswerUnusable    its answer makes no sense
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from prometheus_client import Metric

from compute_agent.virt.event_mailbox import EventMailbox
from inventory.aggregates import AggregateRecord
from inventory.fits import local_disk_mb
from inventory.objects.numa import InstanceNUMATopology, NUMATopology
from inventory.objects.pci_and_network import PciDevicePool
from inventory.services import ServiceState

MIB_PER_GIB = 1024


class DriverError(Exception):
    """A driver cannot do its work; the text is one line for the operator."""


class DriverMisconfigured(DriverError):
    """The driver cannot work with these options or on this installation."""


class DriverUnavailable(DriverError):
    """The hypervisor does not answer; the text says how that showed."""


class DriverHung(DriverUnavailable):
    """A call got no answer within a number of seconds, and may still be waiting."""

    def __init__(self, subject: str, seconds: float) -> None:
        super().__init__(f"{subject} has not answered for {seconds:g} s")
        self.subject = subject
        self.seconds = seconds


class DriverCannot(DriverError):
    """The driver cannot do something; what names it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"this driver cannot {what}")
        self.what = what


class DriverAnswerUnusable(DriverError):
    """The hypervisor's answer to a question makes no sense."""

    def __init__(self, question: str, problem: str) -> None:
        super().__init__(f"the answer to {question} cannot be used: {problem}")
        self.question = question
        self.problem = problem


@dataclass(frozen=True, slots=True)
class NodeName:
    """The two names of a unit of capacity: of the agent's service and of the hypervisor."""

    host: str
    node: str


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A device of a node, in use or not.

    address is domain:bus:slot.function in hexadecimal digits, such as 0000:0a:00.1; vendor_id and
    product_id are four of them each. kind is type-PCI, type-PF, type-VF or vdpa. parent is the
    address of a virtual function's physical one, interface the name of a network card's interface.
    names is what guests may call it besides: all its interfaces, the files of its vdpa devices and
    the uuids of its mediated devices.
    """

    address: str
    vendor_id: str
    product_id: str
    kind: str = "type-PCI"
    numa_node: int | None = None
    parent: str | None = None
    interface: str | None = None
    names: tuple[str, ...] = ()


class Size(NamedTuple):
    """Amounts of what a node has; memory and disk in MiB."""

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What another service decides about a node, where this agent's own options decide else.

    reserved is what is not for instances. pci_pools are the devices that no guest has, metrics
    are as in their column. stats are kept besides those that the agent counts.
    """

    host_ip: str
    reserved: Size
    ratios: Mapping[str, float]
    pci_pools: tuple[PciDevicePool, ...] = ()
    metrics: tuple[Mapping[str, Any], ...] = ()
    stats: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node has, in use or not.

    Memory is in MiB and disk in GiB. memory_used_mb is the hypervisor's own view, for the log.
    disk_available_least is what the file system still has for us; cpu_info is a JSON text, ""
    where nothing is known; supported_instances holds (architecture, hypervisor type, vm mode).
    numa holds the cells with nothing in use. booted says when, in seconds since 1970. settings
    replace the options of the agent.
    """

    vcpus: int
    memory_mb: int
    local_gb: int
    hypervisor_type: str
    hypervisor_version: int
    uuid: str | None = None
    disk_available_least: int | None = None
    memory_used_mb: int | None = None
    cpu_info: str = ""
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    numa: NUMATopology | None = None
    pci_devices: tuple[PciDevice, ...] = ()
    booted: int | None = None
    settings: NodeSettings | None = None


@dataclass(frozen=True, slots=True)
class CpuCounters:
    """Time of all CPUs together since boot, in ns by kind, and their frequency in MHz."""

    user: int
    kernel: int
    idle: int
    iowait: int
    frequency_mhz: int


@dataclass(frozen=True, slots=True)
class Move:
    """A migration that is under way; either end may be unknown so far.

    old_numa and new_numa are the cells and CPUs of the instance at either end, None if not known.
    has_devices says that the devices for it are not free at its destination any more.
    """

    instance_uuid: str
    source: NodeName | None
    destination: NodeName | None
    old: Size
    new: Size
    old_numa: InstanceNUMATopology | None = None
    new_numa: InstanceNUMATopology | None = None
    has_devices: bool = False


@dataclass(frozen=True, slots=True)
class Guest:
    """One guest, running or not, with what it may take: memory and swap in MiB, disks in GiB.

    flavor_id is Nova's number of the flavor, not the flavorid that users see. Properties of the
    image are texts. numa says on which cells and CPUs of the host it is, pci_addresses which
    devices it has, device_names which it uses without an address. None stands for what the driver
    cannot tell.
    """

    uuid: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    vm_state: str = "active"
    task_state: str | None = None
    project_id: str | None = None
    os_type: str | None = None
    flavor_id: int | None = None
    flavor_name: str | None = None
    image_properties: Mapping[str, str] | None = None
    numa: InstanceNUMATopology | None = None
    pci_addresses: tuple[str, ...] = ()
    device_names: tuple[str, ...] = ()

    @property
    def size(self) -> Size:
        """What it takes; its disks are all its local ones."""
        disk = local_disk_mb(self.root_gb, self.ephemeral_gb, self.swap_mb)
        return Size(self.vcpus, self.memory_mb, disk)


class Driver(ABC):
    """Reports one hypervisor, or several imaginary ones.

    It is made before the process forks, so making one connects nothing and starts no thread; the
    first question does. Questions come from one thread at a time, close() from another.
    """

    # True: facts carry a uuid. False: there is one node, and the agent keeps its uuid in a file.
    knows_uuids: ClassVar[bool] = False
    # The lease of which one agent of several with this driver does the work; None: each does.
    lease: ClassVar[str | None] = None

    # Any: the options of oslo.config, whose types are only known when it runs.
    @abstractmethod
    def __init__(self, conf: Any) -> None:
        """Look at the options; raises DriverMisconfigured."""
        # Where the driver notes nodes on which something has just changed, if it hears of that.
        self.changes = EventMailbox()

    @abstractmethod
    def hosts(self) -> Sequence[str]:
        """Return the names of the hosts whose services this agent reports, without a call.

        They stay the same unless service_states() says more than None.
        """

    @abstractmethod
    def nodes(self) -> Sequence[NodeName]:
        """Return the nodes; raises DriverError.

        Nodes that are no longer among them are deleted, unless is_gone() returns False.
        """

    @abstractmethod
    def facts(self, node: NodeName) -> NodeFacts:
        """Return what a node has; raises DriverError."""

    @abstractmethod
    def guests(self, node: NodeName) -> Sequence[Guest]:
        """Return all guests of a node, in no particular order; raises DriverError."""

    @abstractmethod
    def close(self) -> None:
        """Fail the running call and all later ones at once."""

    def service_states(self) -> Mapping[str, ServiceState] | None:
        """Return the states of the services of hosts(), which may have changed; raises DriverError.

        None: there is one host, or all live and die with this agent. Hosts left out are down.
        """
        return None

    def aggregates(self) -> Sequence[AggregateRecord] | None:
        """Return all aggregates, the same object as long as they are the same.

        None: operators keep them by our own commands.
        """
        return None

    def moves(self, node: NodeName) -> Sequence[Move]:
        """Return the migrations under way from or to a node, the newest first."""
        return ()

    def stand_by(self) -> None:
        """Be ready to answer while another agent has the lease; raises DriverError if it cannot."""
        return

    def is_current(self, since: float) -> bool:
        """Return whether it has asked for all that it knows after since, by time.monotonic().

        If not, it asks now. An agent that takes over may know less than what another has written.
        """
        return True

    def polled_at(self) -> float:
        """Return from when on facts() and guests() know what happened, by time.monotonic()."""
        return time.monotonic()

    def metrics(self) -> Iterable[Metric]:
        """Yield the present values of metrics of the driver's own, under names of their own.

        It is called in a thread of its own, before the first question and after close(), too.
        """
        return ()

    def is_gone(self, node: NodeName) -> bool:
        """Return whether a node that nodes() left out is gone, rather than absent for a while."""
        return True

    def overhead(self, guest: Guest) -> Size:
        """Return what the hypervisor takes for a guest besides what its flavor says."""
        return Size()

    def cpu_counters(self, node: NodeName) -> CpuCounters:
        """Return how busy the CPUs of a node were; raises DriverError."""
        raise DriverCannot("count the time of CPUs")

    def act_on_power(self, host: str, action: str) -> str:
        """Do one of startup, reboot and shutdown to a host; return in a word what it does now.

        It is called in a thread of its own, at the same time as others. Raises DriverError.
        """
        raise DriverCannot(f"{action} a host")
