# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The program berthmaster. What it imports at the top imports nothing outside the standard
library: the concurrency backend has to be chosen before.
"""

import gc
import os
import sys

from conf.daemon import process

PROGRAM = "berthmaster"


def main() -> None:
    """Run one command, or a shell of commands when none is given."""
    # What is imported stays: looking for garbage in it takes a tenth of a command's time. The
    # application enables it again when the command begins.
    gc.disable()
    process.limit_numpy_threads()
    process.refuse_import("eventlet")
    process.prefer_backend("threading")
    # What a daemon's queue is called is not the name of a command's, of which several may run.
    os.environ["OS_OSLO_MESSAGING_RABBIT__USE_QUEUE_MANAGER"] = "false"
    from oslo_config import cfg

    from scheduler.operators.cli.app import BerthmasterApp

    # oslo.messaging works with this one only.
    sys.exit(BerthmasterApp(cfg.CONF).run(sys.argv[1:]))
