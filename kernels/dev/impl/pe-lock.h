/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks: the bodies. Contracts are in pe.h, which includes this.
 *
 * The word holds three fields. Two are used in the copy of PE 0 of the world, and make a queue of PEs: `next`, the ticket that the next
 * PE takes, and `serving`, that of the holder. The third is used in each PE's own copy: whether one of its threads waits or
 * holds (BUSY), so that a PE has one ticket at most, and its ticket (KEPT): that of the thread that waits or holds, or one that a thread left
 * behind when it gave up. A field changes by adding the difference, which leaves the others alone.
 *
 * Where atomics are loads and stores, the copy of a PE that has ended can be read, so whoever waits passes its turn on once the program has
 * forgiven it. Only by queues is a ticket not written down: the copy of a PE that has ended cannot be read there.
 *
 *	63 next 44 | 43 serving 24 | 23 BUSY | 22 KEPT | 19 ticket 0
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_LOCK_H
#define SHMDI_PE_LOCK_H

#include <shmd/dev/impl/pe-sync.h>

#define SHMDI_LOCK_NEXT (1ull << 44)
#define SHMDI_LOCK_SERVING (1ull << 24)
#define SHMDI_LOCK_BUSY (1ull << 23)
#define SHMDI_LOCK_KEPT (1ull << 22)
#define SHMDI_LOCK_TICKETS 0xfffffull

/* One call on a lock. */
struct shmdi_lock {
	struct shmd_dev_ctx *ctx;
	struct shmd_dev_mode mode; /* of the atomics */
	uint64_t turn_nsec; /* how long the caller waits for its turn */
	struct shmdi_pe_at queue; /* the copy of PE 0 */
	struct shmdi_pe_at own;
	uint64_t kept; /* KEPT and the ticket, or 0: what the own copy has beside BUSY and the fields of the queue */
	uint64_t ticket;
};

SHMDI_FN uint64_t shmdi_lock_next(uint64_t word)
{
	return word >> 44;
}

SHMDI_FN uint64_t shmdi_lock_serving(uint64_t word)
{
	return word >> 24 & SHMDI_LOCK_TICKETS;
}

SHMDI_FN int shmdi_lock_amo(struct shmdi_lock *lock, const struct shmdi_pe_at *at, struct shmd_dev_amo amo, uint64_t *ret_old)
{
	if (SHMDI_UNLIKELY(!at->addr))
		return shmdi_queue_amo_one(lock->ctx, at, &amo, &lock->mode, ret_old);
	*ret_old = shmdi_pes_amo((void *)(uintptr_t)at->addr, &amo);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_lock_add(struct shmdi_lock *lock, const struct shmdi_pe_at *at, uint64_t difference, uint64_t *ret_old)
{
	return shmdi_lock_amo(lock, at, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, difference), ret_old);
}

SHMDI_FN int shmdi_lock_look(struct shmdi_lock *lock, const struct shmdi_pe_at *at, uint64_t *ret_word)
{
	return shmdi_lock_amo(lock, at, shmd_dev_amo_of(SHMD_DEV_AMO_FETCH, 8, 0), ret_word);
}

/* Replace the word if it is still *word, which becomes what it was. *ret_won says whether it was. */
SHMDI_FN int shmdi_lock_swap(struct shmdi_lock *lock, const struct shmdi_pe_at *at, uint64_t *word, uint64_t v, int *ret_won)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of(SHMD_DEV_AMO_COMPARE_SWAP, 8, v);
	uint64_t found = 0;
	int rc;

	amo.compare = *word;
	rc = shmdi_lock_amo(lock, at, amo, &found);
	*ret_won = !rc && found == *word;
	*word = found;
	return rc;
}

SHMDI_FN int shmdi_lock_find(struct shmdi_lock *lock, struct shmd_dev_ctx *ctx, const uint64_t *word, struct shmd_dev_mode mode)
{
	const struct shmd_dev_world *world = shmdi_world_of(ctx);
	int rc;

	lock->ctx = ctx;
	lock->mode = mode;
	lock->mode.scope = SHMD_DEV_THREAD;
	lock->turn_nsec = mode.timeout_nsec;
	/* An atomic whose outcome is unknown would lose the PE's place, so each has the context's time at least. */
	if (lock->mode.timeout_nsec < SHMDI_CTX(ctx->timeout_nsec))
		lock->mode.timeout_nsec = SHMDI_CTX(ctx->timeout_nsec);
	lock->own.heap = shmdi_heap_find(world, word, 8, &lock->own.offset);
	if (((uintptr_t)word & 7) || lock->own.heap == SHMD_DEV_HEAPS)
		return SHMD_DEV_INVALID;
	lock->own.pe = SHMDI_FIXED(world->my_pe);
	lock->queue = lock->own;
	lock->queue.pe = 0;
	rc = shmdi_pe_reach(world, &lock->own);
	if (!rc)
		rc = shmdi_pe_reach(world, &lock->queue);
	if (!shmdi_atomics_in_place(ctx))
		lock->own.addr = lock->queue.addr = 0;
	return rc;
}

/* ---- among the threads of one PE ----------------------------------------------------------------------------------------------- */

/* Look once: SHMD_DEV_OK if this thread now acts for its PE, SHMD_DEV_AGAIN if another does. */
SHMDI_FN int shmdi_lock_enter_once(struct shmdi_lock *lock)
{
	uint64_t word;
	int won = 0, rc = shmdi_lock_look(lock, &lock->own, &word);

	while (!rc && !won) {
		if (word & SHMDI_LOCK_BUSY)
			return SHMD_DEV_AGAIN;
		lock->kept = word & (SHMDI_LOCK_KEPT | SHMDI_LOCK_TICKETS);
		rc = shmdi_lock_swap(lock, &lock->own, &word, word | SHMDI_LOCK_BUSY, &won);
	}
	return rc;
}

/* Another thread may act; `kept` is left for it. */
SHMDI_FN int shmdi_lock_exit(struct shmdi_lock *lock, uint64_t kept)
{
	uint64_t old;

	return shmdi_lock_add(lock, &lock->own, kept - lock->kept - SHMDI_LOCK_BUSY, &old);
}

SHMDI_FN int shmdi_lock_enter(struct shmdi_lock *lock, struct shmdi_pe_wait *wait)
{
	int rc;

	while ((rc = shmdi_lock_enter_once(lock)) == SHMD_DEV_AGAIN) {
		rc = shmdi_pe_wait_round(wait);
		if (rc)
			return rc;
	}
	return rc;
}

/* ---- among PEs ------------------------------------------------------------------------------------------------------------------ */

/* The thread that acts has the lock: what its holders stored before is visible. */
SHMDI_FN int shmdi_lock_won(struct shmdi_lock *lock)
{
	(void)lock;
#if SHMDI_CUDA
	shmdi_pes_fence();
#endif
	return SHMD_DEV_OK;
}

/* The own copy has the ticket until the PE gives it back, where others can read it. */
SHMDI_FN int shmdi_lock_write_down(struct shmdi_lock *lock)
{
	uint64_t old;

	if (lock->kept || !lock->own.addr)
		return SHMD_DEV_OK;
	lock->kept = SHMDI_LOCK_KEPT | lock->ticket;
	return shmdi_lock_add(lock, &lock->own, lock->kept, &old);
}

/* The difference that makes the next one the holder. Behind the last ticket comes 0, without a carry into `next`. */
SHMDI_FN uint64_t shmdi_lock_step(uint64_t word)
{
	return shmdi_lock_serving(word) == SHMDI_LOCK_TICKETS ? 0 - SHMDI_LOCK_TICKETS * SHMDI_LOCK_SERVING : SHMDI_LOCK_SERVING;
}

/* The copy of a PE that has ended, where it is mapped; else 0. */
SHMDI_FN uint64_t *shmdi_lock_of_gone(const struct shmdi_lock *lock, uint32_t pe)
{
	const struct shmd_dev_pe *entry = shmdi_pe_entry(shmdi_world_of(lock->ctx), pe);
	uint64_t base = SHMDI_FIXED(entry->heap_addr[lock->own.heap]);

	if (!pe || !base || shmdi_path_load(entry, lock->own.heap) != SHMD_PATH_GONE)
		return 0;
	return (uint64_t *)(uintptr_t)(base + lock->own.offset);
}

/*
 * A PE that has ended gets no turn. Its ticket is taken from its copy when it was served, or tickets that come round to it would pass for its own.
 * *word is what the queue has. Another PE may do the same.
 */
SHMDI_SLOW int shmdi_lock_pass_on(struct shmdi_lock *lock, uint64_t *word)
{
	uint32_t pe, n_pes = SHMDI_FIXED(shmdi_world_of(lock->ctx)->n_pes);
	uint64_t *copy, kept, waiting;
	int won = 0, rc = SHMD_DEV_OK;

	for (pe = 0; pe < n_pes && !rc; pe++) {
		copy = lock->queue.addr ? shmdi_lock_of_gone(lock, pe) : 0;
		kept = copy ? shmdi_pes_load(copy, 8) : 0;
		if (!(kept & SHMDI_LOCK_KEPT))
			continue;
		if ((kept & SHMDI_LOCK_TICKETS) == shmdi_lock_serving(*word)) {
			rc = shmdi_lock_swap(lock, &lock->queue, word, *word + shmdi_lock_step(*word), &won);
			if (!rc && won)
				rc = shmdi_lock_look(lock, &lock->queue, word);
		}
		waiting = ((kept & SHMDI_LOCK_TICKETS) - shmdi_lock_serving(*word)) & SHMDI_LOCK_TICKETS;
		if (!rc && waiting >= ((shmdi_lock_next(*word) - shmdi_lock_serving(*word)) & SHMDI_LOCK_TICKETS))
			(void)shmdi_pes_compare_swap(copy, 8, kept, 0);
		/* The next one may have ended, too. */
		pe = won ? UINT32_MAX : pe;
		won = 0;
	}
	return rc;
}

/* Before the program has forgiven them, waits end instead. */
SHMDI_FN int shmdi_lock_pass_gone(struct shmdi_lock *lock, uint64_t *word)
{
	const struct shmd_dev_world *world = shmdi_world_of(lock->ctx);

	if (SHMDI_LIKELY(!shmdi_word_load32(&world->n_gone)) || shmdi_world_status(world))
		return SHMD_DEV_OK;
	return shmdi_lock_pass_on(lock, word);
}

/* A ticket: the one that was kept, or a new one. *ret_serving says who has the lock. */
SHMDI_FN int shmdi_lock_ask(struct shmdi_lock *lock, uint64_t *ret_serving)
{
	uint64_t word;
	int rc;

	if (lock->kept)
		rc = shmdi_lock_look(lock, &lock->queue, &word);
	else
		rc = shmdi_lock_add(lock, &lock->queue, SHMDI_LOCK_NEXT, &word);
	if (rc)
		return rc;
	lock->ticket = lock->kept ? lock->kept & SHMDI_LOCK_TICKETS : shmdi_lock_next(word);
	*ret_serving = shmdi_lock_serving(word);
	return shmdi_lock_write_down(lock);
}

/*
 * Give up with status rc: leave the queue if no PE stands behind, else keep the place. If the lock was handed over just now,
 * the caller has it after all.
 */
SHMDI_SLOW int shmdi_lock_leave(struct shmdi_lock *lock, int rc)
{
	uint64_t word = 0;
	int won = 0, failed = shmdi_lock_look(lock, &lock->queue, &word);

	while (!failed && !won && shmdi_lock_next(word) == ((lock->ticket + 1) & SHMDI_LOCK_TICKETS)) {
		if (shmdi_lock_serving(word) == lock->ticket)
			return shmdi_lock_won(lock);
		failed = shmdi_lock_swap(lock, &lock->queue, &word, word - SHMDI_LOCK_NEXT, &won);
	}
	if (!failed && !won && shmdi_lock_serving(word) == lock->ticket)
		return shmdi_lock_won(lock);
	failed = shmdi_lock_exit(lock, won ? 0 : SHMDI_LOCK_KEPT | lock->ticket);
	return failed ? failed : rc;
}

SHMDI_APART int shmdi_lock_one(struct shmdi_lock *lock)
{
	struct shmdi_pe_wait wait;
	uint64_t serving = 0, word, looks = 0;
	int rc;

	shmdi_pe_wait_init(&wait, lock->ctx, lock->turn_nsec);
	rc = shmdi_lock_enter(lock, &wait);
	if (rc)
		return rc;
	rc = shmdi_lock_ask(lock, &serving);
	if (rc) {
		(void)shmdi_lock_exit(lock, lock->kept);
		return rc;
	}
	while (serving != lock->ticket) {
		if (lock->queue.addr && looks++ < SHMDI_PE_LOOKS)
			shmdi_pe_pause();
		else
			rc = shmdi_pe_wait_round(&wait);
		if (!rc)
			rc = shmdi_lock_look(lock, &lock->queue, &word);
		if (!rc)
			rc = shmdi_lock_pass_gone(lock, &word);
		if (rc)
			return shmdi_lock_leave(lock, rc);
		serving = shmdi_lock_serving(word);
	}
	return shmdi_lock_won(lock);
}

SHMDI_FN int shmd_dev_lock_as(struct shmd_dev_ctx *ctx, uint64_t *lock, struct shmd_dev_mode mode)
{
	struct shmdi_lock call;
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope)) {
		rc = shmdi_lock_find(&call, ctx, lock, mode);
		if (!rc)
			rc = shmdi_lock_one(&call);
	}
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_lock(struct shmd_dev_ctx *ctx, uint64_t *lock)
{
	return shmd_dev_lock_as(ctx, lock, shmdi_ctx_mode(ctx));
}

/* Whether the lock is free for the PE, and if so taken: SHMD_DEV_OK or SHMD_DEV_AGAIN. */
SHMDI_FN int shmdi_lock_try_one(struct shmdi_lock *lock)
{
	uint64_t word;
	int won = 0, rc = shmdi_lock_look(lock, &lock->queue, &word);

	if (!rc)
		rc = shmdi_lock_pass_gone(lock, &word);
	if (!rc && lock->kept)
		return shmdi_lock_serving(word) == (lock->kept & SHMDI_LOCK_TICKETS) ? SHMD_DEV_OK : SHMD_DEV_AGAIN;
	while (!rc && !won) {
		if (shmdi_lock_serving(word) != shmdi_lock_next(word))
			return SHMD_DEV_AGAIN;
		lock->ticket = shmdi_lock_next(word);
		rc = shmdi_lock_swap(lock, &lock->queue, &word, word + SHMDI_LOCK_NEXT, &won);
	}
	return rc ? rc : shmdi_lock_write_down(lock);
}

SHMDI_APART int shmdi_lock_test_one(struct shmdi_lock *lock)
{
	int failed, rc = shmdi_lock_enter_once(lock);

	if (rc)
		return rc;
	rc = shmdi_lock_try_one(lock);
	if (!rc)
		return shmdi_lock_won(lock);
	failed = shmdi_lock_exit(lock, lock->kept);
	return failed ? failed : rc;
}

SHMDI_FN int shmd_dev_lock_test(struct shmd_dev_ctx *ctx, uint64_t *lock)
{
	struct shmdi_lock call;
	int rc = shmdi_lock_find(&call, ctx, lock, shmdi_ctx_mode(ctx));

	return rc ? rc : shmdi_lock_test_one(&call);
}

SHMDI_APART int shmdi_unlock_one(struct shmdi_lock *lock)
{
	uint64_t word, old;
	int rc = shmdi_lock_look(lock, &lock->own, &word);

	if (!rc && !(word & SHMDI_LOCK_BUSY))
		return SHMD_DEV_INVALID;
	lock->kept = word & (SHMDI_LOCK_KEPT | SHMDI_LOCK_TICKETS);
	if (!rc)
		rc = shmd_dev_quiet_as(lock->ctx, lock->mode);
	if (!rc)
		rc = shmdi_lock_look(lock, &lock->queue, &word);
	if (!rc)
		rc = shmdi_lock_add(lock, &lock->queue, shmdi_lock_step(word), &old);
	return rc ? rc : shmdi_lock_exit(lock, 0);
}

SHMDI_FN int shmd_dev_unlock(struct shmd_dev_ctx *ctx, uint64_t *lock)
{
	struct shmdi_lock call;
	int rc = shmdi_lock_find(&call, ctx, lock, shmdi_ctx_mode(ctx));

	return rc ? rc : shmdi_unlock_one(&call);
}

#endif
