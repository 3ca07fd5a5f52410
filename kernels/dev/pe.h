/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided communication between PEs: a symmetric address and the number of a PE, on the world state of <shmd/abi/world.h>.
 * The header to include. Call shmd_dev_*; names with shmdi_ and SHMDI_ are internal and may change.
 *
 * A symmetric address is the caller's own copy; the functions find the PE's. They read and write mapped memory in place,
 * by loads, stores and atomics; everything else goes by the queues of the context. Both have the same meaning.
 *
 * Every function returns enum shmd_dev_status, unless its comment says otherwise: SHMD_DEV_OK, or a negative status; then it has
 * written no output, but what get and fetch_nbi have read from a PE that has ended:
 *
 *	SHMD_DEV_TIMEOUT	the time limit passed; what was begun may still be carried out
 *	SHMD_DEV_PE_GONE	the PE has ended. On mapped memory a kernel may see that only behind its next wait, fence or quiet. Waits for memory, syncs and locks: some PE has, and the program has not yet
 *			acknowledged it (world.n_gone_known). Syncs also: a PE of the team has ended, acknowledged or not
 *	SHMD_DEV_HEALTH	the session has ended, or the NIC is down
 *	SHMD_DEV_CQE_ERROR	a request on a queue failed
 *	SHMD_DEV_INVALID	an argument: a PE out of range, memory outside the heaps, a word that is not aligned
 *	SHMD_DEV_NO_PATH	no path leads to the PE
 *	SHMD_DEV_UNSUPPORTED	an atomic for which the NIC has nothing
 *
 * PEs	are numbered as in the team of the context; team functions number them as in that team.
 * Scope	A plain name has scope thread and the time limit of the context. The _as form takes a struct shmd_dev_mode,
 *	from shmd_dev_ctx_mode(): time limit, scope and SHMD_DEV_NO_DOORBELL. In scope warp or block all threads of it must call, with the
 *	same arguments; they share the work, and all return its status. The functions ignore sharing and peer of the mode.
 * Order	shmd_dev_fence() orders operations of a context to each PE, shmd_dev_quiet() completes them. put and get have no order
 *	without them. put returns when its source may be changed, get when its data is there; _nbi forms return at once, and
 *	the buffers belong to them until shmd_dev_quiet() returned. On mapped memory nothing is left to wait for.
 *	A reader that sees a signal, or a word that was put after a fence, sees what was put before.
 * Words	A put, p, get or g of 1, 2, 4 or 8 aligned bytes in scope thread is one store and one load. Atomics and signals are atomic
 *	with each other; a plain put to their word is not.
 * Threads	Any number in all functions, if the context is shared; one team in one sync at a time.
 */
#ifndef SHMD_DEV_PE_H
#define SHMD_DEV_PE_H

#include <shmd/abi/world.h>
#include <shmd/dev/rma.h>

/* ---- arguments --------------------------------------------------------------------------------------------------------------- */

/* A signal and its word, 8 aligned bytes of symmetric memory. */
struct shmd_dev_pe_signal {
	uint64_t *word;
	uint64_t value;
	int op; /* enum shmd_dev_signal_op */
};

SHMDI_FN struct shmd_dev_pe_signal shmd_dev_pe_signal_of(uint64_t *word, int op, uint64_t value)
{
	struct shmd_dev_pe_signal signal;

	signal.word = word;
	signal.value = value;
	signal.op = op;
	return signal;
}

/* Added to enum shmd_dev_cmp: words and values are signed. */
#define SHMD_DEV_CMP_SIGNED 0x10u

/* Words that the caller waits for. A word is left out when its status is not 0. */
struct shmd_dev_wait {
	const void *words; /* of the caller, one behind the other */
	uint64_t n;
	uint32_t bytes; /* of a word: 2, 4 or 8 */
	uint32_t cmp; /* enum shmd_dev_cmp, and SHMD_DEV_CMP_SIGNED */
	const int *status; /* n of them; NULL: no word is left out */
	uint64_t value; /* for all words */
	const void *values; /* n of them instead, of `bytes` each; NULL: value */
};

/* The index that shmd_dev_wait_until_any() returns when there is no word to wait for. */
#define SHMD_DEV_NO_INDEX UINT64_MAX

/*
 * The context that a kernel has among its parameters (shmd_ctx_gpu_copy()), as functions take it. The parameter is `const __grid_constant__`: it
 * stays where it is, in memory that fences do not empty.
 */
SHMDI_FN struct shmd_dev_ctx *shmd_dev_ctx_of(const struct shmd_dev_ctx *parameter)
{
	return (struct shmd_dev_ctx *)(uintptr_t)parameter;
}

/* The mode of the plain functions of this context, with a scope. */
SHMDI_FN struct shmd_dev_mode shmd_dev_ctx_mode(const struct shmd_dev_ctx *ctx, enum shmd_dev_scope scope);

/* ---- put and get: any number of bytes; 0 bytes of a PE that exists succeed, whatever the addresses ------------------------------ */

SHMDI_FN int shmd_dev_put(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
SHMDI_FN int shmd_dev_put_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			     struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_put_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
SHMDI_FN int shmd_dev_put_nbi_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
				 struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_get(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
SHMDI_FN int shmd_dev_get_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			     struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_get_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
SHMDI_FN int shmd_dev_get_nbi_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
				 struct shmd_dev_mode mode);

/* n blocks of block_bytes, whose starts are so many bytes apart on each side. */
struct shmd_dev_stride {
	uint64_t n, block_bytes;
	uint64_t dest_stride_bytes, source_stride_bytes;
};
SHMDI_FN int shmd_dev_put_strided(struct shmd_dev_ctx *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride,
				  uint32_t pe);
SHMDI_FN int shmd_dev_put_strided_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source,
				      const struct shmd_dev_stride *stride, uint32_t pe);
SHMDI_FN int shmd_dev_get_strided(struct shmd_dev_ctx *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride,
				  uint32_t pe);
SHMDI_FN int shmd_dev_get_strided_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source,
				      const struct shmd_dev_stride *stride, uint32_t pe);

/* Arguments of a put. */
struct shmd_dev_put_item {
	void *dest;
	const void *source;
	uint64_t bytes;
	uint32_t pe;
};
/* n times shmd_dev_put_nbi(); what goes by one queue in a row is announced together. Ends at the first failure. */
SHMDI_FN int shmd_dev_put_batch_nbi(struct shmd_dev_ctx *ctx, const struct shmd_dev_put_item *items, uint64_t n);

/* Arguments of a get. */
struct shmd_dev_get_item {
	void *dest;
	const void *source;
	uint64_t bytes;
	uint32_t pe;
};
/* n times shmd_dev_get_nbi(), announced as a batch of puts is. Ends at the first failure. */
SHMDI_FN int shmd_dev_get_batch_nbi(struct shmd_dev_ctx *ctx, const struct shmd_dev_get_item *items, uint64_t n);

/* Write a value of 1, 2, 4 or 8 bytes; returns when it is on its way. */
SHMDI_FN int shmd_dev_p(struct shmd_dev_ctx *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe);
SHMDI_FN int shmd_dev_p_as(struct shmd_dev_ctx *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe,
			   struct shmd_dev_mode mode);
/* Read a value of 1, 2, 4 or 8 bytes, zero-extended. */
SHMDI_FN int shmd_dev_g(struct shmd_dev_ctx *ctx, const void *source, uint32_t bytes, uint32_t pe, uint64_t *ret_value);
SHMDI_FN int shmd_dev_g_as(struct shmd_dev_ctx *ctx, const void *source, uint32_t bytes, uint32_t pe, struct shmd_dev_mode mode,
			   uint64_t *ret_value);

/* ---- signals ------------------------------------------------------------------------------------------------------------------ */

/* A put, then the signal: a PE that sees the signal sees the data. */
SHMDI_FN int shmd_dev_put_signal(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes,
				 struct shmd_dev_pe_signal signal, uint32_t pe);
SHMDI_FN int shmd_dev_put_signal_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes,
				     struct shmd_dev_pe_signal signal, uint32_t pe);
SHMDI_FN int shmd_dev_put_signal_as(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put, struct shmd_dev_pe_signal signal,
				    struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_put_signal_nbi_as(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put,
					struct shmd_dev_pe_signal signal, struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_signal(struct shmd_dev_ctx *ctx, struct shmd_dev_pe_signal signal, uint32_t pe);
SHMDI_FN int shmd_dev_signal_as(struct shmd_dev_ctx *ctx, struct shmd_dev_pe_signal signal, uint32_t pe,
				struct shmd_dev_mode mode);
/* The value of the caller's own copy. */
SHMDI_FN uint64_t shmd_dev_signal_fetch(const uint64_t *word);

/* ---- atomics on words of 4 or 8 bytes -------------------------------------------------------------------------------------------- */

/* Without its result; returns when it is on its way. */
SHMDI_FN int shmd_dev_atomic(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe);
SHMDI_FN int shmd_dev_atomic_as(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
				struct shmd_dev_mode mode);
/* Returns the previous value, zero-extended; ret_old may be NULL. */
SHMDI_FN int shmd_dev_atomic_fetch(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, uint64_t *ret_old);
SHMDI_FN int shmd_dev_atomic_fetch_as(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
				      struct shmd_dev_mode mode, uint64_t *ret_old);
/*
 * The previous value is in `bytes` aligned bytes at ret_old when shmd_dev_quiet() returned; in scope warp or block one address for all
 * threads. By a queue it waits nevertheless where ret_old is not registered, or the NIC does not have the value as memory has it: words of
 * 4 bytes, and operations that are made of compare-swaps.
 */
SHMDI_FN int shmd_dev_atomic_fetch_nbi(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, void *ret_old);
SHMDI_FN int shmd_dev_atomic_fetch_nbi_as(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
					  struct shmd_dev_mode mode, void *ret_old);

/* ---- order --------------------------------------------------------------------------------------------------------------------- */

/* Operations of this context before it take effect at each PE, or at this one, before those after it. */
SHMDI_FN int shmd_dev_fence(struct shmd_dev_ctx *ctx);
SHMDI_FN int shmd_dev_fence_pe(struct shmd_dev_ctx *ctx, uint32_t pe);
/* All operations of this context, or those to this PE, are complete and visible to all PEs. */
SHMDI_FN int shmd_dev_quiet(struct shmd_dev_ctx *ctx);
SHMDI_FN int shmd_dev_quiet_as(struct shmd_dev_ctx *ctx, struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_quiet_pe(struct shmd_dev_ctx *ctx, uint32_t pe);
SHMDI_FN int shmd_dev_quiet_pe_as(struct shmd_dev_ctx *ctx, uint32_t pe, struct shmd_dev_mode mode);

/* ---- words of the caller that peers write ---------------------------------------------------------------------------------------- */

/* Until `*word cmp value`; a word of 2, 4 or 8 bytes; cmp is enum shmd_dev_cmp and SHMD_DEV_CMP_SIGNED. */
SHMDI_FN int shmd_dev_wait_until(struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value);
SHMDI_FN int shmd_dev_wait_until_as(struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value,
				    struct shmd_dev_mode mode);
/* Look once: SHMD_DEV_OK if it holds, else SHMD_DEV_AGAIN. */
SHMDI_FN int shmd_dev_test(struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value);

/* Until all hold. At once if there is none. */
SHMDI_FN int shmd_dev_wait_until_all(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait);
/* Until one holds: its index; SHMD_DEV_NO_INDEX at once if there is none. */
SHMDI_FN int shmd_dev_wait_until_any(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index);
/* Until at least one holds: the indexes of all that do, in room for n, and how many; none at once if there is none. */
SHMDI_FN int shmd_dev_wait_until_some(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes,
				      uint64_t *ret_n);
/* Look once, as shmd_dev_test(). any and some: SHMD_DEV_AGAIN if there is no word. */
SHMDI_FN int shmd_dev_test_all(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait);
SHMDI_FN int shmd_dev_test_any(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index);
SHMDI_FN int shmd_dev_test_some(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes,
				uint64_t *ret_n);

/* ---- teams --------------------------------------------------------------------------------------------------------------------- */

/*
 * All PEs of the team have called. The stores and puts to mapped memory that they made before it are visible; requests on queues
 * need not be complete. The context reaches the members; its own team does not matter. One caller at a time for each team on a
 * PE. After a failure the next call goes on with the same sync. In a kernel the sync may succeed though a PE of the team has ended, if that PE
 * had called it before. Behind queues a PE that takes another context than for its call before on this team completes the former one first
 * (quiet), since messages of two contexts overtake each other.
 */
SHMDI_FN int shmd_dev_team_sync(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team);
SHMDI_FN int shmd_dev_team_sync_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_mode mode);
/* shmd_dev_quiet(), then the sync. */
SHMDI_FN int shmd_dev_team_barrier(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team);
SHMDI_FN int shmd_dev_team_barrier_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_mode mode);
/* A PE of one team as a PE of another, or of the world if `to` is NULL; -1 if it is not in it, or not in `from`. */
SHMDI_FN int shmd_dev_team_translate(const struct shmd_dev_team *from, uint32_t pe, const struct shmd_dev_team *to);
/* Where the PE's copy is mapped here; NULL if it is not. */
SHMDI_FN void *shmd_dev_ptr(const struct shmd_dev_ctx *ctx, const void *ptr, uint32_t pe);

/* ---- locks --------------------------------------------------------------------------------------------------------------------- */

/*
 * A lock is a symmetric word of 8 bytes, 0 at first, and belongs to the world: its queue is in the copy of the world's PE 0. PEs get
 * it in the order in which they asked; of several threads of one PE one stands in the queue at a time. A caller that gives
 * up keeps the place of its PE if other PEs stand behind it. They wait until the PE's next call takes that place, so a PE that gives up
 * must call again.
 *
 * A PE that has ended, and was forgiven, gives its turn to the next one, where its memory is mapped and atomics are those of the CPU; what the lock
 * protects may be half changed then. One that dies while a call takes or leaves its turn may keep it. By queues its turn stays, and so it does with
 * the whole lock when PE 0 has ended: callers wait until their time limit, or get SHMD_DEV_PE_GONE.
 */
SHMDI_FN int shmd_dev_lock(struct shmd_dev_ctx *ctx, uint64_t *lock);
SHMDI_FN int shmd_dev_lock_as(struct shmd_dev_ctx *ctx, uint64_t *lock, struct shmd_dev_mode mode);
/* Look once: SHMD_DEV_OK if the caller has it now, else SHMD_DEV_AGAIN. */
SHMDI_FN int shmd_dev_lock_test(struct shmd_dev_ctx *ctx, uint64_t *lock);
/* shmd_dev_quiet() first. SHMD_DEV_INVALID if no thread of this PE asked for it. */
SHMDI_FN int shmd_dev_unlock(struct shmd_dev_ctx *ctx, uint64_t *lock);

#include <shmd/dev/impl/pe-amo.h>
#include <shmd/dev/impl/pe-ops.h>
#include <shmd/dev/impl/pe-signal.h>
#include <shmd/dev/impl/pe-sync.h>
#include <shmd/dev/impl/pe-wait.h>
#include <shmd/dev/impl/pe-wait-many.h>
#include <shmd/dev/impl/pe-lock.h>
#include <shmd/dev/impl/pe-strided.h>

#endif
