#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file is named in the README of its room, so that a reader finds what it is for.

The room of a file is the nearest folder above it with a README.md. What stands there in backticks names files: with or without
folder and suffix (`send.c`, `nic/send.c`, `send`, `send.h` for both), as a pattern (`list*.c`, `test-<file>.c`, `fuzz-NAME.c`), or as
a folder that has no README of its own (`unit/`).
"""
import fnmatch
import posixpath
import re

import checklib
from checklib import Planted

SOURCES = ('.c', '.cu', '.py', '.sh')
SPAN = re.compile(r'`([^`\n]+)`')
SUFFIX = re.compile(r'\.(c|h|cu|py|sh)$')
# A part of a name that stands for any text.
ANY = re.compile(r'<\w+>|\b(?:NAME|FILE|TOPIC)\b')
# A pattern that says less names nothing.
LEAST_LETTERS = 3


def named(readme):
    """Names of files without suffix, patterns among them, and folders, of all words in backticks."""
    names, folders = set(), set()
    for span in SPAN.findall(readme):
        for word in span.replace(',', ' ').split():
            if word.endswith('/'):
                folders.add(word.rstrip('/'))
                continue
            name = SUFFIX.sub('', posixpath.basename(ANY.sub('*', word)))
            if '*' not in name or len(name.replace('*', '')) >= LEAST_LETTERS:
                names.add(name)
    return names, folders


def room_of(path, rooms):
    folder = posixpath.dirname(path)
    while folder and folder not in rooms:
        folder = posixpath.dirname(folder)
    return folder


def folders_between(path, room):
    """Folders that path lies in below room, as a README may call them: from the root, from the room, or by the last name."""
    folder = posixpath.dirname(path)
    while folder != room:
        yield from (folder, posixpath.relpath(folder, room or '.'), posixpath.basename(folder))
        folder = posixpath.dirname(folder)


def is_named(path, room, names, folders):
    stem = SUFFIX.sub('', posixpath.basename(path))
    return any(fnmatch.fnmatchcase(stem, name) for name in names) or not folders.isdisjoint(folders_between(path, room))


def check(root, options):
    files = checklib.our_files(root)
    rooms = {posixpath.dirname(path): named(checklib.read(root, path))
             for path in files if posixpath.basename(path) == 'README.md'}
    if not rooms:
        return ['README.md:1: no room has one']
    problems = []
    for path in files:
        room = room_of(path, rooms)
        if path.endswith(SOURCES) and room in rooms and not is_named(path, room, *rooms[room]):
            problems.append(f'{posixpath.join(room, "README.md")}:1: does not name {path}')
    return problems


def planted(name, says, readme, *paths):
    files = {'daemon/README.md': readme, 'README.md': '# x\n', **{path: 'int x;\n' for path in paths}}
    return Planted(name, files, says)


PLANTED = [
    planted('by its name', None, '| `send.c` | sends |\n', 'daemon/send.c'),
    planted('without suffix', None, '`send`, `other`\n', 'daemon/send.c'),
    planted('by its header', None, '`send.h`\n', 'daemon/send.c'),
    planted('by a pattern', None, '`list*.c` lists\n', 'daemon/list.c', 'daemon/list-json.c'),
    planted('by a pattern in words', None, '`test-<file>.c` and `fuzz-NAME.sh`\n', 'daemon/test-x.c', 'daemon/fuzz-y.sh'),
    planted('by its folder', None, '`session/`: one client\n', 'daemon/session/a.c', 'daemon/session/b/c.py'),
    planted('a header alone', None, 'nothing\n', 'daemon/send.h'),
    planted('not named', 'daemon/README.md:1: does not name daemon/send.c', '`receive.c`\n', 'daemon/send.c'),
    planted('named without backticks', 'does not name daemon/send.c', 'send.c sends\n', 'daemon/send.c'),
    planted('a pattern for everything', 'does not name daemon/send.c', '`*.c` here\n', 'daemon/send.c'),
    planted('another folder', 'does not name daemon/nic/a.c', '`session/`\n', 'daemon/nic/a.c'),
    planted('a script', 'does not name daemon/tell.py', '`send.c`\n', 'daemon/send.c', 'daemon/tell.py'),
    Planted('named in the README above its own', {'README.md': '`send.c`\n', 'daemon/README.md': '#\n', 'daemon/send.c': ''},
            'daemon/README.md:1: does not name daemon/send.c'),
    Planted('no README at all', {'daemon/send.c': ''}, 'no room has one'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
