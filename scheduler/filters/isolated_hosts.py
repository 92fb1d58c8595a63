# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts that are reserved for certain images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from inventory.errors import counted
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec


class IsolatedHostsFilter(BaseHostFilter):
    """Keep the isolated hosts for isolated images, and the other hosts for other images.

    Unless isolated hosts are restricted to isolated images, other images may go there too.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True
    isolated_images: Sequence[str] = ()
    isolated_hosts: Sequence[str] = ()
    restrict = True
    options = (
        ("isolated_images", "filter_scheduler", "isolated_images"),
        ("isolated_hosts", "filter_scheduler", "isolated_hosts"),
        ("restrict", "filter_scheduler", "restrict_isolated_hosts_to_isolated_images"),
    )

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._hosts = frozenset(self.isolated_hosts)
        self._images = frozenset(self.isolated_images)

    def applies(self, spec: RequestSpec) -> bool:
        return self._is_isolated(spec) or bool(self.restrict and self._hosts)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        isolated = hosts.memo("host", (self.name, self._hosts), self._hosts.__contains__, bool)
        if self._is_isolated(spec):
            return isolated
        return ~isolated if self.restrict else np.ones(hosts.size, np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        image = spec_obj.image.id if spec_obj.image else None
        if self._is_isolated(spec_obj):
            return (
                f"image {image!r} is isolated, but the host is none of"
                f" {counted(len(self._hosts), 'isolated host')}"
            )
        other = "the request names no image"
        if image is not None:
            other = f"{image!r} is none of these images"
        return f"is kept for {counted(len(self._images), 'isolated image')}, {other}"

    def _is_isolated(self, spec: RequestSpec) -> bool:
        return spec.image is not None and spec.image.id in self._images
