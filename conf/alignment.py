# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of AlignmentWeigher, which Nova does not have."""

from oslo_config import cfg

OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=0.0,
        help="""
Weight of how well the free vCPUs, memory and disk of a host match the shape of the instance.

A positive weight prefers hosts with much left of the resource that the instance needs most. It
packs well where several resources run short together, and badly where only one resource does. 0
disables the weight. The metadata key alignment_weight_multiplier of an aggregate overrides it for
the hosts of the aggregate; where several aggregates do so, the smallest value is used.
""",
    )
]
