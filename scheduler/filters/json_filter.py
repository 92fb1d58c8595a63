# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for what a caller asks of hosts in a language of its own."""

from typing import Any

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter, json_query
from scheduler.objects.kinds import Malformed
from scheduler.objects.request_spec import RequestSpec


class JsonFilter(BaseHostFilter):
    """Keep the hosts that meet the query in the scheduler hint 'query'.

    The query is JSON such as '[">=", "$free_ram_mb", 1024]'. One that cannot be read refuses every
    host.
    """

    def applies(self, spec: RequestSpec) -> bool:
        return bool(_hint(spec))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = np.ones(hosts.size, np.bool_)
        if self.applies(spec):
            try:
                mask[:] = json_query.read(_hint(spec)).truths(hosts) > 0
            except Malformed:
                mask[:] = False
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        try:
            query = json_query.read(_hint(spec_obj))
        except Malformed as wrong:
            return str(wrong)
        return json_query.why_not(query, host_state.table, host_state.row)


def _hint(spec: RequestSpec) -> Any:
    return spec.get_scheduler_hint("query")
