#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes, offsets, counts and addresses of a message, a WQE or a memory region are added, multiplied and shifted by the
helpers of proto/base/overflow.h, or where a comment of the function says what bounds them, beginning with "bounded".

Looks at arithmetic on struct members with the names that such numbers have, in the rooms that read what clients write,
and at allocations of computed sizes, which calloc() or a helper computes.
"""
import re

import checklib
from checklib import Planted

ROOMS = ('daemon/session/', 'daemon/restart/save', 'daemon/restart/import', 'daemon/restart/repeat', 'daemon/restart/resume', 'daemon/nic/', 'daemon/engine/', 'proto/', 'kernels/host/', 'libclient/')
NUMBERS = ('length_bytes|mem_bytes|mem_offset|iova|raddr|total_bytes|offset|addr|bytes|count|n_rq_wqes|log2_entries|'
           'log2_sq_wqebbs|log2_rq_stride|n_peers|n_cqs|n_qps')
MEMBER = rf'(?:\w+(?:->|\.|\[[^\]]*\]\.))+(?:{NUMBERS})\b(?!\s*\()'
# Fields of our own tables, not of a message.
OURS = re.compile(r'^(field|from|to)->offset$')
# A number left or right of an addition, multiplication or shift. Unary *, ++ and compound -= of a rest are not meant.
LEFT = re.compile(rf'({MEMBER})\s*(?:\+(?![+=])|\*(?!=)|<<)')
RIGHT = re.compile(rf'(?<=[\w)\]])\s*(?:(?<!\+)\+(?!\+)|\*|<<)\s*({MEMBER})')
ALLOCATION = re.compile(r'\b(malloc|realloc|alloca)\s*\(((?:[^()]|\([^()]*\))*)\)')
CONSTANT = re.compile(r'\(\w+\)|sizeof\s*(\([^()]*\)|\*?\w+)|\b[A-Z][A-Z0-9_]+\b|\b\d+u?\b')
BOUNDED = re.compile(r'\bbounded\b')
COMMENT = re.compile(r'/\*.*?\*/', re.S)


def without_comments(text):
    """Comments and strings become spaces, lines stay where they are."""
    text = COMMENT.sub(lambda found: re.sub(r'[^\n]', ' ', found.group()), text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', lambda found: ' ' * len(found.group()), text)


def functions(lines):
    """The first and last line of each function, its heading comment included."""
    start = None
    for number, line in enumerate(lines):
        if line.startswith('{'):
            start = number
            while start > 0 and lines[start - 1].strip() and not lines[start - 1].startswith('}'):
                start -= 1
        elif line.startswith('}') and start is not None:
            yield start, number
            start = None


def computed(size):
    """Does an allocation compute its size? One sum of constants does not count."""
    rest = CONSTANT.sub('', size)
    return re.search(r'\w', rest) and re.search(r'\*|<<|\+', rest)


def findings(path, code):
    for pattern in (LEFT, RIGHT):
        for found in pattern.finditer(code):
            if path.startswith('proto/codec') and OURS.match(found.group(1)):
                continue
            yield f'arithmetic on {found.group(1)} by no helper of overflow.h'
    found = ALLOCATION.search(code)
    if found and computed(found.group(2)):
        yield f'{found.group(1)} of a computed size: calloc, or a helper of overflow.h'


def check_file(path, text):
    lines, code = text.splitlines(), without_comments(text).splitlines()
    for start, end in functions(lines):
        if any(BOUNDED.search(comment) for comment in COMMENT.findall('\n'.join(lines[start:end + 1]))):
            continue
        for number in range(start, end + 1):
            for what in sorted(set(findings(path, code[number]))):
                yield f'{path}:{number + 1}: {what}, and no comment says what bounds it'


def check(root, options):
    problems = []
    for path in checklib.our_files(root):
        if path.startswith(ROOMS) and path.endswith(('.c', '.h')) and path != 'proto/base/overflow.h':
            problems += check_file(path, checklib.read(root, path))
    return problems


def planted(name, body, says, head='', path='daemon/session/a.c'):
    return Planted(name, {path: f'{head}static int f(void)\n{{\n\t{body}\n}}\n'}, says)


PLANTED = [
    planted('a helper', 'if (add_overflows(req->offset, req->length_bytes, &end))\n\t\treturn -1;', None),
    planted('a sum', 'uint64_t end = req->offset + n;', 'daemon/session/a.c:3: arithmetic on req->offset'),
    planted('a sum from the right', 'end = start + req->length_bytes;', 'arithmetic on req->length_bytes'),
    planted('a product', 'n = spec->count * 64;', 'arithmetic on spec->count'),
    planted('a shift', 'n = 64ull << specs[i].log2_entries;', 'arithmetic on specs[i].log2_entries'),
    planted('a step', 'req->offset++;', None),
    planted('a comparison', 'return req->offset > 4096 && *p;', None),
    planted('a string', 'say("a + b->offset * c");', None),
    planted('with its bound', 'n = spec->count * 64;', None, '/* bounded: check_spec() refuses more than 8. */\n'),
    planted('with its bound inside', 'n = spec->count * 64; /* bounded by 8 */', None),
    planted('another function\'s bound', 'return 0; /* bounded */\n}\n\nstatic int g(void)\n{\n\tn = a->count * 2;',
            'a.c:8: arithmetic on a->count'),
    planted('an allocation', 'p = malloc(n * sizeof(*p));', 'malloc of a computed size'),
    planted('a longer one', 'p = malloc(sizeof(*p) + bytes);', 'malloc of a computed size'),
    planted('one of a struct', 'p = malloc(sizeof(*p)); q = malloc(A_SIZE + 1);', None),
    planted('calloc', 'p = calloc(n, sizeof(*p));', None),
    planted('another room', 'n = spec->count * 64;', None, path='tests/unit/a.c'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
