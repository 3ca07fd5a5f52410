#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants of the runtime, each of which random programs must catch.

usage: mutants.py --check                     each mutant still fits the source: its line is there, once
       mutants.py BUILD_DIR [NAME...]         makes and tries them, in a copy of the tree

BUILD_DIR has the daemon and the simulated ConnectX. A mutant that compiles and passes is a hole in the programs; the script then ends with 1.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = 'tests/random/test-world-random'
N_PROGRAMS = '150'

PE = 'kernels/dev/impl/pe-'
COLL = 'kernels/dev/impl/coll-'
RUNTIME = 'libclient/runtime/'

# name, file, line, its place; the paths whose programs are tried, until one fails
MUTANTS = [
    ('barrier-leaves-out-a-round', PE + 'sync.h', 'for (round = 0; (1ull << round) < n &&',
     'for (round = 0; (2ull << round) < n &&', 'mapped'),
    ('fence-does-not-wait-for-atomics-by-queue', PE + 'sync.h', 'if (shmdi_fence_waits(ctx))\n\t\treturn shmd_dev_quiet(ctx);', '', 'mlx5_mixed'),
    ('swap-of-4-bytes-takes-the-neighbour-along', PE + 'queue.h', 'return (all & ~mask) | (', 'return (all & ~mask & ~1ull) | (', 'rc'),
    ('get-copies-before-the-data-is-there', PE + 'bounce.h', 'rc = shmd_dev_qp_get_as(move->way.qp, remote, near, bytes, move->mode);',
     'rc = shmd_dev_qp_get_nbi_as(move->way.qp, remote, near, bytes, move->mode);', 'slow_rc'),
    ('barrier-completes-nothing', 'libclient/runtime/team/team.c', 'int status = shmd_dev_quiet(&team->world->ctx->dev);\n\n\treturn status ? w',
     'int status = 0;\n\n\treturn status ? w', 'slow_rc rc'),
    ('quiet-ends-with-the-first-queue', PE + 'sync.h', '\t\tif (!rc)\n\t\t\trc = one;\n\t}\n\treturn rc;\n}\n\nSHMDI_FN int shmd_dev_quiet_as',
     '\t\trc = one;\n\t\tbreak;\n\t}\n\treturn rc;\n}\n\nSHMDI_FN int shmd_dev_quiet_as', 'slow_rc'),
    ('sync-uses-the-flag-of-another-round', PE + 'sync.h', '(uint64_t)flag * SHMD_DEV_SYNC_FLAG_BYTES', '(uint64_t)(flag / 2) * SHMD_DEV_SYNC_FLAG_BYTES',
     'mapped'),
    ('strided-copy-leaves-out-the-last-block', PE + 'strided.h',
     'for (i = 0; i < stride->n; i++)\n\t\tshmdi_copy(', 'for (i = 0; i + 1 < stride->n; i++)\n\t\tshmdi_copy(', 'mapped'),
    ('strided-queue-swaps-the-strides', PE + 'strided.h', 'local += near_stride;', 'local += far_stride;', 'rc'),
    ('strided-put-does-not-wait', PE + 'strided.h', 'else if (!rc)\n\t\trc = shmd_dev_qp_quiet_as(way.qp', 'else if (!rc && is_get)\n\t\trc = shmd_dev_qp_quiet_as(way.qp',
     'slow_rc'),
    ('key-of-the-first-pe', PE + 'way.h', 'keys[chunk * SHMDI_FIXED(world->n_pes) + at->pe]', 'keys[chunk * SHMDI_FIXED(world->n_pes)]', 'rc'),
    ('key-of-the-chunk-before', PE + 'way.h', 'uint32_t chunk = index[offset >> SHMDI_FIXED(heap->log2_granule)];',
     'uint32_t chunk = index[offset >> SHMDI_FIXED(heap->log2_granule)];\n\n\tchunk -= chunk > 0;', 'rc'),
    ('piece-of-a-put-in-the-wrong-place', PE + 'queue.h', 'at.offset += piece;', 'at.offset += piece - 64;', 'rc'),
    ('inline-bytes-in-the-wrong-order', PE + 'queue.h', 'value |= (uint64_t)local[i] << (8 * i);', 'value |= (uint64_t)local[i] << (8 * (i ^ 1));', 'rc'),
    ('float-of-4-bytes-in-the-wrong-half', PE + 'queue.h', 'swap->shift = (uint32_t)(swap->remote.iova & 4) * 8;', 'swap->shift = 0;', 'rc'),
    ('signal-before-its-data', PE + 'signal.h',
     '\tshmdi_copy((void *)(uintptr_t)at.addr, put.source, put.bytes, mode.scope);\n\tif (shmdi_scope_enter(mode.scope))\n'
     '\t\tshmdi_signal_store((uint64_t *)(uintptr_t)word.addr, &signal);',
     '\tif (shmdi_scope_enter(mode.scope))\n\t\tshmdi_signal_store((uint64_t *)(uintptr_t)word.addr, &signal);\n'
     '\tshmdi_copy((void *)(uintptr_t)at.addr, put.source, put.bytes, mode.scope);', 'mapped'),
    ('signal-is-always-set', PE + 'signal.h', 'signal->op == SHMD_DEV_SIGNAL_SET ? SHMD_DEV_AMO_SWAP : SHMD_DEV_AMO_ADD', 'SHMD_DEV_AMO_SWAP', 'mapped'),
    ('wait-some-forgets-the-last', PE + 'wait-many.h', 'for (; i < many->n; i = shmdi_many_next(many, i + 1, 1))\n\t\tret_indexes[n++] = i;',
     'for (; i < many->n; i++)\n\t\tret_indexes[n++] = i;', 'mapped'),
    ('wait-compares-without-sign', PE + 'wait.h', 'until.flip = (cmp & SHMD_DEV_CMP_SIGNED) ? 1ull << 63 : 0;', 'until.flip = 0;', 'mapped'),
    ('unlock-completes-nothing', PE + 'lock.h', 'rc = shmd_dev_quiet_as(lock->ctx, lock->mode);', 'rc = SHMD_DEV_OK;', 'slow_rc rc'),
    ('atomic-on-the-own-copy', PE + 'amo.h', 'shmdi_pes_amo_post((void *)(uintptr_t)at.addr, &amo);', 'shmdi_pes_amo_post(dest, &amo);', 'mapped'),
    ('free-by-all-but-one', RUNTIME + 'heap/heap-alloc.c', '++heap->blocks[slots[i]].n_freed == heap->attr.n_pes)',
     '++heap->blocks[slots[i]].n_freed == heap->attr.n_pes - (heap->attr.n_pes > 1))', 'mapped'),
    ('realloc-frees-the-old-place-twice-as-large', RUNTIME + 'heap/heap-alloc.c', 'heap->stats.live_bytes -= block->size;\n\theap_block_free(heap, slot);',
     'heap_block_free(heap, slot);', 'mapped'),
    ('realloc-moves-too-little', RUNTIME + 'world/heaps.c', 'memmove(world_address(world, heap, to), world_address(world, heap, from), bytes);',
     'memmove(world_address(world, heap, to), world_address(world, heap, from), bytes & ~63ull);', 'mapped'),
    ('calloc-leaves-the-last-byte', RUNTIME + 'world/heaps.c', 'memset(world_address(world, heap, offset), 0, bytes);',
     'memset(world_address(world, heap, offset), 0, bytes - 1);', 'mapped'),
    ('exchange-uses-one-slot', RUNTIME + 'world/exchange.c', 'return WORLD_EXCHANGE_OFFSET + (number & 1) * WORLD_EXCHANGE_BYTES;',
     'return WORLD_EXCHANGE_OFFSET + (number & 0) * WORLD_EXCHANGE_BYTES;', 'mapped slow_rc'),
    ('split-orders-equal-keys-backwards', RUNTIME + 'team/split.c', 'return a->place < b->place ? -1 : a->place > b->place;',
     'return a->place > b->place ? -1 : a->place < b->place;', 'mapped'),
    ('id-of-a-team-keeps-its-scratch', RUNTIME + 'team/team-end.c',
     'memset(world_heap_at(&world->pes[world->rank], team->dev.scratch_offset), 0, SHMD_DEV_TEAM_SCRATCH_BYTES);', '', 'mapped'),
    ('context-numbers-pes-as-the-world', RUNTIME + 'world/ctx.c', 'team == world->builtin[WORLD_TEAM_ALL] ? 0 : (uintptr_t)&team->dev;', '0;', 'mapped'),
    ('collectives-use-one-slot-of-a-sender', COLL + 'team.h', '(sender * c->depth + (number & (c->depth - 1)))', '(sender * c->depth)', 'mapped'),
    ('alltoalls-reads-by-the-strides-of-dest', COLL + 'move.h', 'from + k * stride->source_stride_bytes', 'from + k * stride->dest_stride_bytes', 'mapped'),
    ('broadcast-does-not-wait-for-its-readers', COLL + 'move.h', 'if (!rc && !is_small)\n\t\trc = shmdi_coll_await_all(c);', '', 'mapped rc'),
    ('reduce-scatter-in-place-writes-at-once', COLL + 'reduce.h', 'm->to = c->me * share;', 'm->to = 0;', 'mapped'),
    ('two-collectives-share-the-memory-of-a-context', COLL + 'range.h', 'rc = shmdi_bounce_take(c->ctx, c->mode.timeout_nsec);', 'rc = SHMD_DEV_OK;',
     'rc slow_rc'),
    ('collectives-write-into-slots-that-are-not-read', COLL + 'team.h',
     'rc = shmdi_coll_await(c, i, c->number - c->depth + 1);', ';', 'mapped'),
    ('reductions-begin-before-all-have-called', COLL + 'range.h', 'int rc = shmdi_coll_meet(c);\n\n\treturn rc ? rc : shmdi_math_large_rest',
     'int rc = SHMD_DEV_OK;\n\n\treturn rc ? rc : shmdi_math_large_rest', 'mapped'),
    ('small-reduction-in-place-while-source-is-read', COLL + 'reduce.h', '\tif (!rc && c->by_queue)\n\t\trc = shmdi_coll_settle_one(c);\n', '', 'slow_rc'),
    ('least-long-double-begins-with-0', COLL + 'ops.h', 'if (op == SHMD_DEV_REDUCE_MIN)\n\t\t\tv =', 'if (0)\n\t\t\tv =', 'mapped'),
    ('keys-of-a-chunk-in-the-wrong-row', RUNTIME + 'world/rails.c', 'rkeys[rail][chunk * n_pes + i]',
     'rkeys[rail][(chunk & ~1u) * n_pes + i]', 'rc'),
]


def mutate(row):
    """The text of the file with the mutant in it."""
    name, path, old, new, _ = row
    text = (TOP / path).read_text()
    if text.count(old) != 1:
        sys.exit(f'mutants: {name}: {path} has its line {text.count(old)} times, not once')
    return text.replace(old, new)


def copy_tree(to):
    files = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=TOP, check=True,
                           stdout=subprocess.PIPE).stdout.decode().split('\0')
    for name in filter(None, files):
        if os.path.lexists(TOP / name):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, to / name, follow_symlinks=False)


def build(tree):
    return subprocess.run(['ninja', '-C', tree / 'build', '--quiet', PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def catches(tree, build_dir, path):
    """The line that says why, or None."""
    daemon, sim = build_dir / 'daemon/shmemd', []
    if path.startswith('mlx5_'):
        sim = [build_dir / 'tests/mlx5sim/mlx5sim', '--nics', '2', '--log', tree / 'mlx5sim.log', '--', 'env', 'SHMEMD_TEST_BACKEND=mlx5']
    env = dict(os.environ, SHMEMD_BINARY=str(daemon), SHMEMD_RANDOM_N=N_PROGRAMS, SHMEMD_RANDOM_WHOLE='1')
    env.setdefault('SHMD_TIMEOUT', '20s')
    done = subprocess.run([*sim, tree / 'build' / PROGRAM, f'programs_on_{PATHS[path.removeprefix("mlx5_")]}_have_the_results_of_the_model'], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seed = re.search(rb'SHMEMD_RANDOM_SEED=(\d+)', done.stdout)
    why = re.search(rb'^PE \d+, step .*', done.stdout, re.M)
    if not done.returncode:
        return None
    return f'{path}, seed {seed[1].decode() if seed else "?"}: {why[0].decode(errors="replace") if why else "a PE died"}'


PATHS = {'mapped': 'mapped_memory', 'rc': 'rc_queues', 'dc': 'dc_queues', 'mixed': 'mixed_paths', 'slow_rc': 'slow_rc_queues',
         'slow_dc': 'slow_dc_queues'}


def attempt(row, tree, build_dir):
    name, path, _, _, paths = row
    (tree / path).write_text(mutate(row))
    built = build(tree)
    found = None
    if built.returncode:
        found = 'does not compile'
        print(built.stdout.decode(errors='replace')[-2000:])
    else:
        for each in paths.split():
            found = found or catches(tree, build_dir, each)
    shutil.copy2(TOP / path, tree / path)
    os.utime(tree / path)
    print(f'{"caught" if found else "NOT CAUGHT"}  {name}: {found or paths}', flush=True)
    return bool(found) and not built.returncode


def main():
    if sys.argv[1:] == ['--check']:
        for row in MUTANTS:
            mutate(row)
        print(f'{len(MUTANTS)} mutants fit the source')
        return
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    rows = [row for row in MUTANTS if not sys.argv[2:] or row[0] in sys.argv[2:]]
    with tempfile.TemporaryDirectory(prefix='shmemd-mutants-') as folder:
        tree = pathlib.Path(folder)
        copy_tree(tree)
        subprocess.run(['meson', 'setup', tree / 'build', tree, '-Dcuda=disabled', '-Dsystemd=disabled', '-Drdma_core=disabled'], check=True,
                       stdout=subprocess.DEVNULL)
        if build(tree).returncode:
            sys.exit('mutants: the tree without a mutant does not build')
        build_dir = pathlib.Path(sys.argv[1]).resolve()
        missed = [row[0] for row in rows if not attempt(row, tree, build_dir)]
    print(f'{len(rows) - len(missed)} of {len(rows)} mutants were caught')
    sys.exit(1 if missed else 0)


if __name__ == '__main__':
    main()
