# SPDX-License-Identifier: Apache-2.0
"""Cases: functions in tests/vm/case_*.py that are given a lab. The name of one is what it promises."""
import contextlib
import importlib
import pathlib
import re
import time
import traceback

from lab.machine import Failed

CASES = []
PATIENCE_SEC = 240
SAID_CHARACTERS = 1500


class Skip(Exception):
    """Why a case cannot be tried."""


class NoPattern(Exception):
    """What was given to choose cases is no regular expression."""


class Case:
    def __init__(self, function, nodes, short, packages):
        self.name, self.function, self.nodes, self.short, self.packages = function.__name__, function, nodes, short, packages


def case(nodes=1, short=False, packages=False):
    """short: also in the short form, which CI takes. packages: it needs shmemd installed from its Debian packages."""
    def register(function):
        CASES.append(Case(function, nodes, short, packages))
        return function
    return register


def eventually(condition, what, limit=PATIENCE_SEC):
    """Waits until condition() is true, and returns what it returned."""
    end = time.monotonic() + limit
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f'within {limit} s it did not come about that {what}')
        time.sleep(0.3)


class Node:
    """A machine as cases use it."""

    def __init__(self, machine):
        self.machine, self.number = machine, machine.number
        self.said = []

    def execute(self, command, limit=300, stdin=None):
        """Runs a shell command as root; returns its Result (status, out, err)."""
        result = self.machine.execute(command, limit, stdin)
        self.said.append(str(result))
        return result

    def run(self, command, limit=300, stdin=None):
        """The same for a command that must succeed."""
        result = self.execute(command, limit, stdin)
        if result.status != 0:
            raise Failed(f'node {self.number}: exit status {result.status}: {command}')
        return result

    @contextlib.contextmanager
    def background(self, command, limit=300):
        """A command beside the body, which gets a function that waits for its Result. It does not outlive the body."""
        begun = self.machine.begin(f'echo $$ >/run/vm-lab-background; exec setsid -w bash -c {quote(command)}', limit)
        ended = []

        def result():
            if not ended:
                ended.append(self.machine.finish(begun))
                self.said.append(str(ended[0]))
            return ended[0]
        try:
            yield result
        finally:
            if not ended:
                self.machine.execute('pid=$(cat /run/vm-lab-background) && pkill -KILL -s "$pid"; true')
                result()


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


class Nodes:
    """What a case is given."""

    def __init__(self, lab):
        self.lab = lab
        self.nodes = {machine.number: Node(machine) for machine in lab.machines}

    def node(self, number):
        return self.nodes[number]


def load(folder, patterns):
    """All cases, or those whose names match one of the patterns. Raises NoPattern."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as what:
            raise NoPattern(f'"{pattern}" is no regular expression: {what}') from what
    for path in sorted(pathlib.Path(folder).glob('case_*.py')):
        importlib.import_module(path.stem)
    chosen = [one for one in CASES if not patterns or any(re.search(pattern, one.name) for pattern in patterns)]
    twice = {one.name for one in CASES if sum(other.name == one.name for other in CASES) > 1}
    assert not twice, f'two cases have the name {twice}'
    return chosen


def try_case(one, lab):
    """Returns (word, text): "ok  ", "FAIL" or "SKIP", and what there is to say."""
    nodes = Nodes(lab)
    try:
        one.function(nodes)
        return 'ok  ', ''
    except Skip as reason:
        return 'SKIP', str(reason)
    except Exception as error:
        where = [frame for frame in traceback.extract_tb(error.__traceback__) if 'case_' in frame.filename][-1:]
        place = ''.join(f'{pathlib.Path(frame.filename).name}:{frame.lineno}: {frame.line}\n' for frame in where)
        said = '\n'.join(f'node {node.number}: {text[-SAID_CHARACTERS:]}'
                         for node in nodes.nodes.values() for text in node.said[-3:])
        return 'FAIL', f'{place}{type(error).__name__}: {error}\n{said}'
