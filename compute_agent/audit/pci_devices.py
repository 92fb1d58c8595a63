# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices of a node are given to guests, and the pools with those that are free."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from compute_agent.device_spec import DeviceSpec
from compute_agent.virt.driver import PciDevice
from inventory.objects.pci_and_network import PciDevicePool

Tags = dict[str, str | None]
# Vendor, product, cell and tags.
_Kind = tuple[str, str, int | None, tuple[tuple[str, str | None], ...]]


def free_pools(
    specs: Iterable[DeviceSpec],
    devices: Sequence[PciDevice],
    taken: Collection[str],
    names: Collection[str] = (),
) -> list[PciDevicePool]:
    """Return the pools of the devices that fit a spec, and how many no guest has or uses.

    taken are the addresses of those that guests have, names what guests call those that they use.
    With a physical function all its virtual ones are taken, though not where it is only used, and
    with any of those it is itself. Devices that are all taken make a pool, too, with a count of 0.
    """
    by_address = {device.address: device for device in devices}
    used = {device.address for device in devices if not set(device.names).isdisjoint(names)}
    split = {each.parent for each in devices if each.address in taken or each.address in used}
    totals: Counter[_Kind] = Counter()
    free: Counter[_Kind] = Counter()
    for device in by_address.values():
        physical = by_address.get(device.parent) if device.parent else None
        spec = next((each for each in specs if each.fits(device, physical)), None)
        if spec is None:
            continue
        tags = tuple(sorted({**_tags(device, physical), **spec.tags}.items()))
        kind = device.vendor_id, device.product_id, device.numa_node, tags
        totals[kind] += 1
        given = not {device.address, device.parent}.isdisjoint(taken)
        free[kind] += not (given or device.address in used | split)
    pools = [
        PciDevicePool(
            vendor_id=vendor_id,
            product_id=product_id,
            numa_node=numa_node,
            count=free[vendor_id, product_id, numa_node, tags],
            total=total,
            tags=dict(tags),
        )
        for (vendor_id, product_id, numa_node, tags), total in totals.items()
    ]
    return sorted(pools, key=_rank)


def _tags(device: PciDevice, physical: PciDevice | None) -> Tags:
    """Return the tags that a device has whatever its spec says."""
    tags: Tags = {"dev_type": device.kind}
    # Requests for ports of a network always name it, mostly with "False".
    if device.kind != "type-PCI":
        tags["remote_managed"] = "false"
    # Ports with a guaranteed bandwidth ask for virtual functions of one interface.
    if physical is not None and physical.interface:
        tags["parent_ifname"] = physical.interface
    return tags


def _rank(pool: PciDevicePool) -> tuple[object, ...]:
    """Return where a pool stands in the order in which pools are emptied.

    As in Nova those with few tags come first, so that what is special is left for requests that
    ask for it.
    """
    node = -1 if pool.numa_node is None else pool.numa_node
    return len(pool.tags), pool.vendor_id, pool.product_id, node, repr(pool.tags)
