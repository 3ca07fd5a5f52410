# SPDX-License-Identifier: Apache-2.0
"""What is going on, on stderr: a step is told when it ends, and from its third second on while it lasts."""
import contextlib
import sys
import threading
import time

FIRST_SEC = 2
EVERY_SEC = 10


def say(text):
    print(f'vm-lab: {text}', file=sys.stderr, flush=True)


def _tell(text, done, start):
    pause = FIRST_SEC
    while not done.wait(pause):
        say(f'{text}: {time.monotonic() - start:.0f} s so far')
        pause = EVERY_SEC


@contextlib.contextmanager
def step(text):
    """Says how long the body took. A body that raises has its step told as failed."""
    done, start = threading.Event(), time.monotonic()
    teller = threading.Thread(target=_tell, args=(text, done, start), daemon=True)
    teller.start()
    outcome = 'failed'
    try:
        yield
        outcome = 'done'
    finally:
        done.set()
        teller.join()
        say(f'{text}: {outcome} in {time.monotonic() - start:.1f} s')
