# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The contract of all drivers: what they report of nodes and of guests."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import CpuCounters, Driver, DriverUnavailable, Guest
from compute_agent.virt.libvirt.driver import LibvirtDriver
from inventory import compute_nodes, instances
from inventory.objects.numa import NUMATopology
from tests.contract.conftest import Load
from tests.contract.hypervisors import TEST_XML, FakeHypervisor, Hypervisor, changeable, changing
from tests.fixtures import agent
from tests.fixtures.daemons import guests
from tests.fixtures.daemons.process import PATIENCE, wait_until

STATES = {"active", "paused", "stopped", "suspended"}
LARGEST = 2**31 - 1
DEFAULT_HOST = "test:///default"
CUSTOM_HOST = f"test://{agent.SAMPLES / 'test-node.xml'}"
FAKES = {"fake": {"hosts": 1}, "three fakes": {"hosts": 3}, "fake nodes": {"hosts": 2, "nodes": 2}}
# The guests of a test, by the ends of their uuids.
OURS = range(800, 810)
ONE, OTHER = 801, 802


@pytest.fixture(params=[*FAKES, "imaginary host", "host from a file", "libvirtd"])
def hypervisor(request: pytest.FixtureRequest, load: Load, tmp_path: Path) -> Iterator[Hypervisor]:
    """A node of each kind of driver, and whoever changes its guests."""
    kind = request.param
    if kind in FAKES:
        yield FakeHypervisor(load(DEFAULT={"compute_driver": "fake"}, fake=FAKES[kind]))
        return
    libvirt = pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    with ExitStack() as stack:
        if kind == "host from a file":
            module, links = changeable(libvirt)
            options = agent.options(tmp_path, libvirt={"connection_uri": CUSTOM_HOST})
            driver: Driver = LibvirtDriver(options, module)
            stack.callback(driver.close)
            driver.nodes()
            (link,), xml = links, TEST_XML
        else:
            uri, xml = DEFAULT_HOST, TEST_XML
            if kind == "libvirtd":
                uri, xml = request.getfixturevalue("libvirtd").uri, guests.XML
            # First: a connection opened before the loop runs tells nobody anything.
            driver = load(libvirt={"connection_uri": uri})
            driver.nodes()
            link = stack.enter_context(guests.connected(uri))
        yield stack.enter_context(changing(driver, link, xml, OURS))


@pytest.fixture
def driver(hypervisor: Hypervisor) -> Driver:
    return hypervisor.driver


def ours(hypervisor: Hypervisor) -> dict[int, Guest]:
    """Return the guests of a test by their numbers."""
    found = {guest.uuid: guest for guest in hypervisor.driver.guests(hypervisor.node)}
    return {each: found[uuid] for each in OURS if (uuid := agent.UUID.format(each)) in found}


def states(hypervisor: Hypervisor) -> dict[int, str]:
    return {number: guest.vm_state for number, guest in ours(hypervisor).items()}


def hears(hypervisor: Hypervisor, condition: Callable[[], bool]) -> bool:
    """Tell whether a condition comes true for who looks when something is noted, and only then."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        noted = hypervisor.driver.changes.wait(PATIENCE)
        if condition():
            assert noted == {hypervisor.node}
            return True
    return False


def test_hosts_are_known_without_asking(driver: Driver) -> None:
    assert all(host == "alpha" or host.startswith("alpha-") for host in driver.hosts())
    assert len(set(driver.hosts())) == len(driver.hosts())


def test_nodes_keep_their_names_and_belong_to_hosts(driver: Driver) -> None:
    nodes = list(driver.nodes())
    assert nodes
    assert nodes == list(driver.nodes())
    assert {node.host for node in nodes} == set(driver.hosts())
    assert all(node.node.strip() == node.node != "" for node in nodes)


def test_facts_fit_their_columns(driver: Driver) -> None:
    for node in driver.nodes():
        facts = driver.facts(node)
        assert 0 < facts.vcpus <= LARGEST
        assert 0 < facts.memory_mb <= LARGEST
        assert 0 < facts.local_gb <= LARGEST
        assert 0 <= facts.hypervisor_version <= LARGEST
        assert facts.hypervisor_type
        assert facts.memory_used_mb is None or 0 <= facts.memory_used_mb <= facts.memory_mb
        assert facts.disk_available_least is not None
        assert facts.disk_available_least <= facts.local_gb
        assert facts.booted is None or 0 < facts.booted <= time.time()
        assert len({device.address for device in facts.pci_devices}) == len(facts.pci_devices)


def test_documents_can_be_read_and_stay_the_same(driver: Driver) -> None:
    for node in driver.nodes():
        facts = driver.facts(node)
        info = json.loads(facts.cpu_info)
        assert {"arch", "model", "vendor", "topology", "features"} <= info.keys()
        assert info["features"] == sorted(set(info["features"]))
        assert facts.supported_instances
        assert all(len(triple) == 3 and all(triple) for triple in facts.supported_instances)
        again = driver.facts(node)
        assert (again.cpu_info, again.pci_devices) == (facts.cpu_info, facts.pci_devices)
        assert again.numa == facts.numa


def test_cells_have_nothing_in_use(driver: Driver) -> None:
    for node in driver.nodes():
        for cell in (driver.facts(node).numa or NUMATopology([])).cells:
            assert cell.cpuset | cell.pcpuset
            assert (cell.cpu_usage, cell.memory_usage, cell.pinned_cpus) == (0, 0, set())
            assert {0} == {pages.used for pages in cell.mempages} | {0}


def test_the_time_of_cpus_goes_on(driver: Driver) -> None:
    for node in driver.nodes():
        before, after = driver.cpu_counters(node), driver.cpu_counters(node)
        assert isinstance(before, CpuCounters)
        assert before.idle <= after.idle
        assert before.frequency_mhz > 0


def test_a_uuid_is_known_for_all_nodes_or_for_none(driver: Driver) -> None:
    for node in driver.nodes():
        uuid = driver.facts(node).uuid
        assert (uuid is not None) == driver.knows_uuids
        assert uuid is None or str(UUID(uuid)) == uuid


def test_guests_are_whole(hypervisor: Hypervisor) -> None:
    hypervisor.create(ONE, vcpus=2, memory_mb=64)
    for node in hypervisor.driver.nodes():
        found = hypervisor.driver.guests(node)
        assert len({guest.uuid for guest in found}) == len(found)
        for guest in found:
            assert str(UUID(guest.uuid)) == guest.uuid
            assert guest.name
            assert guest.vcpus > 0
            assert guest.memory_mb > 0
            assert guest.size.disk_mb >= 0
            assert guest.vm_state in STATES


def test_a_guest_starts_pauses_resumes_stops_and_goes(hypervisor: Hypervisor) -> None:
    hypervisor.define(ONE, vcpus=2, memory_mb=96)
    assert hears(hypervisor, lambda: states(hypervisor) == {ONE: "stopped"})
    guest = ours(hypervisor)[ONE]
    assert (guest.vcpus, guest.memory_mb) == (2, 96)
    for act, state in (
        (hypervisor.start, "active"),
        (hypervisor.pause, "paused"),
        (hypervisor.resume, "active"),
        (hypervisor.stop, "stopped"),
        (hypervisor.start, "active"),
        (hypervisor.stop, "stopped"),
    ):
        act(ONE)
        assert hears(hypervisor, lambda state=state: states(hypervisor) == {ONE: state})
        # It takes what it may take, whatever it does.
        guest = ours(hypervisor)[ONE]
        assert (guest.vcpus, guest.memory_mb) == (2, 96)
    hypervisor.undefine(ONE)
    assert hears(hypervisor, lambda: states(hypervisor) == {})


def test_a_guest_that_is_not_kept_goes_when_it_ends(hypervisor: Hypervisor) -> None:
    hypervisor.create(ONE, vcpus=1, memory_mb=64)
    assert hears(hypervisor, lambda: states(hypervisor) == {ONE: "active"})
    hypervisor.pause(ONE)
    assert hears(hypervisor, lambda: states(hypervisor) == {ONE: "paused"})
    hypervisor.stop(ONE)
    assert hears(hypervisor, lambda: states(hypervisor) == {})


def test_a_guest_that_is_undefined_goes_when_it_ends(hypervisor: Hypervisor) -> None:
    hypervisor.define(ONE, vcpus=1, memory_mb=64)
    hypervisor.start(ONE)
    assert hears(hypervisor, lambda: states(hypervisor) == {ONE: "active"})
    hypervisor.undefine(ONE)
    assert states(hypervisor) == {ONE: "active"}
    hypervisor.stop(ONE)
    assert hears(hypervisor, lambda: states(hypervisor) == {})


def test_a_guest_that_is_defined_anew_takes_what_it_may_take_now(hypervisor: Hypervisor) -> None:
    hypervisor.define(ONE, vcpus=1, memory_mb=64)
    assert hears(hypervisor, lambda: states(hypervisor) == {ONE: "stopped"})
    hypervisor.define(ONE, vcpus=4, memory_mb=128)
    assert hears(hypervisor, lambda: ours(hypervisor)[ONE].vcpus == 4)
    assert ours(hypervisor)[ONE].memory_mb == 128


def test_who_looks_by_chance_sees_the_truth_as_well(hypervisor: Hypervisor) -> None:
    for act, state in (
        (lambda: hypervisor.define(ONE, vcpus=1, memory_mb=64), "stopped"),
        (lambda: hypervisor.start(ONE), "active"),
        (lambda: hypervisor.pause(ONE), "paused"),
        (lambda: hypervisor.resume(ONE), "active"),
        (lambda: hypervisor.stop(ONE), "stopped"),
    ):
        act()
        assert states(hypervisor) == {ONE: state}
    hypervisor.undefine(ONE)
    assert states(hypervisor) == {}


def test_what_happens_at_the_same_time_is_told_apart(hypervisor: Hypervisor) -> None:
    hypervisor.define(ONE, vcpus=1, memory_mb=64)
    hypervisor.create(OTHER, vcpus=3, memory_mb=96)
    hypervisor.start(ONE)
    hypervisor.pause(OTHER)
    hypervisor.stop(ONE)
    hypervisor.define(ONE, vcpus=2, memory_mb=128)
    hypervisor.resume(OTHER)
    assert hears(hypervisor, lambda: states(hypervisor) == {ONE: "stopped", OTHER: "active"})
    assert wait_until(lambda: ours(hypervisor)[ONE].vcpus == 2)
    sizes = {number: (each.vcpus, each.memory_mb) for number, each in ours(hypervisor).items()}
    assert sizes == {ONE: (2, 128), OTHER: (3, 96)}


def test_what_has_not_changed_is_not_made_anew(hypervisor: Hypervisor) -> None:
    hypervisor.create(ONE, vcpus=1, memory_mb=64)
    hypervisor.create(OTHER, vcpus=1, memory_mb=64)
    assert hears(hypervisor, lambda: len(states(hypervisor)) == 2)
    before = ours(hypervisor)
    hypervisor.pause(ONE)
    assert hears(hypervisor, lambda: states(hypervisor)[ONE] == "paused")
    assert ours(hypervisor)[OTHER] is before[OTHER]
    assert ours(hypervisor)[ONE] is ours(hypervisor)[ONE]


def test_closed_it_answers_nothing_more(driver: Driver) -> None:
    (node, *_) = driver.nodes()
    driver.close()
    for question in (driver.nodes, lambda: driver.facts(node), lambda: driver.guests(node)):
        with pytest.raises(DriverUnavailable):
            question()


def test_closed_it_ends_the_wait_for_changes(driver: Driver) -> None:
    driver.facts(next(iter(driver.nodes())))
    ended = threading.Event()

    def wait() -> None:
        while driver.changes.wait(None):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not ended.wait(0.1)
    driver.close()
    assert ended.wait(PATIENCE)
    assert driver.changes.wait(None) == frozenset()


def test_an_audit_stores_what_it_sees(hypervisor: Hypervisor, tmp_path: Path) -> None:
    driver = hypervisor.driver
    hypervisor.create(ONE, vcpus=1, memory_mb=64)
    conf: cfg.ConfigOpts = agent.options(tmp_path)
    database = agent.database(conf)
    if not driver.knows_uuids:
        (tmp_path / "compute_id").write_text(agent.UUID.format(1))
    tracker = ResourceTracker(conf, database, driver)
    ids = {host: number for number, host in enumerate(driver.hosts())}
    for _ in range(2):
        tracker.audit(ids)
        rows = database.read(compute_nodes.all_live)
        assert {(row.host, row.hypervisor_hostname) for row in rows} == {
            (node.host, node.node) for node in driver.nodes()
        }
        # The second time there is nothing new to write.
        assert {row.generation for row in rows} == {1}
        assert all(row.free_ram_mb + row.memory_mb_used == row.memory_mb for row in rows)
        assert sum(row.running_vms for row in rows) == len(database.read(instances.all_live)) > 0
    database.close()
