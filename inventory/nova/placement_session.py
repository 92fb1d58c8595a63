# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests to Placement, by keystoneauth1 and section [placement] of Nova's own configuration."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from oslo_config import cfg

from conf.loading import ConfigError, check_values, setting
from inventory.nova.placement_errors import (
    PlacementMisconfigured,
    PlacementUnavailable,
    error_of,
    without_account,
)

T = TypeVar("T")
Query = Sequence[tuple[str, str]]

# What Nova's own scheduler asks with, so that its conductors can use what we pass on to them.
MICROVERSION = "1.36"
GROUP = "placement"
# In place of keystoneauth1's defaults: the first two as in Nova, and seconds, for without a limit a
# request would wait for ever. A busy Placement may take long; callers have deadlines of their own.
_DEFAULTS = {
    "service_type": "placement",
    "valid_interfaces": ["internal", "public"],
    "timeout": 60.0,
}
# Connections at a time, which are kept open; further requests wait for one. Web servers before a
# Placement let only some hundred in, of all schedulers and computes together.
_POOL = 16
# These options are no operator's choice; Nova does not read them either.
_NO_VERSION = {"version": None, "min_version": None, "max_version": None}
# Paths that every Placement has.
_FIXED = ("/", "/resource_providers", "/allocation_candidates", "/allocations")
_COPY = "copy section [placement] from the nova.conf of Nova's conductors"
_CHECK = "check section [placement], and that Placement runs"


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Return whether a configuration says how to reach Placement."""
    names = [(GROUP, "auth_type"), (GROUP, "auth_section")]
    return setting(conf, names) is not None


class PlacementSession:
    """A way to Placement. Threads may share it; connections and tokens are used again."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Connect to nothing yet; raises PlacementMisconfigured."""
        loading = _library("keystoneauth1.loading")
        self._failures = _library("keystoneauth1.exceptions")
        self._errors = (self._failures.ClientException, OSError)
        below = _library("urllib3.exceptions")
        # There was no connection, so that nothing has been sent.
        self._unsent = (below.NewConnectionError, below.ConnectTimeoutError)
        try:
            _register(conf, loading)
            self._session = loading.load_session_from_conf_options(
                conf, GROUP, auth=loading.load_auth_from_conf_options(conf, GROUP)
            )
            self._adapter = loading.load_adapter_from_conf_options(
                conf, GROUP, session=self._session, default_microversion=MICROVERSION, **_NO_VERSION
            )
        except self._failures.NoMatchingPlugin as error:
            raise PlacementMisconfigured(
                f"option [placement] auth_type: {error}",
                "choose a kind of account that keystoneauth1 knows, such as password,"
                " v3applicationcredential or none",
            ) from None
        except (ConfigError, cfg.Error, *self._errors, TypeError, ValueError) as error:
            raise PlacementMisconfigured(str(error), _COPY) from None
        for adapter in {*self._session.adapters.values()}:
            adapter.init_poolmanager(10, _POOL, block=True)

    def read(self, path: str, build: Callable[[Any], T], query: Query = ()) -> T:
        """Return build(the answer to a GET); raises PlacementUnavailable, PlacementRefused."""
        response = self.request("GET", path, query=query)
        try:
            return build(response.json())
        except (ValueError, LookupError, TypeError, AttributeError):
            raise PlacementUnavailable(
                f"GET {self._url(path)}",
                "the answer is not one of Placement's",
                "check [placement] endpoint_override, or the endpoint of Placement in the service"
                " catalog",
            ) from None

    def request(
        self, method: str, path: str, document: Mapping[str, Any] | None = None, query: Query = ()
    ) -> Any:
        """Return the response to a request that succeeded; raises PlacementError."""
        request = f"{method} {self._url(path)}"
        try:
            response = self._adapter.request(
                path,
                method,
                params=query,
                json=document,
                headers={"Accept": "application/json"},
                raise_exc=False,
                # Of the root every release may be asked.
                microversion=None if path == "/" else MICROVERSION,
            )
        except self._errors as error:
            causes = _causes(error)
            may_be_done = not any(isinstance(each, self._unsent) for each in causes)
            reason = self._reason(error)
            raise PlacementUnavailable(request, reason, _CHECK, True, may_be_done) from None
        if not 200 <= response.status_code < 300:
            raise error_of(request, path in _FIXED, response)
        return response

    def close(self) -> None:
        """Close the connections that are kept open; the next request opens one again."""
        self._session.session.close()

    def _url(self, path: str) -> str:
        """Return the URL of a path, having signed in, if need be."""
        try:
            self._session.get_auth_headers()
            endpoint = self._adapter.get_endpoint()
        except self._errors as error:
            raise PlacementUnavailable(
                "no token or endpoint from Keystone",
                self._reason(error),
                "check auth_url, account, region_name and valid_interfaces in section [placement]",
            ) from None
        if endpoint is None:
            raise PlacementUnavailable(
                "no endpoint",
                "neither section [placement] nor the service catalog has an endpoint of Placement",
                "set [placement] endpoint_override, or check region_name and valid_interfaces",
            )
        return without_account(endpoint.rstrip("/") + path)

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, self._failures.ConnectTimeout):
            return f"no answer within {self._session.timeout:g} s"
        # Those around it repeat the URL, and say nothing that an operator knows.
        if isinstance(error, self._failures.ConnectionError):
            *_, error = _causes(error)
        return getattr(error, "strerror", None) or str(error) or repr(error)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise PlacementMisconfigured(
            f"keystoneauth1 is missing ({error})", "pip install 'berthmaster[nova]'"
        ) from None


def _register(conf: cfg.ConfigOpts, loading: Any) -> None:
    """Register the options of section [placement] and check them; raises ConfigError."""
    options = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    cfg.set_defaults(options, **_DEFAULTS)
    conf.register_opts(options, group=GROUP)
    account = loading.get_auth_common_conf_options()
    conf.register_opts(account, group=GROUP)
    check_values(conf, [(GROUP, account)])
    section = conf[GROUP].auth_section or GROUP
    conf.register_opts(account, group=section)
    check_values(conf, [(section, account)])
    kind = conf[section].auth_type
    if not kind:
        raise ConfigError(f"option [{section}] auth_type is not set")
    plugin = loading.get_auth_plugin_conf_options(kind)
    conf.register_opts(plugin, group=section)
    check_values(conf, [(GROUP, options), (section, plugin)])
