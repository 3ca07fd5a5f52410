/* SPDX-License-Identifier: Apache-2.0 */
/* Making ids, and finding one's place in the tree with one. Blocks until rank 0 and the parent have answered. Any thread. */
#ifndef SHMD_RUNTIME_MEET_H
#define SHMD_RUNTIME_MEET_H

#include "libclient/runtime/bootstrap/tree.h"

struct meet {
	unsigned int rank;
	unsigned int size; /* 2 or more */
	const struct shmd_uid *uid;
	uint32_t number;
	const char *interface;
	uint64_t timeout_nsec, lost_nsec;
	bool has_launcher; /* as in tree.h */
	uint64_t deadline;
	const char *version; /* of the library; ranks of different versions refuse each other */
};

/* The tree with this rank in it; its first call finds out whether all ranks came. Errors with a sentence. */
int meet(const struct meet *meet, struct tree **ret);

#endif
