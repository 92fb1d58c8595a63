# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Former names of modules and classes that plug-ins, callers and configurations may still use.

An import of a former name gives the names of the module that it is now, with a DeprecationWarning
that says which that is. Only what pages of the documentation named, or what plug-ins and callers
can be expected to import, is here; doc/source/plugins/index.rst lists it.
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType

# Former module: the present one. An empty text stands for a package that only holds others.
MODULES = {
    "scheduler.attestation": "scheduler.trust",
    "scheduler.decision.aggregate_metadata": "scheduler.hosts.aggregate_metadata",
    "scheduler.decision.by_value": "scheduler.hosts.table",
    "scheduler.decision.host_state": "scheduler.hosts.host_state",
    "scheduler.decision.host_table": "scheduler.hosts.table",
    "scheduler.decision.limits": "scheduler.hosts.limits",
    "scheduler.decision.outcome": "scheduler.decision.types",
    "scheduler.drivers.caching": "scheduler.drivers.filter_scheduler",
    "scheduler.drivers.fake": "scheduler.drivers.filter_scheduler",
    "scheduler.drivers.outcomes": "scheduler.drivers",
    **{
        f"scheduler.filters.aggregate_{name}": "scheduler.filters.aggregate_limits"
        for name in ("core", "disk", "io_ops", "num_instances", "ram")
    },
    **{
        f"scheduler.filters.exact_{name}": "scheduler.filters.exact_resources"
        for name in ("core", "disk", "ram")
    },
    "scheduler.filters.json_filter": "scheduler.filters.json.filter",
    "scheduler.objects.aggregate": "inventory.objects.aggregate",
    "scheduler.objects.destination": "scheduler.objects.request_spec",
    "scheduler.objects.flavor": "scheduler.objects.flavor_and_image",
    "scheduler.objects.image_meta": "scheduler.objects.flavor_and_image",
    "scheduler.objects.instance_group": "inventory.objects.instance_group",
    "scheduler.objects.limits": "scheduler.objects.selection",
    "scheduler.objects.network": "inventory.objects.pci_and_network",
    "scheduler.objects.numa": "inventory.objects.numa",
    "scheduler.objects.pci": "inventory.objects.pci_and_network",
    "scheduler.objects.request_group": "scheduler.objects.request_spec",
    "scheduler.objects.retries": "scheduler.objects.request_spec",
    "scheduler.rpc": "",
    "scheduler.rpc.client": "scheduler.client.scheduler_client",
    "scheduler.rpc.conductor": "scheduler.client.conductor",
    "scheduler.rpc.context": "scheduler.wire.context",
    "scheduler.rpc.failures": "scheduler.wire.errors",
    "scheduler.rpc.host_client": "scheduler.client.agent_client",
    "scheduler.rpc.retries": "scheduler.client.backoff",
}
# Present module: {former name there: the present class or function}.
NAMES = {
    "inventory.objects.instance_group": {"APART": "ANTI_AFFINITY", "TOGETHER": "AFFINITY"},
    "scheduler.client.agent_client": {"HostClient": "AgentClient"},
    "scheduler.decision.types": {
        "Lack": "ResourceShortfall",
        "Shortage": "PlacementFailure",
        "Taken": "Consumption",
    },
    "scheduler.hosts.table": {"rows_where": "HostTable.rows_where"},
}


class Aliases(MetaPathFinder, Loader):
    """Finds the modules of MODULES; the package makes Python ask it after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a former module, None for any other name."""
        if fullname not in MODULES:
            return None
        return ModuleSpec(fullname, self, is_package=not MODULES[fullname])

    def exec_module(self, module: ModuleType) -> None:
        """Give a former module the names of the present one."""
        present = MODULES[module.__name__]
        if not present:
            return
        warnings.warn(f"{module.__name__} is now {present}", DeprecationWarning, stacklevel=2)
        names = import_module(present)
        module.__dict__.update(
            (name, value) for name, value in vars(names).items() if not name.startswith("__")
        )
        for former, name in NAMES.get(present, {}).items():
            setattr(module, former, attrgetter(name)(names))
