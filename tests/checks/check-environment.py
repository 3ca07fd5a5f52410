#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Environment variables: those in the man page shmemd(8) are those that the daemon's source asks for, by getenv() or by a function that hands its parameter on to it.

Variables SHMD_* that the runtime and shmemctl name are in the table of the runtime's settings, else it warns users about them.
"""
import pathlib
import re

import checklib
from checklib import Planted

TABLE = 'daemon/settings/shmemd.8.in'
SETTINGS = 'libclient/runtime/settings/table.c'
SETTING = re.compile(r'"(SHMD_[A-Z][A-Z0-9_]*)=?"')
ROWS = re.compile(r'^\.SH ENVIRONMENT\n(.*?)(?=^\.SH |\Z)', re.S | re.M)
ROW = re.compile(r'^\.TP\n\\fB([A-Z0-9_, ]+)\\fR$', re.M)
GETENV = r'\b(?:secure_)?getenv'
FUNCTION = re.compile(r'^[^\s#/{}][^\n;={}]*?\b(\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}', re.M | re.S)
MACRO = re.compile(r'^#define\s+(\w+)\s+"([^"]*)"', re.M)


def calls(name, text):
    """First arguments of all calls."""
    return [argument.strip() for argument in re.findall(name + r'\(\s*("[^"]*"|\w+)\s*[,)]', text)]


def asked(text, macros):
    """Names that one file asks for."""
    functions, names, done = FUNCTION.findall(text), set(), set()
    waiting = [GETENV]
    while waiting:
        name = waiting.pop()
        for argument in calls(name, text):
            if argument.startswith('"'):
                names.add(argument.strip('"'))
            elif argument in macros:
                names.add(macros[argument])
        for function, parameters, body in functions:
            handed = [argument for argument in calls(name, body) if re.search(rf'\b{argument}$', parameters.split(',')[0])]
            if handed and function not in done:
                done.add(function)
                waiting.append(r'\b' + function)
    return names


def unknown_settings(root):
    there = checklib.read(root, SETTINGS) if (pathlib.Path(root) / SETTINGS).exists() else ''
    known = {name for name in SETTING.findall(there)}
    for path in checklib.our_files(root):
        if re.match(r'libclient/(runtime|ctl)/.*\.c$', path) and path != SETTINGS:
            for name in sorted(set(SETTING.findall(checklib.read(root, path))) - known):
                yield f'{path}:1: names {name}, which {SETTINGS} does not have'


def check(root, options):
    paths = [path for path in checklib.our_files(root) if re.match(r'(daemon|proto)/.*\.[ch]$', path)]
    texts = {path: checklib.read(root, path) for path in paths}
    page = checklib.read(root, TABLE) if (pathlib.Path(root) / TABLE).exists() else ''
    macros = {name: value for text in texts.values() for name, value in MACRO.findall(text)}
    table = ROWS.search(page)
    told = [name.strip() for names in ROW.findall(table.group(1)) for name in names.split(',')] if table else []
    found = {}
    for path, text in texts.items():
        if path.startswith('daemon/') and path.endswith('.c'):
            for name in asked(text, macros):
                found.setdefault(name, path)
    problems = [] if told else [f'{TABLE}:1: has no table of environment variables']
    problems += [f'{TABLE}:1: {name} stands there twice' for name in sorted(set(told)) if told.count(name) > 1]
    problems += [f'{path}:1: asks for {name}, which {TABLE} does not tell of' for name, path in sorted(found.items())
                 if name not in told]
    problems += [f'{TABLE}:1: tells of {name}, for which nobody asks' for name in sorted(set(told)) if name not in found]
    return problems + list(unknown_settings(root))


TEXT = '.SH ENVIRONMENT\n%s.SH FILES\n.TP\n\\fBNO_VARIABLE\\fR\nx\n'
A, B = '.TP\n\\fBSHMEMD_A\\fR\na\n', '.TP\n\\fBSHMEMD_B, LISTEN_B\\fR\nb\n'
CODE = '''static bool number(const char *key, int most)
{
	return getenv(key);
}

static bool is_ours(const char *key)
{
	return number(key, 1);
}

void f(void)
{
	const char *a = getenv(A_ENV);

	is_ours("SHMEMD_B");
	number("LISTEN_B", 2);
}
'''
HEAD = {'proto/a.h': '#define A_ENV "SHMEMD_A"\n'}

PLANTED = [
    Planted('clean', {TABLE: TEXT % (A + B), 'daemon/x.c': CODE, **HEAD}, None),
    Planted('not told', {TABLE: TEXT % B, 'daemon/x.c': CODE, **HEAD}, 'asks for SHMEMD_A, which'),
    Planted('not told, by a function', {TABLE: TEXT % A, 'daemon/x.c': CODE, **HEAD}, 'asks for LISTEN_B, which'),
    Planted('not told, by a function of a function', {TABLE: TEXT % A, 'daemon/x.c': CODE, **HEAD},
            'asks for SHMEMD_B, which'),
    Planted('not told, in a room', {TABLE: TEXT % (A + B), 'daemon/x.c': CODE, **HEAD,
                                    'daemon/nic/y.c': 'void f(void)\n{\n\tsecure_getenv("SHMEMD_C");\n}\n'},
            'daemon/nic/y.c:1: asks for SHMEMD_C'),
    Planted('not asked for', {TABLE: TEXT % (A + B), 'daemon/x.c': CODE.replace('number("LISTEN_B", 2)', 'f()'), **HEAD},
            'tells of LISTEN_B, for which'),
    Planted('told twice', {TABLE: TEXT % (A + A + B), 'daemon/x.c': CODE, **HEAD}, 'SHMEMD_A stands there twice'),
    Planted('settings that there are', {TABLE: TEXT % (A + B), 'daemon/x.c': CODE, **HEAD, SETTINGS: '{"SHMD_A", 1}, {"SHMD_B", 2},',
                                        'libclient/runtime/boot/x.c': 'get("SHMD_A"); put("SHMD_B="); put("SHMD_"); put("SHMD_C is not");'}, None),
    Planted('a setting that there is not', {TABLE: TEXT % (A + B), 'daemon/x.c': CODE, **HEAD, SETTINGS: '{"SHMD_A", 1},',
                                            'libclient/runtime/boot/x.c': 'get("SHMD_A"); put("SHMD_B=");'}, 'x.c:1: names SHMD_B, which'),
    Planted('no table', {TABLE: '', 'daemon/x.c': CODE, **HEAD}, 'has no table'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
