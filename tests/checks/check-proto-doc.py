#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""proto/README.md describes every message, field, enum value and status, and none that does not exist.

A message or enum has a heading "### Name"; what it holds is named between backquotes below that heading. A row of a
table there begins with a name that exists. Each status of proto/status.h is named in the section "## Status".
"""
import re

import checklib
from checklib import Planted

PROTO = 'proto/shmemd.proto'
README = 'proto/README.md'
STATUS = 'proto/status.h'

BLOCK = re.compile(r'\b(message|enum)\s+(\w+)\s*\{')
MEMBER = re.compile(r'(\w+)\s*=\s*\d+\s*(?:\[[^\]]*\])?;')
STATUS_ROW = re.compile(r'^\s*X\((\w+),\s*(\d+),', re.M)


def without_comments(text):
    return re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S)


def body_at(text, start):
    """From after an opening brace to the brace that closes it."""
    depth, end = 1, start
    while depth and end < len(text):
        depth += {'{': 1, '}': -1}.get(text[end], 0)
        end += 1
    return text[start:end - 1]


def parse(text):
    """{'HelloReq': ['version_min', ...], 'Role': ['ROLE_UNSET', ...]}; the fields of a oneof are the message's."""
    text = without_comments(text)
    return {match.group(2): MEMBER.findall(body_at(text, match.end())) for match in BLOCK.finditer(text)}


def sections(text, mark):
    """{heading: (line number, text below it)}, up to the next heading of this or a higher level."""
    found, name = {}, None
    for number, line in enumerate(text.splitlines(), 1):
        heading = re.match(r'(#+)\s+(.*?)\s*$', line)
        if heading and len(heading.group(1)) <= len(mark):
            name = heading.group(2) if heading.group(1) == mark else None
            if name:
                found[name] = (number, '')
        elif name:
            found[name] = (found[name][0], found[name][1] + line + '\n')
    return found


def named(text):
    return set(re.findall(r'`(\w+)`', text))


def rows(text):
    """First cells that are one name between backquotes."""
    return re.findall(r'^\|\s*`(\w+)`\s*\|', text, re.M)


def check_messages(proto, readme):
    problems = []
    described = sections(readme, '###')
    for name, members in proto.items():
        if name not in described:
            problems.append(f'{README}: has no heading "### {name}"')
            continue
        line, text = described[name]
        problems += [f'{README}:{line}: {name}: `{member}` is not described'
                     for member in members if member not in named(text)]
        problems += [f'{README}:{line}: {name}: describes `{row}`, which does not exist'
                     for row in rows(text) if row not in members]
    problems += [f'{README}:{line}: describes {name}, which does not exist'
                 for name, (line, _) in described.items() if name not in proto]
    return problems


def check_statuses(statuses, readme):
    line, text = sections(readme, '##').get('Status', (1, ''))
    described = dict(re.findall(r'^\|\s*`(\w+)`\s*\|\s*(\d+)\s*\|', text, re.M))
    problems = [f'{README}:{line}: status {name} = {number} is not described'
                for name, number in statuses.items() if described.get(name) != number]
    problems += [f'{README}:{line}: describes status {name}, which does not exist'
                 for name in described if name not in statuses]
    return problems


def check(root, options):
    proto = parse(checklib.read(root, PROTO))
    statuses = dict(STATUS_ROW.findall(checklib.read(root, STATUS)))
    readme = checklib.read(root, README)
    if not any(proto.values()):
        return [f'{PROTO}: holds no field']
    if not statuses:
        return [f'{STATUS}: holds no status']
    return check_messages(proto, readme) + check_statuses(statuses, readme)


BASE = {
    PROTO: '// message Old { int32 gone = 9; }\nmessage M { uint32 a = 1; oneof o { N n = 2; } }\nmessage N {}\n'
           'enum E {\n  E_ONE = 1;  // one\n}\n',
    STATUS: '\tX(OK,  0, 0, "success") \\\n\tX(BUSY, 8, -EBUSY, "busy")\n',
    README: '# x\n## Status\n| `OK` | 0 | |\n| `BUSY` | 8 | |\n## Messages\n### M\n| `a` | |\nAnd `n`.\n### N\n'
            '### E\n| `E_ONE` | |\n',
}


def case(name, says, **edits):
    """edits: file stem to (old, new)."""
    paths = {'proto': PROTO, 'status': STATUS, 'readme': README}
    files = dict(BASE)
    for stem, (old, new) in edits.items():
        assert old in files[paths[stem]], name
        files[paths[stem]] = files[paths[stem]].replace(old, new)
    return Planted(name, files, says)


PLANTED = [
    case('complete', None),
    case('new field', 'M: `b` is not described', proto=('uint32 a = 1;', 'uint32 a = 1; repeated N b = 3;')),
    case('new field of a oneof', 'M: `p` is not described', proto=('N n = 2;', 'N n = 2; N p = 4;')),
    case('new message', 'has no heading "### P"', proto=('message N {}', 'message N {}\nmessage P {}')),
    case('new enum value', 'E: `E_TWO` is not described', proto=('E_ONE = 1;', 'E_ONE = 1; E_TWO = 2;')),
    case('field named elsewhere only', 'M: `a` is not described', readme=('| `a` | |', ''),
         proto=('message N {}', 'message N { uint32 a = 1; }')),
    case('stale row', 'describes `z`', readme=('| `a` | |', '| `a` | |\n| `z` | |')),
    case('stale message', 'describes Q, which does not exist', readme=('### N', '### Q\n### N')),
    case('field without backquotes', 'M: `n` is not described', readme=('`n`', 'n')),
    case('new status', 'status GONE = 9', status=('"busy")', '"busy") \\\n\tX(GONE, 9, -EIO, "gone")')),
    case('wrong status number', 'status BUSY = 8', readme=('| 8 |', '| 7 |')),
    case('stale status', 'describes status LATE', readme=('| `OK` | 0 | |', '| `OK` | 0 | |\n| `LATE` | 3 | |')),
    Planted('a .proto that is not understood', {**BASE, PROTO: 'messages M\n'}, 'holds no field'),
    Planted('a list of statuses that is not understood', {**BASE, STATUS: 'enum s { OK };\n'}, 'holds no status'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
