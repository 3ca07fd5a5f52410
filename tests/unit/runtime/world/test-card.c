/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libclient/runtime/world/card.h"
#include "tests/lib/test.h"

static void make_hellos(struct world_hello *hellos, int n)
{
	for (int i = 0; i < n; i++) {
		ASSERT_OK(hello_fill(&hellos[i]));
		snprintf(hellos[i].host, sizeof(hellos[i].host), "node%d", i);
		hellos[i].pid = 100 + i;
	}
}

TEST(hellos_of_one_version_fit)
{
	struct world_hello hellos[3];

	make_hellos(hellos, 3);
	ASSERT_OK(hellos_check(hellos, 3));
	ASSERT(memcmp(hellos[0].secret, hellos[1].secret, sizeof(hellos[0].secret)) != 0);
}

TEST(another_version_is_refused_with_the_name_of_the_pe)
{
	struct world_hello hellos[3];

	make_hellos(hellos, 3);
	snprintf(hellos[2].library, sizeof(hellos[2].library), "9.9.9");
	ASSERT_ERR(hellos_check(hellos, 3), EPROTO);
	ASSERT(strstr(shmd_error_text(), "PE 2 (pid 102 on node2)"));
	ASSERT(strstr(shmd_error_text(), "9.9.9"));
	make_hellos(hellos, 3);
	hellos[1].dev_version++;
	ASSERT_ERR(hellos_check(hellos, 3), EPROTO);
	make_hellos(hellos, 3);
	hellos[1].magic++;
	ASSERT_ERR(hellos_check(hellos, 3), EPROTO);
}

TEST(one_failure_is_that_of_all_with_its_sentence)
{
	struct world_hello hellos[3];
	struct world_outcome outcomes[3];

	make_hellos(hellos, 3);
	for (int i = 0; i < 3; i++)
		outcome_fill(&outcomes[i], i == 1 ? shmd_error_set(-ENOMEM, "no room here") : 0);
	ASSERT_ERR(outcomes_judge(hellos, outcomes, sizeof(outcomes[0]), 3, 0), ENOMEM);
	ASSERT_STREQ(shmd_error_text(), "PE 1 (pid 101 on node1): no room here");
	outcome_fill(&outcomes[1], 0);
	ASSERT_OK(outcomes_judge(hellos, outcomes, sizeof(outcomes[0]), 3, 0));
}

TEST(the_own_failure_keeps_its_own_sentence)
{
	struct world_hello hellos[2];
	struct world_outcome outcomes[2];

	make_hellos(hellos, 2);
	outcome_fill(&outcomes[0], shmd_error_set(-EIO, "of the other"));
	outcome_fill(&outcomes[1], shmd_error_set(-ENOMEM, "of this PE"));
	ASSERT_ERR(outcomes_judge(hellos, outcomes, sizeof(outcomes[0]), 2, 1), ENOMEM);
	ASSERT_STREQ(shmd_error_text(), "of this PE");
}

TEST(nodes_are_numbered_by_their_lowest_pe)
{
	static const uint64_t nodes[] = {7, 9, 7, 3, 9, 7};
	static const int expected[] = {0, 1, 0, 2, 1, 0}, places[] = {0, 0, 1, 0, 1, 2};
	struct world_card cards[6] = {{{0}}};
	int node[6], node_pe[6];

	for (int i = 0; i < 6; i++)
		cards[i].node = nodes[i];
	ASSERT_EQ(cards_number_nodes(cards, 6, node, node_pe), 3);
	ASSERT_MEMEQ(node, expected, sizeof(node));
	ASSERT_MEMEQ(node_pe, places, sizeof(node_pe));
}

TEST(paths_are_the_best_that_both_allow)
{
	struct world_card a = {.node = 1, .allow = SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE}, b = a;
	char reason[128];

	ASSERT_EQ(cards_path(&a, &b, true, reason, sizeof(reason)), SHMD_PATH_SELF);
	ASSERT_EQ(cards_path(&a, &b, false, reason, sizeof(reason)), SHMD_PATH_MAPPED);
	ASSERT_STREQ(reason, "same node");
	b.allow = SHMD_ALLOW_QUEUE;
	ASSERT_EQ(cards_path(&a, &b, false, reason, sizeof(reason)), SHMD_PATH_QUEUE);
	ASSERT_EQ(cards_path(&b, &a, false, reason, sizeof(reason)), SHMD_PATH_QUEUE);
	ASSERT(strstr(reason, "setting"));
	b = a;
	b.node = 2;
	ASSERT_EQ(cards_path(&a, &b, false, reason, sizeof(reason)), SHMD_PATH_QUEUE);
	ASSERT(strstr(reason, "node"));
	b.allow = SHMD_ALLOW_MAPPED;
	ASSERT_EQ(cards_path(&a, &b, false, reason, sizeof(reason)), SHMD_PATH_NONE);
	ASSERT(strstr(reason, "queues are forbidden"));
}

TEST(sizes_of_heaps_must_be_equal)
{
	struct world_card cards[3] = {{.heap_bytes = 1, .range_bytes = 2}, {.heap_bytes = 1, .range_bytes = 2}, {.heap_bytes = 1, .range_bytes = 2}};

	ASSERT_OK(cards_check(cards, 3));
	cards[2].heap_bytes = 5;
	ASSERT_ERR(cards_check(cards, 3), EINVAL);
	ASSERT(strstr(shmd_error_text(), "PE 2"));
}

TEST(settings_that_all_pes_decide_by_must_be_equal)
{
	struct world_card cards[2] = {{.chunk_bytes = 1, .rc_peers = 16}, {.chunk_bytes = 1, .rc_peers = 16}};

	ASSERT_OK(cards_check(cards, 2));
	cards[1].rc_peers = 4;
	ASSERT_ERR(cards_check(cards, 2), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "SHMD_RC_PEERS is 4 on PE 1, and 16 on PE 0: it must be the same on all PEs");
	cards[1] = cards[0];
	cards[1].chunk_bytes = 2;
	ASSERT_ERR(cards_check(cards, 2), EINVAL);
	ASSERT(strstr(shmd_error_text(), "SHMD_HEAP_CHUNK"));
}
