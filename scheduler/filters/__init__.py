# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Filters keep the hosts on which an instance may run. This is the base class for all of them."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from scheduler.base_plugin import BasePlugin, ResourceShortfall, error_text
from scheduler.hosts.columns import Mask, Rows
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# All that most of them need.
__all__ = ["BaseHostFilter", "HostState", "HostTable", "Mask", "RequestSpec"]


class BaseHostFilter(BasePlugin):
    """A rule that a host must fulfil, in one of two forms.

    Column form: override mask(), which judges all hosts at once; host_passes() follows from it.
    Value form: override host_passes(), which judges one host, and name in reads the attributes it
    looks at: it is then called once for each distinct combination of their values. A filter written
    for Nova overrides host_passes() and has no reads: it is called for every remaining host. One
    that overrides filter_all() is given all of these at once.
    """

    run_filter_once_per_request: ClassVar[bool] = False
    RUN_ON_REBUILD: ClassVar[bool] = False
    # Whether run_filter_for_index() is that of this class, which need not be called.
    runs_by_attribute: ClassVar[bool] = True

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = cls.run_filter_for_index
        cls.runs_by_attribute = own is BaseHostFilter.run_filter_for_index

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        """Return for each row whether the host passes; rows that are no candidates may be either.

        It may assign columns of hosts.limits and must change nothing else.
        """
        rows = np.flatnonzero(hosts.candidates)
        if type(self).filter_all is not BaseHostFilter.filter_all:
            return self._call_filter_all(hosts, spec, rows)
        if type(self).host_passes is BaseHostFilter.host_passes:
            raise NotImplementedError(f"{self.name} overrides neither mask() nor host_passes()")
        names = self.columns_read(spec)
        if names is not None and len(rows):
            return self._call_by_value(hosts, spec, rows, names)
        mask = np.zeros(hosts.size, np.bool_)
        for row in rows.tolist():
            mask[row] = self._call_host_passes(hosts, spec, row)
        return mask

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether one host passes."""
        if not self.applies(spec_obj):
            return True
        return bool(self.mask(host_state.table, spec_obj)[host_state.row])

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        """Return in words, with figures, why a host does not pass. Called only for such hosts."""
        return "does not pass"

    def summary(self, hosts: HostTable, rows: Rows, spec: RequestSpec) -> str:
        """Return in a few words why the hosts of these rows do not pass, "" to have reasons shown.

        Amounts differ from host to host; here stands the most that one of them has.
        """
        return ""

    def refusal(self, spec: RequestSpec) -> str | None:
        """Return why no host at all can pass, in words for the caller; None where some may."""
        return None

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> ResourceShortfall | None:
        """Return how much a host is short of to pass; None where it is no matter of amounts."""
        return None

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to call the filter for the instance at this place of a request, from 0."""
        return not (self.run_filter_once_per_request and index > 0)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterator[HostState]:
        """Yield the hosts that pass, with the signature of Nova."""
        return (state for state in filter_obj_list if self.host_passes(state, spec_obj))

    def _call_filter_all(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> Mask:
        mask = np.zeros(hosts.size, np.bool_)
        states = [HostState.of(hosts, row) for row in rows.tolist()]
        # In Nova None means no hosts at all.
        mask[[state.row for state in self.filter_all(states, spec) or ()]] = True
        return mask

    def _call_by_value(
        self, hosts: HostTable, spec: RequestSpec, rows: Rows, names: tuple[str, ...]
    ) -> Mask:
        combined = np.zeros(len(rows), np.int64)
        for name in names:
            codes = hosts.codes(name)[rows]
            combined = _dense(combined * (int(codes.max()) + 1) + codes)
        # The last row of each combination stands for all of them.
        representative = np.full(int(combined.max()) + 1, -1, np.int64)
        representative[combined] = rows
        verdicts = np.zeros(len(representative), np.bool_)
        for code in np.flatnonzero(representative >= 0).tolist():
            verdicts[code] = self._call_host_passes(hosts, spec, int(representative[code]))
        mask = np.zeros(hosts.size, np.bool_)
        mask[rows] = verdicts[combined]
        return mask

    def _call_host_passes(self, hosts: HostTable, spec: RequestSpec, row: int) -> bool:
        state = HostState.of(hosts, row)
        try:
            return bool(self.host_passes(state, spec))
        # One filter's mistake about one host must not fail the request for all hosts.
        except Exception as error:
            hosts.warn(
                f"{self.name} refuses {state.host} ({state.nodename}) since it failed there:"
                f" {error_text(error)}"
            )
            return False


def _dense(codes: Rows) -> Rows:
    """Return codes that are equal where these are, numbered with few gaps."""
    most = int(codes.max()) + 1
    if most <= 2 * len(codes):
        return codes
    # Counting costs a fraction of sorting, unless the codes are too far apart.
    if most > 64 * len(codes):
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    used = np.zeros(most, np.bool_)
    used[codes] = True
    return np.asarray((np.cumsum(used) - 1)[codes], np.int64)
