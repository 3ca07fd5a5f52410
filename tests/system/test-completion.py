#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion of shmemctl as a shell does it: the function is called by the shell, and keys are typed into a terminal.

test-completion.py SHELL SHMEMCTL CTL-SUBJECT FOLDER-OF-COMPLETION, under with-daemon.sh. SHELL is bash or zsh.
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ctl_subject import Cases, subject

BASH = r'''
source "$1"/shmemctl.bash
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shmemctl
printf '%s\n' "${COMPREPLY[@]}"
'''

PROMPT = 'prompt: '


class Lab:
    def __init__(self, shmemctl, folder, scratch):
        self.shmemctl, self.folder, self.scratch = shmemctl, folder, scratch
        self.path = os.path.dirname(shmemctl) + ':' + os.environ['PATH']

    def run(self, *words):
        return subprocess.run([self.shmemctl, *words], capture_output=True, text=True, check=True).stdout

    def bash(self, *words):
        """What the function leaves in COMPREPLY."""
        done = subprocess.run(['bash', '--norc', '-c', BASH, 'bash', self.folder, self.shmemctl, *words],
                              capture_output=True, text=True, check=False, timeout=30)
        if done.stderr:
            raise SystemExit(done.stderr)
        return {line for line in done.stdout.splitlines() if line}

    def bash_of(self, program, *words):
        """The same of another program that offers."""
        return Lab(program, self.folder, self.scratch).bash(*words)

    def typed(self, shell, keys, wanted, timeout=15):
        """Types into an interactive shell. Returns what is on the screen once `wanted` is there, or at the end."""
        start = {
            'bash': ['bash', '--norc', '--noprofile', '-i'],
            'zsh': ['zsh', '-f', '-i'],
        }[shell]
        # The quotes keep the echo of this line from looking like the prompt.
        prepare = {
            'bash': f"source {self.folder}/shmemctl.bash; bind 'set enable-bracketed-paste off'; PS1='pro''mpt: '\n",
            'zsh': f"fpath=({self.folder} $fpath); autoload -U compinit; compinit -u; unset zle_bracketed_paste; "
                   "LISTMAX=1000; setopt NO_AUTO_MENU; PS1='pro''mpt: '\n",
        }[shell]
        pid, fd = pty.fork()
        if not pid:
            env = {**os.environ, 'PATH': self.path, 'TERM': 'dumb' if shell == 'bash' else 'xterm', 'HOME': self.scratch,
                   'ZDOTDIR': self.scratch, 'PS1': '', 'LC_ALL': 'C.UTF-8'}
            os.chdir(self.scratch)
            os.execvpe(start[0], start, env)
        try:
            os.write(fd, prepare.encode())
            self.read_until(fd, PROMPT, timeout)
            os.write(fd, keys.encode())
            return self.read_until(fd, wanted, timeout)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(fd)

    @staticmethod
    def read_until(fd, wanted, timeout):
        text, end = '', time.monotonic() + timeout
        while wanted not in text and time.monotonic() < end:
            if not select.select([fd], [], [], 0.1)[0]:
                continue
            try:
                text += os.read(fd, 65536).decode(errors='replace')
            except OSError:
                break
            text = re.sub(r'\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|\x07', '', text)
            text = re.sub(r'[^\x08\n]\x08', '', text)
        return text


def differ(found, wanted):
    return [] if set(found) == set(wanted) else [f'offered {sorted(found)}, wanted {sorted(wanted)}']


def commands_of(lab):
    part = lab.run('--help').split('Commands:\n')[1].split('\n\n')[0]
    return re.findall(r'^  ([a-z-]+) ', part, re.M)


def options_of(lab, *words):
    return re.findall(r'^  (--[a-z-]+)', lab.run(*words, '--help').split('Options:\n')[1], re.M)


def bash_static(lab, cases):
    commands = commands_of(lab)
    cases.add('commands_are_offered', differ(lab.bash(''), commands))
    cases.add('a_beginning_narrows_the_offer', differ(lab.bash('st'), ['status', 'stats']) + differ(lab.bash('x'), []))
    cases.add('options_of_all_are_offered', differ(lab.bash('--'), options_of(lab)))
    problems = []
    for command in commands:
        problems += differ(lab.bash(command, '-'), options_of(lab, command))
    cases.add('options_of_each_command_are_offered', problems)
    cases.add('an_option_is_offered_once', differ(lab.bash('list', '--json', '--j'), []))
    cases.add('kinds_of_lists_are_offered', differ(lab.bash('list', ''), ['sessions', 'qps', 'mrs', 'pes', 'paths', 'nics']) +
              differ(lab.bash('stats', 'n'), ['nics']) + differ(lab.bash('port', 'soft0', ''), ['up', 'down']))
    cases.add('words_come_after_options', differ(lab.bash('--json', '--watch', '2', 'list', 'q'), ['qps']) +
              differ(lab.bash('--watch', 'list', 'q'), ['qps']))
    cases.add('values_are_offered', differ(lab.bash('--color', 'a'), ['auto', 'always']) +
              differ(lab.bash('--color', '=', 'ne'), ['never']) + differ(lab.bash('--color', '='), ['auto', 'always', 'never']) +
              differ(lab.bash('monitor', '--kind', 'qp'), ['qp-error']) +
              differ(lab.bash('monitor', '--kind', 'qp-error,dr'), ['qp-error,drain', 'qp-error,dropped']) +
              differ(lab.bash('drain', '--grace', ''), []))
    socket = os.environ['SHMEMD_SOCKET']
    cases.add('sockets_are_files', differ(lab.bash('--socket', socket[:-1]), [socket]))


# A node with ports, which soft NICs have not.
PORTS = r'''#!/bin/sh
[ "$*" = "--complete port $WANTED" ] && printf 'mlx5_0:1\tactive\nmlx5_0:2\n0000:3b:00.0\n'
'''


def bash_colons(lab, cases):
    """As bash divides them."""
    program = os.path.join(lab.scratch, 'ports')
    with open(program, 'w', encoding='utf-8') as file:
        file.write(PORTS)
    os.chmod(program, 0o755)
    problems = []
    for words, wanted in (((''), ['mlx5_0:1', 'mlx5_0:2', '0000:3b:00.0']), (('mlx5_0', ':'), ['1', '2', '0000:3b:00.0']),
                          (('mlx5_0', ':', '1'), ['1', '2', '0000:3b:00.0']),
                          (('0000', ':', '3b', ':', '00'), ['00.0', 'mlx5_0:1', 'mlx5_0:2'])):
        os.environ['WANTED'] = ''.join(words)
        problems += differ(lab.bash_of(program, 'port', *(words or [''])), wanted)
    cases.add('names_with_colons_are_one_word', problems)


def bash_live(lab, cases, busy, failed):
    sessions = [str(s['session']) for s in json.loads(lab.run('--json', 'list', 'sessions'))['sessions']]
    cases.add('live_sessions_are_offered', differ(lab.bash('kill', ''), sessions) + ([] if len(sessions) == 2 else ['not 2']))
    cases.add('nics_are_offered', differ(lab.bash('port', ''), ['soft0', 'soft1']))
    qps = [f'{qp["nic"]}/{qp["qpn"]:#x}' for qp in json.loads(lab.run('--json', 'list', 'qps'))['qps']]
    ours = [qp for qp in qps if qp.split('/')[1] in (busy, failed)]
    cases.add('qps_are_offered', differ(lab.bash('dump-queue', ''), qps) + ([] if len(ours) == 2 else [str(qps)]))
    cases.add('nothing_is_offered_without_a_daemon', differ(lab.bash('--socket', '/nonexistent', 'kill', ''), []) +
              differ(lab.bash('--socket', '=', '/nonexistent', 'kill', ''), []))


def typing(lab, cases, shell):
    for name, keys, wanted in (('a_tab_completes_a_command', 'shmemctl dump\t', 'shmemctl dump-queue '),
                               ('a_tab_completes_a_word', 'shmemctl list ses\t', 'shmemctl list sessions '),
                               ('a_tab_completes_an_option', 'shmemctl drain --gr\t', 'shmemctl drain --grace '),
                               ('a_tab_completes_a_value', 'shmemctl --color=alw\t', 'shmemctl --color=always '),
                               ('a_tab_completes_what_is_live', 'shmemctl port soft1\tdo\t', 'shmemctl port soft1 down '),
                               ('two_tabs_show_the_choice', 'shmemctl list \t\t', 'mrs')):
        screen = lab.typed(shell, keys, wanted)
        cases.add(name, [] if wanted in screen else [f'no {wanted!r} in {screen!r}'])


def main():
    shell, shmemctl, program, folder = sys.argv[1:]
    if not shutil.which(shell):
        print(f'{shell} is not installed')
        sys.exit(77)
    cases = Cases()
    with tempfile.TemporaryDirectory() as scratch, subject(program) as (busy, failed):
        lab = Lab(os.path.realpath(shmemctl), os.path.realpath(folder), scratch)
        script = 'shmemctl.bash' if shell == 'bash' else '_shmemctl'
        done = subprocess.run([shell, '-n', f'{folder}/{script}'], capture_output=True, text=True, check=False)
        cases.add('the_script_is_well_formed', [done.stderr] if done.returncode or done.stderr else [])
        if shell == 'bash':
            bash_static(lab, cases)
            bash_colons(lab, cases)
            bash_live(lab, cases, busy, failed)
        typing(lab, cases, shell)
    cases.end()


if __name__ == '__main__':
    main()
