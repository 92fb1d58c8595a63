# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The filters that bound vCPUs, memory and disk of a host, also where nobody names them."""

from collections.abc import Iterable

from oslo_config import cfg
from oslo_log import log

from scheduler.decision.interfaces import Filter
from scheduler.filters import BaseHostFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.exact_core import ExactCoreFilter
from scheduler.filters.exact_disk import ExactDiskFilter
from scheduler.filters.exact_ram import ExactRamFilter
from scheduler.filters.ram import RamFilter

LOG = log.getLogger(__name__)
# What bounds each resource, the filter that is implied first. Nova since Pike leaves it to
# Placement, so that its lists of filters have none of these. Subclasses count as well.
_BOUNDING: dict[str, tuple[type[BaseHostFilter], ...]] = {
    "vcpu": (CoreFilter, ExactCoreFilter),
    "memory_mb": (RamFilter, ExactRamFilter),
    "disk_gb": (DiskFilter, ExactDiskFilter),
}


def list_option(conf: cfg.ConfigOpts) -> str:
    """Return the name of the option in [filter_scheduler] that lists the filters in use."""
    is_baremetal = conf.filter_scheduler.use_baremetal_filters
    return "baremetal_enabled_filters" if is_baremetal else "enabled_filters"


def implied(conf: cfg.ConfigOpts, filters: Iterable[BaseHostFilter]) -> list[BaseHostFilter]:
    """Return filters for the resources that none of these bounds and claims are to bound."""
    wanted = conf.claims.bounded_resources if conf.claims.enabled else ()
    return [_BOUNDING[each][0]() for each in _unbounded([*filters]) if each in wanted]


def implied_names(conf: cfg.ConfigOpts, filters: Iterable[Filter]) -> list[str]:
    """Return which of the filters in use are implied, by their names."""
    named = {name.rpartition(".")[2] for name in conf.filter_scheduler[list_option(conf)]}
    own = {first for first, *_ in _BOUNDING.values()}
    return [each.name for each in filters if type(each) in own and each.name not in named]


def report(conf: cfg.ConfigOpts, filters: Iterable[Filter]) -> None:
    """Tell the operator which filters are implied, and which resources nothing bounds."""
    in_use = list(filters)
    if names := implied_names(conf, in_use):
        LOG.info(
            "Filters in use besides [filter_scheduler] %s: %s, so that claims keep to the total"
            " times the allocation ratio; [claims] bounded_resources turns this off",
            list_option(conf),
            ", ".join(names),
        )
    if missing := [_BOUNDING[each][0].__name__ for each in _unbounded(in_use)]:
        LOG.warning(
            "The filters in use lack %s: nothing keeps hosts from being overfilled in that"
            " resource. Enable these filters, or claims with [claims] bounded_resources.",
            ", ".join(missing),
        )


def _unbounded(filters: list[BaseHostFilter] | list[Filter]) -> list[str]:
    return [
        resource
        for resource, bounding in _BOUNDING.items()
        if not any(isinstance(each, bounding) for each in filters)
    ]
