# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arguments of select_destinations for schedulers that know less than RPC 4.5.

As clients of Nova do that are told of an older release: what a version does not know is left out,
and below 4.3 the two dictionaries are made of the request, some objects in them flattened.
"""

from scheduler.objects.shape import DATA_KEY, Fields, flattened

Version = tuple[int, int]
# Those that clients send, newest first; 4.1 and 4.2 only brought casts.
SENT: tuple[Version, ...] = ((4, 5), (4, 4), (4, 3), (4, 0))
_OF_THE_FLAVOR = ("root_gb", "ephemeral_gb", "memory_mb", "vcpus")
# Property of the instance -> field of the request, which may be left out there.
_OF_THE_INSTANCE = {
    "uuid": "instance_uuid",
    "project_id": "project_id",
    "user_id": "user_id",
    "availability_zone": "availability_zone",
    "numa_topology": "numa_topology",
    "pci_requests": "pci_requests",
}
# Left out where they are null or empty.
_PROPERTIES = ("ignore_hosts", "force_hosts", "force_nodes", "requested_destination")
_OF_THE_GROUP = ("hosts", "policies", "members", "uuid")
_FLAGS = ("return_objects", "return_alternates")


def newest_version(cap: Version | None) -> Version | None:
    """Return the newest version under a cap; None where the cap allows for none at all."""
    if cap is None:
        return SENT[0]
    # Majors have nothing in common.
    return next((each for each in SENT if each[0] == cap[0] and each <= cap), None)


def downgraded(arguments: Fields, version: Version) -> Fields:
    """Return what encode_select_arguments() made in the form of one of the versions of SENT."""
    if version >= (4, 5):
        return arguments
    found = {name: each for name, each in arguments.items() if name not in _FLAGS}
    if version >= (4, 4):
        return found
    spec, uuids = found["spec_obj"], found.pop("instance_uuids")
    if uuids:
        # All that such a scheduler learns of the batch is how many they are, and the first.
        batch = {"num_instances": len(uuids), "instance_uuid": uuids[0]}
        spec = spec | {DATA_KEY: spec[DATA_KEY] | batch}
    if version >= (4, 3):
        return found | {"spec_obj": spec}
    return {
        "request_spec": _request_spec(spec[DATA_KEY]),
        "filter_properties": _filter_properties(spec[DATA_KEY]),
    }


def _request_spec(spec: Fields) -> Fields:
    flavor = spec["flavor"][DATA_KEY]
    return {
        "num_instances": spec["num_instances"],
        "image": flattened(spec["image"]) or {},
        "instance_properties": {
            **{name: spec[of] for name, of in _OF_THE_INSTANCE.items() if of in spec},
            **{name: flavor[name] for name in _OF_THE_FLAVOR},
        },
        "instance_type": spec["flavor"],
    }


def _filter_properties(spec: Fields) -> Fields:
    found = {name: spec[name] for name in _PROPERTIES if spec[name]}
    limits = spec["limits"][DATA_KEY]
    found["limits"] = {name: each for name, each in limits.items() if each is not None}
    if spec["retry"]:
        found["retry"] = _retry(spec["retry"][DATA_KEY])
    if spec["scheduler_hints"]:
        found["scheduler_hints"] = {
            hint: values[0] if len(values) == 1 else values
            for hint, values in spec["scheduler_hints"].items()
        }
    if spec["instance_group"]:
        found |= _group(spec["instance_group"][DATA_KEY])
    return found


def _retry(retry: Fields) -> Fields:
    hosts = [each[DATA_KEY] for each in retry["hosts"][DATA_KEY]["objects"]]
    return {
        "num_attempts": retry["num_attempts"],
        "hosts": [[each["host"], each["hypervisor_hostname"]] for each in hosts],
    }


def _group(group: Fields) -> Fields:
    return {"group_updated": True} | {
        f"group_{name}": group[name] for name in _OF_THE_GROUP if name in group
    }
