# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for aggregates that are reserved for images with certain properties."""

from collections.abc import Iterable, Iterator
from typing import Any

from inventory.objects.aggregate import Aggregate
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.aggregate_metadata import keys, quoted, split_values


class AggregateImagePropertiesIsolation(BaseHostFilter):
    """Keep the hosts whose aggregates do not contradict a property of the image.

    Aggregate metadata under the name of a property lists the values that are admitted. An image
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
        return hosts.memo("aggregates", question, admits, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        found = self._contradicted(host_state.aggregates, _properties(spec_obj))
        return "; ".join(
            f"image property {name} is {str(value)!r}, the aggregates of the host admit"
            f" {quoted(texts)}"
            for name, value, texts in found
        )

    @property
    def _prefix(self) -> str:
        return f"{self.namespace}{self.separator or ''}" if self.namespace else ""

    def _contradicted(
        self, aggregates: Iterable[Aggregate] | None, properties: dict[str, str | bool]
    ) -> Iterator[tuple[str, str | bool, set[str]]]:
        """Yield (name, value, admitted values) of each property that is not admitted."""
        for key in keys(aggregates, self._prefix):
            # A namespace such as hw with the separator _ is part of the property's own name.
            names = {key, key.removeprefix(self._prefix)}
            for name in sorted(names & properties.keys()):
                texts = split_values(aggregates, key)
                if not _agrees(properties[name], texts):
                    yield name, properties[name], texts


def _properties(spec: RequestSpec) -> dict[str, str | bool]:
    """Return the properties that are set; as text unless they are true or false."""
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
