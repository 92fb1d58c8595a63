# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's notes are read in both namespaces, in old forms and new ones, and odd ones do no harm."""

from typing import Any
from xml.etree import ElementTree

import pytest

from compute_agent.virt.libvirt import nova_metadata
from compute_agent.virt.libvirt.nova_metadata import NAMESPACES, NovaMetadata
from tests.unit.compute_agent.virt.libvirt.domain import noted

# The older form; since 33.0 there are extra specs and the image as well.
OLDER = """
<instance xmlns="{namespace}">
  <package version="14.0.3"/>
  <name>web-1</name>
  <creationTime>2026-04-16 12:50:16</creationTime>
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
READ = NovaMetadata("web-1", "p1", "m1.small", 2, 2048, 20, 5, 512)


def older(root: str = IMAGE, namespace: str = NAMESPACES[0]) -> str:
    return OLDER.format(namespace=namespace, root=root)


def read(*notes: str) -> NovaMetadata:
    return nova_metadata.read(ElementTree.fromstring(f"<metadata>{''.join(notes)}</metadata>"))


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_both_namespaces(namespace: str) -> None:
    assert read(older(namespace=namespace)) == READ


def test_the_newer_namespace_goes_first() -> None:
    old = older(namespace=NAMESPACES[1]).replace("web-1", "before")
    assert read(old, older()) == READ


@pytest.mark.parametrize(
    "notes",
    [
        "",
        "<instance><name>somebody's</name></instance>",
        older(namespace="http://openstack.org/xmlns/libvirt/nova/9.9"),
        f"<instance xmlns='{NAMESPACES[0]}'/>",
        f"<instance xmlns='{NAMESPACES[0]}'><flavor/><owner/><root/></instance>",
    ],
)
def test_without_notes_nothing_is_known(notes: str) -> None:
    assert read(notes) == nova_metadata.read(None) == NovaMetadata()


@pytest.mark.parametrize("root", ["", "<root type='volume' uuid='v1'/>", "<root/>"])
def test_an_instance_that_boots_from_a_volume_has_no_local_root(root: str) -> None:
    found = read(older(root))
    assert (found.root_gb, found.ephemeral_gb, found.swap_mb) == (0, 5, 512)


@pytest.mark.parametrize("number", ["-20", "many", "", "9" * 30, str(2**30 + 1)])
@pytest.mark.parametrize(
    ("element", "field"),
    [
        ("<memory>2048", "memory_mb"),
        ("<disk>20", "root_gb"),
        ("<swap>512", "swap_mb"),
        ("<ephemeral>5", "ephemeral_gb"),
        ("<vcpus>2", "vcpus"),
    ],
)
def test_what_is_no_number_counts_nothing(element: str, field: str, number: str) -> None:
    name = element.partition(">")[0]
    found = read(older().replace(element, f"{name}>{number}"))
    assert getattr(found, field) == 0


def test_no_flavor_has_so_many_cpus() -> None:
    assert read(older().replace("<vcpus>2", "<vcpus>16385")).vcpus == 0


@pytest.mark.parametrize(
    ("text", "field"), [("web-1", "name"), ("p1", "project_id"), ("m1.small", "flavor_name")]
)
def test_names_fit_the_database(text: str, field: str) -> None:
    assert getattr(read(older().replace(text, "x" * 255)), field) == "x" * 255
    assert getattr(read(older().replace(text, "x" * 256)), field) is None
    assert getattr(read(older().replace(text, "")), field) is None


PROPERTIES = """
<nova:property name="hw_machine_type">q35</nova:property>
<nova:property name="os_distro"/>
<nova:property>nameless</nova:property>
"""


def test_newer_releases_tell_the_image_and_extra_specs() -> None:
    notes = noted("hw:cpu_policy=dedicated hw_rng:allowed=True").replace(
        "<nova:properties>", f"<nova:properties>{PROPERTIES}"
    )
    found = read(notes)
    assert found.extra_specs == {"hw:cpu_policy": "dedicated", "hw_rng:allowed": "True"}
    assert found.image_properties == {"hw_machine_type": "q35", "os_distro": ""}


@pytest.mark.parametrize(("image", "expected"), [("<image/>", {}), ("", None)])
def test_an_image_without_properties(image: str, expected: Any) -> None:
    assert read(older(IMAGE + image)).image_properties == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("os_type=linux", "linux"),
        ("os_type=", None),
        ("os_distro=debian", None),
        (f"os_type={'x' * 256}", None),
    ],
)
def test_the_image_tells_the_kind_of_operating_system(image: str, expected: str | None) -> None:
    assert read(noted(image=image)).os_type == expected


def test_nobody_tells_the_kind_of_operating_system() -> None:
    assert read(older()).os_type is None


@pytest.mark.parametrize(
    ("flavor", "image", "expected"),
    [
        ("", "", None),
        ("hw:cpu_policy=shared", "", "shared"),
        ("", "hw_cpu_policy=dedicated", "dedicated"),
        ("hw:cpu_policy=mixed", "hw_cpu_policy=dedicated", "mixed"),
    ],
)
def test_wishes_of_the_flavor_go_before_those_of_the_image(
    flavor: str, image: str, expected: str | None
) -> None:
    assert read(noted(flavor, image)).wish("cpu_policy") == expected
