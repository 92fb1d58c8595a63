# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The flavor of an instance and the image it boots from, with their properties."""

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inventory.objects.object_schema import FieldPresence


@dataclass(frozen=True, slots=True)
class Flavor(FieldPresence):
    """Memory and swap in MB, disks in GB."""

    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int = 0
    swap: int = 0
    id: int | None = None
    name: str | None = None
    flavorid: str | None = None
    rxtx_factor: float = 1.0
    vcpu_weight: int | None = None
    disabled: bool = False
    is_public: bool = True
    extra_specs: dict[str, str] = field(default_factory=dict)
    description: str | None = None


class ImageMetaProps(Mapping[str, Any]):
    """The properties of an image, by their current names.

    Reading an attribute that the image does not have gives None; ``in`` tests for presence.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look for special methods before _values exists.
        if name.startswith("_"):
            raise AttributeError(name)
        return self._values.get(name)

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether the image has the property."""
        return name in self._values

    # That of Mapping raises and catches an error for each missing property.
    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    # That of Mapping looks each of them up.
    def items(self) -> ItemsView[str, Any]:
        return self._values.items()

    def texts(self) -> dict[str, str]:
        return {name: str(value) for name, value in self._values.items()}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    # An image without properties is still an image: `if image.properties` tests for presence.
    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ImageMetaProps):
            return self._values == other._values
        return NotImplemented

    def __repr__(self) -> str:
        return f"ImageMetaProps({self._values!r})"


@dataclass(frozen=True, slots=True)
class ImageMeta(FieldPresence):
    """Sizes in bytes, ``min_ram`` in MB, ``min_disk`` in GB; an image of a volume has no id."""

    id: str | None = None
    name: str | None = None
    status: str | None = None
    visibility: str | None = None
    protected: bool | None = None
    checksum: str | None = None
    owner: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    container_format: str | None = None
    disk_format: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    tags: list[str] = field(default_factory=list)
    min_ram: int | None = None
    min_disk: int | None = None
    properties: ImageMetaProps = field(default_factory=ImageMetaProps)
