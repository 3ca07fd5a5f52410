/* SPDX-License-Identifier: Apache-2.0 */
/* A world of more PEs than a sync of its team has rounds for. */
#include <errno.h>
#include <string.h>

#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/world.h"
#include "tests/lib/test.h"

static int n_closed, n_exchanges;

static int allgather(struct shmd_bootstrap *bootstrap, const void *mine, void *all, size_t bytes)
{
	(void)bootstrap, (void)mine, (void)all, (void)bytes;
	n_exchanges++;
	return shmd_error_set(-ECONNRESET, "nobody is there");
}

static void close_it(struct shmd_bootstrap *bootstrap)
{
	(void)bootstrap;
	n_closed++;
}

static int open_of(int size)
{
	static const struct shmd_bootstrap_ops ops = {.version = SHMD_BOOTSTRAP_VERSION, .name = "none", .allgather = allgather, .close = close_it};
	static const struct runtime_settings settings;
	struct shmd_bootstrap bootstrap = {.ops = &ops, .size = size, .node_rank = -1, .node_size = -1};
	struct shmd_world *world = NULL;

	return world_open_on(&bootstrap, &settings, SHMD_ALLOW_MAPPED, &world);
}

TEST(a_world_has_as_many_pes_as_a_sync_has_room_for)
{
	ASSERT_ERR(open_of(TEAM_MAX_PES + 1), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "a world of 65537 PEs: there is room for 65536");
	ASSERT_EQ(n_exchanges, 0);
	ASSERT_ERR(open_of(TEAM_MAX_PES), ECONNRESET);
	ASSERT_EQ(n_exchanges, 1);
	ASSERT_EQ(n_closed, 2);
}
