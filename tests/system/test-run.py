#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl run as a user does it: test-run.py SHMEMCTL RUN-PE."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ctl_subject import Cases
from run_lab import Lab, Terminal, by_rank, end_by, lacks, marked, text_of, wait_gone, wait_pes, wait_until


def check_environment(cases, lab):
    names = ['PMI_RANK', 'PMI_SIZE', 'SHMD_RANK', 'SHMD_SIZE', 'SHMD_NODE_RANK', 'SHMD_NODE_SIZE', 'PMI_PORT', 'PMIX_RANK', 'SHMD_JOB']
    done = lab.run('-n', '3', 'PE', *[f'env={name}' for name in names], env={**os.environ, 'PMI_PORT': 'x:1', 'PMIX_RANK': '7'})
    problems = lacks(done, 0)
    found = by_rank(done.stdout)
    for rank in range(3):
        expected = [f'PMI_RANK={rank}', 'PMI_SIZE=3', f'SHMD_RANK={rank}', 'SHMD_SIZE=3', f'SHMD_NODE_RANK={rank}', 'SHMD_NODE_SIZE=3',
                    'PMI_PORT=(none)', 'PMIX_RANK=(none)']
        if found.get(rank, [])[:-1] != expected or not re.fullmatch('SHMD_JOB=[0-9a-f]{16}', found[rank][-1]):
            problems.append(f'{rank}: {found.get(rank)}')
    jobs = {lines[-1] for lines in found.values()} | {lab.run('-n', '1', '--no-prefix', 'PE', 'env=SHMD_JOB').stdout.strip()}
    problems += [] if len(jobs) == 2 else [f'not one name for a job, and another for the next: {jobs}']
    cases.add('pes_have_rank_size_and_job_and_nothing_of_another_launcher', problems)
    done = lab.run('-n', '2', '-x', 'A=1=2', '--env=B=', '-x', 'HOME', 'PE', 'env=A', 'env=B')
    problems = lacks(done, 0, r'\[0\] A=1=2\n', r'\[1\] B=\n')
    problems += lacks(lab.run('-n', '1', '-x', 'NOT_SET_HERE', 'PE'), 2, 'NOT_SET_HERE: it has no value here')
    cases.add('env_sets_variables', problems)
    with tempfile.TemporaryDirectory() as folder:
        done = lab.run('-n', '2', '--chdir', folder, os.path.relpath(lab.pe), 'cwd')
        problems = lacks(done, 0, rf'\[0\] {os.path.realpath(folder)}\n', rf'\[1\] {os.path.realpath(folder)}\n')
    problems += lacks(lab.run('-n', '2', '--chdir', '/nonexistent/x', 'PE'), 1, 'cannot start PE [01] in /nonexistent/x: No such file')
    cases.add('chdir_is_for_the_processes', problems)
    done = lab.run('-n', '2', 'PE', 'fds')
    problems = lacks(done, 0)
    own = subprocess.run([lab.pe, 'fds'], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL).stdout.splitlines()
    for rank, lines in by_rank(done.stdout).items():
        rest = [line for line in lines if not line.endswith('pmi')]
        problems += [] if rest == own and len(lines) == len(own) + 1 else [f'{rank}: {lines}, alone {own}']
    cases.add('pes_have_the_descriptors_and_the_limit_of_a_program_alone', problems)


def check_bind(cases, lab):
    allowed = len(os.sched_getaffinity(0))
    done = lab.run('-n', '1', '--bind', 'core', 'PE', 'cpus')
    problems = lacks(done, 0, r'\[0\] cpus \d+')
    problems += lacks(lab.run('-n', str(allowed + 1), '--bind=core', 'PE', 'cpus'), 1, f'{allowed + 1} PEs, but this process may use only')
    done = lab.run('-n', str(allowed), '--bind=core', 'PE', 'cpus')
    if not done.returncode:
        sets = [set(lines[0].split()[1:]) for lines in by_rank(done.stdout).values()]
        problems += [] if len(set().union(*sets)) == sum(map(len, sets)) else [f'cores overlap: {sets}']
    done = lab.run('-n', '2', '--bind=none', 'PE', 'cpus')
    everything = 'cpus ' + ' '.join(map(str, sorted(os.sched_getaffinity(0))))
    problems += [] if by_rank(done.stdout) == {0: [everything], 1: [everything]} else [text_of(done)]
    cases.add('bind_gives_each_a_core_of_its_own_or_refuses', problems)


def check_usage(cases, lab):
    problems = []
    for words, status, text in [
            (['-n', '0', 'PE'], 2, 'takes a number above 0, not 0'),
            (['-n', '40000', 'PE'], 2, '--pes takes 1 to 32768, not 40000'),
            (['-n', '99999999999999999999', 'PE'], 2, 'takes a number above 0'),
            (['-n', 'x', 'PE'], 2, 'takes a number above 0, not x'),
            (['PE'], 2, 'needs the number of processes'),
            (['-n', '2'], 2, 'needs a program'),
            (['-n', '2', '--json', 'PE'], 2, 'json does not go with run'),
            (['-n', '2', '--nodes', '2', 'PE'], 2, '--nodes: run starts processes on this node only; use srun or mpirun for several'),
            (['-n', '2', '--nodes', 'localhost,other', 'PE'], 2, 'on this node only'),
            (['-n', '2', '--nodes=', 'PE'], 2, 'nodes'),
            (['-n', '2', '--bind', 'socket', 'PE'], 2, 'takes none or core'),
            (['-n', '2', '--watch', 'PE'], 2, 'watch does not go with run'),
            (['-n', '2', '--output-files', 'x', 'PE'], 2, '%r, the rank, must stand in it'),
            (['-n', '2', '--output-files', '%r%d', 'PE'], 2, r'only %r \(the rank\) and %%'),
            (['-n', '2', '--timeout', '0', 'PE'], 2, 'timeout takes'),
            (['-n', '2', 'no-such-program-here'], 127, 'cannot find the program no-such-program-here in the folders of PATH'),
            (['-n', '2', './no-such-program-here'], 127, 'cannot find the program ./no-such-program-here'),
            (['-n', '2', '/'], 126, 'cannot execute /: it is not an executable file')]:
        done = lab.run(*words)
        problems += lacks(done, status, text)
        problems += [f'more than a line: {text_of(done)}'] if done.stderr.count('\n') != 1 or done.stdout else []
    with tempfile.TemporaryDirectory() as folder:
        path = folder + '/strange'
        with open(path, 'w', encoding='utf-8') as file:
            file.write('neither a script nor a program')
        os.chmod(path, 0o755)
        problems += lacks(lab.run('-n', '3', path), 126, 'cannot execute .*strange: Exec format error')
        os.chmod(path, 0o644)
        if os.getuid():
            problems += lacks(lab.run('-n', '3', path), 126, 'it is not an executable file')
    cases.add('mistakes_are_one_sentence', problems)
    done = lab.run('-n', '1', 'PE', '--help')
    problems = lacks(done, 99, 'run-pe: --help')
    problems += lacks(lab.run('-n', '1', '--', 'PE', 'print=x'), 0, r'\[0\] x')
    problems += lacks(lab.run('--help'), 0, 'Usage: shmemctl .OPTION.... run -n N')
    cases.add('words_behind_the_program_are_its_own', problems)
    problems = []
    for names in ('localhost', '127.0.0.1', '::1', socket.gethostname(), 'localhost,' + socket.gethostname().split('.')[0]):
        problems += lacks(lab.run('-n', '2', '--nodes', names, 'PE', 'print=x'), 0, r'\[1\] x')
    cases.add('this_node_by_its_names', problems)
    done = lab.run('-n', '1000', 'PE', preexec_fn=lambda: __import__('resource').setrlimit(7, (256, 1024)))
    cases.add('too_few_descriptors_are_said_before_the_start', lacks(done, 1, '1000 PEs need 3064 descriptors, but the hard limit is 1024'))


def check_output(cases, lab):
    done = lab.run('-n', '4', 'PE', 'print=out', 'error=err', '2:write=half')
    problems = lacks(done, 0)
    problems += [] if sorted(done.stdout.splitlines()) == ['[0] out', '[1] out', '[2] half', '[2] out', '[3] out'] else [done.stdout]
    problems += [] if sorted(done.stderr.splitlines()) == [f'[{i}] err' for i in range(4)] else [done.stderr]
    problems += [] if done.stdout.endswith('\n') else ['the last line is not ended']
    cases.add('each_line_has_its_rank_and_stderr_stays_stderr', problems)
    done = lab.run('-n', '3', 'PE', 'lines=20000x100')
    problems = lacks(done, 0)
    alone = subprocess.run([lab.pe, 'lines=20000x100'], capture_output=True, text=True, check=True).stdout.splitlines()
    problems += [f'rank {rank}: lost or moved' for rank in range(3) if by_rank(done.stdout)[rank] != alone]
    cases.add('no_line_is_lost_or_torn', problems)
    done = lab.run('-n', '1', '--no-prefix', 'PE', 'print=a', 'write=b')
    problems = lacks(done, 0) + ([] if done.stdout == 'a\nb' else [repr(done.stdout)])
    done = subprocess.run([lab.shmemctl, 'run', '-n', '1', '--no-prefix', 'head', '-c', '3000000', '/dev/urandom'], capture_output=True, check=False,
                          timeout=100)
    problems += [] if len(done.stdout) == 3000000 else [f'{len(done.stdout)} bytes']
    cases.add('without_prefix_nothing_is_added', problems)
    done = lab.run('-n', '2', 'PE', 'lines=2x300000')
    alone = subprocess.run([lab.pe, 'lines=2x300000'], capture_output=True, text=True, check=True).stdout
    problems = lacks(done, 0)
    for rank in range(2):
        whole = ''
        for line in done.stdout.splitlines():
            head = re.match(rf'\[{rank}\](\+?) (.*)$', line)
            whole += (('' if head.group(1) else '\n') + head.group(2)) if head else ''
        problems += [] if whole[1:] + '\n' == alone else [f'rank {rank}: {len(whole)} characters, not {len(alone)}']
    cases.add('very_long_lines_come_in_pieces_that_fit_together', problems)


def check_files(cases, lab):
    with tempfile.TemporaryDirectory() as folder:
        done = lab.run('-n', '3', '--output-files', f'{folder}/out%%.%r', 'PE', 'print=out', 'error=err')
        problems = lacks(done, 0) + ([] if not done.stdout + done.stderr else [text_of(done)])
        for rank in range(3):
            with open(f'{folder}/out%.{rank}', encoding='utf-8') as file:
                problems += [] if file.read() == 'out\nerr\n' else [f'wrong file of {rank}']
        os.mkfifo(folder + '/fifo')
        problems += lacks(lab.run('-n', '1', '--output-files', f'{folder}/fifo', 'PE'), 1, 'cannot write .*, the output of PE 0: ')
        problems += lacks(lab.run('-n', '2', '--output-files', f'{folder}/no/%r', 'PE'), 1, 'No such file or directory')
    cases.add('output_files_have_what_a_pe_wrote', problems)


def resident_kib(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as file:
        return int(re.search(r'VmRSS:\s*(\d+)', file.read()).group(1))


def check_backpressure(cases, lab):
    mark = lab.mark()
    # 20 MB, and nobody reads.
    process = lab.start(mark, '-n', '2', 'PE', 'lines=100000x100', bufsize=0)
    problems = wait_pes(mark, 2)
    before = time.monotonic()
    time.sleep(1)
    kib = resident_kib(process.pid)
    problems += [] if len(marked(mark)) >= 3 else [f'ended within {time.monotonic() - before} s, unread']
    # Sanitizers have memory of their own.
    problems += [] if kib < (400 << 10 if 'SAN_OPTIONS' in ' '.join(os.environ) else 30 << 10) else [f'{kib} KiB resident']
    done = end_by(process)
    problems += lacks(done, 0) + [f'rank {rank} lost lines' for rank in range(2) if len(by_rank(done.stdout)[rank]) != 100000]
    cases.add('slow_reader_makes_pes_wait_and_loses_nothing', problems)
    mark = lab.mark()
    process = lab.start(mark, '-n', '2', 'PE', 'ignore=13', 'lines=1000000x100', 'sleep')
    process.stdout.read(1000)
    process.stdout.close()
    process.stdout = None
    done = end_by(process)
    cases.add('reader_that_goes_ends_the_job', lacks(done, 1, 'cannot pass on output: Broken pipe') + wait_gone(mark))


def check_input(cases, lab):
    done = lab.run('-n', '3', 'PE', 'cat', input='a line\nand no end')
    cases.add('pe_0_reads_a_pipe_to_its_end_and_others_nothing',
              lacks(done, 0) + ([] if by_rank(done.stdout) == {0: ['a line', 'and no endend of input'], 1: ['end of input'], 2: ['end of input']}
                                else [done.stdout]))
    done = lab.run('-n', '1', '--no-prefix', 'PE', 'cat', input='x' * 3000000)
    problems = lacks(done, 0) + ([] if done.stdout.startswith('x' * 3000000 + 'end') else ['lost input'])
    # Closed, not empty.
    done = lab.run('-n', '2', 'PE', 'cat', preexec_fn=lambda: os.close(0))
    problems += lacks(done, 0, r'\[0\] end of input\n', r'\[1\] end of input\n')
    done = lab.run('-n', '2', 'PE', 'print=x', preexec_fn=lambda: (os.close(0), os.close(2)))
    problems += lacks(done, 0, r'\[0\] x\n', r'\[1\] x\n')
    cases.add('much_input_and_none_at_all', problems)


def check_terminal(cases, lab):
    terminal = Terminal([lab.shmemctl, 'run', '-n', '2', lab.pe, '0:write=name? ', '0:cat'])
    problems = terminal.wait_for('name? ')
    terminal.type('somebody\n')
    # The echo of the terminal, and the line of PE 0.
    problems += terminal.wait_for('somebody\r\nsomebody\r\n')
    terminal.type('\x04')
    problems += [] if terminal.end() == 0 else [f'not 0: {terminal.text}']
    problems += [] if 'end of input' in terminal.text else [terminal.text]
    cases.add('terminal_reaches_pe_0_with_its_questions_and_its_end', problems)
    terminal = Terminal([lab.shmemctl, 'run', '-n', '3', lab.pe, 'print=x'])
    status = terminal.end()
    problems = [] if not status and len(set(re.findall('\033\\[(3\\d)m\\[\\d\\]\033\\[0m x', terminal.text))) == 3 else [terminal.text]
    terminal = Terminal([lab.shmemctl, 'run', '-n', '3', lab.pe, 'print=x'], NO_COLOR='1')
    problems += [] if not terminal.end() and '\033' not in terminal.text else [terminal.text]
    cases.add('each_rank_has_its_colour_on_a_terminal', problems)
    mark = lab.mark()
    terminal = Terminal([lab.shmemctl, 'run', '-n', '2', lab.pe, 'fork', mark, 'print=ready', 'sleep'])
    problems = terminal.wait_for('ready')
    terminal.type('\x03')
    status = terminal.end()
    problems += [] if status == 130 else [f'{status}: {terminal.text}']
    cases.add('interrupt_key_ends_all', problems + wait_gone(mark))
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal([lab.shmemctl, 'run', '-n', '3', lab.pe, f'2:file={folder}/go', 'init', 'barrier', 'finalize', '0:print=done'])
        problems = terminal.wait_for('2 of 3 PEs have called PMI init')
        with open(folder + '/go', 'w', encoding='utf-8'):
            pass
        status = terminal.end()
    problems += [] if status == 0 and terminal.text.count('\033[K') >= 2 else [repr(terminal.text)]
    cases.add('slow_start_shows_progress_and_takes_it_away', problems)


def check_signals(cases, lab):
    problems = []
    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        mark = lab.mark()
        process = lab.start(mark, '-n', '3', 'PE', 'fork', 'print=ready', 'sleep')
        for _ in range(3):
            process.stdout.readline()
        done = end_by(process, signo)
        problems += lacks(done, 128 + signo, f'ended by signal {int(signo)} ') + wait_gone(mark)
        problems += [f'more than a sentence: {done.stderr}'] if done.stderr.count('\n') != 1 else []
    cases.add('signals_end_all_pes_with_what_they_forked', problems)
    process = lab.start(None, '-n', '2', 'PE', 'note=2', 'note=10', 'print=ready', 'await=10', 'await=2')
    problems = []
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGUSR1)
    problems += [line for line in (process.stdout.readline() for _ in range(2)) if 'got 10' not in line]
    process.send_signal(signal.SIGINT)
    done = end_by(process)
    problems += lacks(done, 0, r'\[0\] got 2', r'\[1\] got 2')
    cases.add('pes_may_handle_signals_themselves', problems)
    mark = lab.mark()
    process = lab.start(mark, '-n', '2', 'PE', 'ignore=2', 'print=ready', 'sleep')
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    problems = [] if len(marked(mark)) >= 3 else ['the first SIGINT killed']
    done = end_by(process, signal.SIGINT)
    cases.add('second_interrupt_kills', problems + lacks(done, 137) + wait_gone(mark))


def state_of(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
        return file.read().rpartition(')')[2].split()[0]


def check_stop(cases, lab):
    mark = lab.mark()
    process = lab.start(mark, '-n', '2', 'PE', 'print=ready', 'sleep', process_group=0)
    for _ in range(2):
        process.stdout.readline()
    pids = [pid for pid, name in marked(mark).items() if name.startswith('run-pe')]
    process.send_signal(signal.SIGTSTP)
    problems = [] if wait_until(lambda: {state_of(pid) for pid in [process.pid, *pids]} == {'T'}) else ['not all stopped']
    process.send_signal(signal.SIGCONT)
    problems += [] if wait_until(lambda: all(state_of(pid) in 'SR' for pid in [process.pid, *pids])) else ['not all go on']
    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: state_of(process.pid) == 'T')
    process.send_signal(signal.SIGTERM)
    done = end_by(process, signal.SIGCONT)
    cases.add('stop_and_continue_reach_all', problems + lacks(done, 143) + wait_gone(mark))


def check_failures(cases, lab):
    problems = []
    for words, status, text in [
            (['1:exit=7'], 7, r'PE 1 \(pid \d+, \S+run-pe\) ended with status 7; the 2 PEs still running get SIGTERM'),
            (['2:signal=9'], 137, r'PE 2 \(.*\) was killed by signal 9 \(Killed\); the 2 PEs'),
            (['0:signal=15'], 143, r'PE 0 \(.*\) was killed by signal 15 \(Terminated\)'),
            (['init', '1:exit=0'], 1, r'PE 1 \(.*\) ended with status 0 after PMI init, without finalize'),
            (['init', '0:abort=5'], 5, r'PE 0 \(.*\) called abort with status 5'),
            (['init', '1:raw=hello'], 1, r'PE 1 \(.*\) sent a line that is not PMI-1: "hello"'),
            (['init', '1:raw=cmd=dance'], 1, r'sent a PMI-1 command that this launcher does not have: "dance"'),
            (['1:raw=cmd=barrier_in'], 1, 'sent a PMI-1 command before init: "barrier_in"'),
            (['init', '2:finalize', '2:exit=0', 'barrier'], 1, r'PE [01] \(.*\) waits in a PMI barrier for PE 2, which has left it')]:
        mark = lab.mark()
        done = end_by(lab.start(mark, '-n', '3', 'PE', *words, 'sleep'))
        problems += lacks(done, status, text) + wait_gone(mark)
        problems += [f'more than a sentence: {done.stderr}'] if done.stderr.count('shmemctl run:') != 1 else []
    cases.add('one_failure_ends_all_and_is_named', problems)
    mark = lab.mark()
    done = end_by(lab.start(mark, '-n', '4', '--kill-after', '0.2', 'PE', '1:error=last words', '1:exit=3', 'ignore=15', 'print=x', 'sleep'))
    problems = lacks(done, 3, r'last words\n.*PE 1 ', 'PEs? [0-3, -]* did not end within 0.2 s and gets? SIGKILL')
    cases.add('pes_that_ignore_sigterm_are_killed_after_the_grace', problems + wait_gone(mark))
    done = lab.run('-n', '3', '--keep-going', 'PE', '1:exit=3', 'msec=200', '2:exit=4', 'print=done')
    cases.add('keep_going_lets_others_end_by_themselves', lacks(done, 3, r'\[0\] done', r'PE 1 .* ended with status 3\n', r'PE 2 .* ended with status 4\n'))
    done = lab.run('-n', '3', '--timeout', '0.3', 'PE', '1:exit=0', 'sleep')
    cases.add('time_limit_ends_the_job_and_names_who_ran', lacks(done, 124, r'the time limit of 0.3 s is over for PEs 0, 2; '))


def check_leftovers(cases, lab):
    problems = []
    for word in ('fork', 'detach'):
        mark = lab.mark()
        done = end_by(lab.start(mark, '-n', '3', 'PE', word))
        problems += lacks(done, 0, 'killed 3 processes that PEs had left behind')
        problems += [f'{word}: left {marked(mark)}'] if marked(mark) else []
        mark = lab.mark()
        done = end_by(lab.start(mark, '-n', '3', 'PE', word, '1:exit=9', 'sleep'))
        problems += lacks(done, 9) + ([f'{word}: left {marked(mark)}'] if marked(mark) else [])
    cases.add('nothing_that_pes_forked_stays', problems)
    done = lab.run('-n', '2', 'sh', '-c', '{ sleep 0.2; echo late; } & exit 0')
    cases.add('short_work_of_children_comes_to_its_end', lacks(done, 0, r'\[0\] late', r'\[1\] late'))


def check_pmi(cases, lab):
    done = lab.run('-n', '8', 'PE', 'init', 'sum', 'barrier', 'finalize')
    cases.add('pmi_puts_gets_and_barriers_work', lacks(done, 0) + ([] if by_rank(done.stdout) == {i: ['sum 28'] for i in range(8)} else [done.stdout]))
    done = lab.run('-n', '1000', 'PE', 'init', 'barrier', 'print=x', 'finalize')
    lines = by_rank(done.stdout)
    cases.add('thousand_pes_start', lacks(done, 0) + ([] if len(lines) == 1000 else [f'{len(lines)} PEs wrote']))


def main():
    # A run under nohup, or in the background of a script, passes on that these are ignored, and then they end no PE.
    for signo in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signo, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cases, lab = Cases(), Lab(sys.argv[1], sys.argv[2])
    for check in (check_environment, check_bind, check_usage, check_output, check_files, check_backpressure, check_input, check_terminal,
                  check_signals, check_stop, check_failures, check_leftovers, check_pmi):
        check(cases, lab)
    cases.end()


if __name__ == '__main__':
    main()
