#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes: a function has at most 80 lines, a file at most 900, a header of kernels/dev fewer than 400.

A function that is a flat table or a flat switch says so, in those words, in the comment before it, and may be longer.
Advice for the review starts at 50 and 600 lines.
"""
import re

import checklib
from checklib import Planted

FUNCTION_MAX, FUNCTION_REVIEW = 80, 50
FILE_MAX, FILE_REVIEW = 900, 600
DEV_HEADER_LIMIT = 400

C_FILES = ('.c', '.h', '.cu', '.cuh')
ALL_FILES = C_FILES + ('.py', '.sh', '.proto')


def heading(lines, at):
    """What stands before the opening brace, up to an empty line or the end of something else."""
    first = at
    while first > 0 and lines[first - 1].strip() and not lines[first - 1].rstrip().endswith(('}', ';')):
        first -= 1
    return ' '.join(lines[first:at])


def functions(lines):
    start = None
    for number, line in enumerate(lines):
        if line.startswith('{'):
            start = number
        elif line.startswith('}') and start is not None:
            yield start, number, heading(lines, start)
            start = None


def name_of(head):
    # Skips the comment and attributes before the name: the name stands before the last parameter list.
    code = re.sub(r'/\*.*?\*/', ' ', head)
    names = re.findall(r'(\w+)\s*\(', code)
    return names[0] if names else '?'


def measure(root):
    """(path, line, what, size, limit for review, limit)"""
    for path in checklib.our_files(root):
        is_script = path.startswith(('tools/', '.ci/'))
        if not path.endswith(ALL_FILES) and not is_script:
            continue
        lines = checklib.read(root, path).splitlines()
        limit = DEV_HEADER_LIMIT - 1 if path.startswith('kernels/dev/') else FILE_MAX
        yield path, 1, 'file', len(lines), min(FILE_REVIEW, limit), limit
        if not path.endswith(C_FILES):
            continue
        for start, end, head in functions(lines):
            flat = re.search(r'flat\s+(\*\s*)?(table|switch)', head)
            yield (path, start + 1, name_of(head), end - start - 1, FUNCTION_REVIEW,
                   FILE_MAX if flat else FUNCTION_MAX)


def check(root, options):
    return [f'{path}:{line}: {what} has {size} lines, at most {limit} are allowed'
            for path, line, what, size, _, limit in measure(root) if size > limit]


def advise(root, options):
    return [f'{path}:{line}: {what} has {size} lines'
            for path, line, what, size, review, limit in measure(root) if review < size <= limit]


def function(n_lines, before=''):
    return f'int a;\n\n{before}static int f(int x)\n{{\n' + '\tx++;\n' * n_lines + '}\n'


PLANTED = [
    Planted('a small function', {'daemon/a.c': function(80)}, None),
    Planted('a long function', {'daemon/a.c': function(81)}, 'f has 81 lines, at most 80'),
    Planted('the second function', {'daemon/a.c': function(3) + '\n' + function(90)}, 'f has 90 lines'),
    Planted('a flat switch', {'daemon/a.c': function(300, '/* A flat switch over the opcodes. */\n')}, None),
    Planted('somebody else\'s flat table',
            {'daemon/a.c': function(3, '/* A flat table. */\n') + function(81)}, 'f has 81 lines'),
    Planted('a long file', {'daemon/a.h': 'int x;\n' * 901}, 'file has 901 lines'),
    Planted('a long script', {'tools/x': '#\n' * 901}, 'file has 901 lines'),
    Planted('a device header', {'kernels/dev/a.h': 'int x;\n' * 400}, 'file has 400 lines'),
    Planted('a smaller one', {'kernels/dev/a.h': 'int x;\n' * 399}, None),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, advise=advise)
