#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The grammar of udev rules, as udev(7) has it and as far as ours go: KEY OP "VALUE", separated by commas; a match (==, !=)
asks, an assignment (=, +=, -=, :=) sets; a GOTO leads to a LABEL further down; every rule both asks and sets. RUN leaves what
others run in place and names its program in full; nothing is given to a group or to everybody.
"""
import re

import checklib
from checklib import Planted

MATCHES = {'ACTION', 'DEVPATH', 'KERNEL', 'KERNELS', 'NAME', 'SUBSYSTEM', 'SUBSYSTEMS', 'DRIVER', 'DRIVERS', 'TAGS', 'RESULT', 'TEST'}
BOTH = {'ATTR', 'SYSCTL', 'ENV', 'TAG', 'SYMLINK', 'PROGRAM', 'IMPORT'}
ASSIGNS = {'OWNER', 'GROUP', 'MODE', 'RUN', 'LABEL', 'GOTO', 'OPTIONS'}
WITH_ATTRIBUTE = {'ATTR', 'ATTRS', 'SYSCTL', 'ENV', 'IMPORT'}
TERM = re.compile(r'([A-Z]+)(\{[^}]+\})?\s*(==|!=|\+=|-=|:=|=)\s*"([^"]*)"$')


def check_run(operator, command):
    """The problem of a program that udev runs, or None."""
    program, *words = command.split()
    if operator != '+=':
        return 'RUN takes away what other rules run'
    if not program.startswith('/'):
        return f'RUN "{program}" is not the whole path of a program'
    if program.endswith('/chown') and ':' in words[0]:
        return f'RUN "{command}" gives something to a group'
    if program.endswith('/chmod') and not re.match(r'0?[0-7]00$', words[0]):
        return f'RUN "{command}" gives something to a group or to everybody'
    return None


def check_term(term):
    """(key, whether it asks, value), or the problem."""
    found = TERM.match(term.strip())
    if not found:
        return None, f'"{term.strip()}" is not of the form KEY=="VALUE"'
    key, attribute, operator, value = found.groups()
    asks = operator in ('==', '!=')
    if key not in MATCHES | BOTH | ASSIGNS:
        return None, f'there is no key {key}'
    if bool(attribute) != (key in WITH_ATTRIBUTE):
        return None, f'{key} {"needs" if key in WITH_ATTRIBUTE else "takes no"} attribute in braces'
    if asks and key in ASSIGNS:
        return None, f'{key} can only be set'
    if not asks and key in MATCHES:
        return None, f'{key} can only be asked'
    if key == 'MODE' and not re.match(r'0?[0-7]{3}$', value):
        return None, f'MODE "{value}" is not octal'
    if key == 'RUN':
        return (key, asks, value), check_run(operator, value)
    return (key, asks, value), None


def rules(text):
    joined = text.replace('\\\n', ' ')
    for number, line in enumerate(joined.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith('#'):
            yield number, re.findall(r'(?:[^,"]|"[^"]*"?)+', line)


def check_file(root, path):
    problems, labels, gotos = [], {}, []
    for number, terms in rules(checklib.read(root, path)):
        known = []
        for term in terms:
            good, problem = check_term(term)
            if problem:
                problems.append(f'{path}:{number}: {problem}')
            if good:
                known.append(good)
        labels.update({value: number for key, _, value in known if key == 'LABEL'})
        gotos += [(number, value) for key, _, value in known if key == 'GOTO']
        if len(known) == len(terms) and not any(key == 'LABEL' for key, _, _ in known):
            if not any(asks for _, asks, _ in known):
                problems.append(f'{path}:{number}: concerns every device of the system')
            if all(asks for _, asks, _ in known):
                problems.append(f'{path}:{number}: sets nothing')
    problems += [f'{path}:{number}: there is no LABEL "{label}" further down' for number, label in gotos
                 if labels.get(label, 0) <= number]
    return problems


def check(root, options):
    paths = [path for path in checklib.our_files(root) if path.endswith('.rules')]
    if not paths:
        return ['systemd:1: there are no rules']
    return [problem for path in paths for problem in check_file(root, path)]


def planted(name, says, text):
    return Planted(name, {'systemd/60-x.rules': text}, says)


PLANTED = [
    planted('clean', None, '# c\nACTION=="remove", GOTO="end"\nKERNEL=="a*", OWNER="x", TAG+="y", MODE="0660"\nLABEL="end"\n'),
    planted('runs', None, 'KERNEL=="a", TEST=="b", RUN+="/bin/chown x %S%p/b", RUN+="/bin/chmod 0400 %S%p/b"\n'),
    planted('runs alone', 'takes away', 'KERNEL=="a", RUN="/bin/true"\n'),
    planted('runs something', 'not the whole path', 'KERNEL=="a", RUN+="true"\n'),
    planted('chown group', 'to a group', 'KERNEL=="a", RUN+="/bin/chown x:y %S%p/b"\n'),
    planted('chmod group', 'to a group', 'KERNEL=="a", RUN+="/bin/chmod 0440 %S%p/b"\n'),
    planted('tests what is set', 'TEST can only be asked', 'KERNEL=="a", TEST="b"\n'),
    planted('continued', None, 'KERNEL=="a", \\\n  ENV{A}="b, c"\n'),
    planted('unquoted', 'not of the form', 'KERNEL==a, OWNER="x"\n'),
    planted('no comma', 'not of the form', 'KERNEL=="a" OWNER="x"\n'),
    planted('misspelt', 'no key KERNAL', 'KERNAL=="a", OWNER="x"\n'),
    planted('asks what is set', 'OWNER can only be set', 'KERNEL=="a", OWNER=="x"\n'),
    planted('sets what is asked', 'KERNEL can only be asked', 'KERNEL="a", OWNER="x"\n'),
    planted('no attribute', 'ENV needs attribute', 'KERNEL=="a", ENV="x"\n'),
    planted('attribute of none', 'OWNER takes no attribute', 'KERNEL=="a", OWNER{a}="x"\n'),
    planted('mode', 'MODE "rw" is not octal', 'KERNEL=="a", MODE="rw"\n'),
    planted('everything', 'every device', 'OWNER="x"\n'),
    planted('nothing', 'sets nothing', 'KERNEL=="a"\n'),
    planted('nowhere', 'no LABEL "end"', 'LABEL="end"\nKERNEL=="a", GOTO="end"\n'),
    Planted('no rules', {'README.md': ''}, 'no rules'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED)
