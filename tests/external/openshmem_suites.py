# SPDX-License-Identifier: Apache-2.0
"""The programs of each OpenSHMEM suite: a function of its sources, a scratch folder and the folder of oshcc."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field


@dataclass
class Program:
    name: str
    sources: list = field(default_factory=list)
    flags: list = field(default_factory=list)
    arguments: list = field(default_factory=list)
    executable: pathlib.Path = None     # of a program that the suite makes by itself
    status: int = 0                     # that it has to end with
    good: str = ''                      # what its output must have, and must not have
    bad: str = ''
    lines: str = ''                     # or a pattern of its lines, with the groups name and result: each is a result of its own
    tries: int = 1                      # of which one has to pass, where the program itself is to blame
    environment: dict = field(default_factory=dict)


def check_programs(makefile):
    """The words of check_PROGRAMS of an automake file, but for those of Fortran and MPI."""
    text = makefile.read_text().replace('\\\n', ' ')
    text = re.sub(r'^if (?:HAVE_FORTRAN|USE_PMI_MPI)\n.*?^endif', '', text, flags=re.M | re.S)
    return [word for words in re.findall(r'^check_PROGRAMS \+?=(.*)$', text, flags=re.M) for word in words.split() if not word.endswith('_f')]


def sos(root, _folder, _tools):
    special = {'rma_coverage_pshmem': ('rma_coverage', ['-DTEST_PSHMEM']), 'query_thread_funneled': ('query_thread', ['-DENABLE_THREADS']),
               'mt_lock_test': ('mt_lock_test', [str(root / 'test/unit/mt_lock.c')])}
    for room in ('unit', 'spec-example', 'apps'):
        folder = root / 'test' / room
        for name in check_programs(folder / 'Makefile.am'):
            stem, flags = special.get(name, (name, []))
            source = next(path for suffix in ('.c', '.cpp') if (path := folder / (stem + suffix)).is_file())
            yield Program(f'{room}/{name}', [source], ['-I', str(root / 'test/include'), '-fopenmp', *flags])


def shmemvv(root, folder, _tools):
    """They end with 0 whatever happened; their lines say what. reduce_test_result() reads the results of all PEs as soon as its own is
    there, and nothing makes sure that the others have written theirs, so those programs get more tries."""
    common = [root / 'src/log.c', root / 'src/shmemvv.c']
    for source in sorted((root / 'src/unit').glob('**/c*_*.c')):
        yield Program(source.stem, [source, *common], ['-I', str(root / 'src/include')], good='PASSED', bad='FAILED',
                      tries=5 if 'reduce_test_result' in source.read_text() else 1, environment={'SHMEMVV_LOG_DIR': f'{folder}/'})


def uh(root, _folder, _tools):
    """Its own list wants a word in the last line, or a status."""
    tests = root / 'feature_tests/C'
    for line in (tests / 'test_parameters.conf').read_text().splitlines():
        name, *_, want = [word.strip() for word in line.split(',')]
        if name.startswith('test_'):
            stem = name.removesuffix('.x')
            code = re.fullmatch(r'ExitCode(\d+)', want)
            yield Program(stem, [tests / f'{stem}.c'], status=int(code[1]) if code else 0, good='' if code else r'Passed.*\n?\Z',
                          bad='' if code else 'Failed')
    for source in sorted((root / 'performance_tests/micro_benchmarks').glob('*.c')):
        yield Program(f'performance/{source.stem}', [source])


CRAY_MACROS = {'sma1': ['-DHAVE_LONG_LONG', '-DHAVE_SET_CACHE_INV', '-DNEEDS_FINALIZE'],
               'sma2': ['-DHAVE_SHORT', '-DHAVE_LONG_DOUBLE', '-DNEEDS_FINALIZE']}


def cray(root, _folder, _tools):
    """Each program as it comes, and with what its README lets macros add."""
    for room, suffix in (('sma1', 'c'), ('sma2', 'cpp')):
        for name in (root / room / f'{room}_tlist').read_text().split():
            source = root / room / f'{name}.{suffix}'
            yield Program(f'{room}/{name}', [source], bad='FAIL')
            yield Program(f'{room}/{name}-more', [source], CRAY_MACROS[room], bad='FAIL')


def words_of(makefile, pattern):
    return [word for words in re.findall(pattern, makefile.read_text().replace('\\\n', ' '), flags=re.M) for word in words.split()]


def mellanox(root, folder, tools):
    """One program, run once for each of its suites; what its configure would find is written here. MPI is left out."""
    top = root / 'verifier'
    # CHECK_ACTIVE_SET: without it PEs call reductions of active sets that they are not in, which section 9.10.9 does not allow.
    operations = [f'SHMEM_{kind}_ATOMIC_{fetch}{word}' for kind in ('UINT', 'ULONG', 'ULONGLONG') for fetch in ('', 'FETCH_')
                  for word in ('AND', 'OR', 'XOR')]
    (folder / 'none').mkdir()
    (folder / 'none/mpi.h').write_text('')      # two programs include it and call nothing of it
    names = [*(f'HAVE_DECL_{name}' for name in operations), 'HAVE_UNISTD_H', 'QUICK_TEST', 'CHECK_ACTIVE_SET']
    (folder / 'config.h').write_text(''.join(f'#define {name} 1\n' for name in names))
    sources = [top / word for word in words_of(top / 'Makefile.am', r'^oshmem_test_SOURCES \+?=(.*)$') if not word.startswith('mix/')]
    target = folder / 'oshmem_test'
    flags = ['-w', '-O1', '-I', folder, '-I', top, '-I', top / 'cmn', '-I', folder / 'none', '-DHAVE_NBI', '-DHAVE_ALLTOALL',
             '-DVERSION=suite']
    print('... the verifier is compiled', file=sys.stderr, flush=True)
    done = subprocess.run([tools / 'oshcc', *flags, '-o', target, *sources, '-lm'], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        target = None
    # One case ends the job, so each of its suite runs by itself.
    for name in ('start', 'whoami', 'shmalloc', 'get', 'put', 'barrier', 'static', 'heap', 'fence'):
        yield Program(f'basic/{name}', executable=target, arguments=['exec', '--no-colour', f'--task=basic:{name}'], good=f'PASS +basic +{name}')
    for name in ('atomic', 'coll', 'data', 'lock', 'reduce', 'sync', 'stride', 'analysis', 'nbi', 'misc'):
        yield Program(name, executable=target, arguments=['exec', '--no-colour', f'--task={name}'],
                      lines=rf'^(?P<result>PASS|FAIL|WARN|NONE|SKIP|IGNORE) +{name} +(?P<name>\S+)')


def shmem4py(root, folder, tools):
    """A copy is built for a Python with cffi, setuptools and numpy: that of SHMEM4PY_PYTHON, or of a new environment. It knows libraries by
    name and trusts others with nothing, so it gets the macros by which it says what Sandia's has."""
    python = os.environ.get('SHMEM4PY_PYTHON')
    quiet = {'stdout': subprocess.DEVNULL, 'check': True}
    if not python:
        print('... an environment for Python is made', file=sys.stderr, flush=True)
        subprocess.run([sys.executable, '-m', 'venv', folder / 'venv'], **quiet)
        python = str(folder / 'venv/bin/python')
        subprocess.run([python, '-m', 'pip', 'install', '-q', 'cffi', 'numpy', 'setuptools<81'], **quiet)
    copy = folder / 'shmem4py'
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns('.git'))
    print('... shmem4py is built', file=sys.stderr, flush=True)
    macros = re.findall(r'^#define (PySHMEM_HAVE_\w+ )1', (copy / 'src/libshmem/config/sandia.h').read_text(), flags=re.M)
    flags = ' '.join(['-O0', '-g0', *(f'-D{name.strip()}=1' for name in macros)])
    subprocess.run([python, 'setup.py', '-q', 'build', 'build_ext', '--inplace'], cwd=copy,
                   env=os.environ | {'OSHCC': str(tools / 'oshcc'), 'CFLAGS': flags}, **quiet)
    for source in sorted((copy / 'test').glob('test_*.py')):
        yield Program(source.stem, executable=pathlib.Path(python), arguments=['-m', 'unittest', '-v', source.stem],
                      lines=r'^\w+ \(test_\w+\.(?P<name>[\w.]+)\).*\.\.\. (?P<result>\w+)',
                      environment={'PYTHONPATH': f'{copy / "src"}:{copy / "test"}', 'PYTHONDONTWRITEBYTECODE': '1',
                                   'PYTHONWARNINGS': 'ignore'})


def osu(root, _folder, _tools):
    """Its programs of OpenSHMEM, with short runs; those of one pair want two PEs, and some say whether memory is of the heap or global."""
    utilities = [root / 'c/util/osu_util.c', root / 'c/util/osu_util_pgas.c']
    for source in sorted((root / 'c/openshmem').glob('osu_oshm_*.c')):
        is_collective = re.search('barrier|broadcast|collect|reduce', source.stem)
        for memory in ['collective'] if is_collective else ['heap', 'global']:
            yield Program(f'{source.stem[9:]}/{memory}', [source, *utilities], ['-I', str(root / 'c/util')],
                          ['-i', '100', '-m', '65536'] if is_collective else [memory], good=r'\d\.\d+\s*\Z')


def isx(root, _folder, _tools):
    """Each way to scale; the last of its sorts is verified."""
    sources = sorted((root / 'SHMEM').glob('*.c'))
    for n, name in enumerate(('strong', 'weak', 'weak_iso')):
        yield Program(name, sources, ['-std=gnu99', f'-DSCALING_OPTION={n + 1}'], ['400000', '3', 'log'], good='Average total time',
                      bad='Failed')


def prk(root, folder, _tools):
    """The kernels of its SHMEM folder. Their makefiles want files outside the sources, so the same flags stand here."""
    subprocess.run([root / 'common/Stencil/loop_gen', '2', '1'], cwd=folder, check=True)
    common = [root / 'common/wtime.c', root / 'common/SHMEM_bail_out.c']
    unset = ('VERBOSE', 'LOOPGEN', 'SPLITFENCE', 'RESTRICT_KEYWORD', 'SYNCHRONOUS', 'BARRIER_SYNCH')
    flags = ['-I', str(root / 'include'), '-I', str(folder), '-DSHMEM', *(f'-D{name}=0' for name in unset), '-DRADIUS=2', '-DSTAR=1',
             '-DDOUBLE=1']
    for source, arguments in (('Stencil/stencil', '10 1000'), ('Synch_p2p/p2p', '10 1000 500'), ('Transpose/transpose', '10 840'),
                              ('Transpose/transpose', '10 840 32'), ('Transpose/transpose_a2a', '10 840')):
        words = arguments.split()
        yield Program('-'.join([source.split('/')[1], *words[2:]]), [root / f'SHMEM/{source}.c', *common], flags, words,
                      good='Solution validates', bad='ERROR')


def bale(root, folder, tools):
    """Its applications, each in every implementation that they have, built by its own scripts from a copy; they check their results."""
    copy = folder / 'bale'
    shutil.copytree(root / 'src/bale_classic', copy)
    for words in (['sh', './bootstrap.sh'], ['python3', './make_bale', '-s', '-j', '2']):
        print(f'... bale: {" ".join(words)}', file=sys.stderr, flush=True)
        done = subprocess.run(words, cwd=copy, env=os.environ | {'CC': str(tools / 'oshcc')}, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    flat = ['-b', '120', '-n', '1000', '-F', '-z', '4']
    for name, arguments in (('histo', ['-b', '120', '-n', '1998', '-T', '1000']), ('ig', ['-b', '120', '-n', '1998', '-T', '1000']),
                            ('randperm', ['-b', '16', '-n', '1000']), ('topo', flat), ('transpose_matrix', flat), ('permute_matrix', flat),
                            ('triangles', flat), ('sssp', ['-b', '64', '-n', '300', '-F', '-d', '-w']), ('sparse_matrix_io', flat)):
        yield Program(name, executable=copy / f'build_unknown/bin/{name}', arguments=arguments, bad='(?i)error')


SUITES = {'sos': sos, 'shmemvv': shmemvv, 'uh': uh, 'cray': cray, 'mellanox': mellanox, 'shmem4py': shmem4py, 'osu': osu, 'isx': isx, 'prk': prk,
          'bale': bale}
