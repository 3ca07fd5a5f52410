#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The order of the send path on a GPU, with its scopes, in the PTX that nvcc makes of it.

Usage: check-ptx.py [--list] FILE.ptx

Every way through a kernel is followed, and what it does to memory is written as a word, a letter for an instruction
(LETTERS). A way that rings a doorbell must be one of those in right_ways: the stores of the WQE; then dbrec by a releasing
store, or by a plain one behind a fence, of the placement's scope; then the doorbell: a releasing system store or a
plain one behind a fence for a polled word, a fence of the placement's scope and an MMIO store for a UAR page. Each of
those must occur, so that none is missing either. --list shows the words found.
"""
import re
import sys

LETTERS = [
    ('W', r'st\.v2\.u64 '),  # 16 bytes of a WQE
    ('Q', r'st\.release\.(cta|gpu)\.u64 '),  # an index of the queue, published
    ('N', r'st\.relaxed\.(cta|gpu)\.u64 '),  # the same, behind a fence or for comparison only
    ('C', r'st\.release\.cta\.u32 '),  # lock
    ('G', r'st\.release\.gpu\.u32 '),  # lock, or dbrec in GPU memory
    ('S', r'st\.release\.sys\.u32 '),  # dbrec in host memory
    ('c', r'st\.relaxed\.cta\.u32 '),
    ('g', r'st\.relaxed\.gpu\.u32 '),
    ('s', r'st\.relaxed\.sys\.u32 '),
    ('U', r'red\.relaxed\.(cta|gpu)\.global\.and\.b32 '),  # lock, not used
    ('F', r'fence\.acq_rel\.gpu;'),
    ('H', r'fence\.acq_rel\.sys;'),
    ('f', r'fence\.release\.gpu;'),
    ('h', r'fence\.release\.sys;'),
    ('M', r'st\.mmio\.relaxed\.sys\.u64 '),  # UAR page
    ('P', r'st\.release\.sys\.u64 '),  # polled doorbell
    ('p', r'st\.relaxed\.sys\.u64 '),
    ('!', r'fence\.|(st|ld)\.volatile'),  # nothing stronger or older than that
]
DOORBELLS = 'MPp'
MOST_PROBLEMS = 20


def has_releasing_fences(text):
    """PTX ISA 8.6 on sm_90; before that a fence before a plain store also acquires."""
    version, target = re.search(r'^\.version (\d+\.\d+)\n\.target sm_(\d+)', text, re.M).groups()
    return tuple(map(int, version.split('.'))) >= (8, 6) and int(target) >= 90


def shared(wqe, gpu, system, drop, unlock):
    """wqe: the stores of the WQE. gpu, system: a releasing fence. drop: a releasing store to the lock; unlock: one behind a fence.

    Either ready was published, and dbrec follows under the lock; or the lock came with the reservation, and one fence,
    which acquires as well, is before both. A polled doorbell shares its fence with the lock.
    """
    return ({f'{wqe}Q{dbrec}N{end}' for dbrec, fence in (('G', gpu), ('S', system))
             for end in (f'{system}{unlock}p', f'{fence}M{drop}')} |
            {f'{wqe}{dbrec}NN{end}' for dbrec, fence in (('Fg', gpu), ('Hs', system))
             for end in (f'{system}{unlock}p', f'{fence}M{drop}')})


def right_ways(text):
    gpu, system = 'fh' if has_releasing_fences(text) else 'FH'
    ways = {}
    # A DCI: four more, the address vector and the NOP.
    for kind, wqe in (('put', 'WWW'), ('dc', 'WWWWWWW')):
        # Lone caller: no lock, and indexes are plain.
        ways[f'{kind}_exclusive'] = {f'{wqe}{end}' for end in ('GP', f'G{gpu}M', 'SP', f'S{system}M')}
        ways[f'{kind}_block'] = shared(wqe, gpu, system, 'C', 'c')
        ways[f'{kind}_gpu'] = shared(wqe, gpu, system, 'G', 'g')
    return ways


def functions(text):
    """Instructions of each entry and function by name, in order; labels end with a colon."""
    found = {}
    for m in re.finditer(r'^(?:\.visible |\.weak )?\.(?:entry|func)[^\n]*?(\w+)\([^{;]*?\)[^{;]*\{(.*?)^\}',
                         text, re.S | re.M):
        found[m.group(1)] = [line.strip() for line in m.group(2).splitlines() if line.strip()]
    return found


def letter(instruction):
    return next((a for a, pattern in LETTERS if re.match(pattern, instruction)), '')


def conditions(code):
    """For each predicate, what it tests and whether it is the contrary of that: equal tests have equal outcomes."""
    found = {}
    for line in code:
        m = re.match(r'setp\.(\S+)\s+(%p\d+), (.*);', line)
        if m:
            kind, is_contrary = re.subn(r'^ne\.', 'eq.', m.group(1))
            found[m.group(2)] = (kind, m.group(3)), bool(is_contrary)
    return found


def ways(code):
    """The words of all ways through a function that come nowhere twice and do not contradict themselves."""
    labels = {line[:-1]: i for i, line in enumerate(code) if line.endswith(':')}
    tests = conditions(code)
    words, todo = set(), [(0, '', frozenset(), {})]
    while todo:
        at, word, been, known = todo.pop()
        while at < len(code):
            negated, predicate, instruction = re.match(r'(?:@(!?)(%p\d+)\s+)?(.*)', code[at]).groups()
            word += letter(instruction)
            at += 1
            jump = re.match(r'bra(?:\.uni)?\s+(\S+);', instruction)
            if not jump and not instruction.startswith('ret'):
                continue
            taken = labels[jump.group(1)] if jump else len(code)
            if predicate:
                test, is_contrary = tests.get(predicate, (predicate, False))
                outcome = (negated == '!') == is_contrary
                if known.get(test, not outcome) != outcome and at not in been:
                    todo.append((at, word, been | {at}, {**known, test: not outcome}))
                if known.get(test, outcome) != outcome:
                    break
                known = {**known, test: outcome}
            if taken in been:
                break
            at, been = taken, been | {taken}
        else:
            words.add(word)
    return words


def check_ways(name, code, right):
    # A lock that was taken in vain is dropped by an atomic before the next attempt, which orders nothing.
    rung = {re.sub(r'^U+(?=W)', '', word) for word in ways(code) if set(word) & set(DOORBELLS)}
    return ([f'{name}: {word} is no right way' for word in sorted(rung - right)] +
            [f'{name}: {word} does not occur' for word in sorted(right - rung)])


def check_count(name, code, pattern, n):
    found = len([line for line in code if re.match(r'(@!?%p\d+\s+)?' + pattern, line)])
    return [] if found == n else [f'{name}: {found} of {pattern}, not {n}']


def before_change(code):
    return code[:next(i for i, line in enumerate(code) if re.match(r'(@!?%p\d+\s+)?(st|atom|red)\.', line))]


def check_some(name, code, *patterns):
    return [f'{name}: no {pattern}' for pattern in patterns if not any(re.match(pattern, line) for line in code)]


def main():
    with open(sys.argv[-1], encoding='utf-8') as f:
        text = f.read()
    code = functions(text)
    problems = []
    for name, right in right_ways(text).items():
        if '--list' in sys.argv:
            print(name, *sorted(ways(code[name])))
        problems += check_ways(name, code[name], right)
    # Exclusive: the queue's words are plain. Otherwise atomics have the scope of the callers.
    for kind in ('put', 'dc'):
        for sharing, wrong in (('exclusive', r'(atom|red)\.'), ('block', r'(atom|red)\.\w+\.gpu'),
                               ('gpu', r'(atom|red)\.\w+\.cta')):
            problems += check_count(f'{kind}_{sharing}', code[f'{kind}_{sharing}'], wrong, 0)
    # An address vector comes by the cache that fences do not empty, and is on its way before the reservation.
    for name in ('dc_exclusive', 'dc_block', 'dc_gpu'):
        problems += check_count(name, before_change(code[name]), r'ld\.global\.nc\.v2\.', 3)
        problems += check_count(name, code[name], r'ld\.global\.nc\.v2\.', 3)
    problems += check_count('put_gpu', code['put_gpu'], r'ld\.global\.nc\.v2\.', 0)
    waits = sum((lines for name, lines in code.items() if 'wait_loop' in name), [])
    problems += check_some('wait_loop', waits, r'ld\.acquire\.gpu\.u64 ', r'ld\.acquire\.sys\.u64 ')
    problems += check_some('wait_all', code['wait_all'], r'ld\.acquire\.gpu\.u64 ', r'ld\.acquire\.sys\.u64 ')
    problems += check_some('wait_word', code['wait_word'], r'ld\.acquire\.sys\.u64 ')
    for problem in problems[:MOST_PROBLEMS]:
        print(problem)
    sys.exit(1 if problems else 0)


main()
