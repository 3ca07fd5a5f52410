#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count-cases.py MINIMUM PROGRAM...: the suite has at least so many cases, each under a name of its own."""

import collections
import os
import subprocess
import sys


def cases(program):
    listed = subprocess.run([program, '--list'], check=True, capture_output=True, text=True)
    return listed.stdout.split()


def main():
    minimum, programs = int(sys.argv[1]), sys.argv[2:]
    names = collections.Counter()
    errors = []
    for program in programs:
        found = cases(program)
        print(f'{len(found):4} {os.path.basename(program)}')
        errors += [f'{program}: {name} does not begin with conf_' for name in found if not name.startswith('conf_')]
        names.update(found)
    print(f'{len(names):4} in all')
    errors += [f'{name} exists {n} times' for name, n in names.items() if n > 1]
    if len(names) < minimum:
        errors.append(f'{len(names)} cases are fewer than {minimum}')
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main())
