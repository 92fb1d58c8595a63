# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova noted of an instance in the metadata of its domain."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from oslo_utils import strutils

from compute_agent import cpu_sets
from compute_agent.virt.libvirt.xml_values import LARGEST, MAX_CPUS, number
from inventory.numa.pinning import ISOLATE, REQUIRE

# Since 22.0, and before.
NAMESPACES = (
    "http://openstack.org/xmlns/libvirt/nova/1.1",
    "http://openstack.org/xmlns/libvirt/nova/1.0",
)
# What Nova allows and the database has room for.
MAX_NAME_LENGTH = 255
# An extra spec that asks for CPUs of the host, in one of several groups.
PCPU = re.compile("resources[0-9]*:PCPU")
HYPERTHREADING = re.compile("trait([1-9][0-9]*)?:HW_CPU_HYPERTHREADING")
# The policy of threads that each value of that trait stands for.
THREADS_BY_TRAIT = {"required": REQUIRE, "forbidden": ISOLATE}


@dataclass(frozen=True, slots=True)
class NovaMetadata:
    """The flavor in CPUs, MiB and GiB, and the rest; None, 0 or empty where Nova noted nothing.

    The flavor's number is never among it, its extra specs and the image are in newer releases.
    extra_specs and image_properties are None in older ones, the latter also without an image.
    """

    name: str | None = None
    project_id: str | None = None
    flavor_name: str | None = None
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] | None = None
    image_properties: Mapping[str, str] | None = None

    @property
    def os_type(self) -> str | None:
        """The operating system, as Nova counts them: what its image says."""
        return _name((self.image_properties or {}).get("os_type"))

    @property
    def cpu_policy(self) -> str | None:
        """dedicated, mixed or shared, which is Nova's default; None in older releases."""
        named = self.wish("cpu_policy")
        if named or self.extra_specs is None or self.image_properties is None:
            return named
        asks_for_cpus = any(PCPU.fullmatch(name) for name in self.extra_specs)
        # Nova accepts these with pinned CPUs only.
        isolates = self.wish("emulator_threads_policy") == "isolate"
        if asks_for_cpus or isolates or self.wish("cpu_thread_policy"):
            return "dedicated"
        return "shared"

    @property
    def thread_policy(self) -> str | None:
        """How pinned CPUs share cores, which a trait says as well; None where nothing does."""
        specs = self.extra_specs or {}
        traits = (text for name, text in specs.items() if HYPERTHREADING.match(name))
        required = (self.image_properties or {}).get("traits_required", "")
        implied = "required" if "HW_CPU_HYPERTHREADING" in required else ""
        by_trait = THREADS_BY_TRAIT.get(next(traits, implied))
        return by_trait or self.wish("cpu_thread_policy")

    def floating(self, cpus: Set[int]) -> set[int]:
        """Return those of some CPUs of the guest that are known to float."""
        if self.cpu_policy != "mixed":
            return {*cpus} if self.cpu_policy == "shared" else set()
        specs, image = self.extra_specs or {}, self.image_properties or {}
        mask = specs.get("hw:cpu_dedicated_mask")
        if not mask and strutils.bool_from_string(specs.get("hw:cpu_realtime", "")):
            # Of both masks that of the image holds.
            mask = image.get("hw_cpu_realtime_mask") or specs.get("hw:cpu_realtime_mask")
        if not mask:
            return set()
        rest = mask.strip().startswith("^")
        try:
            named = cpu_sets.parse(f"0-{MAX_CPUS},{mask}" if rest else mask)
        except ValueError:
            return set()
        return {*cpus} - named

    def wish(self, name: str) -> str | None:
        """Return a wish about the virtual hardware, of the flavor or else of the image."""
        of_image = (self.image_properties or {}).get(f"hw_{name}")
        return (self.extra_specs or {}).get(f"hw:{name}", of_image)


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

    has_specs = instance.find("flavor/extraSpecs", names) is not None
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
        extra_specs=named("flavor/extraSpecs/extraSpec") if has_specs else None,
        image_properties=named("image/properties/property") if has_image else None,
    )


def _name(text: str | None) -> str | None:
    return text if text and len(text) <= MAX_NAME_LENGTH else None
