# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova noted of an instance in the metadata of its domain."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from compute_agent.virt.libvirt.quantities import MOST_CPUS, number

# Since 22.0, and before.
NAMESPACES = (
    "http://openstack.org/xmlns/libvirt/nova/1.1",
    "http://openstack.org/xmlns/libvirt/nova/1.0",
)
# What Nova allows and the database has room for.
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class NovaMetadata:
    """The flavor in CPUs, MiB and GiB, and the rest; None, 0 or nothing where Nova noted nothing.

    The flavor's number is never among it, its extra specs and the image are in newer releases.
    image_properties is None where no image is named.
    """

    name: str | None = None
    project_id: str | None = None
    flavor_name: str | None = None
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    image_properties: Mapping[str, str] | None = None

    @property
    def os_type(self) -> str | None:
        """The operating system, as Nova counts them: what its image says."""
        return _name((self.image_properties or {}).get("os_type"))

    def wish(self, name: str) -> str | None:
        """Return a wish about the virtual hardware, of the flavor or else of the image."""
        of_image = (self.image_properties or {}).get(f"hw_{name}")
        return self.extra_specs.get(f"hw:{name}", of_image)


def read(metadata: Element | None) -> NovaMetadata:
    """Return what a domain's element metadata says, whatever there is of it."""
    if metadata is not None:
        for namespace in NAMESPACES:
            instance = metadata.find(f"{{{namespace}}}instance")
            if instance is not None:
                return _read(_Reader(namespace, instance))
    return NovaMetadata()


class _Reader:
    """Finds the children of an element by their plain names."""

    def __init__(self, namespace: str, element: Element) -> None:
        self._namespace = namespace
        self._element = element

    def child(self, name: str) -> "_Reader":
        """Return the first child of this name, an empty one where there is none."""
        found = self._element.find(f"{{{self._namespace}}}{name}")
        return _Reader(self._namespace, Element(name) if found is None else found)

    def has(self, name: str) -> bool:
        return self._element.find(f"{{{self._namespace}}}{name}") is not None

    def text(self, name: str) -> str | None:
        return self._element.findtext(f"{{{self._namespace}}}{name}")

    def number(self, name: str) -> int:
        return number(self.text(name)) or 0

    def named(self, name: str) -> dict[str, str]:
        """Return the texts of all children of this name by their attribute name."""
        found = self._element.findall(f"{{{self._namespace}}}{name}")
        return {key: each.text or "" for each in found if (key := each.get("name"))}

    def attribute(self, name: str) -> str | None:
        return self._element.get(name)


def _read(instance: _Reader) -> NovaMetadata:
    flavor = instance.child("flavor")
    image = instance.child("image")
    # Nova names an image here, and nothing for an instance that boots from a volume.
    local_root = instance.child("root").attribute("type") == "image"
    return NovaMetadata(
        name=_name(instance.text("name")),
        project_id=_name(instance.child("owner").child("project").attribute("uuid")),
        flavor_name=_name(flavor.attribute("name")),
        vcpus=number(flavor.text("vcpus"), at_most=MOST_CPUS) or 0,
        memory_mb=flavor.number("memory"),
        root_gb=flavor.number("disk") if local_root else 0,
        ephemeral_gb=flavor.number("ephemeral"),
        swap_mb=flavor.number("swap"),
        extra_specs=flavor.child("extraSpecs").named("extraSpec"),
        image_properties=(
            image.child("properties").named("property") if instance.has("image") else None
        ),
    )


def _name(text: str | None) -> str | None:
    return text if text and len(text) <= LONGEST_NAME else None
