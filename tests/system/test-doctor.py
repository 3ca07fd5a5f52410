#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl doctor on trees in which each check is good, fails, or cannot be read: text, JSON, exit status.

test-doctor.py SHMEMCTL CHECK-TREE PAGE SHMEMD. Without a daemon but for one in a pid namespace of its own. The page names every check.
"""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from ctl_subject import Cases

LINE = re.compile(r'(OK|WARN|FAIL) +([a-z-]+) +(.+)')
FIX = re.compile(r' +fix: (.+)')
PATIENCE_SEC = 60


def run(shmemctl, *words, may_complain=False):
    """(exit status, standard output)"""
    done = subprocess.run([shmemctl, 'doctor', *words], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, 'SHMEMD_SOCKET': '/nonexistent/socket'})
    if done.returncode not in (0, 1) or (done.stderr and not may_complain):
        raise SystemExit(f'shmemctl doctor {words}: exit status {done.returncode}\n{done.stdout}{done.stderr}')
    return done.returncode, done.stdout


@contextlib.contextmanager
def tree(program, check, state):
    """The folder, and the states that the check is to tell."""
    made = subprocess.run([program, 'tree'], capture_output=True, text=True, check=True, env={**os.environ, 'CHECK_TREE': f'{check} {state}'})
    root, word, more = re.search(r'^tree (\S+) (\S+) (\S+)$', made.stdout, re.M).groups()
    try:
        yield root, {word} if more == 'always' else {'good': {'ok'}, 'failing': {word}, 'unread': {'warn'}}[state]
    finally:
        shutil.rmtree(root)


def read_text(text):
    """[(state, check, reason, fix)] of the lines for people, and the last line."""
    found = []
    body, _, last = text.rstrip('\n').rpartition('\n\n')
    for line in body.splitlines():
        match, fix = LINE.fullmatch(line), FIX.fullmatch(line)
        if fix and found:
            found[-1] = (*found[-1][:3], fix.group(1))
        elif match:
            found.append((match.group(1).lower(), match.group(2), match.group(3), ''))
        else:
            found.append(('', '', line, ''))
    return found, last


def judge_same(text, document):
    """People and programs are told the same."""
    found, last = read_text(text)
    told = [(one['state'], one['check'], (one['subject'] + ': ' if one['subject'] else '') + one['reason'], one['fix'])
            for one in document['findings']]
    problems = [] if found == told else [f'text {a} is not JSON {b}' for a, b in zip(found, told) if a != b] or ['other numbers of findings']
    counts = {word: sum(one[0] == word for one in told) for word in ('fail', 'warn', 'ok')}
    if last != f'{counts["fail"]} FAIL, {counts["warn"]} WARN, {counts["ok"]} OK':
        problems.append(f'counts: {last}')
    return problems + [f'n_{word} is {document["n_" + word]}' for word in counts if document['n_' + word] != counts[word]]


def judge(shmemctl, root, checks):
    """All findings by check, and what is wrong with how they are told."""
    status, text = run(shmemctl, '--root', root)
    status_json, line = run(shmemctl, '--json', '--root', root)
    document = json.loads(line)
    problems = judge_same(text, document)
    by_check = {}
    for one in document['findings']:
        by_check.setdefault(one['check'], []).append(one)
        if not one['reason'] or bool(one['fix']) == (one['state'] == 'ok'):
            problems.append(f'reason or fix: {one}')
    if set(by_check) != set(checks):
        problems.append(f'not all checks ran: {set(checks) ^ set(by_check)}')
    if not status == status_json == (1 if document['n_fail'] else 0):
        problems.append(f'exit status {status}, with --json {status_json}: {document["n_fail"]} FAIL')
    return by_check, problems


def check_state(cases, shmemctl, program, state, checks):
    problems = []
    for check in checks:
        with tree(program, check, state) as (root, wanted):
            by_check, more = judge(shmemctl, root, checks)
        states = {one['state'] for one in by_check.get(check, [])}
        if states != wanted and not (state == 'failing' and wanted < states and 'ok' not in states):
            more.append(f'{states}, not {wanted}')
        problems += [f'{check}: {problem}' for problem in more]
    cases.add(f'trees_that_are_{state}_are_told_so', problems)


def check_mistakes(cases, shmemctl, program):
    done = subprocess.run([shmemctl, 'doctor', '--root', '/nonexistent/root'], capture_output=True, text=True, check=False)
    problems = []
    with tree(program, 'port', 'failing') as (root, _):
        for setting, status, says in (('nics-exclude = mlx5_1', 0, 'OK    port '), ('nics-include = mlx5_0', 0, 'OK    port '),
                                      ('gpu-nic-map = 0:mlx5_7', 1, 'FAIL  port ')):
            config = os.path.join(root, 'shmemd.conf')
            with open(config, 'w', encoding='utf-8') as file:
                file.write(setting + '\n')
            told = subprocess.run([shmemctl, 'doctor', '--root', root, '--config', config], capture_output=True, text=True, check=False)
            if told.returncode != status or says not in told.stdout or told.stderr or \
                    ('FAIL  settings       gpu-nic-map: this machine has no NIC mlx5_7' in told.stdout) != bool(status):
                problems.append(f'{setting}: {told}')
            if ('gpu-nic-map gives it cannot be used' in told.stdout) != bool(status):
                problems.append(f'{setting}: assignment: {told.stdout}')
    cases.add('nics_that_settings_set_aside_are_left_alone', problems)
    cases.add('a_folder_that_is_not_there_is_told', [] if done.returncode == 1 and 'No such file' in done.stderr else [str(done)])


def put_gpus(root):
    for number in range(65):
        path = f'sys/devices/pci0001:00/0001:00:{number // 8:02x}.{number % 8}'
        os.makedirs(os.path.join(root, path))
        with open(os.path.join(root, path, 'class'), 'w', encoding='utf-8') as file:
            file.write('0x030200\n')
        os.symlink(f'../../../../{path}', os.path.join(root, 'sys/bus/pci/devices', os.path.basename(path)))
    return 'there are more than 64 GPUs'


def put_ports(root):
    """Functions beside the second NIC's, with as many ports as a device may have."""
    function = os.path.dirname(os.path.dirname(os.path.realpath(os.path.join(root, 'sys/class/infiniband/mlx5_1'))))
    for number in range(2, 7):
        other = f'{function[:-1]}{number}'
        for port in range(1, 256):
            os.makedirs(f'{other}/infiniband/many{number}/ports/{port}')
        os.symlink(other, os.path.join(root, 'sys/bus/pci/devices', os.path.basename(other)))
        os.symlink(f'{other}/infiniband/many{number}', os.path.join(root, f'sys/class/infiniband/many{number}'))
    return 'there are more than 1024 ports of NICs'


def check_unmapped(cases, shmemctl, program, checks):
    """What says nothing of GPUs and NICs is judged; of those it is not known."""
    judged = {'settings', 'gdrcopy', 'kernel', 'device-nodes', 'memory-lock', 'driven', 'threads', 'doorbells'}
    for name, change in (('too_many_gpus', put_gpus), ('too_many_ports', put_ports)):
        with tree(program, 'port', 'good') as (root, _):
            says = change(root)
            found, problems = judge(shmemctl, root, checks)
        for check in set(found) & set(checks):
            states = [one['state'] for one in found[check]]
            wanted = 'fail' if check == 'devices' else 'ok' if check in judged else 'warn'
            if states != [wanted]:
                problems.append(f'{check}: {states}, not {wanted}')
            if wanted == 'warn' and 'not known' not in found[check][0]['reason']:
                problems.append(f'{check}: {found[check]}')
        if says not in found['devices'][0]['reason']:
            problems.append(f'{says}: {found["devices"]}')
        cases.add(f'all_checks_run_on_a_machine_with_{name}', problems)


def check_empty(cases, shmemctl, checks):
    """A folder without a file: only of the daemon, which is not asked, there is nothing to tell."""
    with tempfile.TemporaryDirectory() as root:
        found, problems = judge(shmemctl, root, checks)
    good = [check for check in checks if {one['state'] for one in found.get(check, [])} == {'ok'}]
    told = [one['reason'] for check in checks if check not in good for one in found.get(check, [])]
    problems += [f'{reason}' for reason in told if not reason.startswith('not known: ')]
    cases.add('of_an_empty_folder_nothing_is_good', problems + ([] if good == ['settings', 'driven', 'threads', 'doorbells'] else [f'{good}']))


def check_page(cases, page, checks):
    with open(page, encoding='utf-8') as file:
        text = file.read().partition('\n.It Cm doctor')[2].partition('\n.Sh ')[0]
    named = re.findall(r'^\.It Cm (\S+)$', text, re.M)
    cases.add('the_man_page_names_every_check_in_their_order', [] if named == checks else [f'{named}, not {checks}'])


def unshare_words():
    """What puts a command in a pid namespace of its own; None where that cannot be done."""
    words = ['unshare', *([] if os.geteuid() == 0 else ['--map-root-user']), '--pid', '--fork', '--kill-child']
    try:
        works = subprocess.run([*words, 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        works = False
    return words if works else None


@contextlib.contextmanager
def contained_daemon(shmemctl, shmemd):
    """The socket of a daemon that calls itself process 1, or None."""
    words = unshare_words()
    if not words:
        yield None
        return
    with tempfile.TemporaryDirectory(dir='/tmp') as folder:
        path, limit = os.path.join(folder, 'sock'), time.monotonic() + PATIENCE_SEC
        wrapper = os.environ.get('MESON_EXE_WRAPPER', '').split()
        with subprocess.Popen([*words, *wrapper, shmemd, '--config', '/dev/null', '--socket', path, '--backend', 'soft']) as daemon:
            try:
                while subprocess.run([shmemctl, 'status', '--socket', path], capture_output=True, check=False).returncode:
                    if daemon.poll() is not None or time.monotonic() > limit:
                        raise SystemExit('the daemon does not start in a pid namespace of its own')
                    time.sleep(0.05)
                yield path
            finally:
                daemon.kill()


def check_contained(cases, shmemctl, shmemd):
    """Its number is another process here: of that nothing is told."""
    name = 'of_a_daemon_in_another_pid_namespace_the_process_is_not_known'
    with contained_daemon(shmemctl, shmemd) as path:
        if not path:
            cases.skip(name, 'no pid namespace can be made here')
            return
        _, text = run(shmemctl, '--socket', path, may_complain=True)
    told = [f'WARN +{check} +not known: the daemon is in another pid namespace' for check in ('memory-lock', 'threads')]
    cases.add(name, [f'{one}: {text}' for one in told if not re.search(f'^{one}', text, re.M)])


def judge_all(shmemctl, program, page, shmemd):
    checks = re.findall(r'^check (\S+)$', subprocess.run([program, 'checks'], capture_output=True, text=True, check=True).stdout, re.M)
    cases = Cases()
    for state in ('good', 'failing', 'unread'):
        check_state(cases, shmemctl, program, state, checks)
    check_mistakes(cases, shmemctl, program)
    check_unmapped(cases, shmemctl, program, checks)
    check_empty(cases, shmemctl, checks)
    check_page(cases, page, checks)
    check_contained(cases, shmemctl, shmemd)
    # It may have settings that cannot be followed; the command reports them, and succeeds.
    _, text = run(shmemctl, may_complain=True)
    cases.add('this_machine_is_judged_without_a_daemon',
              [f'{check} is not there' for check in checks if not re.search(rf'^(OK|WARN|FAIL) +{check} ', text, re.M)])
    cases.end()


def main():
    # Hundreds of files for each tree: in memory, where there is such a place, and the path is short in any case.
    with tempfile.TemporaryDirectory(prefix='doctor-', dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else '/tmp') as folder:
        os.environ['TMPDIR'] = folder
        judge_all(*sys.argv[1:])


if __name__ == '__main__':
    main()
