# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts that take one flavor at a time."""

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.residents import EVERY
from scheduler.filters import BaseHostFilter
from scheduler.objects.flavor import Flavor
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec


class TypeAffinityFilter(BaseHostFilter):
    """Keep the hosts that are empty or have instances of the requested flavor only.

    Flavors are told apart by id, and by name where an id is not known. An instance of which neither
    is known refuses the host.
    """

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        flavor, count = spec.flavor, hosts.residents.count
        same = count(("flavor_id", flavor.id), hosts.size)
        same = same + count(("flavor_name", flavor.name), hosts.size)
        mask = np.asarray(same == count(EVERY, hosts.size), np.bool_)
        if flavor.id is None:
            # Instances of a known id are not counted by name.
            for row in np.flatnonzero(~mask).tolist():
                mask[row] = all(_is_of(each, flavor) for each in hosts.residents.on(row).values())
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        verdicts = [_is_of(each, spec_obj.flavor) for each in host_state.instances.values()]
        return (
            f"has {verdicts.count(False)} instances of other flavors than"
            f" {spec_obj.flavor.name!r} and {verdicts.count(None)} of unknown flavor"
        )


def _is_of(instance: Instance, flavor: Flavor) -> bool | None:
    """Return whether an instance is of a flavor, None where nothing tells."""
    identity, name = instance.flavor_identity
    if flavor.id is not None and identity is not None:
        return identity == flavor.id
    return None if name is None or flavor.name is None else name == flavor.name
