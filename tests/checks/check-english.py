#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sentences in comments, documents and test names that read as if translated.

Counts sentences that open with What, Who, Of or Those (questions excepted), and "is told" with its relatives. Fails when a
tree has more of them than the limit. CONTRIBUTING.md says how to write them instead.

Advice for the review: each line that counts.
"""
import functools
import re

import checklib
from checklib import Planted

# The examples in CONTRIBUTING.md. Lower the limit whenever one of them goes.
LIMIT = 3

OPENING = re.compile(r'(?:^|[.:;!?]\s+)(What|Who|Of|Those)\s+(?![^.?!]*\?)[a-z]')
PHRASE = re.compile(r'\b(?:is|are|was|were|be|been|being) told\b|\b(?:is|are) said of\b')
CODE = ('.c', '.h', '.cu', '.cuh', '.proto')
COMMENT = re.compile(r'/\*(.*?)\*/|//([^\n]*)', re.DOTALL)
SCRIPT = ('.py', '.sh', 'meson.build', '.toml')
TEXT = ('.md', '.1', '.3', '.5', '.7', '.8', '.catalog')


def blank(text):
    """The lines of a text without their content, so that line numbers stay."""
    return '\n' * text.count('\n')


def comments_of_code(text):
    out, at = [], 0
    for match in COMMENT.finditer(text):
        comment = match.group().replace('/*', '  ').replace('*/', '  ').replace('//', '  ')
        out += [blank(text[at:match.start()]), re.sub(r'^[ \t]*\*', ' ', comment, flags=re.M)]
        at = match.end()
    return ''.join(out)


def prose(path, text):
    if path.endswith(CODE):
        return comments_of_code(text)
    if path.endswith(SCRIPT):
        return '\n'.join(line.partition('#')[2] if '#' in line else '' for line in text.split('\n'))
    if path.endswith('.md'):
        return re.sub(r'```.*?```', lambda match: blank(match.group()), text, flags=re.S)
    return text if path.endswith(TEXT) else ''


def sentences(text):
    """(line number, matched words) of each sentence that counts."""
    for paragraph in re.finditer(r'(?:[^\n]*\S[^\n]*\n?)+', text):
        for pattern in (OPENING, PHRASE):
            flat = re.sub(r'(?m)^[ \t|>*-]*', lambda m: ' ' * len(m.group()), paragraph.group())
            start = len(flat) - len(flat.lstrip())
            for match in pattern.finditer(flat.lstrip()):
                position = paragraph.start() + start + match.start()
                yield text.count('\n', 0, position + len(match.group()) - 1) + 1, match.group().strip('.:;!? \n')


@functools.lru_cache
def found(root):
    return list(lines_that_count(root))


def lines_that_count(root):
    for path in checklib.our_files(root):
        if '/corpus/' in path or not path.endswith(CODE + SCRIPT + TEXT):
            continue
        for number, words in sentences(prose(path, checklib.read(root, path))):
            yield f'{path}:{number}: {" ".join(words.split())}'


def check(root, options):
    lines = found(root)
    limit = options.limit
    return lines + [f'{len(lines)} sentences, at most {limit}'] if len(lines) > limit else []


def advise(root, options):
    return found(root)


BAD = '/* ' + 'Who asks gets it. ' * 61 + '*/\n'
PLANTED = [
    Planted('clean', {'a.c': '/* A client that asks gets it. */\nx = "Who is told";\n'}, None),
    Planted('a question', {'a.md': 'Who may do what? This page says so.\n'}, None),
    Planted('openings', {'a.c': BAD}, '61 sentences, at most 60', {'limit': 60}),
    Planted('told', {'a.md': 'The client is told so.\n' * 61}, '61 sentences, at most 60', {'limit': 60}),
]


def add_options(parser):
    parser.add_argument('--limit', type=int, default=LIMIT)


if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, add_options=add_options, advise=advise)
