#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libshmemclient exports = what its symbol map names = what its headers declare = what has a man page.

Device functions are in headers alone: each that shmd_dev_qp(3), shmd_dev_pe(3) or shmd_dev_coll(3) has in its synopsis has a page that points there.
check-dev-headers compares those synopses with the headers.

The operations and fields of the plug-in interface are pointers in structs: each has an item in shmd-bootstrap(7).
"""
import pathlib
import re
import subprocess
import tempfile

import checklib
from checklib import Planted

NAME = re.compile(r'\b(shmd_\w+)\s*\(')


def exported(library):
    text = subprocess.run(['nm', '-D', '--defined-only', library], capture_output=True, text=True, check=True).stdout
    symbols = [line.split() for line in text.splitlines()]
    # An "A" is the name of a symbol version.
    return {fields[-1].split('@')[0] for fields in symbols if len(fields) >= 3 and fields[-2] != 'A'}


def mapped(path):
    text = re.sub(r'/\*.*?\*/|#[^\n]*', ' ', pathlib.Path(path).read_text(encoding='utf-8'), flags=re.S)
    names = set()
    for stanza in re.findall(r'\{(.*?)\}', text, flags=re.S):
        section = 'global'
        for word in re.findall(r'[^\s;:]+\s*[;:]', stanza):
            word = word.replace(' ', '')
            if word in ('global:', 'local:'):
                section = word[:-1]
            elif section == 'global':
                names.add(word[:-1])
    return names


def top_level(text):
    """Declarations outside of braces, each without what its braces held."""
    depth, piece = 0, ''
    for char in text:
        if char == '{':
            depth += 1
        elif char == '}':
            depth -= 1
            piece += '{}' if depth == 0 else ''
            # The end of an inline function has no semicolon of its own.
            if depth == 0 and re.search(r'\)\s*\{\}$', piece):
                yield piece
                piece = ''
        elif depth == 0 and char == ';':
            yield piece
            piece = ''
        elif depth == 0:
            piece += char


def declared(root, cc, headers):
    names = set()
    for header in headers:
        command = [cc, '-E', '-P', '-I', 'kernels/include', '-I', 'libclient/include', header]
        text = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
        for declaration in top_level(text):
            if re.search(r'\b(static|typedef)\b', declaration):
                continue
            match = NAME.search(declaration)
            if match:
                names.add(match.group(1))
    return names


DEVICE_PAGES = ('shmd_dev_qp', 'shmd_dev_pe', 'shmd_dev_coll')


def device_documented(folder, stem):
    """Functions in the synopsis of a page of device functions."""
    page = pathlib.Path(folder) / f'{stem}.3'
    text = page.read_text(encoding='utf-8') if page.exists() else ''
    synopsis = re.search(r'^\.Sh SYNOPSIS\n(.*?)^\.Sh ', text, flags=re.S | re.M)
    return set(re.findall(r'^\.F[no] (\w+)', synopsis.group(1), flags=re.M)) if synopsis else set()


def documented(folder, problems):
    """Names in the NAME sections of the pages. What is not the page's own name is installed as a page that points there,
    which the folder's meson.build lists."""
    folder = pathlib.Path(folder)
    build = folder / 'meson.build'
    listed = set(re.findall(r"'(shmd_\w+)'", build.read_text(encoding='utf-8'))) if build.exists() else set()
    for stem in DEVICE_PAGES:
        of_device = device_documented(folder, stem)
        problems += compare(f'in the synopsis of {stem}.3', of_device, f'listed in {build.name}', listed)
        listed -= of_device | {stem}
    names = set()
    for page in sorted(folder.glob('*.3')):
        if page.stem in DEVICE_PAGES:
            continue
        section = re.search(r'^\.Sh NAME\n(.*?)^\.Nd', page.read_text(encoding='utf-8'), flags=re.S | re.M)
        here = set(re.findall(r'^\.Nm (\w+)', section.group(1), flags=re.M)) if section else set()
        if page.stem not in here:
            problems.append(f'{page.name}: does not name {page.stem}')
        problems += [f'{name}: named in {page.name}, but not listed in {build.name}' for name in sorted(here - listed)]
        names |= here
    problems += [f'{name}: listed in {build.name}, but named in no page' for name in sorted(listed - names)]
    return names


def interface_problems(header, page):
    """Members of the structs of an interface that the page describes in no item, and items of members that are gone."""
    header, page = pathlib.Path(header), pathlib.Path(page)
    text = re.sub(r'/\*.*?\*/', ' ', header.read_text(encoding='utf-8'), flags=re.S)
    members = set()
    for body in re.findall(r'struct shmd_bootstrap\w* \{(.*?)\n\};', text, flags=re.S):
        for line in body.split(';')[:-1]:
            members.add((re.search(r'\(\*(\w+)\)', line) or re.search(r'(\w+)\s*$', line)).group(1))
    items = {word for line in re.findall(r'^\.It Va (.*)$', page.read_text(encoding='utf-8'), flags=re.M) for word in re.findall(r'\w+', line)}
    return compare(f'in {header.name}', members, f'an item of {page.name}', items) + \
        compare(f'an item of {page.name}', items, f'in {header.name}', members)


def compare(what, names, other_what, others):
    return [f'{name}: {what}, but not {other_what}' for name in sorted(names - others)]


def check(root, options):
    symbols = exported(pathlib.Path(root) / options.library)
    in_map = mapped(pathlib.Path(root) / options.map)
    in_headers = declared(root, options.cc, options.header)
    problems = [f'{name}: exported, and is no shmd_*' for name in sorted(symbols) if not name.startswith('shmd_')]
    in_pages = documented(pathlib.Path(root) / options.man, problems)
    if not symbols:
        problems.append(f'{options.library}: exports nothing')
    problems += compare('exported', symbols, 'in the symbol map', in_map)
    problems += compare('in the symbol map', in_map, 'exported', symbols)
    problems += compare('exported', symbols, 'declared in a public header', in_headers)
    problems += compare('declared in a public header', in_headers, 'exported', symbols)
    problems += compare('exported', symbols, f'documented in {options.man}', in_pages)
    problems += compare('documented', in_pages, 'exported', symbols)
    if options.interface:
        problems += interface_problems(pathlib.Path(root) / options.interface, pathlib.Path(root) / options.interface_page)
    return problems


def add_options(parser):
    parser.add_argument('--library', help='libshmemclient.so')
    parser.add_argument('--map', default='libclient/libshmemclient.map')
    parser.add_argument('--header', action='append', default=None, help='a public header; may be repeated')
    parser.add_argument('--man', default='libclient/man')
    parser.add_argument('--interface', help='the header of an interface that others implement')
    parser.add_argument('--interface-page', help='its page')
    parser.add_argument('--cc', default='cc')


CLEAN = {
    'x.c': 'void shmd_a(void) {} void shmd_b(void) {}',
    'x.map': 'SHMEMCLIENT_0 { /* all */ global: shmd_a; shmd_b; local: *; };',
    'x.h': 'struct s { void (*shmd_f)(int); };\nstatic inline int shmd_i(void) { return 0; }\n'
           '/* shmd_n(); */ void shmd_a(void);\nvoid shmd_b(void) __attribute__((cold));\n',
    'man/shmd_a.3': '.Sh NAME\n.Nm shmd_a ,\n.Nm shmd_b\n.Nd two\n.Sh SYNOPSIS\n.Nm shmd_z\n',
    'man/meson.build': "{'shmd_a': ['shmd_b'], 'shmd_dev_qp': ['shmd_dev_qp_put']}",
    'b.h': 'struct shmd_bootstrap {\n\tint rank; /* x; y */\n};\nstruct shmd_bootstrap_ops {\n\tint (*close)(struct b *b);\n};\n',
    'man/b.7': '.Sh FIELDS\n.It Va rank\n.It Va close\n',
    'man/shmd_dev_qp.3': '.Sh NAME\n.Nm shmd_dev_qp\n.Nd x\n.Sh SYNOPSIS\n.Fn shmd_dev_qp_put "int x"\n.Sh DESCRIPTION\n',
}


def with_library(name, changes, says):
    """A planted tree whose library is built here, since a check of binaries needs one."""
    files = {**CLEAN, **changes}
    files = {path: text for path, text in files.items() if text is not None}
    with tempfile.TemporaryDirectory() as folder:
        checklib.plant(folder, files)
        version = [f'-Wl,--version-script={folder}/x.map'] if changes.get('versioned', True) else []
        subprocess.run(['cc', '-shared', '-fPIC', '-w', '-o', f'{folder}/x.so', f'{folder}/x.c', *version], check=True)
        library = (pathlib.Path(folder) / 'x.so').read_bytes()
    return Planted(name, files, says, {'library': library, 'map': 'x.map', 'header': ['x.h'], 'man': 'man', 'interface': 'b.h',
                                       'interface_page': 'man/b.7'})


def check_planted(root, options):
    library = pathlib.Path(root) / 'x.so'
    library.write_bytes(options.library)
    options.library = 'x.so'
    return check(root, options)


def planted():
    return [
        with_library('a clean library', {}, None),
        with_library('in the map only', {'x.map': 'S { global: shmd_a; shmd_b; shmd_c; local: *; };'},
                     'shmd_c: in the symbol map, but not exported'),
        with_library('undeclared', {'x.h': 'void shmd_a(void);'}, 'shmd_b: exported, but not declared'),
        with_library('declared only', {'x.h': CLEAN['x.h'] + 'int shmd_c(int x);'},
                     'shmd_c: declared in a public header, but not exported'),
        with_library('undocumented', {'man/shmd_a.3': '.Sh NAME\n.Nm shmd_a\n.Nd one\n'},
                     'shmd_b: exported, but not documented'),
        with_library('a page too many', {'man/shmd_z.3': '.Sh NAME\n.Nm shmd_z\n.Nd gone\n'},
                     'shmd_z: documented, but not exported'),
        with_library('a page of another name', {'man/shmd_c.3': '.Sh NAME\n.Nm shmd_a\n.Nd one\n'},
                     'shmd_c.3: does not name shmd_c'),
        with_library('a name without a page of its own', {'man/meson.build': "{'shmd_a': [], 'shmd_dev_qp_put'}"},
                     'shmd_b: named in shmd_a.3, but not listed in meson.build'),
        with_library('a pointer to nothing', {'man/meson.build': "{'shmd_a': ['shmd_b', 'shmd_y', 'shmd_dev_qp_put']}"},
                     'shmd_y: listed in meson.build, but named in no page'),
        with_library('a device function without a page that points there', {'man/meson.build': "{'shmd_a': ['shmd_b']}"},
                     'shmd_dev_qp_put: in the synopsis of shmd_dev_qp.3, but not listed'),
        with_library('an operation without an item', {'man/b.7': '.It Va rank\n'}, 'close: in b.h, but not an item of b.7'),
        with_library('an item of an operation that is gone', {'man/b.7': CLEAN['man/b.7'] + '.It Va open , close\n'},
                     'open: an item of b.7, but not in b.h'),
        with_library('a foreign name', {'x.c': CLEAN['x.c'] + 'void helper(void) {}',
                                        'x.map': 'S { global: shmd_a; shmd_b; helper; local: *; };'},
                     'helper: exported, and is no shmd_*'),
    ]


if __name__ == '__main__':
    import sys
    if '--self-test' in sys.argv:
        checklib.main(__doc__, check_planted, planted(), add_options)
    checklib.main(__doc__, check, [], add_options)
