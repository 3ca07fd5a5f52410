#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate.py TEMPLATE OUT...: write each OUT from table.py. Its name says what it is:

shmem.h (from TEMPLATE), pshmem.h, typed-ROOM.c (functions of many types),
libshmd-openshmem.map, names.txt (section and name of every function).
"""
import pathlib
import re
import sys

import table
from table import Function, TYPES

NOTE = '/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by generate.py from table.py at build time. */\n'
# The C type that a name of a type means on the machines that shmemd runs on, where long has 64 bits.
ALIASES = {'int8': 'signed char', 'int16': 'short', 'int32': 'int', 'int64': 'long', 'uint8': 'unsigned char', 'uint16': 'unsigned short',
           'uint32': 'unsigned int', 'uint64': 'unsigned long', 'size': 'unsigned long', 'ptrdiff': 'long'}
ROOMS = {'rma': table.RMA_FAMILIES, 'atomic': table.ATOMIC_FAMILIES, 'wait': table.WAIT_FAMILIES,
         'collective': table.COLLECTIVE_FAMILIES, 'active': [family for family in table.ACTIVE_FAMILIES if family.body]}


def fill(text, c_type, name='', n_bytes=''):
    """Replace T, NAME and BYTES in a family's text."""
    for word, value in (('BYTES', n_bytes or f'sizeof({c_type})'), ('NAME', f'"{name}"'), ('T', c_type)):
        text = re.sub(rf'\b{word}\b', value, text)
    return text.replace('* *', '**')


def make(family, name, c_type, type_name='', n_bytes='', has_ctx=False):
    params = fill(family.params, c_type)
    body = family.wide if c_type == 'long double' and family.wide else family.body
    body = fill(body, c_type, name, n_bytes) if body else None
    if has_ctx:
        params = 'shmem_ctx_t ctx, ' + params
    elif body:
        body = re.sub(r'\bctx\b', 'SHMEM_CTX_DEFAULT', body)
    return Function(name, fill(family.ret, c_type), params, body, family, type_name, has_ctx)


def functions(family):
    if not family.types:
        yield make(family, family.op, 'T')
        return
    for has_ctx in (False, True) if family.ctx else (False,):
        head = 'shmem_ctx_' if has_ctx else 'shmem_'
        for type_name in filter(None, family.types):
            yield make(family, f'{head}{type_name}_{family.op}{family.suffix}', TYPES[type_name], type_name, has_ctx=has_ctx)
        for size in family.sizes:
            yield make(family, f'{head}{family.op}{size}{family.suffix}', 'void', n_bytes=str(size // 8), has_ctx=has_ctx)
        if family.mem:
            yield make(family, f'{head}{family.op}mem{family.suffix}', 'void', n_bytes='1', has_ctx=has_ctx)


def all_functions():
    for family in table.FAMILIES:
        yield from functions(family)


def profiling_name(name):
    return 'p' + name


def prototype(function, name=None):
    ret = function.ret if function.ret.endswith('*') else function.ret + ' '
    return f'{ret}{name or function.name}({function.params})'


def arguments(function):
    return ', '.join(re.search(r'(\w+)$', param).group(1) for param in function.params.split(',') if param.strip() != 'void')


# ---- type-generic forms

def generics():
    """Name of a generic form: its families, by name."""
    found = {}
    for family in table.FAMILIES:
        if family.generic:
            found.setdefault(family.generic, []).append(family)
    return found


def chosen_types(families):
    """(C type, family, name of the type) of each different C type."""
    seen = set()
    for family in families:
        for type_name in family.types:
            c_type = ALIASES.get(type_name, TYPES[type_name])
            if c_type not in seen:
                seen.add(c_type)
                yield c_type, family, type_name


def qualifiers(family):
    if family.params.startswith('const T *'):
        return '', 'const '
    return ('', 'volatile ') if family in table.WAIT_FAMILIES else ('',)


def associations(families, head):
    return [f'{qualifier}{c_type} *: {head}{type_name}_{family.op}{family.suffix}'
            for c_type, family, type_name in chosen_types(families) for qualifier in qualifiers(family)]


def selection(argument, choices):
    inner = ', \\\n\t\t'.join(choices)
    return f'_Generic(({argument}), \\\n\t\t{inner})'


def generic_macro(name, families):
    plain = associations(families, 'shmem_')
    if families[0].params.startswith('shmem_team_t team'):
        text = selection('SHMD_OSH_SECOND(__VA_ARGS__, 0, 0)', plain)
    elif families[0].ctx:
        second = selection('SHMD_OSH_SECOND(__VA_ARGS__, 0, 0)',
                           associations(families, 'shmem_ctx_') + ['default: shmd_osh_no_such_type'])
        text = selection('SHMD_OSH_FIRST(__VA_ARGS__, 0)', ['shmem_ctx_t: ' + second] + plain)
    else:
        text = selection('SHMD_OSH_FIRST(__VA_ARGS__, 0)', plain)
    return f'#define shmem_{name}(...) \\\n\t{text}(__VA_ARGS__)\n'


def overload(name, function):
    back = '' if function.ret == 'void' else 'return '
    return f'static inline {prototype(function, "shmem_" + name)} {{ {back}{function.name}({arguments(function)}); }}\n'


def volatile_overload(name, function):
    """Programs of before 1.5 wait for words that they have declared volatile; C takes these with a warning."""
    pointer, *rest = arguments(function).split(', ')
    call = ', '.join([f'const_cast<{function.params.split("*")[0]}*>({pointer})', *rest])
    back = '' if function.ret == 'void' else 'return '
    return f'static inline {function.ret} shmem_{name}(volatile {function.params}) {{ {back}{function.name}({call}); }}\n'


def overloads(name, families):
    taken = {family.op for family in table.PLAIN_FAMILIES}
    wanted = {(id(family), type_name) for _, family, type_name in chosen_types(families)}
    for family in families:
        for function in functions(family):
            if (id(family), function.type_name) not in wanted:
                continue
            # A function of C with this name has these types already.
            if not ('shmem_' + name in taken and function.type_name == 'long'):
                yield overload(name, function)
            if family in table.WAIT_FAMILIES:
                yield volatile_overload(name, function)


# ---- files

def declaration(function, name=None):
    attribute = f' __attribute__(({function.family.attribute}))' if function.family.attribute else ''
    return f'SHMD_OSH_API {prototype(function, name)}{attribute};\n'


def shmem_h(template):
    parts = {'PROTOTYPES': ''.join(declaration(function) for function in all_functions()),
             'GENERICS': ''.join(generic_macro(*item) for item in generics().items()),
             'OVERLOADS': ''.join(line for item in generics().items() for line in overloads(*item))}
    return re.sub(r'@(\w+)@\n', lambda match: parts[match.group(1)], pathlib.Path(template).read_text(encoding='utf-8'))


def pshmem_h():
    lines = ''.join(declaration(function, profiling_name(function.name)) for function in all_functions())
    return (NOTE + '/* The names by which a profiling library calls the functions that it replaces (section 10). */\n'
            '#ifndef PSHMEM_H\n#define PSHMEM_H\n\n#include <shmem.h>\n\n#ifdef __cplusplus\nextern "C" {\n#endif\n\n' + lines +
            '\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n')


def weak(name):
    return f'OSH_WEAK({name}, {profiling_name(name)})\n'


def typed_c(room):
    header = 'collective.h' if room in ('collective', 'active') else 'typed.h'
    text = NOTE + f'#include "libclient/compat/openshmem/{header}"\n'
    for family in ROOMS[room]:
        for function in functions(family):
            text += f'\n{prototype(function, profiling_name(function.name))}\n{{\n\t{function.body}\n}}\n{weak(function.name)}'
    return text


def symbol_map():
    exported = sorted(name for function in all_functions() for name in (function.name, profiling_name(function.name)))
    return ('# SPDX-License-Identifier: Apache-2.0\nSHMD_OPENSHMEM_1 {\n\tglobal:\n' + ''.join(f'\t\t{name};\n' for name in exported) +
            '\tlocal:\n\t\t*;\n};\n')


def names_txt():
    return ''.join(f'{function.family.section} {function.name}{" extra" if function.family.is_extra else ""}\n' for function in all_functions())


def content(name, template):
    if name.startswith('typed-'):
        return typed_c(name.removeprefix('typed-').removesuffix('.c'))
    if name == 'shmem.h':
        return shmem_h(template)
    return {'pshmem.h': pshmem_h, 'libshmd-openshmem.map': symbol_map, 'names.txt': names_txt}[name]()


def main():
    template, *outs = sys.argv[1:]
    for out in outs:
        pathlib.Path(out).write_text(content(pathlib.Path(out).name, template), encoding='utf-8')


if __name__ == '__main__':
    main()
