# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory of the host a libvirt domain may take."""

from collections import Counter
from xml.etree.ElementTree import Element

from compute_agent.virt.libvirt.quantities import mebibytes, number, size

# Kept in a file or on a device of the host, though libvirt adds them to the guest's memory.
PERSISTENT = {"nvdimm", "virtio-pmem"}


def memory_mb(domain: Element) -> int:
    """Return what it may have, in MiB, whatever a balloon leaves it at the moment.

    That includes what has been plugged in.
    """
    persistent = sum(amount for model, _, amount in _devices(domain) if model in PERSISTENT)
    return mebibytes(max(0, _size(domain.find("memory")) - persistent))


def plugged_in(domain: Element) -> Counter[int]:
    """Return the bytes that devices add to each cell of the guest."""
    added: Counter[int] = Counter()
    for model, cell, amount in _devices(domain):
        if model not in PERSISTENT:
            added[cell] += amount
    return added


def _devices(domain: Element) -> list[tuple[str, int, int]]:
    """Return (model, guest cell, bytes) of each memory device."""
    devices = domain.find("devices")
    targets = (
        []
        if devices is None
        else [(each.get("model", ""), each.find("target")) for each in devices.findall("memory")]
    )
    return [
        (model, number(target.findtext("node")) or 0, _size(target.find("size")))
        for model, target in targets
        if target is not None
    ]


def _size(element: Element | None) -> int:
    return 0 if element is None else size(element.text, element.get("unit"))
