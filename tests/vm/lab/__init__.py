# SPDX-License-Identifier: Apache-2.0
"""The virtual machines of tools/vm-lab. base, disk: what they start from. machine: one of them. case: what is tried in them."""


class Missing(Exception):
    """Something that the lab needs is not there; the sentence says what."""
