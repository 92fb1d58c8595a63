# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Failure domains: hosts that fail together, as their aggregates say."""

from collections.abc import Collection, Iterable

import numpy as np

from inventory.objects.aggregate import FAILURE_DOMAIN, Aggregate
from scheduler.hosts.aggregate_metadata import split_values
from scheduler.hosts.columns import Mask
from scheduler.hosts.table import HostTable

# Before the name of a host that is a failure domain for itself.
HOST_PREFIX = "host:"


def named_domains(aggregates: Iterable[Aggregate] | None) -> set[str]:
    """Return the failure domains that the aggregates of a host name: it is in all of them."""
    return split_values(aggregates, FAILURE_DOMAIN) - {""}


def domains_of(hosts: HostTable, row: int) -> tuple[str, ...]:
    """Return the failure domains of a host, sorted; one without any is a domain for itself."""
    named = sorted(named_domains(hosts.get(row, "aggregates")))
    return tuple(named) or (HOST_PREFIX + hosts.get(row, "host"),)


def in_any(hosts: HostTable, domains: Collection[str]) -> Mask:
    """Return which hosts are in any of these failure domains, so that they may fail together."""
    wanted = {*domains}
    named = hosts.memo_values("aggregates", FAILURE_DOMAIN, named_domains, object)
    mask = hosts.spread("aggregates", np.array([not wanted.isdisjoint(each) for each in named]))
    for name in wanted:
        if name.startswith(HOST_PREFIX):
            mask[list(hosts.rows_of_host(name.removeprefix(HOST_PREFIX)))] = True
    return np.asarray(mask, np.bool_)
