/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of the daemon before this one: found in the store, taken over, the rest let go. Control thread, before the loop. */
#ifndef SHMEMD_RESTART_RESUME_H
#define SHMEMD_RESTART_RESUME_H

#include "daemon/restart/save.h"
#include "daemon/restart/store.h"
#include "daemon/session/registry.h"
#include "daemon/session/session.h"

/* For struct registry_attr.store; its argument is the store. */
extern const struct save_store resume_store;

struct resume_attr {
	struct registry *registry; /* with all NICs, and without sessions */
	struct manager_store *store; /* NULL: nothing is taken over */
	/* Has the session watched from now on. A failure ends it. */
	int (*attach)(void *arg, struct session *session);
	void (*progress)(void *arg); /* now and then, since it may take a while. Or NULL */
	/* Has workers work, at most so long. NULL: there are none. */
	void (*wait)(void *arg, uint64_t nsec);
	/* NICs go on after this time, without sessions whose users keep their import waiting. 0: whenever all are there */
	uint64_t most_nsec;
	void *arg;
};

struct resume_result {
	unsigned int n_resumed;
	unsigned int n_ended; /* they had ended when the daemon died, or their state says nothing that can be taken over */
	unsigned int n_late; /* of those: their imports have not come to an end yet */
	unsigned int n_strange; /* state of another version */
	unsigned int n_strays; /* descriptors that no state names */
};

/*
 * All NICs go on when every session is there; then clients get the news. Also if nothing was saved: NICs want to hear that.
 * Sessions that cannot be taken over are let go of, those that come too late when they are there. -ENOMEM: nothing was done.
 */
int resume_all(const struct resume_attr *attr, struct resume_result *ret_result);

#endif
