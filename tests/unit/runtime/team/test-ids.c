/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "libclient/runtime/team/ids.h"
#include "tests/lib/test.h"

#define N 3

/* Three PEs agree by messages that are function calls. */
static int agree(struct team_ids *ids, uint64_t key)
{
	struct team_agreement agreements[N];
	int r[N] = {-EAGAIN};

	for (int i = 0; i < N; i++)
		team_agreement_init(&agreements[i], key);
	for (r[0] = -EAGAIN; r[0] == -EAGAIN;) {
		struct team_offer offers[N];

		for (int i = 0; i < N; i++)
			offers[i] = team_agreement_offer(&agreements[i], &ids[i]);
		for (int i = 0; i < N; i++) {
			for (int k = 0; k < N; k++)
				team_agreement_take(&agreements[i], &offers[k]);
			r[i] = team_agreement_end(&agreements[i], &ids[i], &offers[i], true);
			ASSERT_EQ(r[i], r[0]);
		}
	}
	return r[0];
}

TEST(members_agree_on_ids_that_all_have_free)
{
	struct team_ids ids[N];
	bool is_used[SHMD_DEV_MAX_TEAMS] = {false};

	for (int i = 0; i < N; i++)
		team_ids_init(&ids[i], 3, SHMD_DEV_MAX_TEAMS);
	/* Each PE has some that are used by teams without the others. */
	for (int i = 0; i < N; i++)
		for (uint32_t word = 0; word < TEAM_ID_WORDS; word++)
			ids[i].free[word] &= ~(UINT64_C(0xff) << (8 * i + 8));
	for (unsigned int k = 0; k < SHMD_DEV_MAX_TEAMS - 3 - N * 8 * TEAM_ID_WORDS; k++) {
		int id = agree(ids, k * 77);

		ASSERT_GE(id, 3);
		ASSERT(!is_used[id]);
		is_used[id] = true;
	}
	ASSERT_ERR(agree(ids, 5), ENOSPC);
	for (int i = 0; i < N; i++)
		team_ids_return(&ids[i], 700);
	ASSERT_EQ(agree(ids, 6), 700);
}

TEST(the_limit_holds)
{
	struct team_ids ids[N];

	for (int i = 0; i < N; i++)
		team_ids_init(&ids[i], 3, i == 1 ? 5 : 100);
	ASSERT_EQ(agree(ids, 1), 3);
	ASSERT_EQ(agree(ids, 2), 4);
	ASSERT_ERR(agree(ids, 3), ENOSPC);
}

/* Two calls at once on one PE: the id goes to one of them, the other goes on looking. */
TEST(an_id_is_offered_to_one_call_at_a_time)
{
	struct team_ids ids;
	struct team_agreement first, second;
	struct team_offer of_first, of_second;
	int r;

	team_ids_init(&ids, 3, 4);
	team_agreement_init(&first, 1);
	team_agreement_init(&second, 1);
	do {
		of_first = team_agreement_offer(&first, &ids);
		of_second = team_agreement_offer(&second, &ids);
		team_agreement_take(&first, &of_first);
		team_agreement_take(&second, &of_second);
		ASSERT_EQ(of_second.ids, 0);
		ASSERT_EQ(of_second.is_short != 0, of_first.ids != 0);
		ASSERT_ERR(team_agreement_end(&second, &ids, &of_second, true), EAGAIN);
		r = team_agreement_end(&first, &ids, &of_first, true);
	} while (r == -EAGAIN);
	ASSERT_EQ(r, 3);
	/* The pass was short, so the end of it is no answer; that of the next one is. */
	for (r = -EAGAIN; r == -EAGAIN;) {
		of_second = team_agreement_offer(&second, &ids);
		team_agreement_take(&second, &of_second);
		r = team_agreement_end(&second, &ids, &of_second, true);
	}
	ASSERT_EQ(r, -ENOSPC);
	ASSERT_EQ(second.round, 2 * TEAM_ID_WORDS);
}

TEST(the_error_of_one_member_ends_the_call_of_all_and_takes_no_id)
{
	struct team_ids ids, before;
	struct team_agreement agreement;
	struct team_offer own, other = {.ids = UINT64_MAX, .error = -ENOMEM};

	team_ids_init(&ids, 3, SHMD_DEV_MAX_TEAMS);
	before = ids;
	team_agreement_init(&agreement, 9);
	own = team_agreement_offer(&agreement, &ids);
	team_agreement_take(&agreement, &own);
	team_agreement_take(&agreement, &other);
	ASSERT_ERR(team_agreement_end(&agreement, &ids, &own, true), ENOMEM);
	ASSERT_MEMEQ(&ids, &before, sizeof(ids));
}
