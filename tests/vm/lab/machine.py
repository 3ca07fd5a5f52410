# SPDX-License-Identifier: Apache-2.0
"""One machine of the lab: a QEMU process whose files are all in one folder, and the agent in it.

The processor is emulated (no KVM), the kernel is booted directly. Commands go to qemu-guest-agent by a Unix socket; that
agent knows one caller at a time, so each question takes a lock, and a command that runs in there holds none.
Machine 1 is the hub of the network: each other one is wired to it by a Unix socket, and nothing else is on that network.
"""
import base64
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

BOOT_SEC = 360
ANSWER_SEC = 60
PR_SET_PDEATHSIG = 1
QEMU = 'qemu-system-x86_64'
MAX_MACHINES = 4


class Failed(Exception):
    """What was asked of a machine did not come about; the sentence says what."""


class Result:
    """Of a command in a machine."""

    def __init__(self, command, status, out, err):
        self.command, self.status, self.out, self.err = command, status, out, err

    def __str__(self):
        text = f'$ {self.command}\n{self.out}{self.err}'
        return f'{text.rstrip()}\n(exit status {self.status})'


def network(number, count):
    """QEMU's words for the network of machine `number`; paths are relative to its folder."""
    card = ['-device', f'virtio-net-pci,netdev=card,mac=52:54:00:77:00:{number:02x},romfile=']
    if number > 1:
        return card + ['-netdev', f'stream,id=card,server=off,addr.type=unix,addr.path=../wire{number}']
    words = card + ['-netdev', 'hubport,id=card,hubid=0']
    for other in range(2, count + 1):
        words += ['-netdev', f'stream,id=wire{other},server=on,addr.type=unix,addr.path=../wire{other}',
                  '-netdev', f'hubport,id=port{other},hubid=0,netdev=wire{other}']
    return words


def command_line(number, count, kernel, initial, disk):
    # Huge pages come and go with the addresses of heaps: memory could not be compared.
    append = (f'console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off nokaslr audit=0 apparmor=0 shmemd.node={number} '
              f'transparent_hugepage=never systemd.hostname=node{number} systemd.machine_id={number:032x} systemd.show_status=0')
    return [QEMU, '-accel', 'tcg,thread=multi', '-cpu', 'max,la57=off,pmu=off', '-M', 'q35', '-smp', '2', '-m', '1024',
            '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot', '-serial', 'file:console', '-pidfile', 'pid',
            '-kernel', kernel, '-initrd', initial, '-append', append,
            '-drive', f'if=virtio,format=raw,snapshot=on,file={disk}',
            '-device', 'virtio-rng-pci', '-device', 'virtio-serial-pci',
            '-chardev', 'socket,id=agent,path=agent,server=on,wait=off',
            '-device', 'virtserialport,chardev=agent,name=org.qemu.guest_agent.0', *network(number, count)]


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Machine:
    def __init__(self, lab_folder, number):
        self.number, self.folder = number, pathlib.Path(lab_folder) / f'node{number}'
        self.process = None

    def start(self, count, kernel, initial, disk, stays):
        """stays: the machine goes on when this process ends."""
        self.folder.mkdir(parents=True)
        words = command_line(self.number, count, str(kernel), str(initial), str(disk))
        with open(self.folder / 'qemu.log', 'wb') as log:
            self.process = subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=dict(os.environ, TMPDIR=str(self.folder)), preexec_fn=None if stays else end_with_parent)
        self.wait_for_file(self.folder / 'agent')
        for other in range(2, count + 1) if self.number == 1 else []:
            self.wait_for_file(self.folder.parent / f'wire{other}')

    def wait_for_file(self, path):
        limit = time.monotonic() + ANSWER_SEC
        while not path.exists():
            self.check_alive()
            if time.monotonic() > limit:
                raise Failed(f'QEMU of node {self.number} made no {path.name} in {ANSWER_SEC} s')
            time.sleep(0.05)

    def pid(self):
        """Of its QEMU; 0 where there is none, also when another process has the number now."""
        try:
            pid = int((self.folder / 'pid').read_text())
            words = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
            here = os.path.samefile(f'/proc/{pid}/cwd', self.folder)
        except (OSError, ValueError):
            return 0
        return pid if here and os.path.basename(words[0]).decode() == QEMU else 0

    def check_alive(self):
        dead = self.process.poll() is not None if self.process else not self.pid()
        if dead:
            log = (self.folder / 'qemu.log').read_text(errors='replace').strip()
            raise Failed(f'node {self.number} is not running: {log or "QEMU ended, and said nothing"}')

    def kill(self):
        if self.process:
            self.process.kill()
        elif pid := self.pid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self):
        """At once: nothing of a machine is worth keeping. The folder goes, too."""
        self.kill()
        if self.process:
            self.process.wait()
        while self.pid():
            time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def agent(self, limit):
        """A file of the agent's socket, for one question. The path may be longer than a socket's may be."""
        with contextlib.ExitStack() as stack:
            folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            lock = stack.enter_context(open(self.folder / 'lock', 'w', encoding='utf-8'))
            fcntl.flock(lock, fcntl.LOCK_EX)
            sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            sock.settimeout(limit)
            sock.connect(f'/proc/self/fd/{folder}/agent')
            yield stack.enter_context(sock.makefile('rwb'))

    def ask(self, question, limit=ANSWER_SEC, **arguments):
        """One request to the agent. What it may still have to say to others comes before the number of ours."""
        number = time.monotonic_ns() & 0x7fffffff
        try:
            with self.agent(limit) as file:
                self.tell(file, 'guest-sync', id=number)
                while self.answer(file).get('return') != number:
                    pass
                self.tell(file, question, **arguments)
                reply = self.answer(file)
        except (TimeoutError, OSError, ValueError) as error:
            self.check_alive()
            raise Failed(f'the agent of node {self.number} does not answer: {error}') from error
        if 'error' in reply:
            raise Failed(f'node {self.number}: {question}: {reply["error"].get("desc")}')
        return reply['return']

    @staticmethod
    def tell(file, question, **arguments):
        file.write(json.dumps({'execute': question, 'arguments': arguments}).encode() + b'\n')
        file.flush()

    @staticmethod
    def answer(file):
        line = file.readline()
        if not line:
            raise OSError('the connection ended')
        return json.loads(line.lstrip(b'\xff'))

    def wait_until_up(self):
        limit = time.monotonic() + BOOT_SEC
        while True:
            self.check_alive()
            try:
                self.ask('guest-ping', limit=2)
                break
            except Failed:
                if time.monotonic() > limit:
                    raise Failed(f'node {self.number} did not come up in {BOOT_SEC} s; its console: '
                                 f'{self.folder / "console"}') from None
        self.execute('systemctl is-system-running --wait', limit=BOOT_SEC)

    def begin(self, command, limit=120, stdin=None):
        """Starts a shell command as root; it is killed after `limit` seconds. Returns its number for `finish`."""
        shell = ['-k', '5', str(limit), '/bin/bash', '-c', command]
        extra = {'input-data': base64.b64encode(stdin.encode()).decode()} if stdin is not None else {}
        return command, self.ask('guest-exec', path='/usr/bin/timeout', arg=shell, **extra,
                                 **{'capture-output': True})['pid'], limit

    def finish(self, begun):
        command, pid, limit = begun
        pause, end = 0.02, time.monotonic() + limit + ANSWER_SEC
        while True:
            status = self.ask('guest-exec-status', pid=pid)
            if status['exited']:
                break
            if time.monotonic() > end:
                raise Failed(f'node {self.number}: "{command}" does not end')
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)
        text = [base64.b64decode(status.get(key, '')).decode(errors='replace') for key in ('out-data', 'err-data')]
        return Result(command, status.get('exitcode', 128 + status.get('signal', 0)), *text)

    def execute(self, command, limit=120, stdin=None):
        """Runs a shell command as root, and returns its Result whatever its exit status is (124: the limit passed)."""
        return self.finish(self.begin(command, limit, stdin))
