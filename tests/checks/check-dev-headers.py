#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The device headers define shmd_* for callers and shmdi_* for themselves, and a page documents all of the former.

Public headers are in kernels/dev: each function that they define or declare is in the synopsis of the page (shmd_dev_pe(3) for pe.h,
shmd_dev_coll(3) for coll.h, shmd_dev_qp(3) for the others), and each macro, struct, enum and enumerator is named in it. Headers in kernels/dev/impl add only shmdi_*
and SHMDI_*; of the rest they hold the bodies.
Only kernels and tests name shmdi_*. Inline assembly is in three headers of impl and, outside of tests, nowhere else.
"""
import re

import checklib
from checklib import Planted

PUBLIC = re.compile(r'kernels/dev/[^/]+\.h$')
IMPL = re.compile(r'kernels/dev/impl/[^/]+\.h$')
PAGE = 'libclient/man/shmd_dev_qp.3'
PAGES = {'kernels/dev/coll.h': 'libclient/man/shmd_dev_coll.3', 'kernels/dev/pe.h': 'libclient/man/shmd_dev_pe.3'}
WITH_ASSEMBLY = {f'kernels/dev/impl/{name}.h' for name in ('annotate', 'order', 'order-callers', 'order-pes')} | {'kernels/bitcode/builtins.h'}

FUNCTION = re.compile(r'^SHMDI_(?:FN|API|SLOW|APART|FAR) [\w *]*?\b(\w+)\(', re.M)
HOOK = re.compile(r'^(?!SHMDI_)(?:\w+ )+\*?(shmd_\w+)\([^;{]*\);', re.M)
OTHERS = [
    re.compile(r'^#\s*define (\w+)', re.M),
    re.compile(r'^(?:struct|enum) (\w+) \{', re.M),
    re.compile(r'^\t(SHMDI?_\w+)(?: = [^,\n]+)?,', re.M),
]
ASSEMBLY = re.compile(r'\b(?:asm|__asm__)\b')


def code(text):
    """Without comments and include guards."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    guard = re.search(r'^#ifndef (\w+)\n#define \1\n', text, flags=re.M)
    return text.replace(guard.group(0), '', 1) if guard else text


def synopsis(page):
    found = re.search(r'^\.Sh SYNOPSIS\n(.*?)^\.Sh ', page, flags=re.S | re.M)
    return set(re.findall(r'^\.F[no] (\w+)', found.group(1), flags=re.M)) if found else set()


def public_problems(path, text, page, texts):
    in_synopsis = synopsis(texts.get(page, ''))
    for name in sorted(set(FUNCTION.findall(text)) - in_synopsis):
        yield f'{path}: {name}: a function that is not in the synopsis of {page}'
    for name in HOOK.findall(text):
        if not any(name in synopsis(other) for other in texts.values()):
            yield f'{path}: {name}: a function that no page has in its synopsis'
    for name in sorted({name for regex in OTHERS for name in regex.findall(text)}):
        if not re.search(rf'\b{name}\b', texts.get(page, '')):
            yield f'{path}: {name}: not in {page}'


def impl_problems(path, text, declared):
    for name in FUNCTION.findall(text):
        if not name.startswith('shmdi_') and name not in declared:
            yield f'{path}: {name}: neither shmdi_* nor declared in a public header'
    for name in (name for regex in OTHERS for name in regex.findall(text)):
        if not name.lower().startswith('shmdi_'):
            yield f'{path}: {name}: a name for callers in an internal header'


def check(root, options):
    files = checklib.our_files(root)
    sources = {path: code(checklib.read(root, path)) for path in files if path.endswith(('.c', '.h', '.cu', '.cuh'))}
    pages = {path: checklib.read(root, path) for path in files if re.match(r'libclient/man/\w+\.3$', path)}
    public = {path: text for path, text in sources.items() if PUBLIC.match(path)}
    declared = {name for text in public.values() for name in FUNCTION.findall(text)}
    problems = [f'{page}: {name}: no public header declares it' for page in (PAGE, *PAGES.values())
                for name in sorted(synopsis(pages.get(page, '')) - declared)]
    for path, text in sources.items():
        if path in public:
            problems += public_problems(path, text, PAGES.get(path, PAGE), pages)
        elif IMPL.match(path):
            problems += impl_problems(path, text, declared)
        if not path.startswith('tests/') and path not in WITH_ASSEMBLY and ASSEMBLY.search(text):
            problems.append(f'{path}: inline assembly')
    for path in files:
        if not path.startswith(('kernels/', 'tests/')):
            problems += [f'{path}: {name}: internal to the device headers'
                         for name in sorted(set(re.findall(r'\b(?:shmdi|SHMDI)_\w+', checklib.read(root, path))))]
    return problems if declared else [*problems, 'no device function was found']


CLEAN = {
    'kernels/dev/rma.h': '#ifndef SHMD_DEV_RMA_H\n#define SHMD_DEV_RMA_H\n#define SHMD_DEV_MAX 1u\nenum shmd_dev_cmp {\n\tSHMD_DEV_EQ = 0,\n};\n'
                         'SHMDI_API int shmd_dev_qp_put(struct shmd_dev_qp *qp);\nSHMDI_FN struct shmd_dev_x shmd_dev_x_of(int x)\n{\n}\n#endif\n',
    'kernels/dev/hooks.h': 'void shmd_dev_host_relax(uint32_t round);\n',
    'kernels/dev/impl/order.h': '#ifndef SHMDI_ORDER_H\n#define SHMDI_ORDER_H\nSHMDI_FN int shmdi_order(void)\n{\n\tasm("x");\n}\n#endif\n',
    'kernels/dev/impl/plain.h': 'struct shmdi_at {\n};\nSHMDI_API int shmd_dev_qp_put(struct shmd_dev_qp *qp)\n{\n}\n',
    'libclient/man/shmd_dev_host_relax.3': '.Sh SYNOPSIS\n.Fn shmd_dev_host_relax "uint32_t round"\n.Sh DESCRIPTION\n',
    PAGE: '.Sh SYNOPSIS\n.Fn shmd_dev_qp_put "x"\n.Fo shmd_dev_x_of\n.Sh DESCRIPTION\n.Dv SHMD_DEV_MAX\nshmd_dev_cmp SHMD_DEV_EQ\n',
    'daemon/a.c': '/* No asm here. */\n',
}


def case(name, says, path, more):
    return Planted(name, {**CLEAN, path: CLEAN.get(path, '') + more}, says)


PLANTED = [
    Planted('a clean tree', CLEAN, None),
    Planted('nothing to check', {'README.md': ''}, 'no device function'),
    Planted('a clean page of its own', {**CLEAN, 'kernels/dev/pe.h': 'SHMDI_FN int shmd_dev_pe_x(void);\n',
                                        'libclient/man/shmd_dev_pe.3': '.Sh SYNOPSIS\n.Fn shmd_dev_pe_x void\n.Sh DESCRIPTION\n'}, None),
    Planted('a function on the wrong page', {**CLEAN, 'kernels/dev/pe.h': 'SHMDI_FN int shmd_dev_qp_put(void);\n'},
            'shmd_dev_qp_put: a function that is not in the synopsis of libclient/man/shmd_dev_pe.3'),
    case('a function without a page', 'shmd_dev_qp_get: a function that is not in the synopsis', 'kernels/dev/rma.h',
         'SHMDI_FN int shmd_dev_qp_get(void);\n'),
    case('an internal function in a public header', 'shmdi_part: a function that is not in the synopsis', 'kernels/dev/rma.h',
         'SHMDI_FN int shmdi_part(void)\n{\n}\n'),
    case('a hook without a page', 'shmd_dev_host_wake: a function that no page', 'kernels/dev/hooks.h',
         'void shmd_dev_host_wake(uint64_t handle);\n'),
    case('a macro without a page', 'SHMD_DEV_MIN: not in', 'kernels/dev/rma.h', '#define SHMD_DEV_MIN 0u\n'),
    case('a struct without a page', 'shmd_dev_y: not in', 'kernels/dev/rma.h', 'struct shmd_dev_y {\n};\n'),
    case('an enumerator without a page', 'SHMD_DEV_NE: not in', 'kernels/dev/rma.h', 'enum shmd_dev_cmp {\n\tSHMD_DEV_NE,\n};\n'),
    Planted('a function that is gone', {**CLEAN, 'kernels/dev/rma.h': 'SHMDI_FN struct shmd_dev_x shmd_dev_x_of(int x);\n'},
            'shmd_dev_qp_put: no public header declares it'),
    case('a body of nothing declared', 'shmd_dev_qp_p: neither', 'kernels/dev/impl/plain.h', 'SHMDI_FN int shmd_dev_qp_p(void)\n{\n}\n'),
    case('a macro for callers', 'SHMD_DEV_LOOKS: a name for callers', 'kernels/dev/impl/plain.h', '#define SHMD_DEV_LOOKS 1\n'),
    case('a struct for callers', 'shmd_dev_post: a name for callers', 'kernels/dev/impl/plain.h', 'struct shmd_dev_post {\n};\n'),
    case('assembly elsewhere', 'daemon/a.c: inline assembly', 'daemon/a.c', 'void f(void)\n{\n\t__asm__ volatile("x");\n}\n'),
    case('assembly in a test', None, 'tests/bench/a.c', 'void f(void)\n{\n\tasm("x");\n}\n'),
    case('an internal name in the library', 'libclient/a.c: shmdi_order: internal', 'libclient/a.c', 'int x = shmdi_order();\n'),
    case('an internal name in a test', None, 'tests/dev/a.c', 'int x = shmdi_order();\n'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
