/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the resources of users: by uid and, with the same limits, by the cgroup of each tenant, so a container with many uids gets
 * no more than one user does.
 *
 * Works on numbers only: no session, no clock, no loop. Rejects a charge that would take any counter above its limit or its share
 * of a pool, before it changes anything. Callers store a charge in the object that it is for. Invariants: a bucket lives while a
 * user or a charge points to it, or a descriptor that its uid sent is open; the total of a kind is the sum over the uid buckets.
 *
 * `max-fds` counts the socket and pidfd of each connection (2), a session's health page (1), its socket pair and its state if it
 * outlives the daemon (2), a context (3) and each published descriptor. Descriptors of memory and queues are closed after the
 * request. It also counts descriptors that this uid sent and its porter is still closing (quota_collect()).
 * `max-registered-bytes` counts regions and queue memory. `max-mappings` counts the health page (1, mapped without a porter alone), a context (2 with soft
 * NICs, 4 with mlx5), each region and each batch of queues (1 each).
 *
 * Users share the pools of descriptors and mappings (clients/user-pools.c). A user that holds more than 64 gets at most half of
 * the rest of seven eighths of a pool; the last eighth is for users that hold less. So users who take all they may, one after the
 * other, each leave half, and a new one can open sessions. The daemon's own user may take the rest: a private daemon has no other.
 * Control thread.
 */
#include "daemon/session/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/porter/foreign-account.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"

/* Descriptors that a user beyond the limit may still send before its sessions end. */
#define OVERRUN_FDS 64u
/* One part in this many of a pool is for users who hold little. */
#define SMALL_SHARE 8u

struct quota_bucket {
	struct list link;
	unsigned int refs;
	uint32_t uid;
	char *cgroup; /* NULL in the list of uids */
	struct quota_amount used;
	struct foreign_account *account; /* owned; NULL in the list of cgroups */
	unsigned int n_unclosed; /* of the account, as used has it */
	uint64_t n_inflight;
};

static const char *const quota_settings[QUOTA_N] = {
	[QUOTA_CONNECTIONS] = "max-connections", [QUOTA_SESSIONS] = "max-sessions",
	[QUOTA_QPS] = "max-qps",		 [QUOTA_CQS] = "max-cqs",
	[QUOTA_MRS] = "max-mrs",		 [QUOTA_BYTES] = "max-registered-bytes",
	[QUOTA_FDS] = "max-fds",		 [QUOTA_PUBLISHED] = "max-published",
	[QUOTA_MAPS] = "max-mappings",
};

void quota_init(struct quota *quota, const struct quota_amount *limits)
{
	*quota = (struct quota){.limits = *limits, .max_inflight_fds = UINT64_MAX, .owner_uid = UINT32_MAX};
	list_init(&quota->uids);
	list_init(&quota->cgroups);
}

/* The account lives on as long as closing takes. */
static void bucket_free(struct quota_bucket *bucket)
{
	list_del(&bucket->link);
	foreign_account_unref(bucket->account);
	free(bucket->cgroup);
	free(bucket);
}

void quota_deinit(struct quota *quota)
{
	struct quota_bucket *bucket, *tmp;

	list_for_each_entry_safe(bucket, tmp, &quota->uids, link)
		if (bucket->refs == 0)
			bucket_free(bucket);
	assert_bug(list_empty(&quota->uids) && list_empty(&quota->cgroups));
}

static struct quota_bucket *bucket_ref(struct quota_bucket *bucket)
{
	if (bucket)
		bucket->refs++;
	return bucket;
}

/* Counts descriptors that porters have closed since: porter/ touches the account alone. */
static void bucket_collect(struct quota *quota, struct quota_bucket *bucket)
{
	unsigned int now = foreign_account_unclosed(bucket->account);

	bucket->used.n[QUOTA_FDS] += (uint64_t)now - bucket->n_unclosed;
	quota->total.n[QUOTA_FDS] += (uint64_t)now - bucket->n_unclosed;
	bucket->n_unclosed = now;
}

/* One whose descriptors are not all closed stays: quota_collect frees it. */
static struct quota_bucket *bucket_unref(struct quota_bucket *bucket)
{
	if (!bucket || --bucket->refs > 0)
		return NULL;
	if (bucket->n_unclosed > 0 || (bucket->account && foreign_account_unclosed(bucket->account) > 0))
		return NULL;
	bucket_free(bucket);
	return NULL;
}
DEFINE_CLEANUP(struct quota_bucket *, bucket_unref);

static struct quota_bucket *bucket_new(struct list *in, uint32_t uid, const char *cgroup)
{
	_cleanup_(bucket_unrefp) struct quota_bucket *bucket = calloc(1, sizeof(*bucket));

	if (!bucket)
		return NULL;
	bucket->refs = 1;
	bucket->uid = uid;
	list_init(&bucket->link);
	if (cgroup) {
		bucket->cgroup = strdup(cgroup);
		if (!bucket->cgroup)
			return NULL;
	} else {
		bucket->account = foreign_account_new();
		if (!bucket->account)
			return NULL;
	}
	list_add_tail(in, &bucket->link);
	return take_ptr(bucket);
}

static struct quota_bucket *bucket_get(struct list *in, uint32_t uid, const char *cgroup)
{
	struct quota_bucket *bucket;

	list_for_each_entry(bucket, in, link)
		if (cgroup ? strcmp(bucket->cgroup, cgroup) == 0 : bucket->uid == uid)
			return bucket_ref(bucket);
	return bucket_new(in, uid, cgroup);
}

void quota_collect(struct quota *quota)
{
	struct quota_bucket *bucket, *tmp;

	list_for_each_entry_safe(bucket, tmp, &quota->uids, link) {
		bucket_collect(quota, bucket);
		if (bucket->refs == 0 && bucket->n_unclosed == 0)
			bucket_free(bucket);
	}
}

struct foreign_account *quota_user_account(const struct quota_user *user)
{
	return user->uid->account;
}

static bool bucket_fits(const struct quota_bucket *bucket, uint64_t asked, uint64_t limit,
			enum quota_what what)
{
	return !bucket || asked == 0 || range_fits(bucket->used.n[what], asked, limit);
}

/* Many users who each take all they may leave something to the next one, and the last part to those that hold little. */
static bool pool_fits(const struct quota_user *user, const struct quota_bucket *bucket, uint64_t asked,
		      enum quota_what what)
{
	const struct quota *quota = user->quota;
	uint64_t pool = quota->pools.n[what], shared = pool - pool / SMALL_SHARE;
	uint64_t others, wanted;

	if (!bucket || asked == 0 || pool == 0)
		return true;
	others = quota->total.n[what] - bucket->used.n[what];
	if (add_overflows(bucket->used.n[what], asked, &wanted))
		return false;
	if (wanted <= QUOTA_SMALL || user->uid->uid == quota->owner_uid)
		return range_fits(others, wanted, pool);
	return others <= shared && wanted <= (shared - others) / 2;
}

static bool may_hold(const struct quota_user *user, const struct quota_bucket *bucket, uint64_t asked, enum quota_what what)
{
	return bucket_fits(bucket, asked, user->quota->limits.n[what], what) && pool_fits(user, bucket, asked, what);
}

static bool fds_pass(const struct quota_user *user, uint64_t n, uint64_t limit)
{
	bucket_collect(user->quota, user->uid);
	return user->uid->n_unclosed > 0 && !bucket_fits(user->uid, n, limit, QUOTA_FDS);
}

bool quota_fds_stuck(const struct quota_user *user, uint64_t n)
{
	return fds_pass(user, n, user->quota->limits.n[QUOTA_FDS]);
}

bool quota_fds_overrun(const struct quota_user *user)
{
	return fds_pass(user, 1, user->quota->limits.n[QUOTA_FDS] + OVERRUN_FDS);
}

int quota_user_init(struct quota_user *user, struct quota *quota, uint32_t uid, const char *cgroup)
{
	quota_collect(quota);
	*user = (struct quota_user){.quota = quota};
	user->uid = bucket_get(&quota->uids, uid, NULL);
	if (!user->uid)
		return -ENOMEM;
	if (!cgroup[0] || strcmp(cgroup, "/") == 0)
		return 0;
	user->cgroup = bucket_get(&quota->cgroups, 0, cgroup);
	if (!user->cgroup) {
		quota_user_deinit(user);
		return -ENOMEM;
	}
	return 0;
}

void quota_user_deinit(struct quota_user *user)
{
	user->uid = bucket_unref(user->uid);
	user->cgroup = bucket_unref(user->cgroup);
}

void quota_user_copy(struct quota_user *to, const struct quota_user *user)
{
	*to = (struct quota_user){
		.quota = user->quota, .uid = bucket_ref(user->uid), .cgroup = bucket_ref(user->cgroup)};
}

bool quota_inflight_fits(const struct quota_user *user, unsigned int n)
{
	uint64_t limit = user->quota->max_inflight_fds;

	return range_fits(user->uid->n_inflight, n, limit) &&
	       (!user->cgroup || range_fits(user->cgroup->n_inflight, n, limit));
}

void quota_inflight_add(const struct quota_user *user, unsigned int n)
{
	user->uid->n_inflight += n;
	if (user->cgroup)
		user->cgroup->n_inflight += n;
}

void quota_inflight_sub(const struct quota_user *user, unsigned int n)
{
	assert_bug(user->uid->n_inflight >= n);
	user->uid->n_inflight -= n;
	if (user->cgroup)
		user->cgroup->n_inflight -= n;
}

static void amount_add(struct quota_amount *to, const struct quota_amount *amount)
{
	for (int i = 0; i < QUOTA_N; i++)
		to->n[i] += amount->n[i];
}

static void amount_sub(struct quota_amount *from, const struct quota_amount *amount)
{
	for (int i = 0; i < QUOTA_N; i++) {
		assert_bug(from->n[i] >= amount->n[i]);
		from->n[i] -= amount->n[i];
	}
}

int quota_charge(const struct quota_user *user, const struct quota_amount *amount,
		 struct quota_charge *charge)
{
	assert_bug(!charge->uid);
	bucket_collect(user->quota, user->uid);
	for (int i = 0; i < QUOTA_N; i++)
		if (!may_hold(user, user->uid, amount->n[i], i) || !may_hold(user, user->cgroup, amount->n[i], i))
			return 1 + i;
	quota_charge_adopt(user, amount, charge);
	return 0;
}

void quota_charge_adopt(const struct quota_user *user, const struct quota_amount *amount, struct quota_charge *charge)
{
	assert_bug(!charge->uid);
	*charge = (struct quota_charge){
		.quota = user->quota,
		.uid = bucket_ref(user->uid),
		.cgroup = bucket_ref(user->cgroup),
		.amount = *amount,
	};
	amount_add(&user->quota->total, amount);
	amount_add(&charge->uid->used, amount);
	if (charge->cgroup)
		amount_add(&charge->cgroup->used, amount);
}

void quota_charge_deinit(struct quota_charge *charge)
{
	if (!charge->uid)
		return;
	amount_sub(&charge->quota->total, &charge->amount);
	amount_sub(&charge->uid->used, &charge->amount);
	if (charge->cgroup)
		amount_sub(&charge->cgroup->used, &charge->amount);
	bucket_unref(charge->uid);
	bucket_unref(charge->cgroup);
	*charge = (struct quota_charge){0};
}

static void explain_pool(const struct quota *quota, enum quota_what what, uint64_t held, const char *who, char *buf,
			 size_t size)
{
	bool is_maps = what == QUOTA_MAPS;

	snprintf(buf, size,
		 "limit reached: %s holds %" PRIu64 " %s of shmemd, all users hold %" PRIu64 " of %" PRIu64
		 "; a user with more than %u gets half of what others leave; %s sets their number",
		 who, held, is_maps ? "memory mappings" : "descriptors", quota->total.n[what], quota->pools.n[what], QUOTA_SMALL,
		 is_maps ? "vm.max_map_count" : "LimitNOFILE");
}

void quota_explain(const struct quota_user *user, enum quota_what what, uint64_t asked, char *buf,
		   size_t size)
{
	uint64_t limit = user->quota->limits.n[what];
	bool by_uid = !user->cgroup || !may_hold(user, user->uid, asked, what);
	const struct quota_bucket *bucket = by_uid ? user->uid : user->cgroup;
	char who[160];

	if (by_uid)
		snprintf(who, sizeof(who), "uid %" PRIu32, user->uid->uid);
	else
		snprintf(who, sizeof(who), "cgroup %.140s", bucket->cgroup);
	if (bucket_fits(bucket, asked, limit, what) && !pool_fits(user, bucket, asked, what)) {
		explain_pool(user->quota, what, bucket->used.n[what], who, buf, size);
		return;
	}
	snprintf(buf, size,
		 "limit reached: %s is %" PRIu64 ", %s holds %" PRIu64 " and asked for %" PRIu64 " more",
		 quota_settings[what], limit, who, bucket->used.n[what], asked);
}
