/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of the daemon that one user may hold, counted per uid and per cgroup.
 *
 * The same limit binds both: a uid in many cgroups and a cgroup of many uids (user namespaces) get no more than one
 * user. The cgroup is the tenant's (cgroup.h), so everything below it shares one count. The root cgroup counts
 * nothing, since on systems without cgroups everybody is in it. A charge lives in the object it is for and is
 * returned with it, so that counters cannot drift from what exists.
 *
 * A pool bounds what all users together hold of the process's own descriptors and mappings. A uid or cgroup that holds more than
 * QUOTA_SMALL gets at most half of what the others leave of seven eighths of the pool; the last eighth is for those
 * that hold little. The daemon's own user may take what is left of the pool: a private daemon has no other user.
 */
#ifndef SHMEMD_SESSION_QUOTA_H
#define SHMEMD_SESSION_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/list.h"

enum quota_what {
	QUOTA_CONNECTIONS, /* sockets: sessions, controllers, and who has not said Hello yet */
	QUOTA_SESSIONS,
	QUOTA_QPS,
	QUOTA_CQS,
	QUOTA_MRS,
	QUOTA_BYTES,
	QUOTA_FDS,
	QUOTA_PUBLISHED,
	QUOTA_MAPS, /* memory mappings of the daemon; not in saved states, which older daemons wrote without */
	QUOTA_N,
};

#define QUOTA_SAVED_N QUOTA_MAPS /* numbers of an amount in a saved state */
#define QUOTA_SMALL 64u /* what a pool keeps a part for */

struct quota_amount {
	uint64_t n[QUOTA_N];
};

struct quota {
	struct quota_amount limits; /* per uid, and per cgroup */
	struct quota_amount pools; /* what all users may hold together; 0: no bound */
	uint32_t owner_uid; /* the daemon's own user */
	struct quota_amount total; /* of everybody */
	uint64_t max_inflight_fds; /* per uid, and per cgroup: see below */
	struct list uids; /* struct quota_bucket.link */
	struct list cgroups;
};

struct quota_bucket;
struct foreign_account;

/* The accounts that are charged. Two sessions of one uid share the bucket. */
struct quota_user {
	struct quota *quota;
	struct quota_bucket *uid;
	struct quota_bucket *cgroup; /* NULL: not counted */
};

/* All zero: nothing charged. */
struct quota_charge {
	struct quota *quota;
	struct quota_bucket *uid;
	struct quota_bucket *cgroup;
	struct quota_amount amount;
};

void quota_init(struct quota *quota, const struct quota_amount *limits); /* no pools, no owner, no max_inflight_fds */
void quota_deinit(struct quota *quota); /* every charge and user is gone already */

int quota_user_init(struct quota_user *user, struct quota *quota, uint32_t uid, const char *cgroup);
void quota_user_deinit(struct quota_user *user);
void quota_user_copy(struct quota_user *to, const struct quota_user *user); /* one more, of the same */

/*
 * Descriptors that the user sent and that are not closed yet, since their closing blocks, are charged to its uid as
 * QUOTA_FDS, whatever the limit: they are here already. This counts them anew; a user has gone when the last is closed.
 */
void quota_collect(struct quota *quota);
struct foreign_account *quota_user_account(const struct quota_user *user); /* to close with; lives as the user does */

/* Would n more of its descriptors pass the limit, because of those that are not closed? */
bool quota_fds_stuck(const struct quota_user *user, uint64_t n);
/* The same, with more beyond the limit than requests that were refused could leave. */
bool quota_fds_overrun(const struct quota_user *user);

/* Descriptors on their way to the user, which the daemon holds no longer: inflight-fds.h. */
bool quota_inflight_fits(const struct quota_user *user, unsigned int n);
void quota_inflight_add(const struct quota_user *user, unsigned int n); /* whatever the limit */
void quota_inflight_sub(const struct quota_user *user, unsigned int n);

/*
 * Charge all of *amount or nothing. 0; or 1 + enum quota_what of the limit or pool that would be exceeded. *charge
 * must be empty.
 */
int quota_charge(const struct quota_user *user, const struct quota_amount *amount,
		 struct quota_charge *charge);
/* For things that are held already, whatever the limits are now. */
void quota_charge_adopt(const struct quota_user *user, const struct quota_amount *amount, struct quota_charge *charge);
void quota_charge_deinit(struct quota_charge *charge); /* returns it; may be called twice */

/* The facts behind a refusal, in words: the setting's name, the limit or pool, who holds how many. */
void quota_explain(const struct quota_user *user, enum quota_what what, uint64_t asked, char *buf,
		   size_t size);

#endif
