/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of an engine that outlives its process: one ledger for each context, in memory that the owner gives (a memfd mapping).
 *
 * A ledger holds what the executor must know to go on after SIGKILL at any instruction: indexes and PSNs, the settings of a QP,
 * results of atomics, and one entry of work that touches several of these at once. Rings, dbrecs and payload are the client's
 * memory, which outlives the process as well; packets are lost, and are sent again under their PSN. So after a restore WRITEs
 * and READs that had not completed may be executed again; SENDs, immediate data and atomics take effect once, and each CQE
 * appears once, in order. An atomic that was cut off between intent and result fails with SHMD_SYNDROME_OUTCOME_UNKNOWN.
 *
 * Refused: QPs whose CQs and SRQ are not of the same ledger (-EINVAL); XRC, and DCIs with streams (-EOPNOTSUPP: their owner makes them
 * without a ledger, and ends them at a restart); engines with memory windows or indirect keys.
 *
 * Order of a start: for each context engine_ledger_new() on the saved memory; then regions; then engine_cq_restore(),
 * engine_srq_restore(), engine_qp_restore() with the attributes of their creation and the new pointers; and when that is done for
 * all contexts of all engines, engine_ledger_recover() once for each engine, before anything else is called.
 *
 * Thread: the engine's. The memory is written by it alone; its contents are trusted as far as that nothing here reads or writes
 * outside of it.
 */
#ifndef SHMEMD_ENGINE_LEDGER_H
#define SHMEMD_ENGINE_LEDGER_H

#include "daemon/engine/engine.h"

struct engine_ledger; /* the engine's view of one; the memory stays the owner's */

/* At most so many at a time. A DCT needs a place of max_qps for each DCI that it hears from. */
struct engine_ledger_limits {
	uint32_t max_qps, max_cqs, max_srqs; /* each 0..1 << 16 */
};

/*
 * Bytes of such a ledger: about 1.5 KiB for each QP, 64 for each CQ and SRQ. Places are given out from the lowest on, and those never
 * used are never touched: a sparse mapping costs what is in use.
 */
size_t engine_ledger_bytes(const struct engine_ledger_limits *limits);

/*
 * A ledger in `memory`, which is page aligned, `bytes` long and outlives it: an empty one where it is all zero, else what a
 * former engine has left there (limits may be NULL then, and are not looked at). -EINVAL: limits, bytes; -EBADMSG: it is no
 * ledger; -EPROTONOSUPPORT: of another version; -EOPNOTSUPP: the engine has memory windows or indirect keys; -ENOMEM.
 */
int engine_ledger_new(struct engine *engine, void *memory, size_t bytes, const struct engine_ledger_limits *limits,
		      struct engine_ledger **ret_ledger);
/*
 * Forgets the view and leaves the memory as it is: destroy its objects first, or free the engine first when they are to
 * outlive it (engine_free() of an engine with ledgers does not touch their memory). NULL is fine. Returns NULL.
 */
struct engine_ledger *engine_ledger_free(struct engine_ledger *ledger);

/*
 * For a context that goes on elsewhere, with what is in the memory now: whatever becomes of its objects here, they write
 * nothing there any more, as if they had no ledger. Nothing is made with it from then on, and free is next.
 */
void engine_ledger_leave(struct engine_ledger *ledger);

/*
 * As engine_*_create(), of an object that the ledger in attr->ledger knows: -ENOENT when it does not, which means that its
 * creation never ended or that it was destroyed; nothing of it was used then, so the owner may create it, or leave it. The
 * ring of a CQ is not filled. A QP has its state, settings and counters of before, and the route that they name from
 * engine_ledger_recover() on; engine_qp_query() tells. Events of before are not repeated (but that a CQ is overrun), and each
 * armed CQ gets one. A modify that is the same as the last one that was carried out before is answered with 0 once, without
 * effect.
 */
int engine_cq_restore(struct engine *engine, const struct engine_cq_attr *attr);
int engine_srq_restore(struct engine *engine, const struct engine_srq_attr *attr);
int engine_qp_restore(struct engine *engine, const struct engine_qp_attr *attr);

/*
 * Call it once for each engine, also one without ledgers, after all objects of all contexts are back, here and in the engines at
 * the end of routes. It takes routes, makes connections of DCTs anew and sends again what was in flight. It forgets objects of the
 * ledgers that nobody restored. A QP whose peer has no route any more goes to ERR with an event, syndrome 0x15. Never fails.
 */
void engine_ledger_recover(struct engine *engine);

/* "engine.fetch" and so on: for SHMEMD_FAULT. NULL outside of the range. */
const char *engine_step_name(enum engine_step step);

#endif
