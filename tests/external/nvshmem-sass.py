#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SASS of our device calls next to NVSHMEM's: nvshmem-sass.py VERSIONS EXPECTED OURS THEIRS

OURS and THEIRS are paths without ending: OURS.cubin, and OURS.log with what `ptxas -v` said about it. Prints the table
and fails when a call of ours is not below theirs, or when the table is not the EXPECTED one.
"""
import difflib
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import cubin  # noqa: E402

CALLS = ('p', 'put', 'put_nbi', 'put_signal', 'put_signal_nbi', 'quiet')
OURS = ('exclusive', 'gpu', 'plain')
# Columns that ours must stay below; "parts" is printed only.
JUDGED = ('public', 'ibgda')
THEIRS = JUDGED + ('parts',)

ENTRY = re.compile(r"Compiling entry function '(\w+)'")
SPILLS = re.compile(r'(\d+) bytes spill stores, (\d+) bytes spill loads')
REGISTERS = re.compile(r'Used (\d+) registers')


def resources(log):
    """Registers and spill bytes (stores and loads) of each kernel; the functions it calls are reported with it."""
    found, name = {}, None
    for line in log:
        if m := ENTRY.search(line):
            name = m.group(1)
            found[name] = [0, 0]
        elif name and (m := REGISTERS.search(line)):
            found[name][0] = int(m.group(1))
        elif name and (m := SPILLS.search(line)):
            found[name][1] += int(m.group(1)) + int(m.group(2))
    return found


def figures(path):
    """(registers, instructions, spill bytes, instructions in line) by name of kernel."""
    with open(path + '.log', encoding='utf-8') as f:
        used = resources(f)
    in_line = cubin.in_line(path + '.cubin')
    return {name: (used[name][0], cubin.count_instructions(code), used[name][1],
                   cubin.count_instructions(in_line[name]))
            for name, code in cubin.kernels(path + '.cubin').items() if name in used}


def not_below(call, column, ours, theirs):
    """Spills can be no fewer than none, so there it is enough not to have more."""
    problems = []
    for what, a, b in zip(('registers', 'instructions'), ours, theirs):
        if a >= b:
            problems.append(f'{call}, {column}: {a} {what}, theirs {b}')
    if ours[2] > theirs[2]:
        problems.append(f'{call}, {column}: {ours[2]} bytes spilled, theirs {theirs[2]}')
    return problems


def table(versions, all_figures):
    lines = [versions, '',
             f'{"call":<15} {"column":<10} {"registers":>9} {"instructions":>12} {"in line":>7} '
             f'{"spill bytes":>11}  of public']
    for call in CALLS:
        public = all_figures[f'via_public_{call}']
        for column in OURS + THEIRS:
            row = all_figures[f'via_{column}_{call}']
            ratio = f'{row[0] / public[0]:.2f} {row[1] / public[1]:.3f}'
            lines.append(f'{call:<15} {column:<10} {row[0]:>9} {row[1]:>12} {row[3]:>7} {row[2]:>11}  {ratio}')
    return lines


def main():
    versions, expected_path, ours_path, theirs_path = sys.argv[1:5]
    found = {**figures(ours_path), **figures(theirs_path)}
    lines = table(versions, found)
    print('\n'.join(lines))
    problems = []
    for call in CALLS:
        for column in OURS:
            for other in JUDGED:
                problems += not_below(call, f'{column} against {other}', found[f'via_{column}_{call}'],
                                      found[f'via_{other}_{call}'])
    with open(expected_path, encoding='utf-8') as f:
        expected = f.read().splitlines()
    problems += list(difflib.unified_diff(expected, lines, 'expected', 'found', lineterm='', n=0))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
