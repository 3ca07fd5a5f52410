#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The names of NVSHMEM 3.8.0's host library, those of the table, the symbols of our library, and the table of the room's README agree.

check-names.py LIBRARY NAMES LIST README: NAMES is what generate.py makes of the table, LIST what NVIDIA's library exports. With --print behind them it
prints the README's table instead.
"""
import collections
import pathlib
import re
import subprocess
import sys

TYPES = ('bfloat16 half float double char schar short int long longlong uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 '
         'uint64 size ptrdiff').split()
TYPED = re.compile(rf'^(nvshmemx?)_({"|".join(TYPES)})_')
SIZED = re.compile(r'(?<=put|get)(8|16|32|64|128)(?=_|$)')
HEAD = '| functions | number |\n|---|---|\n'
VERSION = 'NVSHMEM'


def exported(library):
    """Names, and their version nodes."""
    text = subprocess.run(['nm', '-D', '--defined-only', '--with-symbol-versions', library], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[-1].partition('@@') for line in text.splitlines()]
    return {name: node for name, _, node in symbols if name != VERSION}


def soname(library):
    text = subprocess.run(['readelf', '-d', library], capture_output=True, text=True, check=True).stdout
    return re.search(r'SONAME.*\[(.*)\]', text).group(1)


def table(names):
    rows = collections.Counter(SIZED.sub('SIZE', TYPED.sub(r'\1_TYPE_', name)) for name in names)
    return HEAD + ''.join(f'| `{row}` | {n} |\n' for row, n in sorted(rows.items()))


def problems(library, names, wanted, readme):
    symbols = exported(library)
    for name in sorted(set(symbols) ^ wanted):
        yield f'{name}: {"exported, and no name of NVSHMEM" if name in symbols else "not exported"}'
    for name in sorted(names ^ wanted):
        yield f'{name}: {"in the table, and no name of NVSHMEM" if name in names else "not in the table"}'
    for name, node in sorted(symbols.items()):
        if node != VERSION:
            yield f'{name}: its version is {node!r}, not {VERSION}'
    if soname(library) != 'libnvshmem_host.so.3':
        yield f'{library}: its name is {soname(library)}'
    if table(names) not in pathlib.Path(readme).read_text(encoding='utf-8'):
        yield f'{readme}: the table is not that of --print'


def main():
    library, names, wanted, readme = sys.argv[1:5]
    names = set(pathlib.Path(names).read_text(encoding='utf-8').split())
    wanted = {name for name in pathlib.Path(wanted).read_text(encoding='utf-8').split() if name != VERSION}
    if sys.argv[5:] == ['--print']:
        print(table(names), end='')
        return
    found = list(problems(library, names, wanted, readme))
    print('\n'.join(found + [f'{len(names)} of {len(wanted)} names']))
    sys.exit(1 if found else 0)


main()
