# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for aggregates that are kept for images with certain properties."""

from collections.abc import Iterable, Iterator
from typing import Any

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.request_spec import RequestSpec


class AggregateImagePropertiesIsolation(BaseHostFilter):
    """Keep the hosts whose aggregates do not contradict a property of the image.

    Aggregate metadata under the name of a property lists the values that may enter. An image
    without the property, or with an empty one or 0, may go anywhere.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True
    namespace: str | None = None
    separator = "."
    options = (
        ("namespace", "filter_scheduler", "aggregate_image_properties_isolation_namespace"),
        ("separator", "filter_scheduler", "aggregate_image_properties_isolation_separator"),
    )

    def applies(self, spec: RequestSpec) -> bool:
        return bool(_properties(spec))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        properties = _properties(spec)

        def admits(aggregates: Iterable[Aggregate] | None) -> bool:
            return not any(self._contradicted(aggregates, properties))

        question = (self.name, self._prefix, tuple(sorted(properties.items())))
        return hosts.derived("aggregates", question, admits, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        found = self._contradicted(host_state.aggregates, _properties(spec_obj))
        return "; ".join(
            f"image property {name} is {str(value)!r}, the aggregates of the host admit"
            f" {aggregate_metadata.quoted(texts)}"
            for name, value, texts in found
        )

    @property
    def _prefix(self) -> str:
        return f"{self.namespace}{self.separator or ''}" if self.namespace else ""

    def _contradicted(
        self, aggregates: Iterable[Aggregate] | None, properties: dict[str, str | bool]
    ) -> Iterator[tuple[str, str | bool, set[str]]]:
        """Yield (name, value, values that may enter) of each property that may not enter."""
        for key in aggregate_metadata.keys(aggregates, self._prefix):
            # A namespace such as hw with the separator _ is part of the property's own name.
            names = {key, key.removeprefix(self._prefix)}
            for name in sorted(names & properties.keys()):
                texts = aggregate_metadata.split_values(aggregates, key)
                if not _agrees(properties[name], texts):
                    yield name, properties[name], texts


def _properties(spec: RequestSpec) -> dict[str, str | bool]:
    """Return the properties that say something; what is neither true nor false as text."""
    given: Iterable[tuple[str, Any]] = spec.image.properties.items() if spec.image else ()
    return {
        name: value if isinstance(value, bool) else str(value)
        for name, value in given
        if value or value is False
    }


def _agrees(value: str | bool, texts: set[str]) -> bool:
    if isinstance(value, bool):
        return str(value).lower() in {text.lower() for text in texts}
    return value in texts
