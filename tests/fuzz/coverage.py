#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which lines the saved inputs reach: runs corpus-NAME of a build tree with -Db_coverage=true and asks gcov.

Prints lines of each group of sources and of each file in it, and what was not reached. Fails when a group that must be
covered lies below its share, with the file and the figure. tools/fuzz --coverage builds what this needs.
"""
import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HARNESSES = ('agent', 'agent-requests', 'bootstrap', 'config', 'decode', 'dispatch', 'engine', 'packet', 'pmi', 'state', 'topology', 'wqe')

# Files that hostile bytes meet first, and the share of lines that the saved inputs must reach. None: no share.
GROUPS = {
    'answers of memory agents': (90, ['daemon/nic/soft/soft-agent-ring.c']),
    'codec': (90, ['proto/codec*.c', 'proto/arena.c', 'proto/text.c']),
    'framing': (90, ['proto/framing.c', 'proto/base/fdlist.c']),
    # Less what porters and workers do for requests, answers that wait for a service manager, and how packets are read from sockets,
    # which unit tests reach.
    'dispatcher': (85, ['daemon/session/dispatch.c', 'daemon/session/handle-*.c', 'daemon/session/list-*.c',
                        'daemon/session/request.c']),
    'WQE parser': (90, ['kernels/host/wqe-parse.c', 'tests/mlx5sim/engine-extra/wqe-*.c']),
    'packets as bytes': (90, ['daemon/engine/packet-bytes.c']),
    'PMI-1': (90, ['libclient/runtime/run/pmi-*.c']),
    'engine': (85, ['daemon/engine/*.c', 'tests/mlx5sim/engine-extra/*.c']),
    'configuration': (40, ['daemon/settings/settings.c']),
    'saved state': (85, ['daemon/restart/state.c', 'daemon/restart/state-write.c']),
    'messages of a bootstrap': (90, ['libclient/runtime/bootstrap/wire.c', 'libclient/runtime/bootstrap/uid.c']),
    'rings of memory agents': (80, ['libclient/agent-ring.c']), # less the words by which they sleep and end
    'topology files': (90, ['daemon/topo/xml.c', 'daemon/topo/read-*.c', 'daemon/topo/dump.c', 'daemon/topo/topo.c',
                            'daemon/host/text.c']),
    'assignment': (89, ['daemon/topo/policy*.c', 'daemon/topo/exclude.c', 'daemon/topo/assign.c', 'daemon/topo/distance.c',
                        'daemon/topo/reason.c']),
}
# Aims of each harness; tools/fuzz reports it after a run.
AIMS = {
    'agent': ['answers of memory agents'],
    'agent-requests': ['rings of memory agents'],
    'bootstrap': ['messages of a bootstrap'],
    'config': ['configuration'],
    'decode': ['codec'],
    'dispatch': ['framing', 'dispatcher'],
    'engine': ['engine'],
    'packet': ['packets as bytes'],
    'pmi': ['PMI-1'],
    'state': ['saved state'],
    'topology': ['topology files', 'assignment'],
    'wqe': ['WQE parser'],
}


def forget(build):
    for path in build.rglob('*.gcda'):
        path.unlink()


def run_corpus(build, name, folders):
    program = build / 'tests/fuzz' / f'corpus-{name}'
    folders = [str(folder) for folder in folders if any(pathlib.Path(folder).glob('[!.]*'))]
    done = subprocess.run([program, *folders], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{program.name} failed with {done.returncode}:\n{done.stdout}{done.stderr}')


def read_gcov(text, build, root=ROOT):
    """{path: {line: executed}} of our sources, from gcov's JSON, one object a line."""
    lines = {}
    for row in text.splitlines():
        for file in json.loads(row)['files']:
            path = (build / file['file']).resolve()
            if not path.is_relative_to(root) or path.is_relative_to(build):
                continue
            found = lines.setdefault(str(path.relative_to(root)), {})
            for line in file['lines']:
                number = line['line_number']
                found[number] = found.get(number, False) or line['count'] > 0
    return lines


def measure(build, names, extra=()):
    """Lines reached by the corpora of these harnesses, and by the files of the folders in extra."""
    build = pathlib.Path(build).resolve()
    forget(build)
    for name in names:
        run_corpus(build, name, [ROOT / 'tests/fuzz/corpus' / name, *extra])
    notes = sorted(str(path) for path in build.rglob('*.gcda'))
    gcov = subprocess.run(['gcov', '--json-format', '--stdout', *notes], capture_output=True, text=True,
                          cwd=build, check=False)
    if gcov.returncode != 0 or not gcov.stdout:
        sys.exit(f'gcov failed:\n{gcov.stderr}')
    return read_gcov(gcov.stdout, build)


def files_of(patterns, lines):
    return [path for path in sorted(lines) if any(fnmatch.fnmatch(path, pattern) for pattern in patterns)]


def share(lines, paths):
    """(lines reached, lines) of these files."""
    return (sum(sum(lines[path].values()) for path in paths), sum(len(lines[path]) for path in paths))


def ranges(numbers):
    spans = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ', '.join(str(a) if a == b else f'{a}-{b}' for a, b in spans)


def percent(reached, total):
    return 100.0 * reached / total if total else 0.0


def judge(lines, groups=None):
    """(report, problems). A group without a file in the build is a problem: it would prove nothing."""
    report, problems = [], []
    for name, (wanted, patterns) in (groups or GROUPS).items():
        paths = files_of(patterns, lines)
        figure = percent(*share(lines, paths))
        report.append(f'{name}: {figure:.1f} % of lines' + (f', at least {wanted} % wanted' if wanted else ''))
        for path in paths:
            missed = [number for number, reached in lines[path].items() if not reached]
            report.append(f'    {percent(*share(lines, [path])):5.1f} %  {path}' +
                          (f'  not: {ranges(missed)}' if missed else ''))
        if wanted and figure < wanted:
            worst = min(paths, key=lambda path: percent(*share(lines, [path])), default=patterns[0])
            figure_of_worst = percent(*share(lines, [worst] if worst in lines else []))
            problems.append(f'{name}: {figure:.1f} % of its lines are reached and {wanted} % wanted; '
                            f'least in {worst}: {figure_of_worst:.1f} %')
    return report, problems


def lines_of_harness(build, name, extra=()):
    """In a few words, for the report of a run."""
    lines = measure(build, [name], extra)
    figures = []
    for group in AIMS[name]:
        figures.append(f'{percent(*share(lines, files_of(GROUPS[group][1], lines))):.1f} % of {group}')
    return ', '.join(figures)


def self_test():
    """Judges made-up figures: what it must refuse, it refuses with file and figure."""
    groups = {'a': (90, ['p/a*.c']), 'b': (None, ['p/b.c'])}
    full = {'p/a.c': {n: True for n in range(10)}, 'p/b.c': {1: False}}
    poor = {'p/a.c': {n: True for n in range(10)}, 'p/a2.c': {n: n < 5 for n in range(10)}, 'p/b.c': {1: True}}
    text = json.dumps({'files': [{'file': '../p/a.c', 'lines': [
        {'line_number': 1, 'count': 0}, {'line_number': 1, 'count': 2}, {'line_number': 2, 'count': 0}]},
        {'file': '/usr/include/x.h', 'lines': []}]})
    read = read_gcov(text + '\n' + text, pathlib.Path('/r/build'), pathlib.Path('/r'))
    rows = [
        ('enough lines', judge(full, groups)[1] == []),
        ('too few lines', judge(poor, groups)[1] == [
            'a: 75.0 % of its lines are reached and 90 % wanted; least in p/a2.c: 50.0 %']),
        ('no file at all', judge({'p/b.c': {1: True}}, groups)[1][0].startswith('a: 0.0 %')),
        ('lines that were missed', ranges([1, 2, 3, 7]) == '1-3, 7'),
        ('a line counts once', read == {'p/a.c': {1: True, 2: False}}),
        ('every pattern names a file', not [pattern for _, patterns in GROUPS.values() for pattern in patterns
                                            if not any(ROOT.glob(pattern))]),
        ('every harness has an aim', set(AIMS) == set(HARNESSES) and
         all(group in GROUPS for aim in AIMS.values() for group in aim)),
    ]
    for name, right in rows:
        if not right:
            print(f'self-test {name}: judged wrongly')
    print(f'{sum(right for _, right in rows)} of {len(rows)} cases judged rightly')
    return 0 if all(right for _, right in rows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build-fuzz-cov', help='a build tree with -Db_coverage=true')
    parser.add_argument('--self-test', action='store_true', help='prove that this check can fail')
    options = parser.parse_args()
    if options.self_test:
        sys.exit(self_test())
    report, problems = judge(measure(options.build, HARNESSES))
    print('\n'.join(report))
    for problem in problems:
        print('FAILED', problem)
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
