# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Start a guest on one of the hosts, on another one if that fails."""

import subprocess
import sys
from uuid import uuid4

from scheduler import client
from scheduler.client import Conductor, Flavor, RequestContext, RequestSpec, RetryPolicy

uuid = str(uuid4())


def build(chosen: client.Selection) -> None:
    """Run what starts a guest on a host; this is yours."""
    try:
        subprocess.run(["start-guest", chosen.service_host, uuid], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise client.BuildFailed(f"{chosen.service_host}: {error}") from error


spec = RequestSpec(Flavor(vcpus=2, memory_mb=2048, root_gb=10))
policy = RetryPolicy(max_attempts=3, deadline=120.0)
try:
    with client.connect(*sys.argv[1:]) as scheduler:
        chosen = Conductor(scheduler, policy).build(RequestContext(), spec, uuid, build)
except client.SchedulerFailure as error:
    sys.exit(str(error))
print(uuid, chosen.service_host, chosen.nodename)
