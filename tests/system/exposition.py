# SPDX-License-Identifier: Apache-2.0
"""A strict reader of the text format of Prometheus (0.0.4), with what `promtool check metrics` asks of names."""
import re

NAME = re.compile(r'[a-z][a-z0-9_]*')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
VALUE = re.compile(r'\d+(\.\d+)?')
ESCAPE = {'\\"': '"', '\\\\': '\\', '\\n': '\n'}
# Not the usual unit, or one that is cut short.
UNITS = {'s', 'ms', 'us', 'ns', 'sec', 'b', 'kb', 'mb', 'gb', 'tb', 'pb', 'm', 'h', 'd', 'nsec', 'usec', 'msec', 'bits', 'minutes',
         'hours', 'days', 'weeks', 'milliseconds', 'microseconds', 'nanoseconds', 'kilobytes', 'megabytes', 'gigabytes'}
TYPE_WORDS = {'counter', 'gauge', 'histogram', 'summary', 'untyped'}
RESERVED_LABELS = {'le', 'quantile', 'job', 'instance'}


class Broken(Exception):
    """The text is not in the format."""


def read_labels(text):
    """({label: value}, what follows)"""
    labels = {}
    while True:
        found = LABEL.match(text)
        if not found:
            raise Broken('no label')
        name, value = found.groups()
        if name in labels:
            raise Broken(f'label {name} twice')
        labels[name] = re.sub(r'\\.', lambda m: ESCAPE[m.group()], value)
        text = text[found.end():]
        if text[:1] == '}':
            return labels, text[1:]
        if text[:1] != ',':
            raise Broken('labels without a comma or an end')
        text = text[1:]


def read_sample(line):
    """(name, {label: value}, value)"""
    name = NAME.match(line)
    if not name:
        raise Broken('no name')
    rest, labels = line[name.end():], {}
    if rest[:1] == '{':
        labels, rest = read_labels(rest[1:])
    if rest[:1] != ' ' or not VALUE.fullmatch(rest[1:]):
        raise Broken('no value, or more than one')
    return name.group(), labels, float(rest[1:])


def read(data):
    """{family: {type, help, samples: [(labels, value)]}} of bytes; Broken where they are not in the format."""
    text = data.decode('utf-8')
    if text and not text.endswith('\n'):
        raise Broken('the last line has no end')
    families, name, lines = {}, None, text.split('\n')[:-1]
    for number, line in enumerate(lines, 1):
        try:
            if line.startswith('# HELP '):
                name, _, words = line[7:].partition(' ')
                if name in families:
                    raise Broken(f'{name} begins twice')
                families[name] = {'type': None, 'help': words, 'samples': []}
            elif line.startswith('# TYPE '):
                if line[7:].partition(' ')[0] != name or families[name]['type'] or families[name]['samples']:
                    raise Broken('a type behind something else than its help')
                families[name]['type'] = line[7:].partition(' ')[2]
            else:
                sample, labels, value = read_sample(line)
                if sample != name or not families[name]['type']:
                    raise Broken(f'{sample}: a sample outside of its family')
                families[name]['samples'].append((labels, value))
        except Broken as problem:
            raise Broken(f'line {number}: {problem}: {line}') from None
    return families


def lint_name(name, kind):
    parts = name.split('_')
    if not NAME.fullmatch(name):
        yield 'not a name'
    if (parts[-1] == 'total') != (kind == 'counter'):
        yield '_total is for counters, and all of them'
    if parts[-1] in ('bucket', 'count', 'sum', 'info') and (parts[-1] != 'info' or kind != 'gauge'):
        yield f'_{parts[-1]} is for another type'
    for part in UNITS & set(parts):
        yield f'{part} is no base unit'
    for part in TYPE_WORDS & set(parts):
        yield f'{part} is its type'
    if parts[0] == 'node':
        yield 'node_exporter has that name'


def lint(families):
    """What `promtool check metrics` and the house would find, in words."""
    problems = []
    for name, family in families.items():
        problems += [f'{name}: {problem}' for problem in lint_name(name, family['type'])]
        if family['type'] not in ('counter', 'gauge'):
            problems.append(f'{name}: type {family["type"]}')
        if not family['help'].endswith('.') or '\\' in family['help']:
            problems.append(f'{name}: its help is no sentence')
        if not family['samples']:
            problems.append(f'{name}: no samples')
        keys = [tuple(sorted(labels.items())) for labels, _ in family['samples']]
        if len(set(keys)) != len(keys):
            problems.append(f'{name}: a sample twice')
        # Otherwise some samples of a family cannot be distinguished from others that lack the label.
        if len({tuple(sorted(labels)) for labels, _ in family['samples']}) > 1:
            problems.append(f'{name}: samples with different labels')
        problems += [f'{name}: label {label} is not for programs' for labels, _ in family['samples'][:1]
                     for label in labels if label.startswith('__') or label in RESERVED_LABELS]
    return problems


def value(families, name, **wanted):
    """Of the one sample that has these labels, among others; None: there is none, or several."""
    found = [number for labels, number in families.get(name, {'samples': []})['samples']
             if wanted.items() <= labels.items()]
    return found[0] if len(found) == 1 else None


HEAD = b'# HELP a_total x.\n# TYPE a_total counter\n'
PLANTED_BROKEN = [
    (HEAD + b'a_total 1', 'no end'), (HEAD + b'a_total\n', 'no value'), (HEAD + b'a_total 1 2\n', 'no value'),
    (HEAD + b'a_total{} 1\n', 'no label'), (HEAD + b'a_total{b="c",} 1\n', 'no label'), (HEAD + b'a_total{b="c} 1\n', 'no label'),
    (HEAD + b'a_total{b="\\t"} 1\n', 'no label'), (HEAD + b'a_total{b="c" d="e"} 1\n', 'without a comma'),
    (HEAD + b'a_total{b="c",b="d"} 1\n', 'twice'), (HEAD + b'b_total 1\n', 'outside'), (b'a_total 1\n', 'outside'),
    (HEAD + b'a_total 1\n' + HEAD, 'begins twice'), (b'# HELP a x.\na 1\n', 'outside'), (HEAD + b'\n', 'no name'),
    (b'# TYPE a_total counter\n', 'behind something else'), (HEAD + b'a_total nan\n', 'no value'), (b'# more\n', 'no name'),
]
PLANTED_LINT = [
    (HEAD + b'a_total{b="\\"\\\\\\n"} 1\n', None), (HEAD, 'no samples'), (HEAD + b'a_total 1\na_total 1\n', 'twice'),
    (HEAD + b'a_total 1\na_total{b="c"} 1\n', 'different labels'), (HEAD + b'a_total{le="c"} 1\n', 'not for programs'),
    (HEAD.replace(b'counter', b'gauge') + b'a_total 1\n', 'for counters'), (HEAD.replace(b'a_total', b'a') + b'a 1\n', 'for counters'),
    (HEAD.replace(b'a_t', b'a_ms_t') + b'a_ms_total 1\n', 'no base unit'), (HEAD.replace(b' x.', b' ') + b'a_total 1\n', 'no sentence'),
    (HEAD.replace(b'a_t', b'node_t') + b'node_total 1\n', 'node_exporter'), (HEAD.replace(b'a_t', b'a_gauge_t') + b'a_gauge_total 1\n', 'its type'),
    (b'# HELP a_sum x.\n# TYPE a_sum gauge\na_sum 1\n', 'another type'),
]


def self_test():
    """What is wrong with the reader itself."""
    problems = []
    for data, says in PLANTED_BROKEN:
        try:
            read(data)
            problems.append(f'{data}: read, expected: {says}')
        except Broken as problem:
            if says not in str(problem):
                problems.append(f'{data}: {problem}, expected: {says}')
    for data, says in PLANTED_LINT:
        found = lint(read(data))
        if (says is None) != (not found) or (says and not any(says in problem for problem in found)):
            problems.append(f'{data}: {found}, expected: {says}')
    if list(read(PLANTED_LINT[0][0])['a_total']['samples']) != [({'b': '"\\\n'}, 1.0)]:
        problems.append('escapes are not read back')
    return problems
