# SPDX-License-Identifier: Apache-2.0
"""The table of OpenSHMEM 1.6: types, and every function as a family with its parameters and its body.

generate.py makes the headers, the sources of functions of many types, the symbol map and the lists of names from it. In the text of a
family T is the type, BYTES the size of an element, NAME the function's name as a string. A family whose body is None is written by hand in the
file that `source` names.
"""
from dataclasses import dataclass

# The types of the specification's tables, in their order: name in functions, C type.
TYPES = {
    'float': 'float', 'double': 'double', 'longdouble': 'long double', 'char': 'char', 'schar': 'signed char', 'short': 'short',
    'int': 'int', 'long': 'long', 'longlong': 'long long', 'uchar': 'unsigned char', 'ushort': 'unsigned short',
    'uint': 'unsigned int', 'ulong': 'unsigned long', 'ulonglong': 'unsigned long long', 'int8': 'int8_t', 'int16': 'int16_t',
    'int32': 'int32_t', 'int64': 'int64_t', 'uint8': 'uint8_t', 'uint16': 'uint16_t', 'uint32': 'uint32_t', 'uint64': 'uint64_t',
    'size': 'size_t', 'ptrdiff': 'ptrdiff_t', 'complexf': 'float _Complex', 'complexd': 'double _Complex',
}
# Types that are no other name of one before them; generic selection and overloads name these alone.
DISTINCT = ('float', 'double', 'longdouble', 'char', 'schar', 'short', 'int', 'long', 'longlong', 'uchar', 'ushort', 'uint', 'ulong',
            'ulonglong', 'complexf', 'complexd')


def names(text):
    return tuple(text.split())


RMA = tuple(name for name in TYPES if not name.startswith('complex'))
AMO = names('int long longlong uint ulong ulonglong int32 int64 uint32 uint64 size ptrdiff')
AMO_EXTENDED = AMO + names('float double')
AMO_BITS = names('uint ulong ulonglong int32 int64 uint32 uint64')
WAIT = AMO
WAIT_SHORT = AMO + names('short ushort')
REDUCE_BITS = names('uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size')
REDUCE_ORDER = RMA
REDUCE_SUM = RMA + names('complexf complexd')
TO_ALL_BITS = names('short int long longlong')
TO_ALL_ORDER = TO_ALL_BITS + names('float double longdouble')
TO_ALL_SUM = TO_ALL_ORDER + names('complexf complexd')
SIZES = (8, 16, 32, 64, 128)


@dataclass
class Family:
    section: str         # of the specification
    op: str              # put: shmem_TN_put, or a whole name if types is empty
    ret: str
    params: str
    body: str | None = None
    types: tuple = ()
    suffix: str = ''     # behind op: _nbi
    ctx: bool = False    # there is a form with a context as the first parameter
    sizes: tuple = ()    # put32
    mem: bool = False    # putmem
    generic: str = ''    # name of the type-generic form, without shmem_
    deprecated: bool = False
    source: str = ''     # of functions by hand
    wide: str = ''       # the body for types of more than 8 bytes
    attribute: str = ''     # of its declaration
    is_extra: bool = False  # not in the lists of 1.6: an older name, or another type


@dataclass
class Function:
    name: str
    ret: str
    params: str
    body: str | None
    family: Family
    type_name: str = ''
    has_ctx: bool = False


PUT = 'T *dest, const T *source, size_t nelems, int pe'
STRIDED = 'T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe'
BLOCKS = 'T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe'
SIGNAL = 'T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe'


def rma(section, op, params, body, suffix=''):
    return Family(section, op, 'void', params, body, RMA, suffix, ctx=True, sizes=() if op in ('p', 'g') else SIZES,
                  mem=op in ('put', 'get'), generic=op + suffix)


RMA_FAMILIES = [
    rma('9.6.1.1', 'put', PUT, 'osh_put(NAME, ctx, dest, source, nelems * BYTES, pe);'),
    Family('9.6.1.2', 'p', 'void', 'T *dest, T value, int pe', 'osh_p(NAME, ctx, dest, OSH_BITS(T, value), sizeof(T), pe);', RMA, ctx=True, generic='p',
           wide='osh_put(NAME, ctx, dest, &value, sizeof(value), pe);'),
    rma('9.6.1.3', 'iput', STRIDED, 'osh_iput(NAME, ctx, dest, source, (struct osh_blocks){nelems, 1, dst, sst, BYTES}, pe);'),
    rma('9.6.1.4', 'ibput', BLOCKS, 'osh_iput(NAME, ctx, dest, source, (struct osh_blocks){nblocks, bsize, dst, sst, BYTES}, pe);'),
    rma('9.6.1.5', 'get', PUT, 'osh_get(NAME, ctx, dest, source, nelems * BYTES, pe);'),
    Family('9.6.1.6', 'g', 'T', 'const T *source, int pe', 'return OSH_VALUE(T, osh_g(NAME, ctx, source, sizeof(T), pe));', RMA,
           ctx=True, generic='g', wide='T value; osh_get(NAME, ctx, &value, source, sizeof(value), pe); return value;'),
    rma('9.6.1.7', 'iget', STRIDED, 'osh_iget(NAME, ctx, dest, source, (struct osh_blocks){nelems, 1, dst, sst, BYTES}, pe);'),
    rma('9.6.1.8', 'ibget', BLOCKS, 'osh_iget(NAME, ctx, dest, source, (struct osh_blocks){nblocks, bsize, dst, sst, BYTES}, pe);'),
    rma('9.6.2.1', 'put', PUT, 'osh_put_nbi(NAME, ctx, dest, source, nelems * BYTES, pe);', '_nbi'),
    rma('9.6.2.2', 'get', PUT, 'osh_get_nbi(NAME, ctx, dest, source, nelems * BYTES, pe);', '_nbi'),
    rma('9.8.1', 'put', SIGNAL, 'osh_put_signal(NAME, ctx, dest, source, nelems * BYTES, (struct osh_signal){sig_addr, signal, sig_op}, pe);',
        '_signal'),
    rma('9.8.2', 'put', SIGNAL,
        'osh_put_signal_nbi(NAME, ctx, dest, source, nelems * BYTES, (struct osh_signal){sig_addr, signal, sig_op}, pe);', '_signal_nbi'),
]


def amo(section, op, ret, params, body, types, old=''):
    """A family, and its deprecated name, which has no form with a context."""
    made = [Family(section, 'atomic_' + op, ret, params, body, types, ctx=True, generic='atomic_' + op)]
    if old:
        made.append(Family(section, old, ret, params, body, types, generic=old, deprecated=True))
    return made


def amo_nbi(section, op, params, body, types):
    return [Family(section, 'atomic_' + op, 'void', 'T *fetch, ' + params, body, types, '_nbi', ctx=True, generic=f'atomic_{op}_nbi')]


def fetch(op, word, value, compare=None):
    bits = f'OSH_BITS(T, {compare})' if compare else '0'
    return f'osh_fetch(NAME, ctx, {word}, osh_amo(SHMD_ATOMIC_{op}, sizeof(T), OSH_BITS(T, {value}), {bits}), pe)'


def fetch_nbi(op, word, value, compare=None):
    bits = f'OSH_BITS(T, {compare})' if compare else '0'
    return f'osh_fetch_nbi(NAME, ctx, fetch, {word}, osh_amo(SHMD_ATOMIC_{op}, sizeof(T), OSH_BITS(T, {value}), {bits}), pe);'


def old_value(op, value='value', compare=None):
    """The body of an atomic that returns the former value."""
    return f'return OSH_VALUE(T, {fetch(op, "dest", value, compare)});'


def old_value_nbi(op, value='value', compare=None):
    return fetch_nbi(op, 'dest', value, compare)


def no_value(op, value='value'):
    return f'osh_atomic(NAME, ctx, dest, osh_amo(SHMD_ATOMIC_{op}, sizeof(T), OSH_BITS(T, {value}), 0), pe);'


DEST, DEST_VALUE = 'T *dest, int pe', 'T *dest, T value, int pe'
COMPARE = 'T *dest, T cond, T value, int pe'
FETCH = 'const T *source, int pe'
ATOMIC_FAMILIES = sum([
    amo('9.7.1.1', 'fetch', 'T', FETCH, f'return OSH_VALUE(T, {fetch("FETCH", "source", "(T)0")});', AMO_EXTENDED, 'fetch'),
    amo('9.7.1.2', 'set', 'void', DEST_VALUE, no_value('SWAP'), AMO_EXTENDED, 'set'),
    amo('9.7.1.3', 'compare_swap', 'T', COMPARE, old_value('COMPARE_SWAP', compare='cond'), AMO, 'cswap'),
    amo('9.7.1.4', 'swap', 'T', DEST_VALUE, old_value('SWAP'), AMO_EXTENDED, 'swap'),
    amo('9.7.1.5', 'fetch_inc', 'T', DEST, old_value('ADD', '(T)1'), AMO, 'finc'),
    amo('9.7.1.6', 'inc', 'void', DEST, no_value('ADD', '(T)1'), AMO, 'inc'),
    amo('9.7.1.7', 'fetch_add', 'T', DEST_VALUE, old_value('ADD'), AMO, 'fadd'),
    amo('9.7.1.8', 'add', 'void', DEST_VALUE, no_value('ADD'), AMO, 'add'),
    amo('9.7.1.9', 'fetch_and', 'T', DEST_VALUE, old_value('AND'), AMO_BITS),
    amo('9.7.1.10', 'and', 'void', DEST_VALUE, no_value('AND'), AMO_BITS),
    amo('9.7.1.11', 'fetch_or', 'T', DEST_VALUE, old_value('OR'), AMO_BITS),
    amo('9.7.1.12', 'or', 'void', DEST_VALUE, no_value('OR'), AMO_BITS),
    amo('9.7.1.13', 'fetch_xor', 'T', DEST_VALUE, old_value('XOR'), AMO_BITS),
    amo('9.7.1.14', 'xor', 'void', DEST_VALUE, no_value('XOR'), AMO_BITS),
    amo_nbi('9.7.2.1', 'fetch', FETCH, fetch_nbi('FETCH', 'source', '(T)0'), AMO_EXTENDED),
    amo_nbi('9.7.2.2', 'compare_swap', COMPARE, old_value_nbi('COMPARE_SWAP', compare='cond'), AMO),
    amo_nbi('9.7.2.3', 'swap', DEST_VALUE, old_value_nbi('SWAP'), AMO_EXTENDED),
    amo_nbi('9.7.2.4', 'fetch_inc', DEST, old_value_nbi('ADD', '(T)1'), AMO),
    amo_nbi('9.7.2.5', 'fetch_add', DEST_VALUE, old_value_nbi('ADD'), AMO),
    amo_nbi('9.7.2.6', 'fetch_and', DEST_VALUE, old_value_nbi('AND'), AMO_BITS),
    amo_nbi('9.7.2.7', 'fetch_or', DEST_VALUE, old_value_nbi('OR'), AMO_BITS),
    amo_nbi('9.7.2.8', 'fetch_xor', DEST_VALUE, old_value_nbi('XOR'), AMO_BITS),
], [])


def wait_family(section, op, ret, is_vector, types=WAIT):
    """wait_until_any and its kin: the set of words, then how they are compared."""
    indices = 'size_t *indices, ' if op.endswith('some') else ''
    values = 'const T *cmp_values' if is_vector else 'T cmp_value'
    params = f'T *ivars, size_t nelems, {indices}const int *status, int cmp, {values}'
    given = 'OSH_WORDS_AND_VALUES(T, ivars, nelems, status, cmp, cmp_values)' if is_vector else \
        'OSH_WORDS(T, ivars, nelems, status, cmp, cmp_value)'
    call = f'osh_{op}(NAME, &wait{", indices" if indices else ""});'
    body = f'struct shmd_wait wait = {given}; ' + (call if ret == 'void' else 'return ' + call)
    suffix = '_vector' if is_vector else ''
    return Family(section, op, ret, params, body, types, suffix, generic=op + suffix, is_extra=types is not WAIT)


SHORT = names('short ushort')
WAIT_FAMILIES = [
    Family('9.11.1', 'wait_until', 'void', 'T *ivar, int cmp, T cmp_value', 'osh_wait_until(NAME, ivar, sizeof(T), OSH_CMP(T, cmp), (uint64_t)cmp_value);',
           WAIT, generic='wait_until'),
    wait_family('9.11.2', 'wait_until_all', 'void', False),
    wait_family('9.11.3', 'wait_until_any', 'size_t', False),
    wait_family('9.11.4', 'wait_until_some', 'size_t', False),
    wait_family('9.11.5', 'wait_until_all', 'void', True),
    wait_family('9.11.6', 'wait_until_any', 'size_t', True),
    wait_family('9.11.7', 'wait_until_some', 'size_t', True),
    Family('9.11.8', 'test', 'int', 'T *ivar, int cmp, T cmp_value', 'return osh_test(NAME, ivar, sizeof(T), OSH_CMP(T, cmp), (uint64_t)cmp_value);',
           WAIT, generic='test'),
    wait_family('9.11.9', 'test_all', 'int', False),
    wait_family('9.11.10', 'test_any', 'size_t', False),
    wait_family('9.11.11', 'test_some', 'size_t', False),
    wait_family('9.11.12', 'test_all', 'int', True),
    wait_family('9.11.13', 'test_any', 'size_t', True),
    wait_family('9.11.14', 'test_some', 'size_t', True),
    # Shorter words, which are deprecated for one word and were never there for several; suites use both. And waiting for any change.
    *[wait_family('9.11', op, ret, is_vector, SHORT) for is_vector in (False, True)
      for op, ret in (('wait_until_all', 'void'), ('wait_until_any', 'size_t'), ('wait_until_some', 'size_t'), ('test_all', 'int'),
                      ('test_any', 'size_t'), ('test_some', 'size_t'))],
    Family('9.11.1', 'wait_until', 'void', 'T *ivar, int cmp, T cmp_value', 'osh_wait_until(NAME, ivar, sizeof(T), OSH_CMP(T, cmp), (uint64_t)cmp_value);',
           names('short ushort'), generic='wait_until', deprecated=True, is_extra=True),
    Family('9.11.8', 'test', 'int', 'T *ivar, int cmp, T cmp_value', 'return osh_test(NAME, ivar, sizeof(T), OSH_CMP(T, cmp), (uint64_t)cmp_value);',
           names('short ushort'), generic='test', deprecated=True, is_extra=True),
    Family('9.11.1', 'wait', 'void', 'T *ivar, T cmp_value', 'osh_wait_until(NAME, ivar, sizeof(T), SHMD_CMP_NE, (uint64_t)cmp_value);', WAIT_SHORT,
           deprecated=True),
]


def plain(section, source, text, **more):
    """A function that is written by hand: 'ret name(params)'."""
    head, params = text[:-1].split('(', 1)
    ret, name = head.rsplit(' ', 1)
    if name.startswith('*'):
        ret, name = ret + ' *', name[1:]
    return Family(section, name, ret, params, source=source, **more)


PLAIN_FAMILIES = [
    plain('9.1.1', 'setup.c', 'void shmem_init(void)'),
    plain('9.1.2', 'setup.c', 'int shmem_my_pe(void)'),
    plain('9.1.3', 'setup.c', 'int shmem_n_pes(void)'),
    plain('9.1.4', 'setup.c', 'void shmem_finalize(void)'),
    plain('9.1.5', 'setup.c', 'void shmem_query_initialized(int *initialized)'),
    plain('9.1.6', 'setup.c', 'void shmem_global_exit(int status)', attribute='noreturn'),
    plain('9.1.7', 'query.c', 'int shmem_pe_accessible(int pe)'),
    plain('9.1.8', 'query.c', 'int shmem_addr_accessible(const void *addr, int pe)'),
    plain('9.1.9', 'query.c', 'void *shmem_ptr(const void *dest, int pe)'),
    plain('9.1.10', 'team.c', 'void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe)'),
    plain('9.1.11', 'query.c', 'void shmem_info_get_version(int *major, int *minor)'),
    plain('9.1.12', 'query.c', 'void shmem_info_get_name(char *name)'),
    plain('9.1.13', 'setup.c', 'void start_pes(int npes)', deprecated=True),
    plain('9.2.1', 'setup.c', 'int shmem_init_thread(int requested, int *provided)'),
    plain('9.2.2', 'setup.c', 'void shmem_query_thread(int *provided)'),
    plain('9.3.1', 'memory.c', 'void *shmem_malloc(size_t size)'),
    plain('9.3.2', 'memory.c', 'void shmem_free(void *ptr)'),
    plain('9.3.3', 'memory.c', 'void *shmem_realloc(void *ptr, size_t size)'),
    plain('9.3.4', 'memory.c', 'void *shmem_align(size_t alignment, size_t size)'),
    plain('9.3.5', 'memory.c', 'void *shmem_malloc_with_hints(size_t size, long hints)'),
    plain('9.3.6', 'memory.c', 'void *shmem_calloc(size_t count, size_t size)'),
    plain('9.4.1', 'team.c', 'int shmem_team_my_pe(shmem_team_t team)'),
    plain('9.4.2', 'team.c', 'int shmem_team_n_pes(shmem_team_t team)'),
    plain('9.4.4', 'team.c', 'int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config)'),
    plain('9.4.5', 'team.c', 'int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)'),
    plain('9.4.6', 'team.c', 'int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size, '
          'const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team)'),
    plain('9.4.7', 'team.c', 'int shmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config, '
          'long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask, '
          'shmem_team_t *yaxis_team)'),
    plain('9.4.8', 'team.c', 'void shmem_team_destroy(shmem_team_t team)'),
    plain('9.5.1', 'context.c', 'int shmem_ctx_create(long options, shmem_ctx_t *ctx)'),
    plain('9.5.2', 'context.c', 'int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx)'),
    plain('9.5.3', 'context.c', 'void shmem_ctx_destroy(shmem_ctx_t ctx)'),
    plain('9.5.4', 'context.c', 'int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)'),
    plain('9.8.3', 'order.c', 'void shmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)'),
    plain('9.8.3', 'order.c', 'void shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)'),
    plain('9.8.4', 'order.c', 'uint64_t shmem_signal_fetch(const uint64_t *sig_addr)'),
    plain('9.8.5', 'order.c', 'void shmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)'),
    plain('9.8.5', 'order.c', 'void shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)'),
    plain('9.9.2', 'context.c', 'void shmem_ctx_session_start(shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, '
          'long config_mask)'),
    plain('9.9.3', 'context.c', 'void shmem_ctx_session_stop(shmem_ctx_t ctx)'),
    plain('9.10.1', 'order.c', 'void shmem_barrier_all(void)'),
    plain('9.10.3', 'order.c', 'int shmem_team_sync(shmem_team_t team)'),
    plain('9.10.4', 'order.c', 'void shmem_sync_all(void)'),
    plain('9.11.1', 'wait.c', 'void shmem_wait_until(long *ivar, int cmp, long cmp_value)', deprecated=True),
    plain('9.11.1', 'wait.c', 'void shmem_wait(long *ivar, long cmp_value)', deprecated=True),
    plain('9.11.15', 'wait.c', 'uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)'),
    plain('9.12.1', 'order.c', 'void shmem_fence(void)'),
    plain('9.12.1', 'order.c', 'void shmem_ctx_fence(shmem_ctx_t ctx)'),
    plain('9.12.2', 'order.c', 'void shmem_quiet(void)'),
    plain('9.12.2', 'order.c', 'void shmem_ctx_quiet(shmem_ctx_t ctx)'),
    plain('9.12.3', 'order.c', 'void shmem_pe_quiet(const int *target_pes, size_t npes)'),
    plain('9.12.3', 'order.c', 'void shmem_ctx_pe_quiet(shmem_ctx_t ctx, const int *target_pes, size_t npes)'),
    plain('9.13.1', 'wait.c', 'void shmem_clear_lock(long *lock)'),
    plain('9.13.1', 'wait.c', 'void shmem_set_lock(long *lock)'),
    plain('9.13.1', 'wait.c', 'int shmem_test_lock(long *lock)'),
    plain('10.1', 'query.c', 'void shmem_pcontrol(int level, ...)'),
]

# Names of before 1.2, which the specification still asks for, and calls for caches that are not coherent.
OLD_FAMILIES = [
    plain('9.1.2', 'old.c', 'int _my_pe(void)', deprecated=True, is_extra=True),
    plain('9.1.3', 'old.c', 'int _num_pes(void)', deprecated=True, is_extra=True),
    plain('9.3.1', 'old.c', 'void *shmalloc(size_t size)', deprecated=True, is_extra=True),
    plain('9.3.2', 'old.c', 'void shfree(void *ptr)', deprecated=True, is_extra=True),
    plain('9.3.3', 'old.c', 'void *shrealloc(void *ptr, size_t size)', deprecated=True, is_extra=True),
    plain('9.3.4', 'old.c', 'void *shmemalign(size_t alignment, size_t size)', deprecated=True, is_extra=True),
    plain('A.2', 'old.c', 'void shmem_clear_cache_inv(void)', deprecated=True, is_extra=True),
    plain('A.2', 'old.c', 'void shmem_set_cache_inv(void)', deprecated=True, is_extra=True),
    plain('A.2', 'old.c', 'void shmem_clear_cache_line_inv(void *dest)', deprecated=True, is_extra=True),
    plain('A.2', 'old.c', 'void shmem_set_cache_line_inv(void *dest)', deprecated=True, is_extra=True),
    plain('A.2', 'old.c', 'void shmem_udcflush(void)', deprecated=True, is_extra=True),
    plain('A.2', 'old.c', 'void shmem_udcflush_line(void *dest)', deprecated=True, is_extra=True),
]

TEAM = 'shmem_team_t team, T *dest, const T *source, '


def moving(section, op, more, body):
    return Family(section, op, 'int', TEAM + more, 'return ' + body, RMA, mem=True, generic=op)


def reducing(section, op, types, call, word='nreduce'):
    return Family(section, op, 'int', TEAM + 'size_t ' + word, f'return {call[0]}(NAME, team, dest, source, {word}, OSH_TYPE(T), SHMD_REDUCE_{call[1]});',
                  types, generic=op)


COLLECTIVE_FAMILIES = [
    moving('9.10.5', 'alltoall', 'size_t nelems', 'osh_alltoall(NAME, team, dest, source, nelems * BYTES);'),
    moving('9.10.6', 'alltoalls', 'ptrdiff_t dst, ptrdiff_t sst, size_t nelems',
           'osh_alltoalls(NAME, team, dest, source, (struct osh_blocks){nelems, 1, dst, sst, BYTES});'),
    moving('9.10.7', 'broadcast', 'size_t nelems, int PE_root', 'osh_broadcast(NAME, team, dest, source, nelems * BYTES, PE_root);'),
    moving('9.10.8', 'collect', 'size_t nelems', 'osh_collect(NAME, team, dest, source, nelems * BYTES);'),
    moving('9.10.8', 'fcollect', 'size_t nelems', 'osh_fcollect(NAME, team, dest, source, nelems * BYTES);'),
    reducing('9.10.9', 'and_reduce', REDUCE_BITS, ('osh_reduce', 'AND')),
    reducing('9.10.9', 'or_reduce', REDUCE_BITS, ('osh_reduce', 'OR')),
    reducing('9.10.9', 'xor_reduce', REDUCE_BITS, ('osh_reduce', 'XOR')),
    reducing('9.10.9', 'max_reduce', REDUCE_ORDER, ('osh_reduce', 'MAX')),
    reducing('9.10.9', 'min_reduce', REDUCE_ORDER, ('osh_reduce', 'MIN')),
    reducing('9.10.9', 'sum_reduce', REDUCE_SUM, ('osh_reduce', 'SUM')),
    reducing('9.10.9', 'prod_reduce', REDUCE_SUM, ('osh_reduce', 'PROD')),
    reducing('9.10.10', 'sum_inscan', REDUCE_SUM, ('osh_scan_inclusive', 'SUM'), 'nelems'),
    reducing('9.10.10', 'sum_exscan', REDUCE_SUM, ('osh_scan_exclusive', 'SUM'), 'nelems'),
]

# Collective calls of before 1.5: an active set in place of a team, and work arrays, which this library leaves alone.
ACTIVE = 'int PE_start, int logPE_stride, int PE_size, '
SET = '(struct osh_set){PE_start, logPE_stride, PE_size}'


def active(section, op, more, body):
    return Family(section, op, 'void', 'void *dest, const void *source, ' + more + ACTIVE + 'long *pSync', body, ('',), sizes=(32, 64),
                  deprecated=True)


def to_all(op, types):
    return Family('9.10.9', op + '_to_all', 'void', 'T *dest, const T *source, int nreduce, ' + ACTIVE + 'T *pWrk, long *pSync',
                  f'osh_reduce_set(NAME, {SET}, dest, source, nreduce, OSH_TYPE(T), SHMD_REDUCE_{op.upper()});', types, deprecated=True)


ACTIVE_FAMILIES = [
    active('9.10.5', 'alltoall', 'size_t nelems, ', f'osh_alltoall_set(NAME, {SET}, dest, source, nelems * BYTES);'),
    active('9.10.6', 'alltoalls', 'ptrdiff_t dst, ptrdiff_t sst, size_t nelems, ',
           f'osh_alltoalls_set(NAME, {SET}, dest, source, (struct osh_blocks){{nelems, 1, dst, sst, BYTES}});'),
    active('9.10.7', 'broadcast', 'size_t nelems, int PE_root, ', f'osh_broadcast_set(NAME, {SET}, dest, source, nelems * BYTES, PE_root);'),
    active('9.10.8', 'collect', 'size_t nelems, ', f'osh_collect_set(NAME, {SET}, dest, source, nelems * BYTES);'),
    active('9.10.8', 'fcollect', 'size_t nelems, ', f'osh_fcollect_set(NAME, {SET}, dest, source, nelems * BYTES);'),
    to_all('and', TO_ALL_BITS), to_all('or', TO_ALL_BITS), to_all('xor', TO_ALL_BITS), to_all('max', TO_ALL_ORDER),
    to_all('min', TO_ALL_ORDER), to_all('sum', TO_ALL_SUM), to_all('prod', TO_ALL_SUM),
    plain('9.10.2', 'active-set.c', 'void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)', deprecated=True),
    plain('9.10.3', 'active-set.c', 'void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)', deprecated=True),
]

FAMILIES = (PLAIN_FAMILIES + RMA_FAMILIES + ATOMIC_FAMILIES + WAIT_FAMILIES + COLLECTIVE_FAMILIES + ACTIVE_FAMILIES +
            OLD_FAMILIES)
