# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the base classes of filters and weighers share: settings, inputs, texts of errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.objects.request_spec import RequestSpec

# Where the values of a plug-in's settings are configured: (attribute, group, option) each.
Options = Sequence[tuple[str, str, str]]
# What plug-ins may read that is no column: the instances of a host, and how many of them are
# members of the requested server group.
INSTANCES = "instances"
MEMBERS = "members"
# How much of the text of an error is part of a warning.
MAX_CHARACTERS = 300


PCI_DEVICES = "pci_devices"


@dataclass(frozen=True, slots=True)
class ResourceShortfall:
    """How much of vcpus, memory_mb, disk_mb or pci_devices a host lacks to pass a filter.

    Of instances and io_ops: how many more it has than allowed.
    """

    resource: str
    amount: int


def error_text(error: Exception) -> str:
    """Return the error of a plug-in in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_CHARACTERS]


def apply_options(plugin: object, options: Options, settings: Mapping[str, Any]) -> None:
    """Set the attributes of a plug-in; raise TypeError for one that is not among its options."""
    unknown = settings.keys() - {attribute for attribute, _, _ in options}
    if unknown:
        raise TypeError(f"{type(plugin).__name__} has no setting {', '.join(sorted(unknown))}")
    vars(plugin).update(settings)


class BasePlugin:
    """What filters and weighers share.

    Settings are class attributes with their defaults; options says where they are configured, as
    (attribute, group, option) each. reads names the columns of a host that the plug-in looks at.
    row_local says that what the plug-in says of a host depends on these columns in the row of the
    host alone, and on the request, whichever of its instances is placed: of the hosts of a request
    for many instances only those that take one are then asked again. It counts for the class that
    sets it, not for classes that inherit it.
    """

    # Its name in decisions: that of the class, unless the class sets another one.
    name = "BasePlugin"
    reads: ClassVar[tuple[str, ...] | None] = None
    row_local: ClassVar[bool] = False
    # Whether applies() is that of this class, which need not be called.
    always_applies: ClassVar[bool] = True
    options: ClassVar[Options] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        named = next(each for each in cls.__mro__ if "name" in vars(each))
        if vars(named)["name"] == named.__name__:
            cls.name = cls.__name__
        cls.always_applies = cls.applies is BasePlugin.applies

    def __init__(self, **settings: Any) -> None:
        apply_options(self, self.options, settings)

    def applies(self, spec: RequestSpec) -> bool:
        """Return False when the request alone shows that all hosts pass, or that all weigh 0."""
        return True

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        """Return the columns of a host that the plug-in looks at for this request, None for any."""
        return self.reads
