# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of claims: what schedulers hold for an instance until it is there."""

from oslo_config import cfg, types

RESOURCES = ["vcpu", "memory_mb", "disk_gb"]
OPTS = [
    cfg.BoolOpt(
        "enabled",
        mutable=True,
        default=True,
        help="""
Claim what an instance takes in the database before the host is answered, so that no two schedulers
and no two requests give the same room away.

All schedulers of a cloud must have the same value, and all agents must be of a release that counts
claims. Without claims a scheduler takes what it chose from its own view only, as Nova up to Newton
does; what two of them give away at the same time is refused by compute hosts of old releases only.
""",
    ),
    cfg.ListOpt(
        "bounded_resources",
        mutable=True,
        default=RESOURCES,
        item_type=types.String(choices=RESOURCES),
        help="""
Resources of which a host is given no more than its total times its allocation ratio, whatever
filters are enabled.

Where no enabled filter bounds one of them, CoreFilter, RamFilter or DiskFilter is used as if it
were enabled, as long as claims are. The lists of filters of Nova since Pike, which leaves this to
Placement, name none of the three. AggregateRamFilter, ExactRamFilter and their like bound a
resource as well. An empty list adds none.
""",
    ),
    cfg.IntOpt(
        "lease",
        mutable=True,
        default=900,
        min=1,
        help="""
Seconds for which a claim is held for an instance that nobody has seen yet.

It should be longer than the slowest build takes: afterwards the room is given to others. What a
build that failed, or a caller that died, has left behind is free again after this time at the
latest.
""",
    ),
    cfg.IntOpt(
        "attempts",
        mutable=True,
        default=20,
        min=1,
        help="""
How often a request is decided when others take the chosen hosts first.

Each time the hosts that were lost are read again. When all attempts are lost the request is
refused, with a warning in the log.
""",
    ),
    cfg.BoolOpt(
        "alternates",
        mutable=True,
        default=True,
        help="""
Claim room on the alternates of an answer too, and return only those that were claimed.

A conductor builds on an alternate without asking again. The room is held as long as that of the
chosen host, and given back as soon as the instance is seen or gone. All alternates together hold
at most a twentieth of the free room, in instances like the requested one: in a small or full cloud
fewer alternates are returned, or none.

Warning: when this is off all alternates are returned and no room is claimed on them. A build that
is tried again may then take room that was given to another instance; compute hosts of Nova do not
refuse that.
""",
    ),
    cfg.BoolOpt(
        "ask_conductor",
        mutable=True,
        default=True,
        help="""
Ask Nova's conductor about instances whose claims nobody has come for within seconds, and give back
the claims of those that have failed or are deleted.

It is asked over RPC, at transport_url. Where no conductor answers, as in clouds without Nova, it is
asked again after 10 minutes only. When this is off such claims are held until their lease ends.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="claims")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("claims", OPTS)]
