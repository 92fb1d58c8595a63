# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The process that makes the pages of a scheduler. It has native threads only."""

import sys

from conf.daemon import process


def main() -> None:
    """Answer requests until the scheduler ends."""
    process.refuse_import("eventlet")
    process.start_backend("threading")
    from oslo_config import cfg

    from scheduler.operators.status_pages.serving import serve

    *arguments, last = sys.argv[1:]
    process.configure(cfg.CONF, "berthmaster-scheduler", arguments)
    serve(cfg.CONF, int(last.partition("=")[2]))


if __name__ == "__main__":
    main()
