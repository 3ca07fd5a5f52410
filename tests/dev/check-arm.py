#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Barriers of 64-bit Arm, in the assembly that the compiler makes.

Usage: check-arm.py ORDER.s COPY.s SEND.s CQ.s THREAD.s

Neither x86 nor an emulator on it reorders stores, so a test that runs there passes without the barriers that a weaker
machine needs. Here they are read: each helper of order.h is exactly the accesses that are expected, in their order;
and the engine and the software NIC have theirs where they exchange something with a client.
"""
import re
import sys

ACCESS = re.compile(r'((?:ld|st|cas|swp)\w*)\s+([wxq])|(dmb|dsb)\s+(\w+)|(bl?)\s+(memmove|nic_page_set_asleep)$')

WQE = r'(st[rp] [xq];)+'
HELPERS = {
    'announce_polled': WQE + 'stlr w;stlr x;dmb ish;ldr w;str w;',
    'announce_uar': WQE + 'stlr w;dmb oshst;str x;dsb st;',
    'publish': 'stlr x;',
    'publish_exclusive': 'str x;',
    'acquire': 'ldar x;',
    'raise_index': 'ldr x;casl x;',
    'claim': 'ldr x;cas x;str x;',
    'lock_try': 'ldr w;casa w;',
    'lock_drop': 'stlr w;',
    'flag_load': 'ldar w;',
    'cqe_load': 'ldar x;',
    'word_load32': 'ldar w;',
}
# Which argument, a function, and what it must contain.
ENGINE = [
    (2, 'copy_bytes', 'dmb ish;(b|bl) memmove;'),  # earlier requests before a large copy
    (3, 'qp_read_snd', 'ldar w;'),  # dbrec before WQEs
    (4, 'publish', '(st[rp] [xq];)+(ldr x;){0,2}stlr x;'),  # a CQE before its last word
    (4, 'cq_notify_all', 'dmb ish;.*ldar w;'),  # CQEs before arm words
    (5, 'fall_asleep', 'swpal w;(ldr x;)*bl nic_page_set_asleep;ldarb w;'),  # asleep before the last look
    (6, 'nic_page_set_asleep', 'swpal w;dmb ish;'),
]


def functions(path):
    """The accesses of each function, each as "instruction register;"."""
    found, name = {}, None
    with open(path, encoding='utf-8') as f:
        for line in f:
            label = re.match(r'([A-Za-z_][\w.]*):', line)
            if label:
                name = label.group(1)
                found[name] = ''
            access = ACCESS.match(line.strip())
            # Constants come from memory too, relative to their page.
            if access and name and ':lo12:' not in line:
                found[name] += ' '.join(filter(None, access.groups())) + ';'
    return found


def main():
    problems = []
    code = functions(sys.argv[1])
    for name, expected in HELPERS.items():
        if not re.fullmatch(expected, code.get(name, '')):
            problems.append(f'{name}: {code.get(name)}, not {expected}')
    for number, name, expected in ENGINE:
        if not re.search(expected, functions(sys.argv[number]).get(name, '')):
            problems.append(f'{sys.argv[number]}: {name} has no {expected}')
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
