#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operational events: the ids of the table in daemon/session/catalog.h and those of systemd/shmemd.catalog are the same,
each once, and a line of the daemon has each; an entry has a subject, says who defined it, and explains in words; it uses only
fields that the log writes.
"""
import re

import checklib
from checklib import Planted

TABLE = 'daemon/session/catalog.h'
CATALOG = 'systemd/shmemd.catalog'
LOG = 'daemon/log.c'
ROW = re.compile(r'^\s*X\((\w+),\s*"([^"]*)"\)', re.M)
ID = re.compile(r'[0-9a-f]{32}$')
FIELD = re.compile(r'@(\w+)@')
WRITTEN = re.compile(r'"(SHMEMD_\w+|MESSAGE|PRIORITY)=')
COLUMNS = 80


def entries(text):
    """(line, id, {header: value}, body) of each; what comes before the first is a comment."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith('-- '):
            found.append((number, line[3:].strip(), {}, []))
            in_head = True
        elif found and not line.startswith('#'):
            if in_head and not line:
                in_head = False
            elif in_head:
                name, _, value = line.partition(': ')
                found[-1][2][name] = value
            elif line:
                found[-1][3].append(line)
    return found


def check_entry(number, head, body, fields):
    problems = []
    if head.get('Defined-By') != 'shmemd':
        problems.append('is not defined by shmemd')
    if not head.get('Subject'):
        problems.append('has no subject')
    if not body:
        problems.append('explains nothing')
    if any(len(line) > COLUMNS for line in body):
        problems.append(f'has a line of more than {COLUMNS} columns')
    unknown = set(FIELD.findall(' '.join([head.get('Subject', ''), *body]))) - fields
    problems += [f'names the field {field}, which the log does not write' for field in sorted(unknown)]
    return [f'{CATALOG}:{number}: the entry {problem}' for problem in problems]


def check(root, options):
    rows = ROW.findall(checklib.read(root, TABLE))
    found = entries(checklib.read(root, CATALOG))
    fields = set(WRITTEN.findall(checklib.read(root, LOG)))
    ids, explained = [row[1] for row in rows], [entry[1] for entry in found]
    problems = [] if rows else [f'{TABLE}:1: has no table']
    problems += [f'{TABLE}:1: {name} has no id of 32 hexadecimal digits' for name, id in rows if not ID.match(id)]
    problems += [f'{TABLE}:1: {id} stands here twice' for id in sorted(set(ids)) if ids.count(id) > 1]
    problems += [f'{CATALOG}:1: {id} stands here twice' for id in sorted(set(explained)) if explained.count(id) > 1]
    problems += [f'{CATALOG}:1: does not explain {name}, {id}' for name, id in rows if id not in explained]
    problems += [f'{CATALOG}:{entry[0]}: no event has the id {entry[1]}' for entry in found if entry[1] not in ids]
    for number, _, head, body in found:
        problems += check_entry(number, head, body, fields)
    code = ' '.join(checklib.read(root, path) for path in checklib.our_files(root)
                    if path.startswith('daemon/') and path.endswith('.c'))
    problems += [f'{TABLE}:1: no line has the event {name}' for name, _ in rows
                 if not re.search(rf'\bCATALOG_{name}\b', code)]
    return problems


A, B = 'a' * 32, 'b' * 32


def planted(name, says, table=f'\tX(READY, "{A}") \\\n\tX(GONE, "{B}")\n', more='', drop='',
            code='g(CATALOG_READY, CATALOG_GONE);\n'):
    catalog = ''.join(f'-- {id}\nSubject: it is\nDefined-By: shmemd\n\nSo @SHMEMD_UID@ says.\n\n' for id in (A, B))
    catalog = '# a comment\n\n' + catalog.replace(drop, '', 1) + more
    return Planted(name, {TABLE: table, CATALOG: catalog, LOG: f'f("SHMEMD_UID=%u");\n{code}'}, says)


ENTRY = 'Subject: s\nDefined-By: shmemd\n\nText.\n'
PLANTED = [
    planted('clean', None),
    planted('not explained', f'does not explain GONE, {"c" * 32}', table=f'X(READY, "{A}")\nX(GONE, "{"c" * 32}")\n'),
    planted('explained and gone', f'no event has the id {B}', table=f'X(READY, "{A}")\n'),
    planted('explained twice', f'{A} stands here twice', more=f'-- {A}\n{ENTRY}'),
    planted('one id for two', f'{TABLE}:1: {A} stands', table=f'X(READY, "{A}")\nX(STEADY, "{A}")\nX(GONE, "{B}")\n'),
    planted('no id', 'EMPTY has no id', table=f'X(READY, "{A}")\nX(GONE, "{B}")\nX(EMPTY, "12")\n'),
    planted('written by nobody', 'no line has the event GONE', code='g(CATALOG_READY, CATALOG_GONER);\n'),
    planted('no table', 'has no table', table=''),
    planted('no subject', 'has no subject', drop='Subject: it is\n'),
    planted('of somebody else', 'not defined by shmemd', drop='Defined-By: shmemd\n'),
    planted('no text', 'explains nothing', drop='So @SHMEMD_UID@ says.\n'),
    planted('unknown field', 'names the field SHMEMD_MOON', more='Of the @SHMEMD_MOON@.\n'),
    planted('wide', 'more than 80 columns', more='x' * 81 + '\n'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
