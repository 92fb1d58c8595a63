# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Between the wire and plain values: every dialect of every release becomes one form here."""

from scheduler.rpc.codec.arguments import (
    SelectArguments,
    decode_request_spec,
    decode_select_arguments,
    encode_request_spec,
    encode_select_arguments,
)
from scheduler.rpc.codec.casts import (
    decode_aggregate,
    decode_aggregates,
    decode_host_name,
    decode_instance_uuid,
    decode_instance_uuids,
    decode_instances,
)
from scheduler.rpc.codec.legacy import encode_legacy
from scheduler.rpc.codec.replies import (
    decode_destinations,
    encode_destinations,
    selections_from_json,
    selections_to_json,
)

__all__ = [
    "SelectArguments",
    "decode_aggregate",
    "decode_aggregates",
    "decode_destinations",
    "decode_host_name",
    "decode_instance_uuid",
    "decode_instance_uuids",
    "decode_instances",
    "decode_request_spec",
    "decode_select_arguments",
    "encode_destinations",
    "encode_legacy",
    "encode_request_spec",
    "encode_select_arguments",
    "selections_from_json",
    "selections_to_json",
]
