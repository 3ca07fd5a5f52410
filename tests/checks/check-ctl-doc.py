#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl --help, the man page shmemctl(1) and completion name the same commands, options and words.

--shmemctl is the program. The commands of the page are the items of its section COMMANDS, with their own options on the
line; every option of the section OPTIONS belongs to a command or to all.
"""
import pathlib
import re
import subprocess

import checklib
from checklib import Planted

PAGE = 'libclient/man/shmemctl.1'
COMMAND = re.compile(r'^\.It Cm (\S+)')
FLAG = re.compile(r'Fl -([a-z-]+)')
HELP_OPTION = re.compile(r'^  (--[a-z-]+)', re.M)
HELP_COMMAND = re.compile(r'^  ([a-z-]+) ', re.M)


def run(options, root, *words):
    program = str(pathlib.Path(root) / options.shmemctl)
    command = ['sh', program] if program.endswith('.sh') else [program]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False,
                          env={'SHMEMD_SOCKET': '/nonexistent'}).stdout


def offered(options, root, *words):
    lines = run(options, root, '--complete', *words).splitlines()
    return {line.split('\t')[0] for line in lines if line != ':files'}


def sections(text):
    parts = re.split(r'^\.Sh (.+)$', text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def items(section):
    """(line, all lines up to the next one) of the items of the outermost list."""
    depth, found = 0, []
    for line in section.splitlines():
        depth += line.startswith('.Bl') - line.startswith('.El')
        if line.startswith('.It') and depth == 1:
            found.append([line, line])
        elif found:
            found[-1][1] += '\n' + line
    return found


def page_of(text):
    """Commands of the page with their options and their text, and the options of the section OPTIONS."""
    parts = sections(text)
    commands = {}
    for line, body in items(parts.get('COMMANDS', '')):
        name = COMMAND.match(line)
        if name:
            commands[name.group(1)] = ({'--' + flag for flag in FLAG.findall(line)}, body)
    option_lines = [line for line, _ in items(parts.get('OPTIONS', ''))]
    return commands, {'--' + FLAG.search(line).group(1) for line in option_lines}


def help_of(options, root, *words):
    """Commands and options of a help text."""
    parts = re.split(r'^(Commands|Options):$', run(options, root, *words, '--help'), flags=re.M)
    named = dict(zip(parts[1::2], parts[2::2]))
    return set(HELP_COMMAND.findall(named.get('Commands', ''))), set(HELP_OPTION.findall(named.get('Options', '')))


def differ(what, a_name, a, b_name, b):
    return [f'{PAGE}:1: {what} {name}: in {a_name}, not in {b_name}' for name in sorted(a - b)] + \
           [f'{PAGE}:1: {what} {name}: in {b_name}, not in {a_name}' for name in sorted(b - a)]


def check_command(root, options, name, page_options, body, common):
    _, help_options = help_of(options, root, name)
    problems = differ(f'{name}: option', 'the help', help_options - common, 'the page', page_options)
    problems += differ(f'{name}: option', 'the help', help_options, 'completion', offered(options, root, name, '-'))
    # Behind an option without a value completion offers what it offers without it.
    for words in [[], *([option] for option in sorted(help_options - common))]:
        problems += [f'{PAGE}:1: {" ".join([name, *words])}: {word} is not in the page'
                     for word in sorted(offered(options, root, name, *words, ''))
                     if not word.startswith('-') and not re.search(rf'(Cm|\|) {word}\b', body)]
    return problems


def check(root, options):
    commands, page_options = page_of(checklib.read(root, PAGE))
    help_commands, help_options = help_of(options, root)
    common = help_options - {'--watch'}
    problems = differ('command', 'the help', help_commands, 'the page', set(commands))
    problems += differ('command', 'the help', help_commands, 'completion', offered(options, root, ''))
    problems += differ('option', 'the help', help_options, 'completion', offered(options, root, '-'))
    used = set(common)
    for name, (own, body) in commands.items():
        if name in help_commands:
            problems += check_command(root, options, name, own, body, common)
        used |= own
    return problems + differ('option', 'the commands and common ones', used, 'the section OPTIONS', page_options)


def add_options(parser):
    parser.add_argument('--shmemctl', default='build/libclient/ctl/shmemctl', help='the program')


GOOD_PAGE = '''.Sh COMMANDS
.Bl -tag
.It Cm eat Cm soup | bread Op Fl -fast
.Bl -tag
.It Cm inner
.El
.It Cm stop Op Fl -how Ar how
by
.Cm hand
.El
.Sh OPTIONS
.Bl -tag
.It Fl -json
x
.It Fl -fast
.It Fl -how
.El
'''

GOOD_PROGRAM = '''#
case "$*" in
--help) printf 'Commands:\\n  eat   x\\n  stop  x\\n\\nOptions:\\n  --json  x\\n' ;;
'eat --help') printf 'Options:\\n  --json  x\\n  --fast  x\\n' ;;
'stop --help') printf 'Options:\\n  --json  x\\n  --how  x\\n' ;;
'--complete ') printf 'eat\\tx\\nstop\\n' ;;
'--complete -') echo --json ;;
'--complete eat -') printf -- '--json\\n--fast\\n' ;;
'--complete stop -') printf -- '--json\\n--how\\n' ;;
'--complete eat ') printf 'soup\\nbread\\n' ;;
'--complete stop --how ') echo hand ;;
esac
'''


def case(name, says, page=('', ''), program=('', '')):
    files = {PAGE: GOOD_PAGE.replace(*page), 'p.sh': GOOD_PROGRAM.replace(*program)}
    return Planted(name, files, says, {'shmemctl': 'p.sh'})


PLANTED = [
    case('clean', None),
    case('a command not in the page', 'command stop: in the help, not in the page', page=('.It Cm stop', '.It Cm halt')),
    case('a command not in the help', 'command drink: in the page, not in the help', page=('.It Cm stop', '.It Cm drink')),
    case('a command not completed', 'command stop: in the help, not in completion', program=('\\nstop\\n', '\\n')),
    case('an option not in the page', 'eat: option --fast: in the help, not in the page', page=(' Op Fl -fast', '')),
    case('an option not in the help', 'stop: option --how: in the page, not in the help',
         program=('  --how  x', '  --who  x')),
    case('an option not completed', 'stop: option --how: in the help, not in completion',
         program=("--json\\n--how\\n'", "--json\\n'")),
    case('an option without its paragraph', 'option --fast: in the commands and common ones', page=('.It Fl -fast\n', '')),
    case('an option of nobody', 'option --slow: in the section OPTIONS', page=('.It Fl -fast', '.It Fl -slow\n.It Fl -fast')),
    case('a word not in the page', 'eat: soup is not in the page', page=('soup', 'soap')),
    case('a value not in the page', 'stop --how: hand is not in the page', page=('.Cm hand', '.Cm foot')),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options)
