#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/vm-lab says of mistakes, and what it leaves alone: test-vm-lab.py VM-LAB. Boots nothing."""
import os
import pathlib
import subprocess
import sys
import tempfile


def run(program, *words):
    return subprocess.run([sys.executable, program, *words], capture_output=True, text=True, check=False, timeout=60)


def strange_folder_is_left_alone(program, scratch):
    precious = scratch / 'mine/lab/precious'
    precious.parent.mkdir(parents=True)
    precious.touch()
    done = run(program, '--folder', str(scratch / 'mine'), 'down')
    assert done.returncode == 1 and 'none of vm-lab' in done.stderr and precious.exists(), done


def folder_of_the_lab_is_cleared(program, scratch):
    left = scratch / 'ours/lab/node1/console'
    (scratch / 'ours').mkdir()
    assert run(program, '--folder', str(scratch / 'ours'), 'down').returncode == 0
    left.parent.mkdir(parents=True)
    left.touch()
    assert run(program, '--folder', str(scratch / 'ours'), 'down').returncode == 0 and not left.exists()


def machines_that_live_are_not_ended_for_one_that_died(program, scratch):
    """A machine is a process of this name in its folder."""
    folder = scratch / 'lives'
    for number in 1, 2:
        (folder / f'lab/node{number}').mkdir(parents=True)
    (folder / 'vm-lab-folder').touch()
    script = ('import os, sys; open("pid", "w").write(str(os.getpid())); '
              'os.execv("/bin/sleep", ["qemu-system-x86_64", "60"])')
    with subprocess.Popen([sys.executable, '-c', script], cwd=folder / 'lab/node1') as machine:
        try:
            while b'qemu' not in pathlib.Path(f'/proc/{machine.pid}/cmdline').read_bytes().split(b'\0')[0]:
                assert machine.poll() is None
            run(program, '--folder', str(folder), 'exec', '2', 'true')
            assert machine.poll() is None and (folder / 'lab/node1').exists()
        finally:
            machine.kill()


def mistakes_are_said_in_words(program, scratch):
    for words, said in (('--folder', str(scratch / 'a,b'), 'list'), 'comma'), (('list', '['), 'no regular expression'):
        done = run(program, *words)
        assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr, done


def nobody_need_read_to_the_end(program, scratch):
    for word in 'list', '--help':
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, program, word], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        assert not done.stderr, done


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for test in (strange_folder_is_left_alone, folder_of_the_lab_is_cleared, mistakes_are_said_in_words,
                     machines_that_live_are_not_ended_for_one_that_died, nobody_need_read_to_the_end):
            test(sys.argv[1], pathlib.Path(scratch))
            print('ok', test.__name__)


main()
