/* SPDX-License-Identifier: Apache-2.0 */
/* A bootstrap on the tree of links: the operations of all modules but plug-ins. */
#ifndef SHMD_RUNTIME_LINKS_H
#define SHMD_RUNTIME_LINKS_H

#include <shmd-bootstrap.h>

#include "libclient/runtime/bootstrap/bootstrap.h"

struct links_attr {
	const char *name; /* of the module; constant */
	int rank;
	int size;
	int node_rank; /* -1: found out by the ranks */
	int node_size;
	const struct shmd_uid *uid; /* NULL for a size of 1 */
	uint64_t deadline;
	/* The launcher's own way to end the job, after the tree's; may be NULL. */
	void (*abort)(int status, const char *why);
};

/* Collective; timeout, interface and number are those of `how`. */
int links_open(const struct bootstrap_attr *how, const struct links_attr *attr, struct shmd_bootstrap *ret);

#endif
