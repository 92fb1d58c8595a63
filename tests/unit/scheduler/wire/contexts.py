# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One caller in the words of the contexts of Newton and of the newest release."""

from typing import Any

from hypothesis import strategies as st

from scheduler.wire.context import RequestContext

_NAMES = st.text("abcdefghij-0123456789", min_size=1, max_size=12)
callers = st.builds(
    RequestContext,
    request_id=_NAMES,
    user_id=_NAMES,
    project_id=_NAMES,
    user_name=st.none() | _NAMES,
    project_name=st.none() | _NAMES,
    domain_id=st.none() | _NAMES,
    user_domain_id=st.none() | _NAMES,
    project_domain_id=st.none() | _NAMES,
    is_admin=st.booleans(),
    roles=st.lists(_NAMES, max_size=2).map(tuple),
)


def in_newton(caller: RequestContext) -> dict[str, Any]:
    """Return the context of a caller as an endpoint gets it from Newton."""
    own = {"tenant": caller.project_id, "instance_lock_checked": False, "client_timeout": None}
    return _in_both(caller) | own


def in_newest(caller: RequestContext) -> dict[str, Any]:
    """Return the context of a caller as an endpoint gets it from the newest release."""
    return _in_both(caller) | {
        "project": caller.project_id,
        "global_request_id": caller.global_request_id,
        "system_scope": None,
        "client_timeout": caller.client_timeout,
    }


def _in_both(caller: RequestContext) -> dict[str, Any]:
    identity = (
        caller.user_id,
        caller.project_id,
        caller.domain_id,
        caller.user_domain_id,
        caller.project_domain_id,
    )
    return {
        "request_id": caller.request_id,
        "user_id": caller.user_id,
        "user": caller.user_id,
        "project_id": caller.project_id,
        "user_name": caller.user_name,
        "project_name": caller.project_name,
        "domain": caller.domain_id,
        "user_domain": caller.user_domain_id,
        "project_domain": caller.project_domain_id,
        "is_admin": caller.is_admin,
        "is_admin_project": True,
        "roles": list(caller.roles),
        "auth_token": "token1",
        "service_catalog": [
            {
                "type": "placement",
                "name": "placement",
                "endpoints": [{"region": "RegionOne", "publicURL": "http://10.0.0.5/placement"}],
            }
        ],
        "read_deleted": "no",
        "read_only": False,
        "show_deleted": False,
        "remote_address": "10.0.0.9",
        "timestamp": "2026-01-01T00:00:00.000000",
        "quota_class": None,
        "resource_uuid": None,
        "user_identity": " ".join(each or "-" for each in identity),
    }
