#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operations on PEs compile as CUDA, and the memory that PEs share is touched at system scope.

Usage: check-ptx-pe.py FILE.ptx

A word is one store of system scope, a signal a releasing one or an atomic behind a fence, a wait an acquiring load.
"""
import re
import sys

WANTED = {
    'put_word': [r'st\.relaxed\.sys\.u64 '],
    'put_signal': [r'st\.release\.sys\.u64 ', r'(fence\.acq_rel\.sys|fence\.sc\.sys|membar\.sys)', r'(atom|red)\.(relaxed\.)?sys\.(global\.)?add\.u64 ',
                   r'bar\.sync '],
    'wait_word': [r'ld\.acquire\.sys\.u64 '],
    'atomics': [r'(atom|red)\.(relaxed\.)?sys\.(global\.)?add\.u64 ', r'(atom|red)\.(relaxed\.)?sys\.(global\.)?add\.u32 ',
                r'atom\.(relaxed\.)?sys\.(global\.)?cas\.b64 ', r'shfl\.sync'],
    'all_others': [r'bar\.sync '],
}


def kernels(text):
    return dict(re.findall(r'^\.visible \.entry (\w+)\([^{]*\{(.*?)^\}', text, re.S | re.M))


def main():
    with open(sys.argv[1], encoding='utf-8') as f:
        found = kernels(f.read())
    problems = [f'{name}: is not there' for name in sorted(WANTED.keys() - found.keys())]
    for name in sorted(WANTED.keys() & found.keys()):
        problems += [f'{name}: no {pattern}' for pattern in WANTED[name] if not re.search(pattern, found[name])]
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
