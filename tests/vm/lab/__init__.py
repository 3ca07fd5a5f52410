# SPDX-License-Identifier: Apache-2.0
"""The virtual machines of tools/vm-lab: what they start from (base, disk), one of them (machine), what is tried (case)."""


class Missing(Exception):
    """Something that the lab needs is not there; the sentence says what."""
