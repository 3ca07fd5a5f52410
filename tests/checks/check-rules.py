#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules for Prometheus use metrics that there are: those of shmemctl metrics, of node_exporter, and records of the same file;
brackets and quotes of each expression match. Where promtool is, it also checks the rules and runs their tests.
"""
import pathlib
import re
import subprocess

import checklib
from checklib import Planted

RULES = 'systemd/prometheus-rules.yml'
TESTS = 'tests/data/prometheus-rules-test.yml'
FAMILIES = 'libclient/ctl/metrics-families.c'
FOREIGN = {'node_infiniband_port_data_transmitted_bytes_total', 'node_infiniband_port_data_received_bytes_total'}
WORDS = {'sum', 'count', 'rate', 'label_replace', 'or', 'and', 'unless', 'bool'}

RULE = re.compile(r'^ *- (record|alert): (\S+)\n *expr: \|\n((?: +.*\n|\n)+?)(?= *- |\S|\Z| *(?:for|labels|annotations):)', re.M)
# Labels stand in brackets behind these, and in braces.
LABELS = re.compile(r'\b(?:by|on|ignoring|without|group_left|group_right)\s*\([^()]*\)|\{[^{}]*\}')
TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')
NAME = re.compile(r'(?<![\w.])[a-zA-Z_:][\w:]*')
PAIRS = {')': '(', ']': '[', '}': '{'}


def exported(source):
    """Names of metrics: literals, and those that COUNTERS makes of its prefixes."""
    suffixes = re.findall(r'prefix "(\w+)"', source)
    prefixes = re.findall(r'\bCOUNTERS\("(\w+)"', source)
    return set(re.findall(r'"(shmemd_\w+)"', source)) | {prefix + suffix for prefix in prefixes for suffix in suffixes}


def matches(expression):
    opened = []
    for char in expression:
        if char in PAIRS.values():
            opened.append(char)
        elif char in PAIRS and (not opened or opened.pop() != PAIRS[char]):
            return False
    return not opened and '"' not in expression


def judge(text, known):
    text = re.sub(r'^ *#.*\n', '', text, flags=re.M)
    found = RULE.findall(text)
    known = known | {name for kind, name, _ in found if kind == 'record'}
    if not found or len(found) != len(re.findall(r'^ *expr:', text, re.M)):
        yield 'a rule is not "record" or "alert", then "expr: |"'
    for _, name, expression in found:
        plain = TEXTS.sub('', expression)
        if not matches(plain):
            yield f'{name}: brackets or quotes do not match'
        used = set(NAME.findall(re.sub(r'\[[^\]]*\]', '', LABELS.sub('', plain)))) - WORDS - {'by', 'on', 'group_left', 'group_right'}
        for metric in sorted(used - known):
            yield f'{name}: there is no metric {metric}'


def promtool(root, tool):
    for words in (('check', RULES), ('test', TESTS)):
        done = subprocess.run([tool, words[0], 'rules', words[1]], cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            yield f'promtool {words[0]} rules: {done.stdout}{done.stderr}'


def check(root, options):
    if not (pathlib.Path(root) / RULES).is_file():
        return [f'{RULES}: is not there']
    known = exported(checklib.read(root, FAMILIES)) | FOREIGN
    problems = [f'{RULES}:1: {problem}' for problem in judge(checklib.read(root, RULES), known)]
    return problems + (list(promtool(root, options.promtool)) if options.promtool else [])


def planted(name, says, expression):
    return Planted(name, {FAMILIES: 'COUNTERS("shmemd_nic")\nCOUNTER(prefix "_bytes_total")\nGAUGE("shmemd_nic_up")\n', RULES:
                          f'groups:\n  - name: x\n    rules:\n      - record: a:b\n        expr: |\n          {expression}\n'
                          '      - alert: C\n        expr: |\n          a:b > 1e9\n        for: 1m\n'}, says)


PLANTED = [
    planted('clean', None, 'sum by (instance, nic) (rate(shmemd_nic_bytes_total{nic="a"}[5m])) and on (nic) shmemd_nic_up == 1'),
    planted('a metric that is not exported', 'a:b: there is no metric shmemd_nic_hot', 'shmemd_nic_hot > 0'),
    planted('brackets', 'a:b: brackets or quotes do not match', 'sum(rate(shmemd_nic_bytes_total[5m])'),
    planted('another record', 'there is no metric a:c', 'a:c + 1'),
    Planted('no rules', {FAMILIES: '', RULES: 'groups: []\n'}, 'a rule is not'),
]

if __name__ == '__main__':
    checklib.main(__doc__, check, PLANTED, lambda parser: parser.add_argument('--promtool', default='', help='the program'))
