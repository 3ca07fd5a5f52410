#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that must not be in the tree: paths of one machine, notes of unfinished work; and the licence line that must.

Advice for the review: file names with a word that the project does not use.
"""
import re

import checklib
from checklib import Planted

# In brackets, so that this file passes its own check.
FORBIDDEN = [
    (re.compile(r'(?<![\w.])/(wor[k]|far[m]|hom[e]|roo[t]|User[s])/'), 'a path of one machine'),
    (re.compile(r'/\.librar[y]/|\bfar[m]-\w'), 'a path of one machine'),
    (re.compile(r'\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b'), 'a note of unfinished work'),
]
# A test may name its scratch folder; a program asks TMPDIR.
SCRATCH = re.compile(r'(?<![\w.])/tm[p]/')

NEEDS_LICENCE = ('.c', '.h', '.cu', '.cuh', '.proto', '.py', '.sh', '.map', 'meson.build', 'meson_options.txt')
LICENCE = 'SPDX-License-Identifier: Apache-2.0'
BINARY = ('.bin', '.png', '.gz', '.bz2', '.xz')

OTHER_WORDS = re.compile(r'(^|[-_/])(device|hca)([-_./]|$)')


def check(root, options):
    problems = []
    for path in checklib.our_files(root):
        if path.endswith(BINARY) or '/corpus/' in path or path == 'LICENSE':
            continue
        lines = checklib.read(root, path).splitlines()
        script = lines[:1] and lines[0].startswith('#!')
        if (path.endswith(NEEDS_LICENCE) or script) and not any(LICENCE in line for line in lines[:3]):
            problems.append(f'{path}:1: has no line "{LICENCE}"')
        for number, line in enumerate(lines, 1):
            for pattern, what in FORBIDDEN:
                if pattern.search(line):
                    problems.append(f'{path}:{number}: {what}: {pattern.search(line).group()}')
            if SCRATCH.search(line) and not path.startswith('tests/'):
                problems.append(f'{path}:{number}: a path of one machine: {SCRATCH.search(line).group()}')
    return problems


def advise(root, options):
    return [f'{path}: the project says nic, and "device function" only in prose'
            for path in checklib.our_files(root) if OTHER_WORDS.search(path)]


SPDX = '/* ' + LICENCE + ' */\n'
PLANTED = [
    Planted('clean', {'daemon/a.c': SPDX, 'a.md': 'words\n', 'tests/a.c': SPDX + 'x = "/tm' + 'p/x-XXXXXX";\n'}, None),
    Planted('no licence', {'daemon/a.c': 'int x;\n'}, 'a.c:1: has no line'),
    Planted('no licence in a build file', {'daemon/meson.build': 'x = 1\n'}, 'has no line'),
    Planted('no licence in a script', {'tools/x': '#!/bin/sh\n'}, 'has no line'),
    Planted('a machine path', {'a.md': 'see /wor' + 'k/main\n'}, 'a path of one machine'),
    Planted('a home path', {'daemon/a.c': SPDX + '"/hom' + 'e/somebody/x"\n'}, 'a path of one machine'),
    Planted('a scratch path', {'tools/x.sh': '#' + LICENCE + '\ncd /tm' + 'p/x\n'}, 'a path of one machine'),
    Planted('unfinished', {'daemon/a.c': SPDX + '/* TOD' + 'O: more */\n'}, 'unfinished work'),
    Planted('unfinished, three letters', {'daemon/a.c': SPDX + '/* XX' + 'X */\n'}, 'unfinished work'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, advise=advise)
