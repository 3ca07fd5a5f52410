/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided communication on a queue pair: the header to include. Call shmd_dev_*; names with shmdi_ and SHMDI_ are internal
 * and may change.
 *
 * Plain functions (SHMDI_API) are inline, or with SHMD_DEV_USE_LIBRARY external functions of libshmd_device.a;
 * everything else here is always inline.
 *
 * Every function returns enum shmd_dev_status: SHMD_DEV_OK, or a negative status; then it has written no output:
 *
 *	SHMD_DEV_TIMEOUT	the time limit passed (posting functions: post_timeout_nsec of the QP, for room)
 *	SHMD_DEV_CQE_ERROR	the QP failed: shmd_dev_qp_error(); every later call returns this too
 *	SHMD_DEV_HEALTH	the health word is set: the daemon, the session or the NIC is gone, or its port is down. A
 *			function that posts one request and does not wait has not posted it
 *	SHMD_DEV_INVALID	an argument the queue cannot carry; nothing was posted
 *	SHMD_DEV_UNSUPPORTED	an atomic, or the atomic of a signal, that the NIC lacks (shmd_nic_info.atomics); nothing was posted
 *
 * When causes coincide, wait_until checks its word first. Then, and first in every other wait, comes the QP's error
 * (even for requests that completed before it), then completion or room, then TIMEOUT, then HEALTH. A QP keeps
 * its first error, and the health word its first final value. shmd_dev_qp(3) has the same in words.
 *
 * Scope	A plain name has scope thread: each caller has its own operation. The _as form of a function takes a
 *	struct shmd_dev_mode instead of a time limit: scope, sharing and flags (args.h). In scope warp or block all
 *	threads of it must call, with the same arguments; one operation is posted and all return its status.
 * Sharing	Taken from the QP, or from the mode, where a constant folds. Exclusive: one thread at a time, ever; in scope
 *	warp or block that thread is the first of it.
 * Peer	A connected QP has one peer. On a DCI (SHMD_QP_DC) every request goes to mode.peer, so only _as forms and the
 *	caller's own WQEs post there: shmd_dev_mode_to(). In scope thread callers may have different peers. Functions that
 *	wait, test or fence ignore the peer; their plain forms work on both.
 * Order	Operations on one QP take effect at the peer in the order they were posted, except that a get or a
 *	fetching atomic may read late: shmd_dev_qp_fence(). A DCI orders only operations to the same peer; between two
 *	peers shmd_dev_qp_quiet() makes an order. An _nbi function returns when its request is posted; its
 *	buffers belong to the NIC until shmd_dev_qp_quiet() (or a wait for it) returned. A function that waits returns when
 *	the request has completed: the peer's NIC has acknowledged a write, the data of a get is in place.
 * Memory	Remote and local memory are registered, and named by iova and key. Payload the caller wrote before the
 *	call is sent as written; if it is in host memory and the queue in GPU memory, after __threadfence_system(). Remote words of atomics are naturally aligned and
 *	native-endian; 4-byte values are zero-extended to uint64_t.
 * Progress	Posting may wait for room, for earlier callers between reserve and ready, and for the doorbell. The QP's
 *	time limit ends each of these waits; an error or the health word also ends the wait for room.
 * Time	nsec; SHMD_DEV_NO_TIMEOUT for no limit; with 0 a function looks once and may return SHMD_DEV_TIMEOUT.
 * Outputs	ret_value, ret_old and ret_wqe_index may be NULL. ret_index may not, except in shmd_dev_qp_reserve_as().
 */
#ifndef SHMD_DEV_RMA_H
#define SHMD_DEV_RMA_H

#include <shmd/abi/dev-state.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/args.h>
#include <shmd/dev/impl/coop.h>
#include <shmd/dev/impl/post.h>
#include <shmd/dev/impl/sq.h>
#include <shmd/dev/wqe-prepare.h>

/* ---- put and get: any number of bytes, 0 included; above SHMD_DEV_MAX_REQUEST_BYTES in several requests --- */

SHMDI_API int shmd_dev_qp_put(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
			      struct shmd_dev_addr local, uint64_t bytes, uint64_t timeout_nsec);
SHMDI_FN int shmd_dev_qp_put_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				struct shmd_dev_addr local, uint64_t bytes,
				struct shmd_dev_mode mode);

SHMDI_API int shmd_dev_qp_put_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				  struct shmd_dev_addr local, uint64_t bytes);
SHMDI_FN int shmd_dev_qp_put_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    struct shmd_dev_addr local, uint64_t bytes,
				    struct shmd_dev_mode mode);

SHMDI_API int shmd_dev_qp_get(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
			      struct shmd_dev_addr local, uint64_t bytes, uint64_t timeout_nsec);
SHMDI_FN int shmd_dev_qp_get_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				struct shmd_dev_addr local, uint64_t bytes,
				struct shmd_dev_mode mode);

SHMDI_API int shmd_dev_qp_get_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				  struct shmd_dev_addr local, uint64_t bytes);
SHMDI_FN int shmd_dev_qp_get_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    struct shmd_dev_addr local, uint64_t bytes,
				    struct shmd_dev_mode mode);

/* Write a value of 1, 2, 4 or 8 bytes, carried in the WQE. Does not wait for completion. */
SHMDI_API int shmd_dev_qp_p(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
			    uint32_t bytes);
SHMDI_FN int shmd_dev_qp_p_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
			      uint32_t bytes, struct shmd_dev_mode mode);

/* Read a value of 1, 2, 4 or 8 bytes. With a ret_value of NULL the call only waits. */
SHMDI_API int shmd_dev_qp_g(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
			    uint64_t timeout_nsec, uint64_t *ret_value);
SHMDI_FN int shmd_dev_qp_g_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
			      struct shmd_dev_mode mode, uint64_t *ret_value);

/* ---- signals: 64-bit words at the peer ------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_signal_set(struct shmd_dev_qp *qp, struct shmd_dev_addr word,
				     uint64_t value);
SHMDI_API int shmd_dev_qp_signal_add(struct shmd_dev_qp *qp, struct shmd_dev_addr word,
				     uint64_t value);
SHMDI_FN int shmd_dev_qp_signal_as(struct shmd_dev_qp *qp, struct shmd_dev_signal signal,
				   struct shmd_dev_mode mode);

/* A put, then the signal. A reader that sees the signal (wait_until, test) also sees the data. */
SHMDI_API int shmd_dev_qp_put_signal(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     struct shmd_dev_addr local, uint64_t bytes,
				     struct shmd_dev_signal signal, uint64_t timeout_nsec);
SHMDI_FN int shmd_dev_qp_put_signal_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				       struct shmd_dev_addr local, uint64_t bytes,
				       struct shmd_dev_signal signal, struct shmd_dev_mode mode);

SHMDI_API int shmd_dev_qp_put_signal_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					 struct shmd_dev_addr local, uint64_t bytes,
					 struct shmd_dev_signal signal);
SHMDI_FN int shmd_dev_qp_put_signal_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   struct shmd_dev_addr local, uint64_t bytes,
					   struct shmd_dev_signal signal,
					   struct shmd_dev_mode mode);

/* ---- atomics on words of 4 or 8 bytes -------------------------------------------------------------------- */

/* Any operation without its result. Returns when it is posted. */
SHMDI_FN int shmd_dev_qp_atomic_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				   struct shmd_dev_amo amo, struct shmd_dev_mode mode);
/* Any operation; returns the previous value of the word. Waits even if ret_old is NULL. */
SHMDI_FN int shmd_dev_qp_atomic_fetch_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					 struct shmd_dev_amo amo, struct shmd_dev_mode mode,
					 uint64_t *ret_old);

SHMDI_API int shmd_dev_qp_atomic_add(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value);
SHMDI_API int shmd_dev_qp_atomic_inc(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes);
SHMDI_API int shmd_dev_qp_atomic_and(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value);
SHMDI_API int shmd_dev_qp_atomic_or(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    uint32_t bytes, uint64_t value);
SHMDI_API int shmd_dev_qp_atomic_xor(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value);
SHMDI_API int shmd_dev_qp_atomic_set(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value);

SHMDI_API int shmd_dev_qp_atomic_fetch(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				       uint32_t bytes, uint64_t timeout_nsec, uint64_t *ret_old);
SHMDI_API int shmd_dev_qp_atomic_fetch_add(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					   uint64_t *ret_old);
SHMDI_API int shmd_dev_qp_atomic_fetch_inc(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t timeout_nsec,
					   uint64_t *ret_old);
SHMDI_API int shmd_dev_qp_atomic_fetch_and(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					   uint64_t *ret_old);
SHMDI_API int shmd_dev_qp_atomic_fetch_or(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					  uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					  uint64_t *ret_old);
SHMDI_API int shmd_dev_qp_atomic_fetch_xor(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					   uint64_t *ret_old);
SHMDI_API int shmd_dev_qp_atomic_swap(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				      uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
				      uint64_t *ret_old);
/* amo: bytes, compare and value; the function ignores its op. */
SHMDI_API int shmd_dev_qp_atomic_compare_swap(struct shmd_dev_qp *qp,
					      struct shmd_dev_addr remote,
					      struct shmd_dev_amo amo, uint64_t timeout_nsec,
					      uint64_t *ret_old);

/* ---- ordering -------------------------------------------------------------------------------------------- */

/*
 * Later operations of this caller on the QP take effect, and read their local buffers, only after its earlier ones: after
 * a get_nbi and a fence, a put may send the data of the get. Never waits. On a DCI it orders operations to the same peer.
 */
SHMDI_API int shmd_dev_qp_fence(struct shmd_dev_qp *qp);
SHMDI_FN int shmd_dev_qp_fence_as(struct shmd_dev_qp *qp, struct shmd_dev_mode mode);

/* Wait until everything that this caller posted, to any peer, has completed. Rings withheld doorbells. */
SHMDI_API int shmd_dev_qp_quiet(struct shmd_dev_qp *qp, uint64_t timeout_nsec);
SHMDI_FN int shmd_dev_qp_quiet_as(struct shmd_dev_qp *qp, struct shmd_dev_mode mode);

/* ---- peers, some of which have an RC QP of their own -------------------------------------------------------- */

/*
 * The way to a peer, an index below n_peers of the DCI's dev-state: its RC QP if the library gave it one (shmd_hot_switch),
 * else the DCI. Costs two loads; each lane of a warp may ask for another peer. The way stays until the library changes it,
 * and no caller may post meanwhile. Use way.qp to fence or wait for one peer.
 */
SHMDI_FN struct shmd_dev_way shmd_dev_way_to(const struct shmd_dev_state *state, struct shmd_dev_qp *dci, uint32_t peer);
/* Count n operations to a peer for shmd_hot_decide(), by one relaxed add. */
SHMDI_FN void shmd_dev_way_count(const struct shmd_dev_state *state, uint32_t peer, uint64_t n);
/*
 * Quiet of the DCI and of every peer's own QP. The time limit holds for each of them. Tries all of them and returns the first
 * status that is not SHMD_DEV_OK.
 */
SHMDI_FN int shmd_dev_ways_quiet_as(const struct shmd_dev_state *state, struct shmd_dev_qp *dci, struct shmd_dev_mode mode);

/* ---- local words that peers write ------------------------------------------------------------------------- */

/*
 * Wait until `*word cmp value` (unsigned) holds; `word` is a pointer of the caller. Data that the peer sent before it changed
 * the word is then visible. The QP's health word and its first error, with or without a CQE, also end the wait. A QP with
 * nothing in flight does not notice that its peer is gone: then the time limit ends the wait.
 */
SHMDI_API int shmd_dev_qp_wait_until64(struct shmd_dev_qp *qp, const uint64_t *word,
				       enum shmd_dev_cmp cmp, uint64_t value,
				       uint64_t timeout_nsec);
SHMDI_FN int shmd_dev_qp_wait_until64_as(struct shmd_dev_qp *qp, const uint64_t *word,
					 enum shmd_dev_cmp cmp, uint64_t value,
					 struct shmd_dev_mode mode);
SHMDI_API int shmd_dev_qp_wait_until32(struct shmd_dev_qp *qp, const uint32_t *word,
				       enum shmd_dev_cmp cmp, uint32_t value,
				       uint64_t timeout_nsec);
SHMDI_FN int shmd_dev_qp_wait_until32_as(struct shmd_dev_qp *qp, const uint32_t *word,
					 enum shmd_dev_cmp cmp, uint32_t value,
					 struct shmd_dev_mode mode);

/* Look once: SHMD_DEV_OK, SHMD_DEV_AGAIN, or SHMD_DEV_CQE_ERROR if it does not hold and the QP is known to have failed. */
SHMDI_API int shmd_dev_qp_test64(struct shmd_dev_qp *qp, const uint64_t *word,
				 enum shmd_dev_cmp cmp, uint64_t value);
SHMDI_FN int shmd_dev_qp_test64_as(struct shmd_dev_qp *qp, const uint64_t *word,
				   enum shmd_dev_cmp cmp, uint64_t value,
				   struct shmd_dev_mode mode);
SHMDI_API int shmd_dev_qp_test32(struct shmd_dev_qp *qp, const uint32_t *word,
				 enum shmd_dev_cmp cmp, uint32_t value);
SHMDI_FN int shmd_dev_qp_test32_as(struct shmd_dev_qp *qp, const uint32_t *word,
				   enum shmd_dev_cmp cmp, uint32_t value,
				   struct shmd_dev_mode mode);

/* ---- the caller's own WQEs: reserve, prepare, ready, submit; plain functions: scope thread --------------------- */

/*
 * Take n_wqebbs consecutive WQEBBs, from *ret_index on. A ret_index of NULL is SHMD_DEV_INVALID. The caller must make all of
 * them ready in one call, whatever happens, and until then post nothing else on this QP: on an exclusive QP such a post would
 * announce WQEs that are not written; on any other it would wait for its own caller until the QP's time limit.
 */
SHMDI_API int shmd_dev_qp_reserve(struct shmd_dev_qp *qp, uint32_t n_wqebbs,
				  uint64_t *ret_index);
/* In scope warp or block all threads get the same range and may write WQEs there; one that writes none may pass NULL. */
SHMDI_FN int shmd_dev_qp_reserve_as(struct shmd_dev_qp *qp, uint32_t n_wqebbs, struct shmd_dev_mode mode,
				    uint64_t *ret_index);
/* Flags (fm_ce_se) for the first WQE after a fence, 0 when none is pending. */
SHMDI_API unsigned int shmd_dev_qp_fence_flags(struct shmd_dev_qp *qp);
/*
 * [index, index + n_wqebbs) holds WQEs, the last of which covers one WQEBB and has SHMD_WQE_CE_ALWAYS. It may be a NOP, and
 * on a DCI it must be one. Waits until earlier reservations are ready.
 */
SHMDI_API int shmd_dev_qp_ready(struct shmd_dev_qp *qp, uint64_t index, uint32_t n_wqebbs);
/* Announce all that is ready, at least up to `end` (index + n_wqebbs); nothing with SHMD_DEV_NO_DOORBELL in flags. */
SHMDI_API int shmd_dev_qp_submit(struct shmd_dev_qp *qp, uint64_t end, unsigned int flags);
/* Ready, then submit unless the mode has SHMD_DEV_NO_DOORBELL. Covers the WQEs that all threads of the scope wrote. */
SHMDI_FN int shmd_dev_qp_publish_as(struct shmd_dev_qp *qp, uint64_t index, uint32_t n_wqebbs,
				    struct shmd_dev_mode mode);
/* Wait until all before `end` have completed; test looks once and returns SHMD_DEV_OK or SHMD_DEV_AGAIN. */
SHMDI_API int shmd_dev_qp_wait(struct shmd_dev_qp *qp, uint64_t end, uint64_t timeout_nsec);
SHMDI_FN int shmd_dev_qp_wait_as(struct shmd_dev_qp *qp, uint64_t end, struct shmd_dev_mode mode);
SHMDI_API int shmd_dev_qp_test(struct shmd_dev_qp *qp, uint64_t end);
/*
 * Return the first error: enum shmd_cqe_syndrome, 0 for none. ret_wqe_index, unless NULL, then gets the 16-bit index of the
 * WQE or SHMD_DEV_NO_WQE.
 */
SHMDI_API uint32_t shmd_dev_qp_error(const struct shmd_dev_qp *qp, uint32_t *ret_wqe_index);

/* ---- two-sided -------------------------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_send(struct shmd_dev_qp *qp, struct shmd_dev_addr local,
			       uint64_t bytes);
SHMDI_API int shmd_dev_qp_send_imm(struct shmd_dev_qp *qp, struct shmd_dev_addr local,
				   uint64_t bytes, uint32_t imm);
/*
 * Give the NIC a buffer of 0..2^30 bytes to receive into. One thread at a time. At most rq_wqes buffers may be out; the caller
 * polls the receive CQ to get them back. SHMD_DEV_INVALID without a receive queue.
 */
SHMDI_API int shmd_dev_qp_post_recv(struct shmd_dev_qp *qp, struct shmd_dev_addr local,
				    uint64_t bytes);

#include <shmd/dev/impl/rma-ops.h>
#include <shmd/dev/impl/amo-ops.h>
#include <shmd/dev/impl/queue-ops.h>
#include <shmd/dev/impl/way-ops.h>
#if !SHMDI_FROM_LIBRARY
#include <shmd/dev/impl/plain.h>
#endif

#endif
