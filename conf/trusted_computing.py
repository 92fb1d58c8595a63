# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the attestation service that TrustedFilter relies on, as Nova had them up to 16."""

from oslo_config import cfg

from conf.former_names import formerly

OPTS = [
    cfg.StrOpt(
        "attestation_server",
        mutable=True,
        deprecated_opts=formerly("server", "trusted_computing"),
        help="Host name of the attestation service.",
    ),
    cfg.StrOpt(
        "attestation_server_ca_file",
        deprecated_opts=formerly("server_ca_file", "trusted_computing"),
        mutable=True,
        help="PEM file of the authority that signed its certificate; unset, those of the system.",
    ),
    cfg.PortOpt(
        "attestation_port",
        deprecated_opts=formerly("port", "trusted_computing"),
        mutable=True,
        default=8443,
        help="Port of the service.",
    ),
    cfg.StrOpt(
        "attestation_api_url",
        deprecated_opts=formerly("api_url", "trusted_computing"),
        mutable=True,
        default="/OpenAttestationWebServices/V1.0",
        help="Path of the service.",
    ),
    cfg.StrOpt(
        "attestation_auth_blob",
        deprecated_opts=formerly("auth_blob", "trusted_computing"),
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
