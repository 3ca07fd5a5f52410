#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The order of the send path on a GPU, with its scopes, in the PTX that nvcc makes of it.

Usage: check-ptx.py FILE.ptx

Expected for each kernel: the stores of the WQE, then the publication among callers (none when exclusive), then the
dbrec by a releasing store of the placement's scope, then the doorbell: a releasing system store for a polled word, or
a fence of the placement's scope and an MMIO store for a UAR page. Wherever the compiler lays the blocks, nothing of a
later stage may come before the last of an earlier one.
"""
import re
import sys


def functions(text):
    """Instructions of each entry and function by name, in order, without operands' register numbers."""
    found = {}
    for m in re.finditer(r'^(?:\.visible |\.weak )?\.(?:entry|func)[^\n]*?(\w+)\([^{;]*?\)[^{;]*\{(.*?)^\}',
                         text, re.S | re.M):
        lines = [re.sub(r'^\s*(@!?%p\d+\s+)?', '', l).strip() for l in m.group(2).splitlines()]
        found[m.group(1)] = [l for l in lines if re.match(r'(st|ld|red|atom|fence)\.', l)]
    return found


def places(code, pattern):
    return [i for i, line in enumerate(code) if re.match(pattern, line)]


def check_order(name, code, stages):
    """Each stage is a list of patterns that all must occur, and behind every line of the stages before it."""
    before, problems = -1, []
    for stage in stages:
        last = before
        for pattern in stage:
            at = places(code, pattern)
            if not at:
                problems.append(f'{name}: no {pattern}')
            elif at[0] <= before:
                problems.append(f'{name}: {code[at[0]]} comes too early')
            last = max([last] + at)
        before = last
    return problems


def check_count(name, code, pattern, n):
    found = len(places(code, pattern))
    return [] if found == n else [f'{name}: {found} of {pattern}, not {n}']


def check_unlock(name, code):
    """Among callers one fence serves a polled doorbell and the lock: it, the lock, the doorbell, behind the dbrec."""
    at = places(code, r'st\.relaxed\.sys\.u64 ')
    dbrec = max(places(code, r'st\.release\.\w+\.u32 .*r')[:2], default=-1)
    good = (len(at) == 1 and at[0] > dbrec >= 0 and re.match(r'fence\.acq_rel\.sys;', code[at[0] - 2]) and
            re.match(r'st\.relaxed\.(cta|gpu)\.u32 ', code[at[0] - 1]))
    return [] if good else [f'{name}: no polled doorbell behind dbrec, fence and lock']


WQE = [r'st\.v2\.u64 ']
DBREC = [r'st\.release\.gpu\.u32 ', r'st\.release\.sys\.u32 ']
FENCE = [r'fence\.acq_rel\.gpu;', r'fence\.acq_rel\.sys;']
DOORBELL = [r'st\.mmio\.relaxed\.sys\.u64 ']
POLLED = r'st\.release\.sys\.u64 '


def main():
    with open(sys.argv[1], encoding='utf-8') as f:
        code = functions(f.read())
    problems = []
    for name, publish in (('put_exclusive', None), ('put_block', r'st\.release\.cta\.u64 '),
                          ('put_gpu', r'st\.release\.gpu\.u64 ')):
        stages = [WQE] + ([[publish]] if publish else [])
        # The index that says what was announced is published after the doorbell; look at the first of the two.
        head = code[name]
        doorbell = places(head, DOORBELL[0])[:1] or [len(head) - 1]
        head = head[:doorbell[0] + 1]
        problems += check_order(name, head, stages + [DBREC, FENCE, DOORBELL])
        if publish:
            problems += check_unlock(name, code[name])
        else:
            problems += check_order(name, head, stages + [DBREC, [POLLED]])
        problems += check_count(name, head, WQE[0], 3)
        problems += check_count(name, code[name], DOORBELL[0], 1)
        # Nothing is weaker or stronger than that: no other fence, no volatile access.
        problems += check_count(name, code[name], r'fence\.', 3 if publish else 2)
        problems += check_count(name, code[name], r'(st|ld)\.volatile', 0)
    # Exclusive: the queue's words are plain.
    problems += check_count('put_exclusive', code['put_exclusive'], r'(atom|red)\.', 0)
    problems += check_count('put_block', code['put_block'], r'(atom|red)\.\w+\.gpu', 0)
    problems += check_count('put_gpu', code['put_gpu'], r'(atom|red)\.\w+\.cta', 0)
    waits = sum((lines for name, lines in code.items() if 'wait_loop' in name), [])
    problems += check_order('wait_loop', waits, [[r'ld\.acquire\.gpu\.u64 ', r'ld\.acquire\.sys\.u64 ']])
    problems += check_order('wait_word', code['wait_word'], [[r'ld\.acquire\.sys\.u64 ']])
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
