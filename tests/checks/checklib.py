# SPDX-License-Identifier: Apache-2.0
"""What every check shares: which files are ours, how problems are printed, and the proof that the check can fail.

A check is a function from a root folder to a list of problems ("path:line: text"). Its self-test is a list of Planted
trees, each with the words that the check must say about it; a check that misses one of them fails its self-test.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field


@dataclass
class Planted:
    name: str
    files: dict
    # Words that one problem must hold; None: the tree is clean and nothing may be said.
    says: str | None
    args: dict = field(default_factory=dict)


def our_files(root):
    """Paths below root, relative: what git tracks or would track; in a folder without git, all but build trees."""
    git = subprocess.run(['git', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                         capture_output=True, check=False)
    if git.returncode == 0 and (pathlib.Path(root) / '.git').exists():
        names = [name.decode() for name in git.stdout.split(b'\0') if name]
    else:
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith('build') and f not in ('.git', '__pycache__')]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    paths = (pathlib.Path(root) / name for name in sorted(set(names)))
    return [str(path.relative_to(root)) for path in paths if path.is_file() and not path.is_symlink()]


def read(root, path):
    return (pathlib.Path(root) / path).read_text(encoding='utf-8', errors='replace')


INSTALLED = 'tests/data/installed-files'


def installed_patterns(root):
    """(part, pattern) of each line of the list of what is installed; part is empty or what must be there: systemd, cuda, bitcode, python."""
    for line in read(root, INSTALLED).splitlines():
        part, _, pattern = line.split('#')[0].rpartition(':')
        if pattern.strip():
            yield part.strip(), pattern.strip()


def path_regex(pattern):
    """Of a pattern of that list: ** is any number of folders, * anything in one name."""
    words = {'**/': '(?:[^/]+/)*', '*': '[^/]*'}
    return re.compile(''.join(words.get(part, re.escape(part)) for part in re.split(r'(\*\*/|\*)', pattern)) + '$')


def plant(folder, files):
    for path, text in files.items():
        target = pathlib.Path(folder) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding='utf-8')


def self_test(check, planted, options):
    n_wrong = 0
    for case in planted:
        with tempfile.TemporaryDirectory() as folder:
            plant(folder, case.files)
            args = argparse.Namespace(**{**vars(options), **case.args})
            problems = check(folder, args)
        if case.says is None:
            right = not problems
        else:
            right = any(case.says in problem for problem in problems)
        if not right:
            n_wrong += 1
            print(f'self-test {case.name}: expected {case.says!r}, the check said {problems}')
    print(f'{len(planted) - n_wrong} of {len(planted)} planted cases judged rightly')
    return 1 if n_wrong or not planted else 0


def main(doc, check, planted, add_options=lambda parser: None, advise=lambda root, options: []):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--root', default='.', help='the source tree')
    parser.add_argument('--self-test', action='store_true', help='prove that the check can fail')
    add_options(parser)
    options = parser.parse_args()
    if options.self_test:
        sys.exit(self_test(check, planted, options))
    for advice in advise(options.root, options):
        print('review:', advice)
    problems = check(options.root, options)
    for problem in problems:
        print(problem)
    print(f'{len(problems)} problems')
    sys.exit(1 if problems else 0)
