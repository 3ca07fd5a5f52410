#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of OpenSHMEM 1.6, the library's symbols, its header and the table of the room's README agree, and programs of the tests call each.

check-functions.py --library SO --header SHMEM_H --readme README --program PROGRAM... LIST...: each LIST has names, as the specification has them.
With --print it prints the table instead.
"""
import argparse
import pathlib
import re
import subprocess
import sys

TYPES = ('float double longdouble char schar short int long longlong uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 '
         'uint32 uint64 size ptrdiff complexf complexd').split()
TYPED = re.compile(rf'^shmem_({"|".join(TYPES)})_')
SIZED = re.compile(r'(?<=[a-z])(8|16|32|64|128)(?=_|$)')
HEAD = '| functions | number | with a context | implemented |\n|---|---|---|---|\n'


def symbols(path, which):
    text = subprocess.run(['nm', '-D', which, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split('@')[0] for line in text.splitlines()}


def declared(header):
    return set(re.findall(r'^SHMD_OSH_API .*?(\w+)\(', pathlib.Path(header).read_text(encoding='utf-8'), flags=re.M))


def family(name, names):
    """The row of a name, and whether it is the form with a context."""
    plain = name.replace('shmem_ctx_', 'shmem_', 1)
    has_ctx = plain != name and plain in names
    row = TYPED.sub('shmem_TYPE_', plain if has_ctx else name)
    return (row if row.startswith('shmem_TYPE_') else SIZED.sub('SIZE', row)), has_ctx


def table(names, have):
    rows = {}
    for name in sorted(names):
        row, has_ctx = family(name, names)
        counts = rows.setdefault(row, [0, 0, 0])
        counts[has_ctx] += 1
        counts[2] += name in have
    lines = []
    for row, (n_plain, n_ctx, n_have) in sorted(rows.items()):
        total = n_plain + n_ctx
        lines.append(f'| `{row}` | {n_plain} | {n_ctx or ""} | {"yes" if n_have == total else f"{n_have} of {total}" if n_have else "no"} |\n')
    return HEAD + ''.join(lines)


def problems(options, names, have):
    in_header = declared(options.header)
    for name in sorted(in_header ^ {name for name in have if not re.match(r'^p(shmem|start_pes|_|sh[mfr])', name)}):
        yield f'{name}: {"declared, not exported" if name in in_header else "exported, not declared"}'
    for name in sorted(in_header):
        if 'p' + name not in have:
            yield f'{name}: the profiling interface has no p{name}'
    called = set().union(*(symbols(program, '--undefined-only') for program in options.program))
    for name in sorted(names - called):
        yield f'{name}: no program of the tests calls it'
    if table(names, have) not in pathlib.Path(options.readme).read_text(encoding='utf-8'):
        yield f'{options.readme}: the table is not that of --print'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--library', required=True)
    parser.add_argument('--header', required=True)
    parser.add_argument('--readme')
    parser.add_argument('--program', action='append', default=[])
    parser.add_argument('--print', action='store_true')
    parser.add_argument('lists', nargs='+')
    options = parser.parse_args()
    names = {name for path in options.lists for name in pathlib.Path(path).read_text(encoding='utf-8').split()}
    have = {name for name in symbols(options.library, '--defined-only') if not name.startswith('SHMD_')}
    if options.print:
        print(table(names, have), end='')
        return
    found = list(problems(options, names, have))
    print('\n'.join(found + [f'{len(names & have)} of {len(names)} functions are implemented']))
    sys.exit(1 if found else 0)


main()
