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
