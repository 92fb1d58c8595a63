# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The names that options had in earlier releases of Nova; they are still read."""

from oslo_config import cfg


def formerly(name: str, group: str = "DEFAULT") -> list[cfg.DeprecatedOpt]:
    """Return the name that an option had, up to Newton (14) as a rule one without a group."""
    return [cfg.DeprecatedOpt(name, group=group)]
