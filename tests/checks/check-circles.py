#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Circles of files that call each other, room by room.

Reads the symbols of each object file of the build. Files of one room that reach each other in a circle can only be read
together: the largest circle of a room has a limit. Lower it when the circle shrinks.

Prints every circle for the review.
"""
import json
import os
import pathlib
import subprocess

import checklib
from checklib import Planted

# The most files in one circle; a room that is not listed has none.
LIMITS = {
    'daemon/session': 33,
    'daemon/engine': 13,
    'daemon/nic/mlx5': 11,
    'daemon/nic/soft': 9,
    'daemon/restart': 2,
    'daemon/topo': 9,
    'libclient': 19,
    'libclient/ctl': 21,
}
DEFINED, UNDEFINED = 'TDBRV', 'U'


def objects(root, build):
    """(object file, source path below root) of everything but tests."""
    for entry in json.loads((pathlib.Path(build) / 'compile_commands.json').read_text()):
        source = os.path.relpath(os.path.normpath(os.path.join(entry['directory'], entry['file'])), os.path.realpath(root))
        target = pathlib.Path(entry['directory']) / entry.get('output', '')
        if not source.startswith(('tests/', '../')) and target.is_file() and target.suffix == '.o':
            yield target, source


def symbols(target):
    """(kind, name) of each global symbol of an object file."""
    text = subprocess.run(['nm', '-g', target], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        *_, kind, name = line.split()
        yield kind, name


def calls_of_build(root, build):
    owner, wanted = {}, {}
    for target, source in objects(root, build):
        wants = wanted.setdefault(source, set())
        for kind, name in symbols(target):
            if kind in DEFINED:
                owner[name] = source
            elif kind == UNDEFINED:
                wants.add(name)
    return {source: {owner[name] for name in names if name in owner} - {source} for source, names in wanted.items()}


def calls_of_text(text):
    """The same from lines "caller: callee callee", as the self-test plants them."""
    rows = (line.partition(':') for line in text.splitlines())
    return {caller: set(callees.split()) for caller, _, callees in rows}


def within_rooms(calls):
    room = os.path.dirname
    return {file: {other for other in others if room(other) == room(file)} for file, others in calls.items()}


def circles(calls):
    """Strongly connected files, two or more (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in sorted(calls.get(file, ())):
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            at = stack.index(file)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for file in sorted(calls):
        if file not in index:
            visit(file)
    return [circle for circle in found if len(circle) > 1]


def all_circles(root, options):
    planted = pathlib.Path(root) / 'calls.txt'
    calls = calls_of_text(planted.read_text()) if planted.exists() else calls_of_build(root, options.build)
    return circles(within_rooms(calls))


def check(root, options):
    problems = []
    for circle in all_circles(root, options):
        room = os.path.dirname(circle[0])
        limit = LIMITS.get(room, 0)
        if len(circle) > limit:
            names = ' '.join(os.path.basename(file) for file in circle)
            problems.append(f'{room}: {len(circle)} files call each other in a circle, at most {limit}: {names}')
    return problems


def advise(root, options):
    return [f'{os.path.dirname(circle[0])}: a circle of {len(circle)}: ' + ' '.join(map(os.path.basename, circle))
            for circle in all_circles(root, options)]


CIRCLE = 'daemon/new/a.c: daemon/new/b.c\ndaemon/new/b.c: daemon/new/c.c\ndaemon/new/c.c: daemon/new/a.c\n'
PLANTED = [
    Planted('clean', {'calls.txt': 'daemon/new/a.c: daemon/new/b.c\ndaemon/new/b.c: proto/c.c\nproto/c.c: daemon/new/a.c\n'}, None),
    Planted('a circle', {'calls.txt': CIRCLE}, '3 files call each other in a circle, at most 0: a.c b.c c.c'),
]


def add_options(parser):
    parser.add_argument('--build', default='build', help='the build tree')


if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options=add_options, advise=advise)
