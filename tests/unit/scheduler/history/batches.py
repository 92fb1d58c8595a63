# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision in a batch of its own, as bytes and back."""

import zlib

from scheduler.history.serialization import (
    DecisionBatch,
    DecisionDocument,
    DecisionsRead,
    document_pieces,
)


def to_bytes(document: DecisionDocument) -> bytes:
    """Return a decision packed, on the snapshot of number 7."""
    batch = DecisionBatch()
    batch.add(7, document)
    return batch.to_bytes()


def of_bytes(data: bytes) -> DecisionDocument:
    """Return the decision on the snapshot of number 7."""
    return DecisionsRead(data).get(7)


def through_bytes(document: DecisionDocument) -> DecisionDocument:
    return of_bytes(to_bytes(document))


def as_version_2(document: DecisionDocument) -> bytes:
    """Return a decision as releases kept it that had no batches."""
    text = "".join(document_pieces(document))
    return zlib.compress(f'{{"version":2,"record":{text}}}'.encode())
