#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is promised is tested: every test that a README names as program:test exists, every row of the tables of guarantees
(tests/guarantees.md, and the strongest in the README, which stand in both) names one, and tests/data/required-in-ci requires it,
as it does what SECURITY.md names, whole programs too.
That file lists every program, but for those of its lines "# not required: PROGRAM, REASON" or "PROGRAM:TEST, REASON".

--build is a configured build tree: meson's own lists say which programs there are and of which sources.
"""
import json
import pathlib
import re

import checklib
from checklib import Planted

README, SECURITY = 'README.md', 'SECURITY.md'
GUARANTEES = 'tests/guarantees.md'
REQUIRED = 'tests/data/required-in-ci'
HEADING = '## Guarantees'
EXEMPT = re.compile(r'^# not required: ([^,]+), \w', re.M)
SPAN = re.compile(r'`([^`]+)`')
NAMED = re.compile(r'`((?:test|conf)-[a-z0-9-]+(?: delay-memory)?:\w+)`')
# TEST(name), a macro of the file in its place, and the name that such a macro pastes together.
TEST = re.compile(r'^\s*(?:TEST|TEST_TIMEOUT|TEST_WAITS|[A-Z_]+(?=\(\w+\)\n\{))\((\w+)(##)?', re.M)
# A program alone, in SECURITY.md.
WHOLE = re.compile(r'`((?:test|conf|check)-[a-z0-9-]+)`')
PROGRAM = re.compile(r"^\s*test\('([^']+)',", re.M)


def known_programs(root, build):
    """Each program's tests; a program that a build option left out of this build has none that could be looked up."""
    programs = {}
    for path in checklib.our_files(root):
        if path.endswith('meson.build'):
            programs.update((name, None) for name in PROGRAM.findall(checklib.read(root, path)))
    info = build / 'meson-info'
    sources = {}
    for target in json.loads((info / 'intro-targets.json').read_text()):
        for filename in target['filename']:
            sources[(pathlib.Path(root) / filename).resolve()] = [
                source for part in target['target_sources'] for source in part.get('sources', [])]
    for test in json.loads((info / 'intro-tests.json').read_text()):
        names = set()
        for word in test['cmd']:
            for source in sources.get((build / word).resolve(), []):
                found = TEST.findall((build / source).read_text(errors='replace'))
                names.update(test + ('*' if pasted else '') for test, pasted in found)
        programs[test['name']] = names
    return programs


def check_names(build):
    names = [test['name'] for test in json.loads((build / 'meson-info/intro-tests.json').read_text())]
    return [f'{README}:1: two programs are named {name}' for name in sorted(set(names)) if names.count(name) > 1]


def exists(test, programs):
    program, _, name = test.partition(':')
    tests = programs.get(program, ())
    if program not in programs or not name or tests is None:
        return program in programs
    return name in tests or any(test.endswith('*') and name.startswith(test[:-1]) for test in tests)


def tables(text):
    """For each heading of the second level its rows: (line number, text, tests), without the two lines of a table's head."""
    found, heading = {}, ''
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith('## '):
            heading = line
            found[heading] = []
        elif heading and line.startswith('|'):
            cells = line.strip('|').split('|')
            found[heading].append((number, cells[0].strip(), SPAN.findall(cells[-1])))
    return {heading: rows[2:] for heading, rows in found.items()}


def check_rows(path, rows, programs, required):
    problems = []
    for number, text, tests in rows:
        if not tests:
            problems.append(f'{path}:{number}: no test for "{text}"')
        for test in tests:
            if not exists(test, programs):
                problems.append(f'{path}:{number}: there is no test {test}')
            elif test not in required and test.partition(':')[0] not in required:
                problems.append(f'{path}:{number}: {REQUIRED} does not list {test}')
    return problems


def check_tables(root, programs, required):
    strongest = tables(checklib.read(root, README)).get(HEADING)
    groups = tables(checklib.read(root, GUARANTEES)) if GUARANTEES in checklib.our_files(root) else {}
    problems = [f'{GUARANTEES}:1: no guarantee stands under "{heading}"' for heading, rows in groups.items() if not rows]
    if not strongest:
        problems.append(f'{README}:1: has no table of guarantees')
    if not groups:
        problems.append(f'{GUARANTEES}:1: has no table of guarantees')
    every = [row for rows in groups.values() for row in rows]
    known = [(text, tests) for _, text, tests in every]
    problems += [f'{README}:{number}: {GUARANTEES} does not have "{text}" with these tests'
                 for number, text, tests in strongest or [] if (text, tests) not in known]
    problems += [f'{GUARANTEES}:{number}: "{text}" stands here twice'
                 for place, (number, text, _) in enumerate(every) if text in [other for _, other, _ in every[:place]]]
    return (problems + check_rows(README, strongest or [], programs, required)
            + check_rows(GUARANTEES, every, programs, required))


def check_mentions(root, programs):
    problems = []
    for path in checklib.our_files(root):
        if not path.endswith('.md') or path in (README, GUARANTEES):
            continue
        for number, line in enumerate(checklib.read(root, path).splitlines(), 1):
            problems += [f'{path}:{number}: there is no test {test}'
                         for test in NAMED.findall(line) if not exists(test, programs)]
    return problems


def check_security(root, programs, required):
    problems = []
    if SECURITY not in checklib.our_files(root):
        return problems
    for number, line in enumerate(checklib.read(root, SECURITY).splitlines(), 1):
        for test in NAMED.findall(line) + WHOLE.findall(line):
            if not exists(test, programs):
                problems.append(f'{SECURITY}:{number}: there is no test {test}')
            elif test not in required and test.partition(':')[0] not in required:
                if ':' in test or not any(other.startswith(test + ':') for other in required):
                    problems.append(f'{SECURITY}:{number}: {REQUIRED} does not list {test}')
    return problems


def check_required(root, programs):
    problems, listed = [], set()
    for number, line in enumerate(checklib.read(root, REQUIRED).splitlines(), 1):
        test = line.split('#')[0].strip()
        if not test:
            continue
        if not exists(test, programs):
            problems.append(f'{REQUIRED}:{number}: there is no test {test}')
        if test in listed:
            problems.append(f'{REQUIRED}:{number}: {test} stands here twice')
        listed.add(test)
    listed.update(EXEMPT.findall(checklib.read(root, REQUIRED)))
    programs_listed = {test.partition(':')[0] for test in listed}
    problems += [f'{REQUIRED}:1: does not list {program}' for program in sorted(set(programs) - programs_listed)]
    return problems, listed


def check(root, options):
    build = pathlib.Path(root) / options.build
    programs = known_programs(root, build)
    problems, required = check_required(root, programs)
    return (problems + check_names(build) + check_tables(root, programs, required) + check_mentions(root, programs)
            + check_security(root, programs, required))


def planted_files(rows, required='test-a\ncheck-b\n', room='', security='', source='TEST(rain_is_wet)\n{\n}\n', copies=1,
                  strongest=None, head='## Weather\n'):
    table_head = '| guarantee | test |\n|---|---|\n'
    return {
        README: f'# x\n\n{HEADING}\n\n{table_head}{rows if strongest is None else strongest}\n## Licence\n',
        GUARANTEES: f'# Guarantees\n\n{head}{table_head}{rows}',
        REQUIRED: '# a comment\n' + required,
        'daemon/README.md': room,
        SECURITY: security,
        'tests/test-a.c': source,
        'tests/meson.build': "    test('check-b', files('b.sh'))\n",
        'b/meson-info/intro-targets.json': json.dumps([
            {'filename': ['b/test-a'], 'target_sources': [{'sources': ['../tests/test-a.c']}, {'linker': ['cc']}]}]),
        'b/meson-info/intro-tests.json': json.dumps([{'name': 'test-a', 'cmd': ['sh', 'test-a']}] * copies),
    }


def planted(name, says, *args, **kwargs):
    return Planted(name, planted_files(*args, **kwargs), says, {'build': 'b'})


GOOD = '| rain is wet | `test-a:rain_is_wet`, `check-b` |\n'
PLANTED = [
    planted('clean', None, GOOD, room='see `test-a:rain_is_wet`\n'),
    planted('a test made by a macro', None, GOOD, source='WEATHER(rain_is_wet)\n{\n}\n'),
    planted('a test that waits', None, GOOD, source='TEST_WAITS(rain_is_wet, 20)\n'),
    planted('a name that a macro completes', None, GOOD, source='#define W(x_) \\\n\tTEST(rain_is_##x_) {}\nW(wet)\n'),
    planted('a row without a test', 'no test for "rain is wet"', '| rain is wet | by looking |\n'),
    planted('no such test', 'there is no test test-a:rain_is_dry', '| rain | `test-a:rain_is_dry` |\n'),
    planted('no such program', 'there is no test test-z', '| rain | `test-z` |\n'),
    planted('a test that was renamed', 'there is no test test-a:rain_is_wet', GOOD, source='TEST(rain_is_damp)\n'),
    planted('no table', f'{GUARANTEES}:1: no guarantee stands under "## Weather"', '', strongest=GOOD),
    planted('no table of the strongest', f'{README}:1: has no table', GOOD, strongest=''),
    planted('fewer strongest ones', None, GOOD + '| snow is cold | `check-b` |\n', strongest=GOOD),
    planted('a row without a test among many', f'{GUARANTEES}:7: no test for "snow is cold"',
            GOOD + '| snow is cold | by touch |\n', strongest=GOOD),
    planted('a group without a row', 'no guarantee stands under "## Sun"', GOOD, head='## Sun\n\n## Weather\n'),
    planted('a strongest one of its own', f'{README}:7: {GUARANTEES} does not have "snow is cold"', GOOD,
            strongest='| snow is cold | `check-b` |\n'),
    planted('a strongest one with another test', 'does not have "rain is wet"', GOOD, strongest='| rain is wet | `check-b` |\n'),
    planted('twice', '"rain is wet" stands here twice', GOOD + GOOD, strongest=GOOD),
    planted('may be skipped in CI', 'does not list check-b', GOOD, required='test-a\n'),
    planted('another test of the program is required', 'does not list test-a:rain_is_wet', GOOD,
            required='test-a:snow_is_cold\ncheck-b\n', source='TEST(rain_is_wet)\nTEST(snow_is_cold)\n'),
    planted('not required, with its reason', None, GOOD, required='test-a\n# not required: check-b, needs luck\n'),
    planted('two of one name', 'two programs are named test-a', GOOD, copies=2),
    planted('required and gone', 'there is no test test-q', GOOD, required='test-a\ncheck-b\ntest-q\n'),
    planted('required twice', 'twice', GOOD, required='test-a\ncheck-b\ntest-a\n'),
    planted('security by a whole program', None, GOOD, security='see `check-b`\n'),
    planted('security by a program that is gone', 'SECURITY.md:1: there is no test test-y', GOOD, security='see `test-y`\n'),
    planted('security by what CI may skip', 'SECURITY.md:1: ' + REQUIRED + ' does not list test-a:rain_is_wet', GOOD.replace('`test-a:rain_is_wet`, ', ''),
            required='test-a:snow_is_cold\ncheck-b\n', source='TEST(rain_is_wet)\nTEST(snow_is_cold)\n', security='`test-a:rain_is_wet`\n'),
    planted('a room promises', 'daemon/README.md:1: there is no test test-a:sun', GOOD, room='`test-a:sun`\n'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED,
                  add_options=lambda parser: parser.add_argument('--build', default='build', help='a build tree'))
