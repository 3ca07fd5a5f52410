/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a QP that shmemctl dump-queue collects, for the files that print it. */
#ifndef SHMEMD_CTL_DUMP_H
#define SHMEMD_CTL_DUMP_H

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/queue-walk.h"

#define DUMP_TEXT_BYTES 4096

/* Values of struct shmd_queue_head: *_cq_flags. */
#define DUMP_CQ_COLLAPSED 0x1u

struct dump_cq {
	uint32_t cqn, n_entries, log2_entries, ci;
	bool is_collapsed;
	uint32_t first, n_indexes; /* consumer indexes that were read */
	uint32_t n_read; /* entries in bytes, the one of index `first` first */
	uint8_t *bytes;
};

struct dump {
	struct ctl *ctl;
	struct shmd_queue_head head;
	struct shmd_session_item session; /* its number is 0 if it has gone meanwhile */
	struct walk_ring sq, rq;
	uint8_t *sq_bytes, *rq_bytes;
	struct dump_cq send_cq, recv_cq;
	char unreadable[256]; /* why there are no entries, or empty */
	int failed_index; /* of the WQE that an error CQE names, or -1 */
	unsigned int hide; /* WQE_HIDE_* */
};

/* One entry of a queue, in words. */
struct dump_line {
	uint32_t index, slot, n_entries;
	const char *state;
	enum color color;
	bool is_failed;
	const char *text;
};
typedef void dump_line_fn(void *arg, const struct dump_line *line);

/* Calls fn for each entry that is shown; returns how many consumed entries are left out. */
size_t dump_wqes(const struct dump *dump, bool is_sq, dump_line_fn *fn, void *arg);
size_t dump_cqes(const struct dump *dump, const struct dump_cq *cq, dump_line_fn *fn, void *arg);

/* Finds the failed WQE by its error CQE, unless a later CQE has replaced that. */
void dump_find_failed(struct dump *dump);

void dump_print_text(const struct dump *dump);
void dump_print_json(const struct dump *dump);

#endif
