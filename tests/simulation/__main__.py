# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Play histories of a simulated cloud: python -m tests.simulation --seed 7."""

import os
import sys

# The order of sets of texts is the same in all runs then; Python reads it when it starts.
if os.environ.get("PYTHONHASHSEED") != "0":
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

from tests.simulation import coverage_of, kernel

SIMULATOR = kernel.install()
# Before the product is imported, whose first lines count, too.
MEASURED = coverage_of.Measured() if coverage_of.OPTION in sys.argv else None

if __name__ == "__main__":
    from tests.simulation import command

    sys.exit(command.main(SIMULATOR, sys.argv[1:], MEASURED))
