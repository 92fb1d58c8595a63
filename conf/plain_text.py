# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Text of strangers in lines for people: logs, tables, and lists for a shell.

Tenants choose names, properties and hints of their instances. Written as they are, some characters
would move the cursor of a terminal, turn the direction of a text, or begin a line that looks like
one of ours.
"""

import re

# Control characters, line ends of Unicode, marks and changes of writing direction, characters
# without a width, surrogates, tags.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def escaped(text: str) -> str:
    r"""Return a text in one line that a terminal shows as it is: others are such as \n or \x1b."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
