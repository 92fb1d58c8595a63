# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that a scheduler hint names.

Source: behaviour reference 1.8.
"""

import json
from typing import ClassVar

import numpy as np

from scheduler.filters import BaseHostFilter, HostTable, Mask, RequestSpec


class HintFilter(BaseHostFilter):
    run_filter_once_per_request = True
    hint: ClassVar[str]

    def applies(self, spec: RequestSpec) -> bool:
        return bool(self.named(spec))

    def named(self, spec: RequestSpec) -> list[str]:
        """Return the uuids of the hint: one text, a list of them, or a JSON list in a text."""
        given = spec.get_scheduler_hint(self.hint) or ()
        texts = [given] if isinstance(given, str) else given
        return list(dict.fromkeys(uuid for text in texts for uuid in _listed(text)))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = np.zeros(hosts.size, np.bool_)
        mask[[row for uuid in self.named(spec) for row in hosts.instances.rows_of(uuid)]] = True
        return mask


def _listed(text: str) -> list[str]:
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else text
        return [str(each) for each in found] if isinstance(found, list) else [text]
    except (ValueError, RecursionError):
        # It names no instance then, as any other text that is no uuid.
        return [text]
