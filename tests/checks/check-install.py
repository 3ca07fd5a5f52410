#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What was installed into --image is what tests/data/installed-files lists, and a program builds against it and runs.

The image is made by: meson install -C BUILD --destdir IMAGE, from a build with --prefix=/usr.
"""
import os
import pathlib
import re
import subprocess
import tempfile

import checklib
from checklib import Planted

LIST = 'tests/data/installed-files'

PROGRAM = '''
#include <stdio.h>
#include <shmemclient.h>
#include <shmd/abi/wqe.h>
int main(void) { puts(shmd_version()); return 0; }
'''


def to_regex(pattern):
    """Of a path pattern: ** is any number of folders, * anything in one name."""
    parts = re.split(r'(\*\*/|\*)', pattern)
    words = {'**/': '(?:[^/]+/)*', '*': '[^/]*'}
    return re.compile(''.join(words.get(part, re.escape(part)) for part in parts) + '$')


def patterns(text, with_systemd):
    for line in text.splitlines():
        line = line.split('#')[0].strip()
        if not line or (line.startswith('systemd:') and not with_systemd):
            continue
        yield line.removeprefix('systemd:').strip()


def installed(image):
    for folder, _, names in os.walk(image):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), image)


def compare(wanted, found):
    problems = []
    regexes = {pattern: to_regex(pattern) for pattern in wanted}
    for pattern, regex in regexes.items():
        if not any(regex.match(path) for path in found):
            problems.append(f'{pattern}: not installed')
    for path in found:
        if not any(regex.match(path) for regex in regexes.values()):
            problems.append(f'{path}: installed, and not in {LIST}')
    return problems


def build_and_run(image):
    """The words of what failed, or None."""
    pc = next(pathlib.Path(image).glob('usr/lib*/**/shmemclient.pc'))
    env = {**os.environ, 'PKG_CONFIG_LIBDIR': str(pc.parent), 'PKG_CONFIG_SYSROOT_DIR': str(image),
           'LD_LIBRARY_PATH': str(pc.parent.parent)}
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'x.c'
        source.write_text(PROGRAM, encoding='utf-8')
        commands = [
            f'cc -Wall -Werror -o {folder}/x {source} $(pkg-config --cflags --libs shmemclient)',
            f'{folder}/x',
            f'{image}/usr/bin/shmemctl --version',
            f'{image}/usr/sbin/shmemd --version',
        ]
        for command in commands:
            done = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, check=False)
            if done.returncode or (not command.startswith('cc') and not re.search(r'\d+\.\d+\.\d+', done.stdout)):
                return f'{command}: exit status {done.returncode}: {done.stdout}{done.stderr}'
    return None


def check(root, options):
    image = pathlib.Path(options.image or root)
    found = sorted(path for path in installed(image) if path != LIST)
    text = checklib.read(root, LIST)
    problems = compare(list(patterns(text, options.systemd)), found)
    if not problems and not options.files_only:
        failure = build_and_run(image.resolve())
        problems += [failure] if failure else []
    return problems


def add_options(parser):
    parser.add_argument('--image', help='the folder that was installed into')
    parser.add_argument('--systemd', action='store_true', help='the units are installed too')
    parser.add_argument('--files-only', action='store_true', help='build nothing')


def case(name, says, files, **args):
    text = 'usr/bin/a # the program\nusr/lib*/**/b.so.*\nsystemd: usr/lib/u\n'
    return Planted(name, {LIST: text, **dict.fromkeys(files, '')}, says, {'image': None, 'files_only': True, **args})


PLANTED = [
    case('all there', None, ['usr/bin/a', 'usr/lib/x/b.so.1']),
    case('in usr/lib64', None, ['usr/bin/a', 'usr/lib64/b.so.1']),
    case('with units', None, ['usr/bin/a', 'usr/lib/b.so.1', 'usr/lib/u'], systemd=True),
    case('units too many', 'usr/lib/u: installed, and not in', ['usr/bin/a', 'usr/lib/b.so.1', 'usr/lib/u']),
    case('a missing file', 'usr/bin/a: not installed', ['usr/lib/b.so.1']),
    case('a missing unit', 'usr/lib/u: not installed', ['usr/bin/a', 'usr/lib/b.so.1'], systemd=True),
    case('an extra file', 'usr/bin/c: installed, and not in', ['usr/bin/a', 'usr/bin/c', 'usr/lib/b.so.1']),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options)
