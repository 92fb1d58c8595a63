# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the attested trust in the boot of a host."""

from typing import Any

from scheduler.filters import BaseHostFilter, HostState, RequestSpec

UNKNOWN = "unknown"


class TrustedFilter(BaseHostFilter):
    """Keep the hosts whose attested level of trust is the one that the flavor asks for.

    The extra spec trust:trusted_host is 'trusted', 'untrusted' or 'unknown'. The table has the
    levels of an attestation service before the filter is called; other nodes are unknown.
    """

    run_filter_once_per_request = True
    reads = ("trust_level",)

    def applies(self, spec: RequestSpec) -> bool:
        return bool(_wanted(spec))

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return not self.applies(spec_obj) or _level(host_state) == _wanted(spec_obj)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return f"needs trust level {_wanted(spec_obj)!r}, attested is {_level(host_state)!r}"


def _wanted(spec: RequestSpec) -> Any:
    return (spec.flavor.extra_specs or {}).get("trust:trusted_host")


def _level(host: HostState) -> Any:
    return host.trust_level or UNKNOWN
