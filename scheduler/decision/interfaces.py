# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a decision asks of its plug-ins; their base classes in filters and weighers fulfil it."""

from collections.abc import Hashable
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.outcome import Lack
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec

Rows = npt.NDArray[np.int64]


class Filter(Protocol):
    """Says which hosts may run an instance."""

    RUN_ON_REBUILD: ClassVar[bool]

    @property
    def name(self) -> str:
        """The name under which it appears in decisions."""

    def applies(self, spec: RequestSpec) -> bool:
        """Return False when every host passes, whatever it has."""

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to ask for the instance at this place of the request, from 0."""

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        """Return the columns on which the verdict about a row depends, None for any."""

    def question(self, spec: RequestSpec) -> Hashable | None:
        """Return what of the request the verdicts depend on, None where that cannot be told."""

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        """Return for each row whether the host passes."""

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        """Return why a host does not pass, in words."""

    def refusal(self, spec: RequestSpec) -> str | None:
        """Return why no host at all can pass, in words for the caller; None where some may."""

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> Lack | None:
        """Return of what a host has too little to pass, None where it is no matter of amounts."""


class Weigher(Protocol):
    """Says how much a host is preferred."""

    minval: float | None
    maxval: float | None
    scales: ClassVar[bool]

    @property
    def name(self) -> str:
        """The name under which it appears in decisions."""

    def applies(self, spec: RequestSpec) -> bool:
        """Return False when all hosts weigh 0, whatever they have."""

    def multipliers(self, hosts: HostTable, rows: Rows) -> float | Weights:
        """Return the multiplier of all these rows, or one for each; 0 leaves the weigher out."""

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        """Return the columns on which the weight of a row depends, None for any."""

    def question(self, spec: RequestSpec) -> Hashable | None:
        """Return what of the request the weights depend on, None where that cannot be told."""

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        """Return the raw weight of each row."""
