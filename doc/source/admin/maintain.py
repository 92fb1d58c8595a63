# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Put a host into maintenance: maintain.py AGENT HOST [CONFIGURATION FILE ...]."""

import sys
from uuid import uuid4

from scheduler.client import RequestContext, SchedulerFailure, connect_to_agents

agent, host, *files = sys.argv[1:]
caller = RequestContext(f"req-{uuid4()}", user_name="night-shift", is_admin=True)
arguments = {"host": host, "mode": True, "reason": "firmware"}
try:
    with connect_to_agents(*files) as client:
        switches = client.call(caller, agent, "host_maintenance_mode", 10.0, **arguments)
except SchedulerFailure as error:
    sys.exit(str(error))
print(switches["status"], switches["disabled_reason"])
