# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Filters keep the hosts on which an instance may run. This is the base class for all of them."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import Codes, HostTable, Mask
from scheduler.decision.outcome import Lack
from scheduler.decision.plugin_calls import problem
from scheduler.decision.settings import Options, take
from scheduler.objects.request_spec import RequestSpec


class BaseHostFilter:
    """A rule that a host must fulfil, in one of two forms.

    Column form: override mask(), which judges all hosts at once; host_passes() follows from it.
    Value form: override host_passes(), which judges one host, and name in reads the attributes it
    looks at: it is then asked once for each distinct combination of their values. A filter written
    for Nova overrides host_passes() and has no reads: it is asked for every host that is left. One
    that overrides filter_all() is given all of these at once.

    A filter that defines question() need not be asked again about hosts that have not changed.

    Settings are class attributes with their defaults; options says where in the configuration
    their values are found, as (attribute, group, option) each.
    """

    run_filter_once_per_request: ClassVar[bool] = False
    RUN_ON_REBUILD: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...] | None] = None
    options: ClassVar[Options] = ()

    def __init__(self, **settings: Any) -> None:
        take(self, self.options, settings)

    @property
    def name(self) -> str:
        """The name under which the filter appears in decisions."""
        return type(self).__name__

    def applies(self, spec: RequestSpec) -> bool:
        """Return False when the request alone shows that every host passes."""
        return True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        """Return for each row whether the host passes; rows that are no candidates may be either.

        It may assign columns of hosts.limits and must change nothing else.
        """
        rows = np.flatnonzero(hosts.candidates)
        if type(self).filter_all is not BaseHostFilter.filter_all:
            return self._asked_at_once(hosts, spec, rows)
        if type(self).host_passes is BaseHostFilter.host_passes:
            raise NotImplementedError(f"{self.name} overrides neither mask() nor host_passes()")
        names = self.columns_read(spec)
        if names is None or not len(rows):
            return self._asked(hosts, spec, rows)
        return self._asked_by_value(hosts, spec, rows, names)

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether one host passes."""
        if not self.applies(spec_obj):
            return True
        return bool(self.mask(host_state.table, spec_obj)[host_state.row])

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        """Return the attributes that host_passes() looks at for this request, None for any."""
        return self.reads

    def question(self, spec: RequestSpec) -> Hashable | None:
        """Return what of the request the verdicts depend on, None where that cannot be told.

        Requests with the same question share verdicts, which must depend, besides it and the
        settings, on the columns of columns_read() in the row of the host alone. It holds for the
        class that defines it, not for those that inherit it: they may look at more.
        """
        return None

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        """Return in words, with figures, why a host does not pass. Asked only of those."""
        return "does not pass"

    def refusal(self, spec: RequestSpec) -> str | None:
        """Return why no host at all can pass, in words for the caller; None where some may."""
        return None

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> Lack | None:
        """Return by how much a host fails to pass; None where it is no matter of amounts."""
        return None

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to ask for the instance at this place of the request, from 0."""
        return not (self.run_filter_once_per_request and index > 0)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterator[HostState]:
        """Yield the hosts that pass, as callers of a filter by itself know it from Nova."""
        return (state for state in filter_obj_list if self.host_passes(state, spec_obj))

    def _asked(self, hosts: HostTable, spec: RequestSpec, rows: Codes) -> Mask:
        mask = np.zeros(hosts.size, np.bool_)
        for row in rows.tolist():
            mask[row] = self._verdict(hosts, spec, row)
        return mask

    def _asked_at_once(self, hosts: HostTable, spec: RequestSpec, rows: Codes) -> Mask:
        mask = np.zeros(hosts.size, np.bool_)
        states = [HostState.of(hosts, row) for row in rows.tolist()]
        try:
            # Nova takes None for no hosts at all.
            mask[[state.row for state in self.filter_all(states, spec) or ()]] = True
        except Exception as error:
            hosts.warn(f"{self.name} refuses all hosts since it failed: {problem(error)}")
        return mask

    def _asked_by_value(
        self, hosts: HostTable, spec: RequestSpec, rows: Codes, names: tuple[str, ...]
    ) -> Mask:
        combined = np.zeros(len(rows), np.int64)
        for name in names:
            codes = hosts.codes(name)[rows]
            combined = _dense(combined * (int(codes.max()) + 1) + codes)
        # The last row of each value stands for all of them.
        representative = np.full(int(combined.max()) + 1, -1, np.int64)
        representative[combined] = rows
        verdicts = np.zeros(len(representative), np.bool_)
        for code in np.flatnonzero(representative >= 0).tolist():
            verdicts[code] = self._verdict(hosts, spec, int(representative[code]))
        mask = np.zeros(hosts.size, np.bool_)
        mask[rows] = verdicts[combined]
        return mask

    def _verdict(self, hosts: HostTable, spec: RequestSpec, row: int) -> bool:
        state = HostState.of(hosts, row)
        try:
            return bool(self.host_passes(state, spec))
        # One filter's mistake about one host must not fail the request for all hosts.
        except Exception as error:
            hosts.warn(
                f"{self.name} refuses {state.host} ({state.nodename}) since it failed there:"
                f" {problem(error)}"
            )
            return False


def _dense(codes: Codes) -> Codes:
    """Return codes that are equal where these are, and none of which is left out."""
    most = int(codes.max()) + 1
    if most <= 2 * len(codes):
        return codes
    # Counting costs a fraction of sorting, unless the codes are too far apart.
    if most > 64 * len(codes):
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    used = np.zeros(most, np.bool_)
    used[codes] = True
    dense = np.cumsum(used) - 1
    return np.asarray(dense[codes], np.int64)
