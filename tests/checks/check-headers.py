#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every installed header compiles alone: the client's as C99, the device side's as C11, all as C++17, without a warning.

Exit status 77 (skipped) when there is no C++ compiler: only the C half was checked then.
"""
import shutil
import subprocess
import sys
import tempfile

import checklib
from checklib import Planted

FLAGS = ['-Wall', '-Wextra', '-Werror', '-Wundef', '-fsyntax-only', '-I', 'kernels/include', '-I', 'libclient/include']

# folder, how its headers are included, C flags, C++ flags
FOLDERS = [
    ('libclient/include/', '', ['-std=c99', '-pedantic'], ['-std=c++17', '-pedantic']),
    ('kernels/abi/', 'shmd/abi/', ['-std=c11'], ['-std=c++17']),
    ('kernels/dev/', 'shmd/dev/', ['-std=c11'], ['-std=c++17']),
]


def cxx_compiler():
    return next(filter(shutil.which, ('c++', 'g++', 'clang++')), None)


def compile_alone(root, command, suffix, name):
    # Twice: a header without a guard must not pass.
    text = f'#include <{name}>\n#include <{name}>\n'
    with tempfile.NamedTemporaryFile('w', suffix=suffix) as source:
        source.write(text)
        source.flush()
        done = subprocess.run([*command, *FLAGS, source.name], cwd=root, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def check(root, options):
    problems, n_headers = [], 0
    cxx = cxx_compiler()
    for path in checklib.our_files(root):
        for folder, prefix, c_flags, cxx_flags in FOLDERS:
            if not path.startswith(folder) or not path.endswith('.h'):
                continue
            n_headers += 1
            name = prefix + path.removeprefix(folder)
            languages = [('C', [options.cc, *c_flags], '.c')]
            if cxx:
                languages.append(('C++', [cxx, *cxx_flags], '.cc'))
            for language, command, suffix in languages:
                error = compile_alone(root, command, suffix, name)
                if error:
                    problems.append(f'{path}:1: alone as {language}: {error}')
    return problems if n_headers else ['no header was found']


PLANTED = [
    Planted('nothing to check', {'README.md': ''}, 'no header was found'),
    Planted('a clean header', {'libclient/include/shmemclient.h': '#pragma once\nint shmd_x(void);\n'}, None),
    Planted('a missing include', {'libclient/include/shmemclient.h': '#pragma once\nuint32_t shmd_x(void);\n'},
            'alone as C'),
    Planted('no guard', {'libclient/include/shmemclient.h': 'struct x { int y; };\n'}, 'redefinition'),
    Planted('C11 in the C99 header', {'libclient/include/a.h': '#pragma once\nstruct x { int a; struct { int b; }; };\n'},
            'alone as C'),
    Planted('a warning', {'libclient/include/a.h': '#pragma once\n#if SHMD_NOWHERE\n#endif\n'}, 'SHMD_NOWHERE'),
]
if cxx_compiler():
    PLANTED.append(Planted('a C++ keyword', {'libclient/include/a.h': '#pragma once\nint shmd_x(int new);\n'},
                           'alone as C++'))


def add_options(parser):
    parser.add_argument('--cc', default='cc', help='the C compiler')


if __name__ == '__main__':
    try:
        checklib.main(__doc__, check, PLANTED, add_options)
    except SystemExit as end:
        if end.code == 0 and not cxx_compiler():
            print('no C++ compiler: the headers were compiled as C only')
            sys.exit(77)
        raise
