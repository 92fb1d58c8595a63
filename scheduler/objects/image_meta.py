# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The image that an instance boots from, with its properties."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.objects.presence import FieldPresence


class ImageMetaProps:
    """The properties of an image, by their current names.

    Reading a property that the image does not have gives None; ``in`` tells whether it has it.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look for special methods before _values is there.
        if name.startswith("_"):
            raise AttributeError(name)
        return self._values.get(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the property, or the default when the image does not have it."""
        return self._values.get(name, default)

    def obj_attr_is_set(self, name: str) -> bool:
        """Tell whether the image has the property."""
        return name in self._values

    def keys(self) -> KeysView[str]:
        """Return the names of the properties that the image has."""
        return self._values.keys()

    def items(self) -> ItemsView[str, Any]:
        """Return names and values."""
        return self._values.items()

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    # An image without properties is still an image: `if image.properties` asks for presence.
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
