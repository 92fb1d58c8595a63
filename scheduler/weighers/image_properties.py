# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for instances whose images resemble the requested one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.hosts.metrics import parse_ratios
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class ImagePropertiesWeigher(BaseHostWeigher):
    """Prefer the hosts with more instances whose images have properties of the requested one.

    Each property counts with its ratio in the setting and not at all without one; with 1 where the
    setting is empty.
    """

    multiplier = 0.0
    aggregate_key = "image_props_weight_multiplier"
    image_props_weight_setting: Sequence[str] = ()
    options = (
        ("multiplier", "filter_scheduler", "image_props_weight_multiplier"),
        ("image_props_weight_setting", "filter_scheduler", "image_props_weight_setting"),
    )

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._settings = parse_ratios(self.image_props_weight_setting)
        self._ratios = dict(self._settings.ratios)

    def applies(self, spec: RequestSpec) -> bool:
        return spec.image is not None and len(spec.image.properties) > 0

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        self._settings.warn(hosts.warn, "[filter_scheduler] image_props_weight_setting")
        raw = np.zeros(hosts.size)
        for name, value in spec.image.properties.items() if spec.image is not None else ():
            ratio = self._ratios.get(name, 0.0) if self.image_props_weight_setting else 1.0
            if ratio:
                raw += ratio * hosts.instances.count(("image", name, str(value)), hosts.size)
        return raw
