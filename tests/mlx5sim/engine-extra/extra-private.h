/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of engine-extra/; extra.c has the tables. */
#ifndef SHMEMD_ENGINE_EXTRA_PRIVATE_H
#define SHMEMD_ENGINE_EXTRA_PRIVATE_H

#include "daemon/engine/engine-private.h"
#include "tests/mlx5sim/engine-extra/extra.h"
#include "tests/mlx5sim/engine-extra/wqe-extra.h"
#include "tests/mlx5sim/engine-extra/wqe-layout.h"

struct mw {
	struct engine_mw_attr attr; /* its key is the present one */
	struct mr *mr; /* in the table of regions while bound; NULL: free */
	struct mr *of; /* the region */
	uint32_t qpn; /* type 2: of the QP that bound it */
};

/* A key that consists of parts of others. */
struct indirect {
	struct engine_indirect_attr attr; /* as it is now; without the list */
	struct mr *mr; /* in the table of regions; NULL: it opens nothing */
	struct wqe_layout layout;
	struct wqe_part *parts;
	unsigned int level; /* above those of its parts */
};

/* The memory that a part of it leads to, for all its blocks. */
struct gather_part {
	uint64_t at; /* in its block */
	struct engine_mem *mem; /* referenced; NULL: nowhere */
	uint64_t offset; /* there; wraps for what lies before `from` */
	uint32_t bytes, stride;
	uint32_t from, to; /* bytes of the part that lead somewhere; others need not */
	bool may_write;
	bool is_gather; /* whose own parts must be asked */
};

/* unreliable.c: UC, UD and raw packet QPs */
extern const struct engine_service unreliable_uc, unreliable_ud, unreliable_raw;
void unreliable_packet_back(struct engine *engine, struct engine_packet *pkt);

/* xrc.c */
extern const struct engine_service xrc_ini, xrc_tgt;
int xrc_join(struct srq *srq);
void xrc_leave(struct srq *srq);

/* mw.c */
bool mw_allows(const struct mr *mr, const struct mr_want *want);
uint8_t mw_execute(struct engine_qp *qp, const struct wqe_umr *umr, uint32_t key); /* 0, or a syndrome */
int mw_invalidate(struct engine_qp *qp, uint32_t key); /* by the peer; -EACCES */
void mw_free_of(struct engine *engine, const struct mr *mr); /* those bound to a region */

/* gather.c */
int gather_new(const struct wqe_layout *layout, struct engine_mem **ret_mem, struct gather_part **ret_parts);
bool gather_allows(struct engine_mem *mem, uint64_t offset, uint64_t bytes, bool is_write);

/* indirect.c */
int indirect_prepare(struct engine *engine, struct mr *mr, uint64_t at, const struct mr_want *want);
uint8_t umr_execute(struct engine_qp *qp, const struct sent *sent, uint32_t key); /* 0, or a syndrome */
int key_invalidate(struct engine_qp *qp, uint32_t key); /* by the peer, a window too; -EACCES */

/* stream.c */
int streams_init(struct engine_qp *qp);
bool stream_is_errored(const struct engine_qp *qp, const struct sent *sent);
bool stream_goes_on(const struct engine_qp *qp, const struct sent *sent);
void stream_begin(struct engine_qp *qp, const struct sent *sent);
bool stream_takes_error(struct engine_qp *qp, const struct sent *failed);

#endif
