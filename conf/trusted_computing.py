# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the attestation service that TrustedFilter relies on, as Nova had them up to 16."""

from oslo_config import cfg


def _formerly(name: str) -> list[cfg.DeprecatedOpt]:
    """Return the name that the option had in Folsom, in the same group."""
    return [cfg.DeprecatedOpt(name, group="trusted_computing")]


OPTS = [
    cfg.StrOpt(
        "attestation_server",
        mutable=True,
        deprecated_opts=_formerly("server"),
        help="Host name of the attestation service.",
    ),
    cfg.StrOpt(
        "attestation_server_ca_file",
        deprecated_opts=_formerly("server_ca_file"),
        mutable=True,
        help="PEM file of the authority that signed its certificate; unset, those of the system.",
    ),
    cfg.PortOpt(
        "attestation_port",
        deprecated_opts=_formerly("port"),
        mutable=True,
        default=8443,
        help="Port of the service.",
    ),
    cfg.StrOpt(
        "attestation_api_url",
        deprecated_opts=_formerly("api_url"),
        mutable=True,
        default="/OpenAttestationWebServices/V1.0",
        help="Path of the service.",
    ),
    cfg.StrOpt(
        "attestation_auth_blob",
        deprecated_opts=_formerly("auth_blob"),
        mutable=True,
        secret=True,
        help="What authenticates us to the service, sent with each request.",
    ),
    cfg.IntOpt(
        "attestation_auth_timeout",
        mutable=True,
        default=60,
        min=0,
        help="Seconds for which what the service said of a host is believed.",
    ),
    cfg.BoolOpt(
        "attestation_insecure_ssl",
        mutable=True,
        default=False,
        help="Do not verify the certificate of the service.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="trusted_computing")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("trusted_computing", OPTS)]
