# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Guests are read from what libvirtd has at hand, and one that is odd spoils no other."""

from typing import Any

import pytest

from compute_agent.virt.libvirt import domains
from tests.fixtures.agent import UUID, sample
from tests.unit.compute_agent.virt.libvirt.library import (
    NO_DOMAIN,
    NO_METADATA,
    OPERATION_INVALID,
    OPERATION_TIMEOUT,
    Daemon,
    Error,
)

METADATA = """
<instance xmlns="http://openstack.org/xmlns/libvirt/nova/1.1">
  <package version="34.0.0"/>
  <name>web-1</name>
  <flavor name="m1.small">
    <memory>2048</memory>
    <disk>20</disk>
    <swap>512</swap>
    <ephemeral>5</ephemeral>
    <vcpus>2</vcpus>
  </flavor>
  <owner>
    <user uuid="u1">somebody</user>
    <project uuid="p1">shop</project>
  </owner>
  {root}
</instance>
"""
IMAGE = "<root type='image' uuid='i1'/>"
RUNNING = [1, 2097152, 2097152, 2, 0]
GONE = Error(NO_DOMAIN, "Domain not found")


class Domain:
    """A domain whose answers are values or errors; metadata is by namespace."""

    def __init__(self, number: int, info: Any = RUNNING, metadata: Any = None) -> None:
        self._number = number
        self._info = info
        self._metadata = metadata or {}

    def name(self) -> str:
        return f"instance-{self._number:08x}"

    def UUIDString(self) -> str:
        return UUID.format(self._number)

    def info(self) -> Any:
        if isinstance(self._info, Exception):
            raise self._info
        return self._info

    def metadata(self, kind: int, namespace: str, flags: int) -> Any:
        answer = self._metadata.get(namespace, Error(NO_METADATA, "metadata not found"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def read(*found: Domain) -> list[domains.Guest]:
    daemon = Daemon(listAllDomains=list(found))
    return domains.read(daemon.open("x"), daemon.library)


@pytest.mark.parametrize(
    "name", ["domains-qemu-system.json", "domains-test-custom.json", "domains-test-default.json"]
)
def test_captured_guests(name: str) -> None:
    states = {"running": "active", "shutoff": "stopped"}
    for captured in sample(name):
        info = captured["info"]
        guest = domains.guest(captured["uuid"], captured["name"], list(info.values()), None)
        assert (guest.uuid, guest.name) == (captured["uuid"], captured["name"])
        assert guest.vcpus == info["vcpus"]
        assert guest.memory_mb == info["max_memory_kib"] // 1024
        assert guest.vm_state == states.get(captured["state"], captured["state"])
        assert (guest.size.disk_mb, guest.project_id) == (0, None)


@pytest.mark.parametrize(("state", "expected"), list(enumerate(domains.STATES)))
def test_states(state: int, expected: str) -> None:
    assert domains.guest("u", "n", [state, 1024, 1024, 1, 0], None).vm_state == expected


@pytest.mark.parametrize("state", [-1, 8, 99])
def test_a_state_of_a_newer_libvirt_counts_as_active(state: int) -> None:
    assert domains.guest("u", "n", [state, 1024, 1024, 1, 0], None).vm_state == "active"


def test_a_part_of_a_mebibyte_is_a_whole_one() -> None:
    assert domains.guest("u", "n", [1, 1025, 1025, 1, 0], None).memory_mb == 2


@pytest.mark.parametrize("namespace", domains.NOVA)
def test_nova_tells_name_project_and_disks(namespace: str) -> None:
    text = METADATA.format(root=IMAGE).replace(domains.NOVA[0], namespace)
    (guest,) = read(Domain(1, metadata={namespace: text}))
    assert (guest.name, guest.project_id) == ("web-1", "p1")
    assert (guest.root_gb, guest.ephemeral_gb, guest.swap_mb) == (20, 5, 512)
    # What the guest really has is libvirt's to say.
    assert (guest.vcpus, guest.memory_mb) == (2, 2048)


# The form of a newer release: it tells the flavorid, which is not the number, and the image.
NEWER = """
<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
  <nova:package version="33.1.0"/>
  <nova:name>web-1</nova:name>
  <nova:flavor name="m1.medium" id="3">
    <nova:disk>40</nova:disk>
    <nova:extraSpecs>
      <nova:extraSpec name="hw_rng:allowed">True</nova:extraSpec>
    </nova:extraSpecs>
  </nova:flavor>
  <nova:image uuid="i1">
    <nova:diskFormat>qcow2</nova:diskFormat>
    <nova:minDisk>40</nova:minDisk>
    <nova:properties>{properties}</nova:properties>
  </nova:image>
</nova:instance>
"""
PROPERTIES = """
<nova:property name="hw_machine_type">q35</nova:property>
<nova:property name="os_distro"/>
<nova:property>nameless</nova:property>
"""


def flavor_and_image(metadata: str | None) -> tuple[object, ...]:
    guest = domains.guest("u", "n", RUNNING, metadata)
    return guest.flavor_id, guest.flavor_name, guest.image_properties


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, (None, None, None)),
        ("<broken", (None, None, None)),
        ("<instance><flavor/></instance>", (None, None, None)),
        (METADATA.format(root=IMAGE), (None, "m1.small", None)),
        (METADATA.replace("m1.small", "x" * 255), (None, "x" * 255, None)),
        (METADATA.replace("m1.small", "x" * 256), (None, None, None)),
        (NEWER.format(properties=""), (None, "m1.medium", {})),
        (
            NEWER.format(properties=PROPERTIES),
            (None, "m1.medium", {"hw_machine_type": "q35", "os_distro": ""}),
        ),
    ],
)
def test_nova_tells_the_flavor_and_newer_releases_the_image(
    metadata: str | None, expected: tuple[object, ...]
) -> None:
    assert flavor_and_image(metadata) == expected


def test_a_guest_that_boots_from_a_volume_has_no_local_root() -> None:
    (guest,) = read(Domain(1, metadata={domains.NOVA[0]: METADATA.format(root="")}))
    assert (guest.root_gb, guest.ephemeral_gb) == (0, 5)


@pytest.mark.parametrize("text", ["<broken", "<instance/>", "<instance><flavor/></instance>"])
def test_odd_metadata_is_no_metadata(text: str) -> None:
    (guest,) = read(Domain(1, metadata={domains.NOVA[0]: text}))
    assert (guest.name, guest.project_id, guest.size.disk_mb) == ("instance-00000001", None, 0)


def test_a_disk_that_is_no_number_counts_nothing() -> None:
    text = METADATA.format(root=IMAGE).replace("<disk>20", "<disk>-20")
    (guest,) = read(Domain(1, metadata={domains.NOVA[0]: text}))
    assert guest.root_gb == 0


def test_guests_that_vanish_are_left_out() -> None:
    first = Domain(1, info=GONE)
    second = Domain(2, metadata={domains.NOVA[0]: GONE})
    stuck = Domain(3, info=Error(OPERATION_TIMEOUT, "cannot acquire state change lock"))
    assert [guest.uuid for guest in read(first, second, stuck, Domain(4))] == [UUID.format(4)]


def test_metadata_of_an_inactive_guest_may_be_refused() -> None:
    refused = {domains.NOVA[0]: Error(OPERATION_INVALID, "domain is not running")}
    assert len(read(Domain(1, metadata=refused))) == 1


@pytest.mark.parametrize("where", ["info", "metadata"])
def test_other_errors_are_matters_of_the_connection(where: str) -> None:
    broken = Error(38, "Cannot write data: Broken pipe")
    domain = {
        "info": Domain(1, info=broken),
        "metadata": Domain(1, metadata={domains.NOVA[0]: broken}),
    }[where]
    with pytest.raises(Error, match="Broken pipe"):
        read(domain)
