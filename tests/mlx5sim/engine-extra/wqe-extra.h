/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of WQEs that the engine's core does not know. No allocation, no globals; safe on any bytes. */
#ifndef SHMEMD_ENGINE_EXTRA_WQE_EXTRA_H
#define SHMEMD_ENGINE_EXTRA_WQE_EXTRA_H

#include "kernels/host/wqe-parse.h"

/*
 * A UMR's changes to a memory key. Access bits are those of enum ibv_access_flags. The list says of
 * which parts of other keys the key consists: it stands in the WQE, or where the WQE says; wqe_parse_layout() reads it.
 */
struct wqe_umr {
	bool must_be_free; /* else the key is left as it is */
	bool sets_free, sets_tag, sets_start, sets_length;
	bool names_qp; /* alone may use it from now on */
	uint32_t set_access; /* which bits of `access` count */
	bool is_free;
	uint8_t key_tag; /* low byte of the key */
	uint32_t qpn; /* 24 bits */
	uint32_t access;
	uint64_t start, length_bytes;
	uint32_t list_bytes; /* 0: the parts stay */
	const uint8_t *list; /* in the caller's copy; NULL: it lies at ... */
	struct wqe_sge list_at; /* at least list_bytes */
};

/* As wqe_parse(), of an XRC QP, whose WQEs have an XRC segment behind the control segment. */
int wqe_parse_xrc(const void *wqe, size_t bytes, struct wqe_request *ret_req);

/* The same of a raw packet QP, whose SENDs have an Ethernet segment there; the header in it counts for no payload. */
int wqe_parse_eth(const void *wqe, size_t bytes, struct wqe_request *ret_req);

/* The segments of a UMR. 0, or SHMD_SYNDROME_LOCAL_QP_OP_ERR. */
int wqe_parse_umr(const void *wqe, size_t bytes, struct wqe_umr *ret_umr);

#endif
