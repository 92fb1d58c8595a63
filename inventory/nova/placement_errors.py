# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with Placement: one line each, with the cure and without any account.

PlacementError
 |- PlacementMisconfigured   section [placement] cannot be used, or keystoneauth1 is missing
 |- PlacementUnavailable     no answer, or none of a Placement that serves this account
 |- PlacementConflict        HTTP 409: no room, or somebody else was faster
 |- PlacementRefused         the request is wrong, or what it names is not there
"""

import re
from typing import Any

# What Placement calls a generation that is not the current one any more.
_CONCURRENT_UPDATE = "placement.concurrent_update"
_ACCOUNT = re.compile(r"//[^/@\s]*@")
# Characters; a page of HTML is no explanation.
_LONGEST_DETAIL = 300


class PlacementError(Exception):
    """Something went wrong with Placement: text says what, cure what to do about it."""

    def __init__(self, text: str, cure: str) -> None:
        self.text = without_account(text)
        self.cure = cure
        super().__init__(f"{self.text}; {cure}")


class PlacementMisconfigured(PlacementError):
    """Section [placement] of the configuration cannot be used."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"Placement cannot be asked: {reason}", cure)


class PlacementUnavailable(PlacementError):
    """Placement did not serve a request, and not because of what the request says.

    It may serve the next one if is_transient, as while it is restarted. With may_be_done only the
    answer is missing: the request may have been carried out.
    """

    def __init__(
        self,
        request: str,
        reason: str,
        cure: str,
        is_transient: bool = False,
        may_be_done: bool = False,
    ) -> None:
        super().__init__(f"Placement is not available: {request}: {reason}", cure)
        self.is_transient = is_transient
        self.may_be_done = may_be_done


class PlacementConflict(PlacementError):
    """Allocations were not written, none of them; is_concurrent if a generation has changed.

    If not, there is no room for them.
    """

    def __init__(self, request: str, reason: str, is_concurrent: bool) -> None:
        cure = (
            "read the allocations again and repeat the request"
            if is_concurrent
            else "choose another host"
        )
        super().__init__(f"Placement has a conflict: {request}: {reason}", cure)
        self.is_concurrent = is_concurrent


class PlacementRefused(PlacementError):
    """Placement understood where the request goes, but not its content, or there is no such thing.

    The request is ours, so there is nothing that an operator could set right in a configuration.
    """

    def __init__(self, request: str, reason: str, status: int) -> None:
        text = f"Placement refused {request} (HTTP {status}): {reason}"
        super().__init__(text, "check what the reason names, and the log of Placement")
        self.status = status


def without_account(text: str) -> str:
    """Return a text in one line, its URLs without user name and password."""
    return " ".join(_ACCOUNT.sub("//", text).split())


def error_of(request: str, is_fixed: bool, response: Any) -> PlacementError:
    """Return the error for an answer that is not a success.

    request is its method and URL; is_fixed means that the URL is there in every Placement.
    """
    status, (code, detail) = response.status_code, _explanation(response)
    if status == 409:
        return PlacementConflict(request, detail, code == _CONCURRENT_UPDATE)
    if cure := _cure(status, is_fixed or code is None):
        is_transient = status == 429 or status >= 500
        # A proxy does not know what became of a request whose answer it has not got.
        may_be_done = status in (502, 504)
        reason = f"HTTP {status}: {detail}"
        return PlacementUnavailable(request, reason, cure, is_transient, may_be_done)
    return PlacementRefused(request, detail, status)


def _cure(status: int, nothing_there: bool) -> str | None:
    """Return what to do about an answer that says nothing about the request, else None."""
    if status == 401:
        return "Placement does not know the account of section [placement]: check the section"
    if status == 403:
        return (
            "the account of section [placement] lacks the role that Placement's policy asks for:"
            " give it the role admin or service, as Nova's account has it"
        )
    if status == 406:
        return "this release of Placement is too old: upgrade it"
    if status < 400 or (status == 404 and nothing_there):
        return (
            "the answer is not from Placement: check [placement] endpoint_override, or the"
            " endpoint of Placement in the service catalog"
        )
    if status == 429 or status >= 500:
        return "see the log of Placement, or of the web server or proxy before it"
    return None


def _explanation(response: Any) -> tuple[str | None, str]:
    """Return the code and the text of an error, without a code if the answer is not Placement's."""
    try:
        error = response.json()["errors"][0]
        code, detail = error.get("code", ""), str(error["detail"])
    except (ValueError, LookupError, TypeError, AttributeError):
        code, detail = None, response.reason or "no explanation"
    return code, " ".join(detail.split())[:_LONGEST_DETAIL]
