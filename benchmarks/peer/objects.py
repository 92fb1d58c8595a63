# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's own object layer at the work of `benchmarks.wire`: a program that runs in Nova's own
environment.

Run as `python -m benchmarks.peer.objects`. The first line of its input is a JSON array of captured
calls; then each line is [number of the call, work, times], answered with the microseconds of one
time, or with a text that says why Nova cannot do it. It does what Nova's scheduler does between
oslo.messaging and its decision. There is no database and no conductor.
"""

# As every program of Nova's begins, before anything else is imported.
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from typing import Any  # noqa: E402

from nova import objects  # noqa: E402
from nova.context import RequestContext  # noqa: E402
from nova.objects.base import NovaObjectSerializer  # noqa: E402

from benchmarks.peer.timing import microseconds  # noqa: E402


class Call:
    """A captured call; each public method is a kind of work."""

    def __init__(self, captured: Mapping[str, Any]) -> None:
        self._serializer = NovaObjectSerializer()
        # What would be asked of a conductor is to fail.
        self._serializer._conductor = None
        self._received = captured["context"]
        self._args = captured["args"]
        self._caller = self.context()
        self._selections = self._serializer.deserialize_entity(self._caller, captured["answer"])

    def context(self) -> RequestContext:
        """Read who calls, and make it the context of log lines."""
        return RequestContext.from_dict(self._received)

    def decode(self) -> Any:
        """Read the arguments."""
        args = {
            name: self._serializer.deserialize_entity(self._caller, each)
            for name, each in self._args.items()
        }
        if "spec_obj" in args:
            return args["spec_obj"]
        return objects.RequestSpec.from_primitives(
            self._caller, args["request_spec"], args["filter_properties"]
        )

    def encode(self) -> list[Any]:
        """Write the answer."""
        answer = self._selections
        if not self._args.get("return_objects"):
            answer = [chosen.to_dict() for chosen, *_ in answer]
        return self._serializer.serialize_entity(self._caller, answer)


def answer(work: Callable[[], object], times: int) -> float | str:
    """Return the microseconds of a kind of work, or what is wrong with it."""
    try:
        return microseconds(work, times)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    objects.register_all()
    calls = [Call(each) for each in json.loads(sys.stdin.readline())]
    for line in sys.stdin:
        number, work, times = json.loads(line)
        print(json.dumps(answer(getattr(calls[number], work), times)), flush=True)


if __name__ == "__main__":
    main()
