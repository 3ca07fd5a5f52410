/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a saved state's file. state.c reads it, state-write.c and state-compact.c write it.
 *
 * Block 0 has the head and the mark. Extents follow, one behind the other up to head.end. Each holds one record or is free, and
 * never changes its size. The journal of the last commit lies behind the last extent. It consists of patches in the order in
 * which they apply.
 */
#ifndef SHMEMD_RESTART_STATE_FILE_H
#define SHMEMD_RESTART_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/restart/state.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"

#define STATE_MAGIC UINT64_C(0x6574617453646d68)
#define STATE_COMMITTED UINT64_C(0x74696d6d6f436d68)
#define EXTENT_MAGIC UINT32_C(0x74784568)
#define EXTENT_FREE UINT64_MAX /* as a length */
#define BLOCK_BYTES ((size_t)4096)
#define MAX_FILE_BYTES (6 * STATE_MAX_BYTES + 4 * BLOCK_BYTES)

/* Every version of the file has the first two fields at these offsets. */
struct head {
	uint64_t magic;
	uint32_t version;
	uint32_t zero;
	uint64_t sequence; /* of the last commit */
	uint64_t end; /* of the extents */
	uint64_t n_records;
	uint64_t records_sum; /* of the sums of all records */
	uint64_t sum; /* of the fields above */
};

/* While `magic` is STATE_COMMITTED, the next process that opens the file has to apply the journal. */
struct mark {
	uint64_t offset, bytes; /* of the journal */
	uint64_t sum;
	uint64_t magic;
};
#define MARK_OFFSET 128u

struct patch {
	uint64_t offset, bytes; /* what follows goes there; the next patch lies at a multiple of 8 */
};

struct extent {
	uint32_t magic;
	uint32_t bytes; /* with this head: one of the sizes of extents */
	uint64_t key;
	uint64_t length; /* of the record, or EXTENT_FREE */
	uint64_t sequence; /* of the commit that wrote it */
	uint64_t sum;
};

/* ---- in memory ---------------------------------------------------------------------------------------------------- */

struct place {
	struct list link; /* state->free, while it is */
	uint64_t offset;
	uint32_t bytes;
};

enum staged { STAGED_NOTHING, STAGED_PUT, STAGED_REMOVE };

struct record {
	uint64_t key;
	struct place *place; /* owned; NULL: the record was never committed */
	uint64_t length;
	uint64_t sum; /* in its extent's head, if it has a place */
	struct list staged_link; /* state->staged */
	enum staged staged;
	void *bytes; /* owned; STAGED_PUT */
	size_t n;
	struct place *to; /* during a commit; may be `place` */
	uint64_t to_sum;
};

#define STATE_N_CLASSES 40u

struct state {
	int fd; /* owned */
	size_t size; /* of the file */
	size_t reserved; /* this process has reserved memory up to here */
	int readable; /* 0, -EBADMSG or -EPROTONOSUPPORT */
	uint32_t version; /* in the head */
	uint64_t sequence, end, records_sum;
	uint64_t free_bytes; /* of all free extents */
	struct hash records; /* struct record by key, owned */
	struct list free[STATE_N_CLASSES]; /* struct place.link, owned; by the class of their size */
	struct list staged; /* struct record.staged_link */
	int error; /* why the next commit fails */
	unsigned char *flat; /* owned; what state_read() has returned */
};

uint64_t state_sum(uint64_t sum, const void *bytes, size_t n);
uint64_t state_head_sum(const struct head *head);
uint64_t state_extent_sum(const struct extent *extent, const void *bytes);
/*
 * Bytes of the file, which no process maps: the kernel maps memory under a lock that a client can make it hold for seconds.
 * Negative errno, also where the file ends.
 */
int state_get(const struct state *state, uint64_t offset, void *buf, size_t n);
int state_set(const struct state *state, uint64_t offset, const void *buf, size_t n);
/* The size of an extent for a record of n bytes. */
uint32_t state_extent_size(size_t n);
unsigned int state_class(uint32_t bytes); /* index of the list for free extents of this size; 0: extents have other sizes */

/* ---- state-write.c, for state-compact.c ---------------------------------------------------------------------------- */

struct journal {
	unsigned char *buf; /* owned */
	uint64_t offset, bytes; /* in the file */
	uint64_t sequence;
	uint64_t n_records, records_sum;
};

uint64_t state_patch_bytes(uint64_t n);
int state_reserve(struct state *state, uint64_t end); /* room up to there, and memory behind it: -EFBIG, -ENOSPC, -ENOMEM */
void state_add_patch(struct journal *journal, uint64_t offset, const void *a, size_t n_a, const void *b, size_t n_b);
void state_add_head(struct journal *journal, uint32_t version, uint64_t end);
int state_carry_out(struct state *state, const struct journal *journal); /* a failure has changed nothing */
/* After a commit: moves all records together if most of the file is free. A failure changes nothing; the next commit tries again. */
void state_compact(struct state *state);

/* Apply the patches of a journal, which lies at `offset`, to the extents and the head. -EBADMSG: one would write elsewhere. */
int state_apply(const struct state *state, const unsigned char *journal, uint64_t offset, uint64_t bytes);
struct record *state_record_free(struct record *record);
void state_forget_free(struct state *state); /* empties the lists of free extents; the file stays as it is */

#endif
