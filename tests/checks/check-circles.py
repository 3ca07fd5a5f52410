#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Circles of files that call each other, room by room.

Reads the symbols of each object file of the build. Files of one room that reach each other in a circle can only be read
together: the largest circle of a room has a limit. Lower it when the circle shrinks.

Where a README has a table "| floor | file |", each file of that room stands on a floor and calls none above it.

Prints every circle for the review.
"""
import fnmatch
import json
import os
import pathlib
import posixpath
import re
import subprocess

import checklib
from checklib import Planted

# The most files in one circle; a room that is not listed has none.
LIMITS = {
    'daemon/session': 3,
    'daemon/engine': 13,
    'daemon/nic/soft': 2,
    'daemon/restart': 2,
}
DEFINED, UNDEFINED = 'TDBRV', 'U'
FLOOR_HEAD = re.compile(r'\| floor \| file(?: in `([^`]+)/`)? \|')
FLOOR_ROW = re.compile(r'\| (\d+) \| ([^|]*) \|')


def objects(root, build):
    """(object file, source path below root) of everything but tests."""
    for entry in json.loads((pathlib.Path(build) / 'compile_commands.json').read_text()):
        source = os.path.relpath(os.path.normpath(os.path.join(entry['directory'], entry['file'])), os.path.realpath(root))
        target = pathlib.Path(entry['directory']) / entry.get('output', '')
        if not source.startswith(('tests/', '../')) and target.is_file() and target.suffix == '.o':
            yield target, source


def symbols(targets):
    """(object file, kind, name) of each global symbol. A few runs of nm for all files take a tenth of the time of one for each."""
    for at in range(0, len(targets), 200):
        text = subprocess.run(['nm', '-g', '-A', *targets[at:at + 200]], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            target, _, symbol = line.partition(':')
            *_, kind, name = symbol.split()
            yield target, kind, name


def calls_of_build(root, build):
    sources = {str(target): source for target, source in objects(root, build)}
    owner, wanted = {}, {source: set() for source in sources.values()}
    for target, kind, name in symbols(list(sources)):
        if kind in DEFINED:
            owner[name] = sources[target]
        elif kind == UNDEFINED:
            wanted[sources[target]].add(name)
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


def floors_of_readme(readme, text):
    """(room, pattern of its files, floor) from the tables of a README."""
    room = None
    for line in text.splitlines():
        head, row = FLOOR_HEAD.match(line), FLOOR_ROW.match(line)
        if head:
            room = posixpath.join(posixpath.dirname(readme), head[1] or '').rstrip('/')
        elif room and row:
            yield from ((room, pattern, int(row[1])) for pattern in re.findall(r'`([^`]+\.c)`', row[2]))
        elif not line.startswith('|'):
            room = None


def floor_problems(root, calls):
    table = [row for path in checklib.our_files(root) if path.endswith('README.md')
             for row in floors_of_readme(path, checklib.read(root, path))]
    rooms = {room for room, _, _ in table}
    floor = {file: at for file in calls for room, pattern, at in table
             if os.path.dirname(file) == room and fnmatch.fnmatchcase(os.path.basename(file), pattern)}
    for file in sorted(calls):
        if os.path.dirname(file) in rooms and file not in floor:
            yield f'{file} stands on no floor of its README'
        for other in sorted(calls[file]):
            if floor.get(file, 0) < floor.get(other, 0):
                yield f'{file} on floor {floor.get(file, 0)} calls {os.path.basename(other)} on floor {floor[other]}'


def calls_in_rooms(root, options):
    planted = pathlib.Path(root) / 'calls.txt'
    return within_rooms(calls_of_text(planted.read_text()) if planted.exists() else calls_of_build(root, options.build))


def check(root, options):
    calls = calls_in_rooms(root, options)
    problems = list(floor_problems(root, calls))
    for circle in circles(calls):
        room = os.path.dirname(circle[0])
        limit = LIMITS.get(room, 0)
        if len(circle) > limit:
            names = ' '.join(os.path.basename(file) for file in circle)
            problems.append(f'{room}: {len(circle)} files call each other in a circle, at most {limit}: {names}')
    return problems


def advise(root, options):
    return [f'{os.path.dirname(circle[0])}: a circle of {len(circle)}: ' + ' '.join(map(os.path.basename, circle))
            for circle in circles(calls_in_rooms(root, options))]


CIRCLE = 'daemon/new/a.c: daemon/new/b.c\ndaemon/new/b.c: daemon/new/c.c\ndaemon/new/c.c: daemon/new/a.c\n'
FLOORS = '| floor | file | about |\n|---|---|---|\n| 1 | `a.c` | low |\n| 2 | `b*.c` | high |\n'
PLANTED = [
    Planted('clean', {'calls.txt': 'daemon/new/a.c: daemon/new/b.c\ndaemon/new/b.c: proto/c.c\nproto/c.c: daemon/new/a.c\n'}, None),
    Planted('a circle', {'calls.txt': CIRCLE}, '3 files call each other in a circle, at most 0: a.c b.c c.c'),
    Planted('floors', {'calls.txt': 'new/b.c: new/a.c\nnew/a.c:\n', 'new/README.md': FLOORS}, None),
    Planted('a call up', {'calls.txt': 'new/a.c: new/b.c\nnew/b.c:\n', 'new/README.md': FLOORS}, 'a.c on floor 1 calls b.c on floor 2'),
    Planted('no floor', {'calls.txt': 'new/x.c: new/a.c\nnew/a.c:\n', 'new/README.md': FLOORS}, 'new/x.c stands on no floor'),
    Planted('a call up below the README', {'calls.txt': 'new/in/a.c: new/in/b.c\nnew/in/b.c:\n',
                                           'new/README.md': FLOORS.replace('file', 'file in `in/`')}, 'calls b.c on floor 2'),
]


def add_options(parser):
    parser.add_argument('--build', default='build', help='the build tree')


if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options=add_options, advise=advise)
