# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The process that a scheduler with [shadow] config starts. It has native threads only."""

import sys

from conf.daemon import process


def main() -> None:
    """Follow the decisions until the scheduler ends."""
    process.refuse_import("eventlet")
    process.start_backend("threading")
    from oslo_config import cfg

    from scheduler.operators.config_shadow.process import follow

    process.configure(cfg.CONF, "berthmaster-scheduler", sys.argv[1:])
    follow(cfg.CONF)


if __name__ == "__main__":
    main()
