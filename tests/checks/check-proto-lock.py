#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The numbers, types and names of proto/shmemd.proto are those of proto/shmemd.proto.lock.

A line of the lock is "Message.field = number type", "Enum.VALUE = number" or "Message.reserved = number". --update adds
what is new. It never edits or removes a line: a field that goes must be reserved in the .proto, and its line then
becomes a reserved one, for good.
"""
import pathlib
import re

import checklib
from checklib import Planted

PROTO = 'proto/shmemd.proto'
LOCK = 'proto/shmemd.proto.lock'

TOKEN = re.compile(r'"[^"]*"|[\w.]+|[{}=;,<>\[\]-]')


def tokens(text):
    return TOKEN.findall(re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S))


def reserved_numbers(statement):
    numbers, i = [], 1
    while i < len(statement):
        if statement[i].isdigit():
            first = last = int(statement[i])
            if statement[i + 1:i + 2] == ['to']:
                last = int(statement[i + 2])
                i += 2
            numbers += range(first, last + 1)
        i += 1
    return numbers


def parse(text):
    """{'Message.field': '3 uint32', 'Enum.VALUE': '1', 'Message.reserved 4': 'reserved'} of a .proto."""
    entries, scopes, statement = {}, [], []
    for token in tokens(text):
        if token == '{':
            # A oneof has no numbers of its own: its fields belong to the message around it.
            scopes.append((statement[0], statement[1]) if statement else ('', ''))
            statement = []
        elif token == '}':
            scopes.pop()
            statement = []
        elif token == ';':
            add_statement(entries, scopes, statement)
            statement = []
        else:
            statement.append(token)
    return entries


def add_statement(entries, scopes, statement):
    names = [name for kind, name in scopes if kind in ('message', 'enum')]
    if not names or not statement or statement[0] == 'option':
        return
    scope, kind = '.'.join(names), scopes[-1][0]
    if statement[0] == 'reserved':
        for number in reserved_numbers(statement):
            entries[f'{scope}.reserved {number}'] = 'reserved'
        return
    at = statement.index('=')
    number = ''.join(statement[at + 1:at + 3]) if statement[at + 1] == '-' else statement[at + 1]
    kind_of_field = ' '.join(statement[:at - 1])
    entries[f'{scope}.{statement[at - 1]}'] = number if kind == 'enum' else f'{number} {kind_of_field}'


def read_lock(path):
    entries = {}
    for line in pathlib.Path(path).read_text(encoding='utf-8').splitlines():
        line = line.split('#')[0].strip()
        if not line:
            continue
        name, value = (part.strip() for part in line.split('=', 1))
        entries[f'{name} {value}' if name.endswith('.reserved') else name] = \
            'reserved' if name.endswith('.reserved') else value
    return entries


def format_entry(name, value):
    return f'{name.rsplit(" ", 1)[0]} = {name.rsplit(" ", 1)[1]}' if value == 'reserved' else f'{name} = {value}'


def reserved_name(name, value):
    return f'{name.rsplit(".", 1)[0]}.reserved {value.split()[0]}'


def duplicates(entries):
    seen, problems = {}, []
    for name, value in entries.items():
        scope = name.rsplit('.', 1)[0]
        number = name.rsplit(' ', 1)[1] if value == 'reserved' else value.split()[0]
        if (scope, number) in seen:
            problems.append(f'{PROTO}: {name} has the number of {seen[scope, number]}')
        seen[scope, number] = name
    return problems


def compare(now, locked):
    """Problems that no update may resolve, and the names that one may add."""
    problems = duplicates(now)
    for name, value in locked.items():
        if name in now:
            if now[name] != value:
                problems.append(f'{PROTO}: {name} is {now[name]}, and locked as {value}')
        elif value == 'reserved':
            problems.append(f'{PROTO}: {name} is no longer reserved')
        elif reserved_name(name, value) not in now:
            problems.append(f'{PROTO}: {name} = {value} is gone and its number is not reserved')
    return problems, [name for name in now if name not in locked]


def check(root, options):
    now = parse(checklib.read(root, PROTO))
    lock = pathlib.Path(root) / LOCK
    locked = read_lock(lock) if lock.exists() else {}
    if not now:
        return [f'{PROTO}: holds no field']
    problems, new = compare(now, locked)
    if options.update and not problems:
        write_lock(lock, now, locked)
        return []
    problems += [f'{LOCK}: lacks {format_entry(name, now[name])}; run {pathlib.Path(__file__).name} --update'
                 for name in new]
    # A removed field was reserved, and the lock still says it exists.
    problems += [f'{LOCK}: {name} is reserved now; run {pathlib.Path(__file__).name} --update'
                 for name, value in locked.items() if value != 'reserved' and name not in now
                 and reserved_name(name, value) in now]
    return problems


def write_lock(path, now, locked):
    head = ('# Frozen numbers of shmemd.proto. Lines are added by tests/checks/check-proto-lock.py --update,\n'
            '# and never edited or removed by hand.\n')
    body = ''.join(format_entry(name, value) + '\n' for name, value in sorted(now.items(), key=sort_key))
    path.write_text(head + body, encoding='utf-8')
    print(f'{LOCK}: {len(now)} lines, {len([n for n in now if n not in locked])} new')


def sort_key(entry):
    name, value = entry
    number = name.rsplit(' ', 1)[1] if value == 'reserved' else value.split()[0]
    return name.rsplit('.', 1)[0], int(number), name


def add_options(parser):
    parser.add_argument('--update', action='store_true', help='add what is new to the lock')


BASE = 'message M { uint32 a = 1; repeated N b = 2; } enum E { E_UNSET = 0; E_ONE = 1; }'
BASE_LOCK = 'M.a = 1 uint32\nM.b = 2 repeated N\nE.E_UNSET = 0\nE.E_ONE = 1\n'


def case(name, proto, says, lock=BASE_LOCK, **args):
    return Planted(name, {PROTO: proto, LOCK: lock}, says, {'update': False, **args})


PLANTED = [
    case('unchanged', BASE, None),
    case('in a oneof', BASE.replace('uint32 a = 1;', 'oneof o { uint32 a = 1; }'), None),
    case('renumbered', BASE.replace('a = 1', 'a = 3'), 'M.a is 3 uint32, and locked as 1 uint32'),
    case('renumbered, update', BASE.replace('a = 1', 'a = 3'), 'M.a is 3 uint32', update=True),
    case('retyped', BASE.replace('uint32 a', 'uint64 a'), 'locked as 1 uint32'),
    case('another enum number', BASE.replace('E_ONE = 1', 'E_ONE = 2'), 'E.E_ONE is 2'),
    case('removed', BASE.replace('uint32 a = 1;', ''), 'M.a = 1 uint32 is gone'),
    case('removed, update', BASE.replace('uint32 a = 1;', ''), 'M.a = 1 uint32 is gone', update=True),
    case('renamed', BASE.replace('a = 1', 'c = 1'), 'M.a = 1 uint32 is gone', update=True),
    case('removed and reserved', BASE.replace('uint32 a = 1;', 'reserved 1;'), 'M.a is reserved now'),
    case('removed and reserved, update', BASE.replace('uint32 a = 1;', 'reserved 1;'), None, update=True),
    case('reserved number used again', BASE, 'M.reserved 4 is no longer reserved', lock=BASE_LOCK + 'M.reserved = 4\n'),
    case('one number twice', BASE.replace('b = 2', 'b = 1'), 'has the number of'),
    case('new', BASE.replace('message M {', 'message M { bytes z = 9;'), 'lacks M.z = 9 bytes'),
    case('new, update', BASE.replace('message M {', 'message M { bytes z = 9;'), None, update=True),
    case('a range', BASE.replace('message M {', 'message M { reserved 5 to 7, 9;'), 'lacks M.reserved = 6'),
    case('no lock at all', BASE, 'lacks M.a = 1 uint32', lock=''),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options)
