# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of claims: resources of an instance from the decision until the instance is seen."""

from oslo_config import cfg, types

# Values of allocations.
REQUIRED, OPTIONAL, OFF = "required", "optional", "off"
RESOURCES = ["vcpu", "memory_mb", "disk_gb"]
# Seconds; longer than a slow build takes.
LEASE = 900
OPTS = [
    cfg.BoolOpt(
        "enabled",
        default=True,
        help="""
Claim the resources of an instance in the database before the host is returned, so that two
schedulers or two requests cannot give away the same resources.

All schedulers of a cloud must have the same value, and all agents must run a release that counts
claims. Without claims, a scheduler consumes resources in its own host cache only, as Nova up to
Newton does; then only compute hosts of old releases refuse double bookings.
""",
    ),
    cfg.ListOpt(
        "bounded_resources",
        default=RESOURCES,
        item_type=types.String(choices=RESOURCES),
        help="""
Resources of which a host never gives more than its total times its allocation ratio.

Where no enabled filter bounds one of them, CoreFilter, RamFilter or DiskFilter is added, as long as
claims are enabled. The filter lists of Nova since Pike have none of the three, since Placement does
this. AggregateRamFilter, ExactRamFilter and similar filters bound a resource, too. An empty list
adds no filter.
""",
    ),
    cfg.IntOpt(
        "lease",
        default=LEASE,
        min=1,
        help="""
Seconds after which a pending claim expires if no agent has seen the instance.

The lease should be longer than the slowest build. Failed builds and dead callers hold their
resources no longer than this.
""",
    ),
    cfg.IntOpt(
        "attempts",
        default=20,
        min=1,
        help="""
Maximum number of decisions for a request whose claims are lost to other requests.

The lost hosts are read again each time. After the last attempt the request is refused, with a
warning in the log.
""",
    ),
    cfg.BoolOpt(
        "alternates",
        default=True,
        help="""
Claim resources for the alternates of an answer, too, and return only those that were claimed.

A conductor builds on an alternate without another request. The claim of an alternate ends like the
claim of the chosen host, or when the instance is seen or gone. All alternates together use at most
a twentieth of the free resources, counted in instances like the requested one: in a small or full
cloud, fewer alternates are returned.

Warning: if disabled, all alternates are returned without claims. A repeated build may then use
resources of another instance; compute hosts of Nova do not refuse that.
""",
    ),
    cfg.StrOpt(
        "allocations",
        default=REQUIRED,
        choices=[
            (REQUIRED, "requests fail while Placement does not answer"),
            (OPTIONAL, "hosts are selected without allocations while Placement does not answer"),
            (OFF, "Placement is never asked"),
        ],
        help="""
Whether claims become allocations in Placement, too, where section [placement] is configured as in
Nova's own nova.conf.

A host is selected only if Placement has room on it. Alternates are not claimed then: conductors
allocate on the alternate that they use. "nova-manage placement heal_allocations" allocates later
for instances that were placed without allocations. Requests for traits and resources that only
Placement knows always fail while Placement does not answer.
""",
    ),
    cfg.BoolOpt(
        "ask_conductor",
        default=True,
        help="""
Ask Nova's conductor about instances whose claims are not confirmed within seconds, and release the
claims of failed and deleted instances.

The conductor is called over RPC at transport_url. Where no conductor answers, as in clouds without
Nova, the next call is made after 10 minutes. If disabled, such claims end with their leases.
""",
    ),
]
