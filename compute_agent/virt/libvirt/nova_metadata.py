# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova noted of an instance in the metadata of its domain."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from compute_agent.virt.libvirt.units import LARGEST, MAX_CPUS, number

# Since 22.0, and before.
NAMESPACES = (
    "http://openstack.org/xmlns/libvirt/nova/1.1",
    "http://openstack.org/xmlns/libvirt/nova/1.0",
)
# What Nova allows and the database has room for.
MAX_NAME_LENGTH = 255


@dataclass(frozen=True, slots=True)
class NovaMetadata:
    """The flavor in CPUs, MiB and GiB, and the rest; None, 0 or empty where Nova noted nothing.

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
    """Return what Nova noted in the element metadata of a domain."""
    for namespace in NAMESPACES:
        names = {"": namespace}
        instance = None if metadata is None else metadata.find("instance", names)
        if instance is not None:
            return _read(instance, names)
    return NovaMetadata()


def _read(instance: Element, names: dict[str, str]) -> NovaMetadata:
    def amount(path: str, at_most: int = LARGEST) -> int:
        return number(instance.findtext(path, namespaces=names), at_most) or 0

    def attribute(path: str, name: str) -> str | None:
        found = instance.find(path, names)
        return None if found is None else found.get(name)

    def named(path: str) -> dict[str, str]:
        found = instance.findall(path, names)
        return {key: each.text or "" for each in found if (key := each.get("name"))}

    has_image = instance.find("image", names) is not None
    return NovaMetadata(
        name=_name(instance.findtext("name", namespaces=names)),
        project_id=_name(attribute("owner/project", "uuid")),
        flavor_name=_name(attribute("flavor", "name")),
        vcpus=amount("flavor/vcpus", at_most=MAX_CPUS),
        memory_mb=amount("flavor/memory"),
        # Nova names an image here, and nothing for an instance that boots from a volume.
        root_gb=amount("flavor/disk") if attribute("root", "type") == "image" else 0,
        ephemeral_gb=amount("flavor/ephemeral"),
        swap_mb=amount("flavor/swap"),
        extra_specs=named("flavor/extraSpecs/extraSpec"),
        image_properties=named("image/properties/property") if has_image else None,
    )


def _name(text: str | None) -> str | None:
    return text if text and len(text) <= MAX_NAME_LENGTH else None
