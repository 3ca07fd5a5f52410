/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "daemon/session/quota.h"
#include "tests/lib/test.h"

static const struct quota_amount limits = {.n = {
	[QUOTA_CONNECTIONS] = 4, [QUOTA_SESSIONS] = 2, [QUOTA_QPS] = 100, [QUOTA_CQS] = 100,
	[QUOTA_MRS] = 10, [QUOTA_BYTES] = UINT64_MAX, [QUOTA_FDS] = 10, [QUOTA_PUBLISHED] = 1,
}};

TEST(charge_returns_with_its_object)
{
	const struct quota_amount amount = {.n = {[QUOTA_QPS] = 60, [QUOTA_CQS] = 1}};
	struct quota_charge charge = {0};
	struct quota_user user;
	struct quota quota;

	quota_init(&quota, &limits);
	ASSERT_OK(quota_user_init(&user, &quota, 1000, "/user/1000"));
	ASSERT_EQ(quota_charge(&user, &amount, &charge), 0);
	ASSERT_EQ(quota.total.n[QUOTA_QPS], 60);
	quota_charge_deinit(&charge);
	quota_charge_deinit(&charge);
	ASSERT_EQ(quota.total.n[QUOTA_QPS], 0);
	quota_user_deinit(&user);
	quota_deinit(&quota);
}

TEST(refusal_changes_nothing_and_names_the_limit)
{
	const struct quota_amount most = {.n = {[QUOTA_QPS] = 60}};
	const struct quota_amount more = {.n = {[QUOTA_CQS] = 1, [QUOTA_QPS] = 41}};
	struct quota_charge charge = {0}, refused = {0};
	struct quota_user user;
	struct quota quota;
	char text[256];

	quota_init(&quota, &limits);
	ASSERT_OK(quota_user_init(&user, &quota, 1000, ""));
	ASSERT_EQ(quota_charge(&user, &most, &charge), 0);
	ASSERT_EQ(quota_charge(&user, &more, &refused), 1 + QUOTA_QPS);
	ASSERT_EQ(quota.total.n[QUOTA_CQS], 0);
	quota_explain(&user, QUOTA_QPS, 41, text, sizeof(text));
	ASSERT_STREQ(text, "limit reached: max-qps is 100, uid 1000 holds 60 and asked for 41 more");
	quota_charge_deinit(&charge);
	quota_user_deinit(&user);
	quota_deinit(&quota);
}

TEST(two_uids_of_one_cgroup_share_its_limit)
{
	const struct quota_amount amount = {.n = {[QUOTA_SESSIONS] = 2}}, one = {.n = {[QUOTA_SESSIONS] = 1}};
	struct quota_charge a = {0}, b = {0};
	struct quota_user first, second;
	struct quota quota;
	char text[256];

	quota_init(&quota, &limits);
	ASSERT_OK(quota_user_init(&first, &quota, 100000, "/box"));
	ASSERT_OK(quota_user_init(&second, &quota, 100001, "/box"));
	ASSERT_EQ(quota_charge(&first, &amount, &a), 0);
	ASSERT_EQ(quota_charge(&second, &one, &b), 1 + QUOTA_SESSIONS);
	quota_explain(&second, QUOTA_SESSIONS, 1, text, sizeof(text));
	ASSERT(strstr(text, "cgroup /box holds 2"));
	quota_charge_deinit(&a);
	quota_user_deinit(&first);
	quota_user_deinit(&second);
	quota_deinit(&quota);
}

TEST(root_cgroup_counts_nothing)
{
	const struct quota_amount amount = {.n = {[QUOTA_SESSIONS] = 2}};
	struct quota_charge a = {0}, b = {0};
	struct quota_user first, second;
	struct quota quota;

	quota_init(&quota, &limits);
	ASSERT_OK(quota_user_init(&first, &quota, 1, "/"));
	ASSERT_OK(quota_user_init(&second, &quota, 2, "/"));
	ASSERT_EQ(quota_charge(&first, &amount, &a), 0);
	ASSERT_EQ(quota_charge(&second, &amount, &b), 0);
	quota_charge_deinit(&a);
	quota_charge_deinit(&b);
	quota_user_deinit(&first);
	quota_user_deinit(&second);
	quota_deinit(&quota);
}

TEST(charges_outlive_the_user)
{
	const struct quota_amount amount = {.n = {[QUOTA_MRS] = 3}};
	struct quota_charge charge = {0};
	struct quota_user user;
	struct quota quota;

	quota_init(&quota, &limits);
	ASSERT_OK(quota_user_init(&user, &quota, 7, "/x"));
	ASSERT_EQ(quota_charge(&user, &amount, &charge), 0);
	quota_user_deinit(&user);
	quota_charge_deinit(&charge);
	quota_deinit(&quota);
}

TEST(huge_amounts_do_not_wrap)
{
	const struct quota_amount huge = {.n = {[QUOTA_BYTES] = UINT64_MAX}}, one = {.n = {[QUOTA_BYTES] = 1}};
	struct quota_charge a = {0}, b = {0};
	struct quota_user user;
	struct quota quota;

	quota_init(&quota, &limits);
	ASSERT_OK(quota_user_init(&user, &quota, 7, ""));
	ASSERT_EQ(quota_charge(&user, &huge, &a), 0);
	ASSERT_EQ(quota_charge(&user, &one, &b), 1 + QUOTA_BYTES);
	quota_charge_deinit(&a);
	quota_user_deinit(&user);
	quota_deinit(&quota);
}

/* ---- pools ---------------------------------------------------------------------------------------------------------- */

#define POOL 57344u
#define MAX_USERS 4096u

struct crowd {
	struct quota quota;
	struct quota_user users[MAX_USERS];
	struct quota_charge charges[MAX_USERS];
	unsigned int n;
};

static struct crowd *crowd_new(void)
{
	static struct crowd crowd;
	struct quota_amount none;

	memset(&none, 0xff, sizeof(none));
	crowd = (struct crowd){0};
	quota_init(&crowd.quota, &none);
	crowd.quota.pools.n[QUOTA_MAPS] = POOL;
	return &crowd;
}

static bool charge_one(struct crowd *crowd, unsigned int user, uint64_t n)
{
	const struct quota_amount amount = {.n = {[QUOTA_MAPS] = n}};

	return quota_charge(&crowd->users[user], &amount, &crowd->charges[crowd->n]) == 0 && ++crowd->n;
}

/* A new user who takes the most it gets in one charge; how many that is. */
static uint64_t take_most(struct crowd *crowd, unsigned int user, const char *cgroup)
{
	uint64_t low = 0, high = POOL + 1;

	ASSERT_OK(quota_user_init(&crowd->users[user], &crowd->quota, 1000 + user, cgroup));
	while (high - low > 1) {
		uint64_t n = (low + high) / 2;

		if (charge_one(crowd, user, n)) {
			quota_charge_deinit(&crowd->charges[--crowd->n]);
			low = n;
		} else {
			high = n;
		}
	}
	if (low > 0)
		ASSERT(charge_one(crowd, user, low));
	return low;
}

static void crowd_deinit(struct crowd *crowd, unsigned int n_users)
{
	for (unsigned int i = 0; i < crowd->n; i++)
		quota_charge_deinit(&crowd->charges[i]);
	for (unsigned int i = 0; i < n_users; i++)
		quota_user_deinit(&crowd->users[i]);
	quota_deinit(&crowd->quota);
}

/* The attack: each uid takes all it may, one after the other. Each leaves half, and the last eighth is for small ones. */
TEST(many_uids_that_take_all_they_may_leave_mappings_to_new_ones)
{
	struct crowd *crowd = crowd_new();
	unsigned int n = 0, n_small = 0;

	ASSERT_EQ(take_most(crowd, n++, ""), POOL / 8 * 7 / 2);
	ASSERT_EQ(take_most(crowd, n++, ""), POOL / 8 * 7 / 4);
	while (take_most(crowd, n, "") > QUOTA_SMALL)
		ASSERT_LT(++n, 20);
	for (n++; n < MAX_USERS && take_most(crowd, n, "") == QUOTA_SMALL; n++)
		n_small++;
	ASSERT_GE(n_small, POOL / 8 / QUOTA_SMALL);
	ASSERT_LE(crowd->quota.total.n[QUOTA_MAPS], POOL);
	crowd_deinit(crowd, n + 1);
}

/* A tenant with many uids is one. */
TEST(uids_of_one_cgroup_leave_half_of_the_mappings)
{
	struct crowd *crowd = crowd_new();
	uint64_t n = 0;

	for (unsigned int i = 0; i < 100; i++)
		n += take_most(crowd, i, "/box");
	ASSERT_LE(n, POOL / 2);
	ASSERT_EQ(take_most(crowd, 100, "/other"), (POOL / 8 * 7 - n) / 2);
	crowd_deinit(crowd, 101);
}

/* A private daemon has one user, who need not leave anything to others. The pool does not contain the daemon's own part. */
TEST(daemons_own_user_may_take_the_whole_pool)
{
	struct crowd *crowd = crowd_new();

	crowd->quota.owner_uid = 1000;
	ASSERT_EQ(take_most(crowd, 0, "/user.slice/user-1000.slice"), POOL);
	ASSERT_EQ(take_most(crowd, 1, ""), 0);
	crowd_deinit(crowd, 2);
}

TEST(refusal_by_a_pool_says_what_there_is)
{
	struct crowd *crowd = crowd_new();
	char text[256];

	take_most(crowd, 0, "");
	ASSERT(!charge_one(crowd, 0, 1));
	quota_explain(&crowd->users[0], QUOTA_MAPS, 1, text, sizeof(text));
	ASSERT_STREQ(text, "limit reached: uid 1000 holds 25088 memory mappings of shmemd, all users hold 25088 of 57344; a user with "
			   "more than 64 gets half of what others leave; vm.max_map_count sets their number");
	crowd_deinit(crowd, 1);
}
