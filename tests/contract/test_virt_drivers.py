# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What every driver promises, and what the libvirt driver sees on three kinds of hosts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from oslo_config import cfg

from compute_agent.resource_tracker import ResourceTracker
from compute_agent.virt import loading
from compute_agent.virt.driver import Driver, DriverUnavailable, Guest
from inventory import compute_nodes, instances
from tests.fixtures import agent
from tests.fixtures.daemons.process import wait_until

if TYPE_CHECKING:
    from tests.fixtures.daemons.libvirtd import Libvirtd

STATES = {"active", "paused", "stopped", "suspended"}
LARGEST = 2**31 - 1
DEFAULT_HOST = "test:///default"
CUSTOM_HOST = f"test://{agent.SAMPLES / 'test-node.xml'}"

Load = Callable[..., Driver]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """A function from options, by section, to the driver that they lead to."""
    made: list[Driver] = []

    def loaded(**sections: dict[str, Any]) -> Driver:
        made.append(loading.load(agent.options(tmp_path, **sections)))
        return made[-1]

    yield loaded
    for driver in made:
        driver.close()


def libvirt_at(load: Load, uri: str) -> Driver:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    return load(libvirt={"connection_uri": uri, "call_timeout": 60})


@pytest.fixture(params=["fake", "three fakes", "imaginary host", "host from a file", "libvirtd"])
def driver(request: pytest.FixtureRequest, load: Load) -> Driver:
    kind = request.param
    if "fake" in kind:
        hosts = 1 if kind == "fake" else 3
        return load(DEFAULT={"compute_driver": "fake"}, fake={"hosts": hosts})
    if kind == "libvirtd":
        return libvirt_at(load, request.getfixturevalue("libvirtd").uri)
    return libvirt_at(load, CUSTOM_HOST if "file" in kind else DEFAULT_HOST)


def guests(driver: Driver) -> dict[str, Guest]:
    return {guest.name: guest for node in driver.nodes() for guest in driver.guests(node)}


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


def test_documents_can_be_read_and_stay_the_same(driver: Driver) -> None:
    for node in driver.nodes():
        facts = driver.facts(node)
        info = json.loads(facts.cpu_info)
        assert {"arch", "model", "vendor", "topology", "features"} <= info.keys()
        assert info["features"] == sorted(set(info["features"]))
        assert facts.supported_instances
        assert all(len(triple) == 3 and all(triple) for triple in facts.supported_instances)
        assert driver.facts(node).cpu_info == facts.cpu_info


def test_a_uuid_is_known_for_all_nodes_or_for_none(driver: Driver) -> None:
    for node in driver.nodes():
        uuid = driver.facts(node).uuid
        assert (uuid is not None) == driver.knows_uuids
        assert uuid is None or str(UUID(uuid)) == uuid


def test_guests_are_whole(driver: Driver) -> None:
    for node in driver.nodes():
        found = driver.guests(node)
        assert len({guest.uuid for guest in found}) == len(found)
        for guest in found:
            assert str(UUID(guest.uuid)) == guest.uuid
            assert guest.name
            assert guest.vcpus > 0
            assert guest.memory_mb > 0
            assert guest.size.disk_mb >= 0
            assert guest.vm_state in STATES


def test_closed_it_answers_nothing_more(driver: Driver) -> None:
    (node, *_) = driver.nodes()
    driver.close()
    for question in (driver.nodes, lambda: driver.facts(node), lambda: driver.guests(node)):
        with pytest.raises(DriverUnavailable):
            question()


def test_an_audit_stores_what_it_sees(driver: Driver, tmp_path: Path) -> None:
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
        assert sum(row.running_vms for row in rows) == len(database.read(instances.all_live))
    database.close()


def test_the_imaginary_host(load: Load) -> None:
    driver = libvirt_at(load, DEFAULT_HOST)
    (node,) = driver.nodes()
    facts = driver.facts(node)
    captured = agent.sample("nodeinfo-test-default.json")["calls"]
    # Its CPU map says 3 of 8, whatever the host has.
    assert (facts.memory_mb, facts.vcpus) == (captured["getInfo"][1], captured["getInfo"][2])
    assert (facts.hypervisor_type, facts.hypervisor_version) == ("TEST", 2)
    (guest,) = guests(driver).values()
    assert (guest.name, guest.vcpus, guest.memory_mb) == ("test", 2, 8192)


def test_guests_in_four_states(load: Load) -> None:
    found = guests(libvirt_at(load, CUSTOM_HOST))
    assert {name: (each.vm_state, each.vcpus, each.memory_mb) for name, each in found.items()} == {
        "running1": ("active", 2, 2048),
        "paused1": ("paused", 1, 1024),
        "shutoff1": ("stopped", 2, 512),
        "transient1": ("active", 1, 64),
    }


def test_a_real_guest_comes_and_goes(load: Load, libvirtd: "Libvirtd") -> None:
    driver = libvirt_at(load, libvirtd.uri)
    before = guests(driver)
    with libvirtd.guest("real", agent.UUID.format(77), vcpus=2, memory_mib=96) as domain:
        guest = guests(driver)["real"]
        assert (guest.uuid, guest.vcpus, guest.memory_mb) == (agent.UUID.format(77), 2, 96)
        assert guest.vm_state == "active"
        domain.suspend()
        assert guests(driver)["real"].vm_state == "paused"
        domain.destroy()
        assert guests(driver)["real"].vm_state == "stopped"
    assert guests(driver) == before


def test_a_daemon_that_is_killed_and_comes_back(load: Load, libvirtd: "Libvirtd") -> None:
    driver = libvirt_at(load, libvirtd.uri)
    (node,) = driver.nodes()
    facts = driver.facts(node)
    libvirtd.kill()
    try:
        for _ in range(3):
            with pytest.raises(DriverUnavailable):
                driver.nodes()
    finally:
        libvirtd.start()
    assert list(driver.nodes()) == [node]
    assert driver.facts(node).cpu_info == facts.cpu_info


def test_a_daemon_that_hangs_and_goes_on(load: Load, libvirtd: "Libvirtd") -> None:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    driver = load(libvirt={"connection_uri": libvirtd.uri, "call_timeout": 1})
    (node,) = driver.nodes()
    libvirtd.pause()
    try:
        with pytest.raises(DriverUnavailable, match="has not answered for 1 s"):
            driver.guests(node)
    finally:
        libvirtd.resume()

    def answers() -> bool:
        try:
            return bool(driver.nodes())
        except DriverUnavailable:
            return False

    assert wait_until(answers, timeout=20)
