#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmem.h declares every function of OpenSHMEM 1.6 with the types of the specification.

check-prototypes.py INCLUDES TABLE PROTOTYPES LISTS -- CC...: INCLUDES and LISTS have commas between them. PROTOTYPES has a line for each family,
where TYPE stands for a type and SIZE for a number of bits; the form with a context has one more parameter. TABLE is the folder of table.py, whose
names of types count. The compiler judges: each function is used, and declared once more.
"""
import pathlib
import re
import subprocess
import sys


def prototypes(path):
    rows = {}
    for line in pathlib.Path(path).read_text(encoding='utf-8').splitlines():
        ret, name, params = re.fullmatch(r'(.*?)(\w+)\((.*)\)', line).groups()
        rows[name] = (ret, params)
    return rows


def declaration(name, rows, types):
    """The text of a function, or None if no family has it."""
    plain = name.replace('shmem_ctx_', 'shmem_', 1)
    for key in (name, plain):
        for row, c_type in [(key, ''), (re.sub(r'(?<=[a-z])(8|16|32|64|128)(?=_|$)', 'SIZE', key), '')] + [
                (re.sub(rf'^shmem_{type_name}_', 'shmem_TYPE_', key), c_type) for type_name, c_type in types.items()]:
            if row not in rows or (row == key and 'TYPE' in row):
                continue
            ret, params = (re.sub(r'\bTYPE\b', c_type, text) for text in rows[row])
            if key != name:
                params = 'shmem_ctx_t' if params == 'void' else 'shmem_ctx_t, ' + params
            return f'_Static_assert(sizeof(&{name}), "declared"); extern {ret}({name})({params});\n'
    return None


def main():
    split = sys.argv.index('--')
    includes, table_dir, path, lists = sys.argv[1:split]
    sys.dont_write_bytecode = True
    sys.path.insert(0, table_dir)
    import table
    rows = prototypes(path)
    names = sorted({name for each in lists.split(',') for name in pathlib.Path(each).read_text(encoding='utf-8').split()})
    found = {name: declaration(name, rows, table.TYPES) for name in names}
    missing = [name for name, text in found.items() if not text]
    program = '#include <shmem.h>\n' + ''.join(filter(None, found.values()))
    done = subprocess.run([*sys.argv[split + 1:], *(f'-I{each}' for each in includes.split(',')), '-std=gnu11', '-Werror', '-fsyntax-only', '-x', 'c', '-'],
                          input=program, text=True, check=False)
    print(f'{len(names) - len(missing)} of {len(names)} prototypes compared', *(f'{name}: no prototype in {path}' for name in missing), sep='\n')
    sys.exit(1 if missing or done.returncode else 0)


main()
