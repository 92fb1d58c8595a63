# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One document tells all of a guest, and an odd one does no harm."""

import json
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compute_agent.virt.driver import DriverAnswerUnusable, Guest
from compute_agent.virt.libvirt.domain_numa import DomainCell
from compute_agent.virt.libvirt.domain_xml import STATES, Disk, Parsed, parse
from tests.fixtures.agent import UUID, sample
from tests.unit.compute_agent.virt.libvirt.domain import NOVA, a_domain, noted

RUNNING = 1


def guest(*parts: str, devices: str = "", metadata: str = "") -> Guest:
    return parse(a_domain(*parts, devices=devices, metadata=metadata), RUNNING).guest


@pytest.mark.parametrize(
    ("name", "expected", "disks"),
    [
        (
            "domain-qemu-system-t1.xml",
            Guest("7889b800-4420-4428-8209-24bcccc8877e", "t1", vcpus=1, memory_mb=64),
            (),
        ),
        (
            "domain-memory-hotplug.xml",
            Guest("b4a5316b-99db-497d-9980-80199e5e1a64", "rx-d", vcpus=1, memory_mb=256),
            (),
        ),
        (
            "domain-test-default.xml",
            Guest("6695eb01-f6a4-8304-79aa-97f2502e193f", "test", vcpus=2, memory_mb=8192),
            (Disk("/guest/diskimage1", "raw"),),
        ),
    ],
)
def test_captured_guests(name: str, expected: Guest, disks: tuple[Disk, ...]) -> None:
    assert parse(sample(name), RUNNING) == Parsed(expected, disks)


def test_info_and_the_document_agree() -> None:
    (captured,) = sample("domains-test-default.json")
    found = parse(sample("domain-test-default.xml"), captured["state_code"]).guest
    assert (found.uuid, found.name, found.vm_state) == (
        captured["uuid"],
        captured["name"],
        "active",
    )
    assert found.vcpus == captured["info"]["vcpus"]
    assert found.memory_mb == captured["info"]["max_memory_kib"] // 1024


FULL = f"""
<nova:instance xmlns:nova="{NOVA}">
  <nova:name>web-1</nova:name>
  <nova:flavor name="m1.large">
    <nova:memory>8192</nova:memory>
    <nova:disk>80</nova:disk>
    <nova:swap>512</nova:swap>
    <nova:ephemeral>5</nova:ephemeral>
    <nova:vcpus>8</nova:vcpus>
  </nova:flavor>
  <nova:owner><nova:project uuid="p1">shop</nova:project></nova:owner>
  <nova:root type="image" uuid="i1"/>
  <nova:image uuid="i1">
    <nova:properties>
      <nova:property name="os_type">linux</nova:property>
    </nova:properties>
  </nova:image>
</nova:instance>"""


def test_everything_at_once() -> None:
    found = parse(
        a_domain(
            "<numatune><memory mode='strict' nodeset='1'/></numatune>",
            devices=a_passed_device() + a_disk(),
            metadata=FULL,
        ),
        5,
    )
    cell = DomainCell(memory=4096, cpus=frozenset({0, 1, 2, 3}), host_cell=1)
    assert found == Parsed(
        Guest(
            uuid=UUID.format(1),
            name="web-1",
            vcpus=8,
            memory_mb=8192,
            root_gb=80,
            ephemeral_gb=5,
            swap_mb=512,
            vm_state="stopped",
            project_id="p1",
            os_type="linux",
            flavor_name="m1.large",
            image_properties={"os_type": "linux"},
            pci_addresses=("0000:0a:00.1",),
        ),
        (Disk("/var/lib/disk", "qcow2"),),
        (cell,),
    )


def test_a_guest_that_may_take_more_than_its_flavor_counts_with_that() -> None:
    found = guest(metadata=noted())
    assert (found.vcpus, found.memory_mb, found.flavor_name) == (4, 4096, "m1.small")


@pytest.mark.parametrize(
    ("state", "expected"), [*enumerate(STATES), (-1, "active"), (8, "active"), (99, "active")]
)
def test_states(state: int, expected: str) -> None:
    assert parse(a_domain(), state).guest.vm_state == expected


@pytest.mark.parametrize(
    ("vcpu", "expected"),
    [
        ("<vcpu>3</vcpu>", 3),
        # Two that may be plugged in do not count yet.
        ("<vcpu placement='static' current='2'>4</vcpu>", 2),
        ("<vcpu>16384</vcpu>", 16384),
        ("<vcpu>16385</vcpu>", 0),
        ("<vcpu>many</vcpu>", 0),
        ("<vcpu/>", 0),
        ("", 0),
    ],
)
def test_cpus(vcpu: str, expected: int) -> None:
    whole = "<vcpu placement='static'>4</vcpu>"
    assert parse(a_domain().replace(whole, vcpu), RUNNING).guest.vcpus == expected


def test_names_fit_the_database() -> None:
    assert (
        parse(a_domain().replace("instance-00000001", "x" * 300), RUNNING).guest.name == "x" * 255
    )


def a_disk(
    kind: str = "type='file' device='disk'",
    driver: str = "<driver name='qemu' type='qcow2' cache='none'/>",
    source: str = "<source file='/var/lib/disk'/>",
) -> str:
    return f"<disk {kind}>{driver}{source}<target dev='vda' bus='virtio'/></disk>"


BACKING = """
<backingStore type='file'>
  <format type='raw'/>
  <source file='/base'/>
</backingStore>"""


@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        (a_disk(), [("/var/lib/disk", "qcow2")]),
        (a_disk(kind="type='file'"), [("/var/lib/disk", "qcow2")]),
        (a_disk(driver="<driver name='qemu'/>"), [("/var/lib/disk", "raw")]),
        (a_disk(driver=""), [("/var/lib/disk", "raw")]),
        (
            a_disk() + a_disk(source=f"<source file='/b'><slices/></source>{BACKING}"),
            [("/var/lib/disk", "qcow2"), ("/b", "qcow2")],
        ),
        (a_disk(kind="type='file' device='cdrom'"), []),
        (a_disk(kind="type='file' device='floppy'"), []),
        (a_disk(kind="type='block' device='disk'", source="<source dev='/dev/sdb'/>"), []),
        (a_disk(kind="type='network'", source="<source protocol='rbd' name='vms/a'/>"), []),
        (a_disk(source=""), []),
        (a_disk(source="<source/>"), []),
    ],
)
def test_disks_that_are_files(disk: str, expected: list[tuple[str, str]]) -> None:
    found = parse(a_domain(devices=disk), RUNNING).disks
    assert [(each.path, each.format) for each in found] == expected


def an_address(bus: str = "0x0a", domain: str = "0x0000", slot: str = "0x00") -> str:
    return f"<address domain='{domain}' bus='{bus}' slot='{slot}' function='0x1'/>"


def a_passed_device(
    address: str = an_address(), kind: str = "mode='subsystem' type='pci' managed='yes'"
) -> str:
    guests_own = "<address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/>"
    return f"<hostdev {kind}><source>{address}</source>{guests_own}</hostdev>"


INTERFACE = f"""
<interface type='hostdev' managed='yes'>
  <mac address='fa:16:3e:00:00:01'/>
  <source>{an_address("0x81", slot="0x1f")}</source>
  <vlan><tag id='100'/></vlan>
</interface>"""
NVME = f"""
<disk type='nvme' device='disk'>
  <source type='pci' managed='yes' namespace='1'>{an_address("0x02")}</source>
</disk>"""


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (a_passed_device(), ["0000:0a:00.1"]),
        (a_passed_device(kind="type='pci'"), ["0000:0a:00.1"]),
        (a_passed_device(an_address("A", "1", "3")), ["0001:0a:03.1"]),
        (a_passed_device(an_address(domain="0x10000")), ["10000:0a:00.1"]),
        (INTERFACE, ["0000:81:1f.1"]),
        (NVME, ["0000:02:00.1"]),
        (a_passed_device() + INTERFACE + a_passed_device(), ["0000:0a:00.1", "0000:81:1f.1"]),
        (a_passed_device("<address bus='3' device='2'/>", "mode='subsystem' type='usb'"), []),
        (a_passed_device("<address uuid='m1'/>", "mode='subsystem' type='mdev'"), []),
        (a_passed_device(kind="mode='capabilities' type='pci'"), []),
        (a_passed_device(""), []),
        (a_passed_device("<address/>"), []),
        (a_passed_device(an_address("0x100")), []),
        (a_passed_device(an_address(slot="0x20")), []),
        (a_passed_device(an_address("0x123456789")), []),
        (a_passed_device(an_address("-1")), []),
        ("<hostdev type='pci'/>", []),
        ("<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>", []),
        ("<interface type='bridge'><source bridge='br0'/></interface>", []),
        ("<disk type='nvme'><source type='odd'/></disk>", []),
    ],
)
def test_devices_of_the_host(devices: str, expected: list[str]) -> None:
    assert list(guest(devices=devices).pci_addresses) == expected


MACVTAP = """
<interface type='direct'>
  <mac address='fa:16:3e:00:00:02'/>
  <source dev='ens1f0v1' mode='passthrough'/>
  <target dev='macvtap0'/>
</interface>"""
UUID_OF_PART = "b155f2a1-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (MACVTAP, ["ens1f0v1"]),
        (MACVTAP.replace("passthrough", "bridge") + MACVTAP, ["ens1f0v1"]),
        # A network of libvirt that gives out interfaces, as it is while the guest runs.
        (MACVTAP.replace("<source ", "<source network='pool' portid='p' "), ["ens1f0v1"]),
        (
            "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>",
            ["/dev/vhost-vdpa-0"],
        ),
        ("<disk type='vhostvdpa'><source dev='/dev/vhost-vdpa-1'/></disk>", ["/dev/vhost-vdpa-1"]),
        (
            a_passed_device(f"<address uuid='{UUID_OF_PART}'/>", "mode='subsystem' type='mdev'"),
            [UUID_OF_PART],
        ),
        ("<hostdev type='mdev'><source/></hostdev>", []),
        ("<interface type='direct'><source/></interface>", []),
        ("<interface type='direct'/>", []),
        ("<interface type='network'><source network='default'/></interface>", []),
        ("<disk type='block'><source dev='/dev/sdb'/></disk>", []),
        (a_passed_device() + INTERFACE, []),
    ],
)
def test_devices_that_are_used_without_an_address(devices: str, expected: list[str]) -> None:
    assert list(guest(devices=devices).device_names) == expected


def test_a_domain_may_have_no_devices() -> None:
    xml = f"<domain><uuid>{UUID.format(2)}</uuid></domain>"
    assert parse(xml, RUNNING) == Parsed(Guest(UUID.format(2), "", 0, 0), ())


BOMB = """<?xml version='1.0'?>
<!-- harmless -->
<!DOCTYPE bomb [
  <!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">
  <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
  <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
]>
<domain>&c;</domain>
"""


@pytest.mark.parametrize(
    ("xml", "problem"),
    [
        ("", "no element found"),
        ("domain", "syntax error"),
        ("<domain>", "no element found"),
        ("<domain/>\0", "not well-formed"),
        ("<domain>\ud800</domain>", "surrogates"),
        ("<domain/>", "'' is not a uuid"),
        ("<domain><uuid>1</uuid></domain>", "'1' is not a uuid"),
        (f"<domain><uuid>{'x' * 1000}</uuid></domain>", "xxxx' is not a uuid"),
        (BOMB, "document type"),
        ("\ufeff<!DOCTYPE domain><domain/>", "document type"),
        ("<!-- a --><?b c?> <!DOCTYPE domain><domain/>", "document type"),
    ],
)
def test_what_is_no_domain(xml: str, problem: str) -> None:
    with pytest.raises(DriverAnswerUnusable, match=problem) as raised:
        parse(xml, RUNNING)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("prolog", ["\ufeff", "<?xml version='1.0'?>\n<!-- <!DOCTYPE a> -->\n"])
def test_a_comment_is_no_document_type(prolog: str) -> None:
    assert parse(prolog + a_domain().strip(), RUNNING).guest.vcpus == 4


def test_many_comments_cost_little() -> None:
    with pytest.raises(DriverAnswerUnusable, match="unclosed token"):
        parse("<!-- a -->" * 100_000 + "<!DOCTYP", RUNNING)


@given(st.text(), st.integers())
@example("<?xml version='1.0' encoding='ebcdic'?><domain/>", 1)
@example("<domain xmlns='x'/>", 1)
def test_no_text_is_too_odd(xml: str, state: int) -> None:
    with suppress(DriverAnswerUnusable):
        parse(xml, state)


WHOLE = a_domain(
    "<vcpus><vcpu id='0' enabled='yes'/></vcpus>",
    "<cputune><vcpupin vcpu='0' cpuset='1'/><emulatorpin cpuset='2'/></cputune>",
    "<numatune><memory nodeset='0'/><memnode cellid='0' nodeset='1'/></numatune>",
    "<cpu><numa><cell id='0' cpus='0-3' memory='1' unit='MiB'/></numa></cpu>",
    "<memoryBacking><hugepages><page size='2048' nodeset='0'/></hugepages></memoryBacking>",
    devices=a_passed_device() + a_disk() + INTERFACE + "<memory model='dimm'>"
    "<target><size unit='KiB'>1024</size><node>0</node></target></memory>",
    metadata=FULL,
)
ODD = st.one_of(
    st.integers().map(str),
    st.text(max_size=5),
    st.sampled_from(["9" * 5000, "0-3,^2", "0x", "²", "<a/>", "'", ">"]),
)


@given(st.data())
def test_no_domain_is_too_odd(data: st.DataObject) -> None:
    """Whatever stands where something else should, figures stay such as the database takes."""
    xml = WHOLE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(xml)))
        end = min(len(xml), start + data.draw(st.integers(0, 12)))
        xml = xml[:start] + data.draw(ODD) + xml[end:]
    with suppress(DriverAnswerUnusable):
        found = parse(xml, RUNNING).guest
        sizes = (found.vcpus, found.memory_mb, found.root_gb, found.ephemeral_gb, found.swap_mb)
        assert all(0 <= each < 2**31 for each in sizes)
        assert len(found.uuid) == 36
        json.dumps(found.image_properties)
