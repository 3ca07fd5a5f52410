# SPDX-License-Identifier: Apache-2.0
"""What the tests of shmemctl run share: starting it, a terminal, and the processes that it leaves."""
import os
import pathlib
import pty
import re
import select
import subprocess
import time

# Ten times what a quiet machine needs, and more: CI has two CPUs and sanitizers.
PATIENCE = 120


def text_of(done):
    return f'{done.returncode}\n{done.stdout}{done.stderr}'


class Lab:
    def __init__(self, shmemctl, pe):
        self.shmemctl, self.pe = shmemctl, pe
        self.n_marks = 0

    def words(self, words, mark):
        return [self.shmemctl, 'run', *[word if word != 'PE' else self.pe for word in words], *([mark] if mark else [])]

    def run(self, *words, **more):
        """PE in the words stands for the program of the tests."""
        more = {'stdin': subprocess.DEVNULL, 'timeout': PATIENCE, **more}
        if 'input' in more:
            del more['stdin']
        return subprocess.run(self.words(words, None), capture_output=True, text=True, check=False, **more)

    def mark(self):
        self.n_marks += 1
        return f'MARK={os.getpid()}-{self.n_marks}'

    def start(self, mark, *words, **more):
        more = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True, **more}
        return subprocess.Popen(self.words(words, mark), **more)  # pylint: disable=consider-using-with


def by_rank(text):
    """The lines of each rank, without their prefixes."""
    found = {}
    for line in text.splitlines():
        head = re.match(r'\[(\d+)\]\+? (.*)$', line)
        if head:
            found.setdefault(int(head.group(1)), []).append(head.group(2))
    return found


def marked(mark):
    """Processes, dead ones apart, that have the mark among their arguments, by pid: their names."""
    found = {}
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if mark.encode() in (path / 'cmdline').read_bytes().split(b'\0') and \
                    re.search(r'^State:\s*([A-Z])', (path / 'status').read_text(errors='replace'), re.M).group(1) not in 'ZX':
                found[int(path.name)] = (path / 'comm').read_text(errors='replace').strip()
        except (OSError, AttributeError):
            pass
    return found


def parent_of(pid):
    try:
        return int(pathlib.Path(f'/proc/{pid}/stat').read_text(errors='replace').rpartition(')')[2].split()[1])
    except OSError:
        return 0


def wait_until(condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def wait_gone(mark):
    """A problem, or nothing."""
    return [] if wait_until(lambda: not marked(mark)) else [f'left: {marked(mark)}']


def pes(mark):
    return {pid: name for pid, name in marked(mark).items() if name.startswith('run-pe')}


def wait_pes(mark, n):
    return [] if wait_until(lambda: len(pes(mark)) >= n) else [f'only {marked(mark)}']


def lacks(done, status, *texts):
    """Problems of a run that should have ended so and said that."""
    problems = [] if done.returncode == status else [f'exit status is not {status}: {text_of(done)}']
    return problems + [f'lacks {text!r}: {text_of(done)}' for text in texts if not re.search(text, done.stdout + done.stderr)]


class Terminal:
    """A command on a terminal of its own, as its foreground."""

    def __init__(self, words, **env):
        self.text = ''
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execve(words[0], words, {**os.environ, 'TERM': 'xterm', **env})

    def read(self, wait):
        if not select.select([self.fd], [], [], wait)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += data.decode(errors='replace')
        return bool(data)

    def wait_for(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.text and time.monotonic() < end and self.read(0.1):
            pass
        return [] if text in self.text else [f'the terminal lacks {text!r}: {self.text!r}']

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        end = time.monotonic() + PATIENCE
        while self.read(0.1) and time.monotonic() < end:
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def end_by(process, signo=None):
    """Sends the signal, and returns the process with its output."""
    if signo:
        process.send_signal(signo)
    out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out or '', err or '')


