# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Scheduler hints that name instances, and the hosts on which these are.

Source: behaviour reference 1.8.
"""

import json

import numpy as np

from scheduler.decision.host_table import HostTable, Mask
from scheduler.objects.request_spec import RequestSpec


def named(spec: RequestSpec, hint: str) -> list[str]:
    """Return the uuids of a hint: one text, a list of them, or a JSON list in a text."""
    given = spec.get_scheduler_hint(hint)
    if not given:
        return []
    texts = [given] if isinstance(given, str) else given
    return list(dict.fromkeys(uuid for text in texts for uuid in _listed(text)))


def hosts_of(hosts: HostTable, uuids: list[str]) -> Mask:
    """Return for each row whether any of the instances is there."""
    mask = np.zeros(hosts.size, np.bool_)
    mask[[row for uuid in uuids for row in hosts.residents.rows_of(uuid)]] = True
    return mask


def _listed(text: str) -> list[str]:
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else text
        return [str(each) for each in found] if isinstance(found, list) else [text]
    except (ValueError, RecursionError):
        # It names no instance then, as any other text that is no uuid.
        return [text]
