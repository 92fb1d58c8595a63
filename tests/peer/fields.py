# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Prints the fields of Nova's own classes as JSON; the names of the classes are the arguments.

It runs in the environment of Nova.
"""

import json
import sys

from nova import objects
from nova.objects.base import NovaObjectRegistry


def main() -> None:
    objects.register_all()
    classes = NovaObjectRegistry.obj_classes()
    found = {}
    for name in sys.argv[1:]:
        newest = classes[name][0]
        found[name] = {"version": newest.VERSION, "fields": sorted(newest.fields)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
