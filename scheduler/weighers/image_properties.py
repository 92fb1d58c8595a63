# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for instances whose images resemble the requested one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.name_ratios import name_ratios
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class ImagePropertiesWeigher(BaseHostWeigher):
    """Prefer the hosts with more instances whose images have properties of the requested one.

    Each property counts with its ratio in the setting and not at all without one there, or with 1
    where nothing is set.
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
        self._settings = name_ratios(self.image_props_weight_setting)
        self._ratios = dict(self._settings.ratios)

    def applies(self, spec: RequestSpec) -> bool:
        return spec.image is not None and len(spec.image.properties) > 0

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        self._settings.warn(hosts.warn, "[filter_scheduler] image_props_weight_setting")
        raw = np.zeros(hosts.size)
        for name, value in spec.image.properties.items() if spec.image is not None else ():
            ratio = self._ratios.get(name, 0.0) if self.image_props_weight_setting else 1.0
            if ratio:
                raw += ratio * hosts.residents.count(("image", name, str(value)), hosts.size)
        return raw
