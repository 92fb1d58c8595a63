# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests as hypothesis draws them."""

from tests.contract.drawn.drawn_hosts import hosts
from tests.contract.drawn.drawn_requests import requests

__all__ = ["hosts", "requests"]
