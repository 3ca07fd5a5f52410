# SPDX-License-Identifier: Apache-2.0
"""A lab: one to four machines in a folder, started and ended together."""
import concurrent.futures
import contextlib
import os
import pathlib
import shutil

from lab import Missing
from lab.machine import MAX_MACHINES, QEMU, Failed, Machine
from lab.progress import say, step
from lab.shell import quietly


def check_tools():
    """Raises Missing with all that is missing."""
    lacking = [tool for tool in (QEMU, 'mmdebstrap', 'mke2fs', 'cpio', 'depmod', 'dpkg', 'apt-get')
               if not shutil.which(tool)]
    if lacking:
        raise Missing(f'{", ".join(lacking)} not found. As root, run: tools/deps --vm')
    if os.geteuid() != 0:
        raise Missing('root is needed, to make a root file system. Machines that are up can be used by their owner')


def check_emulator():
    """QEMU may be there and not run, as where memory cannot be had."""
    try:
        quietly(QEMU, '-accel', 'tcg', '-M', 'none', '-display', 'none', '-monitor', 'stdio', input='quit\n', timeout=60)
    except Exception as error:
        raise Missing(f'QEMU does not run here: {error}') from error


class Lab:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.machines = [Machine(self.folder, number) for number in range(1, MAX_MACHINES + 1)
                         if (self.folder / f'node{number}').is_dir()]

    def node(self, number):
        for machine in self.machines:
            if machine.number == number:
                return machine
        raise Failed(f'there is no node {number}: {len(self.machines)} are up')

    def start(self, count, parts, stays):
        """parts: kernel, initial file system, disk. Returns when all are up; after a failure none is left."""
        self.folder.mkdir(parents=True)
        self.machines = [Machine(self.folder, number) for number in range(1, count + 1)]
        try:
            with step(f'{count} machine{"s" if count > 1 else ""} boot'):
                for machine in self.machines:
                    machine.start(count, *parts, stays)
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    try:
                        list(pool.map(Machine.wait_until_up, self.machines))
                    except BaseException:
                        # The pool's end waits for its threads, and those for their machines.
                        for machine in self.machines:
                            machine.kill()
                        raise
        except BaseException:
            with contextlib.suppress(OSError):
                self.keep_logs()
            self.stop()
            raise

    def keep_logs(self):
        """Beside the lab's folder, where the end of the lab leaves them."""
        for machine in self.machines:
            for name in ('console', 'qemu.log'):
                if (machine.folder / name).is_file():
                    target = self.folder.parent / f'last-node{machine.number}-{name.removesuffix(".log")}.log'
                    shutil.copy(machine.folder / name, target)
        say(f'what the machines said is in {self.folder.parent}/last-node*')

    def stop(self):
        for machine in self.machines:
            machine.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.machines = []
