# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the attestation service of TrustedFilter, as in Nova up to 16."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "attestation_server", deprecated_name="server", help="Host name of the attestation service."
    ),
    cfg.StrOpt(
        "attestation_server_ca_file",
        deprecated_name="server_ca_file",
        help=(
            "PEM file of the CA that signed the certificate of the attestation service. If unset,"
            " the CAs of the system are used."
        ),
    ),
    cfg.PortOpt(
        "attestation_port",
        deprecated_name="port",
        default=8443,
        help="Port of the attestation service.",
    ),
    cfg.StrOpt(
        "attestation_api_url",
        deprecated_name="api_url",
        default="/OpenAttestationWebServices/V1.0",
        help="Path of the attestation service.",
    ),
    cfg.StrOpt(
        "attestation_auth_blob",
        deprecated_name="auth_blob",
        secret=True,
        help="Credentials for the attestation service, sent with each request.",
    ),
    cfg.IntOpt(
        "attestation_auth_timeout",
        default=60,
        min=0,
        help="Seconds for which an answer of the attestation service about a host is cached.",
    ),
    cfg.BoolOpt(
        "attestation_insecure_ssl",
        default=False,
        help="Do not verify the certificate of the attestation service.",
    ),
]
