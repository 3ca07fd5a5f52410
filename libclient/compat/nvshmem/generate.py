#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate.py TABLE OUT...: write each OUT from table.txt. Its name says what it is:

typed.c (functions of many types), libnvshmem_host.map, names.txt.
"""
import itertools
import pathlib
import re
import sys
from dataclasses import dataclass

NOTE = '/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by generate.py from table.txt at build time. */\n'
# Types of the names as C has them; those of 16 bits of floating point travel in an integer's register.
TYPES = {'bfloat16': 'nvs_half', 'half': 'nvs_half', 'float': 'float', 'double': 'double', 'char': 'char', 'schar': 'signed char', 'short': 'short',
         'int': 'int', 'long': 'long', 'longlong': 'long long', 'uchar': 'unsigned char', 'ushort': 'unsigned short', 'uint': 'unsigned int',
         'ulong': 'unsigned long', 'ulonglong': 'unsigned long long', 'int8': 'int8_t', 'int16': 'int16_t', 'int32': 'int32_t', 'int64': 'int64_t',
         'uint8': 'uint8_t', 'uint16': 'uint16_t', 'uint32': 'uint32_t', 'uint64': 'uint64_t', 'size': 'size_t', 'ptrdiff': 'ptrdiff_t'}
TYPED = re.compile(rf'^nvshmemx?_({"|".join(TYPES)})_')
SIZED = re.compile(r'(?:put|get)(8|16|32|64|128)(?=_|$)')
REDUCED = re.compile(r'_(min|max|sum|prod|and|or|xor)_reduce')


@dataclass
class Name:
    name: str
    how: str

    @property
    def c_type(self):
        """Type of an element; None: bytes."""
        found = TYPED.match(self.name)
        return TYPES[found.group(1)] if found else None

    @property
    def more(self):
        """Arguments of reductions behind the three words: the runtime's type and operation."""
        found = REDUCED.search(self.name)
        if not found:
            return ''
        element = TYPED.match(self.name).group(1)
        kind = f'SHMD_TYPE_{element.upper()}' if element in ('half', 'bfloat16') else f'NVS_TYPE({self.c_type})'
        return f', {kind}, SHMD_REDUCE_{found.group(1).upper()}'

    @property
    def element_bytes(self):
        found = SIZED.search(self.name)
        return f'sizeof({self.c_type})' if self.c_type else str(int(found.group(1)) // 8) if found else '1'


def expand(pattern, sets):
    parts = re.split(r'\{(.*?)\}', pattern)
    choices = [[part] if i % 2 == 0 else sets.get(part) or part.split(',') for i, part in enumerate(parts)]
    return [''.join(words) for words in itertools.product(*choices)]


def read_table(path):
    sets, names = {}, []
    for line in pathlib.Path(path).read_text(encoding='utf-8').splitlines():
        words = line.split('#')[0].split()
        if not words:
            continue
        if words[0] == 'set':
            sets[words[1]] = words[2:]
            continue
        how, *patterns = words
        names += [Name(name, how) for pattern in patterns for name in expand(pattern, sets)]
    twice = {name.name for name in names if sum(other.name == name.name for other in names) > 1}
    if twice:
        sys.exit(f'{path}: twice: {", ".join(sorted(twice))}')
    return names


def typed_c(names):
    lines = [f'NVS_MAKE_{name.how}({name.name}, {name.c_type or "void"}, {name.element_bytes}{name.more})\n' for name in names if name.how != 'c']
    return NOTE + '#include "libclient/compat/nvshmem/typed.h"\n\n' + ''.join(lines)


def symbol_map(names):
    return ('# SPDX-License-Identifier: Apache-2.0\nNVSHMEM {\n\tglobal:\n' + ''.join(f'\t\t{name};\n' for name in sorted(name.name for name in names)) +
            '\tlocal:\n\t\t*;\n};\n')


def names_txt(names):
    return ''.join(f'{name}\n' for name in sorted(name.name for name in names))


def main():
    table, *outs = sys.argv[1:]
    names = read_table(table)
    made = {'typed.c': typed_c, 'libnvshmem_host.map': symbol_map, 'names.txt': names_txt}
    for out in outs:
        pathlib.Path(out).write_text(made[pathlib.Path(out).name](names), encoding='utf-8')


if __name__ == '__main__':
    main()
