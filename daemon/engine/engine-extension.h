/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the engine's core and services beyond RC and DC.
 *
 * The core executes RC and DC on regions. Everything else is a table of functions that an owner hands to engine_new():
 * one service for each further type of QP, and memory keys that are no plain regions. The daemon hands over none, so its
 * binary has none of that code; the simulated ConnectX hands over tests/mlx5sim/engine-extra. Only the core and that include this.
 */
#ifndef SHMEMD_ENGINE_EXTENSION_H
#define SHMEMD_ENGINE_EXTENSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "kernels/host/wqe-parse.h"

struct cqe_fields;
struct engine_qp;
struct mr;
struct mr_want;
struct sent;
struct srq;

/* The attributes that a change of state needs and allows. */
struct transition {
	bool allowed;
	uint16_t required;
	uint16_t optional;
};

#define ENGINE_SET_RTR                                                                             \
	(ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC |                     \
	 ENGINE_QP_SET_RNR_TIMER)
#define ENGINE_SET_RTS (ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC)
#define ENGINE_SET_LATER (ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_RNR_TIMER)
#define ENGINE_SET_DRAINED                                                                         \
	(ENGINE_SET_LATER | ENGINE_QP_SET_PATH | ENGINE_QP_SET_RETRY | ENGINE_QP_SET_RD_ATOMIC)

/* One type of QP. A function that is NULL leaves the matter to the core, which does what RC does. */
struct engine_service {
	const struct transition (*transitions)[8]; /* [from][to]; RST and ERR can be reached from everywhere */
	bool reliable; /* requests are acknowledged; otherwise send, pass, execute, drop and fail are there */
	bool has_no_queues; /* it takes them on with each request */
	bool has_no_recv_cq;
	bool has_no_ledger; /* it does not outlive the process */
	bool has_no_packets; /* a request is done when it was checked */

	/* Before a QP is made: 0, -EOPNOTSUPP or -EINVAL. */
	int (*check)(const struct engine *engine, const struct engine_qp_attr *attr);
	void (*init)(struct engine_qp *qp);
	bool (*hears)(const struct engine_qp *qp, const struct engine_packet *pkt);

	/* The requester. */
	int (*parse)(const void *wqe, size_t bytes, struct wqe_request *ret_req);
	uint8_t (*check_request)(struct engine_qp *qp, const struct sent *sent); /* 0, or a syndrome */
	void (*fill_packet)(struct engine_qp *qp, struct engine_packet *pkt);
	void (*send)(struct engine_qp *qp, struct sent *sent, struct engine_packet *pkt); /* takes the packet */
	bool (*pass)(struct engine_qp *qp, struct sent *sent); /* true: a former process had sent it, and it is done */
	void (*fail)(struct engine_qp *qp, uint8_t syndrome);

	/* The responder. */
	void (*execute)(struct engine_qp *qp, struct engine_packet *pkt); /* takes the packet */
	void (*drop)(struct engine_qp *qp, struct engine_packet *pkt); /* takes the packet */
	/* False: the request was refused, and the packet taken. */
	bool (*attend)(struct engine_qp *qp, struct engine_packet *pkt, bool in_order);
	void (*fill_recv_cqe)(const struct engine_packet *pkt, struct cqe_fields *fields);
};

struct engine_extension {
	const struct engine_service *services[ENGINE_N_QP_TYPES]; /* NULL: RC and DC, or not offered */

	/* A packet that its sender awaits has come back to the pool. */
	void (*packet_back)(struct engine *engine, struct engine_packet *pkt);

	/* Keys of windows, and keys that consist of parts of others. */
	bool (*has_key)(const struct engine *engine, uint32_t key);
	void (*free_keys)(struct engine *engine);
	void (*region_goes)(struct engine *engine, const struct mr *mr);
	int (*prepare_key)(struct engine *engine, struct mr *mr, uint64_t at, const struct mr_want *want); /* -EACCES */
	uint8_t (*execute_umr)(struct engine_qp *qp, const struct sent *sent, uint32_t key); /* 0, or a syndrome */
	int (*invalidate_key)(struct engine_qp *qp, uint32_t key); /* by the peer; -EACCES */

	/* SRQs of an XRC domain. */
	int (*srq_join)(struct srq *srq); /* -EINVAL: it names no CQ */
	void (*srq_leave)(struct srq *srq);

	/* Streams of a DCI; the last three are called for QPs that have them. */
	int (*streams_init)(struct engine_qp *qp); /* -ENOMEM */
	bool (*stream_is_errored)(const struct engine_qp *qp, const struct sent *sent);
	bool (*stream_goes_on)(const struct engine_qp *qp, const struct sent *sent); /* may it follow those on their way? */
	void (*stream_begin)(struct engine_qp *qp, const struct sent *sent); /* nothing is on its way: this one is next */
	/* The oldest request failed. True: its stream is in error, and the QP goes on. */
	bool (*stream_takes_error)(struct engine_qp *qp, const struct sent *failed);
};

#endif
