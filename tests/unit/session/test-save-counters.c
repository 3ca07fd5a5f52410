/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of NICs over daemons that die: they never fall, and nothing is counted twice. */
#include <stdio.h>

#include "daemon/restart/state.h"
#include "tests/lib/test.h"
#include "tests/unit/session/save-lab.h"

/* The previous daemon's own state and all its sessions. */
static void adopt_registry(struct save_lab *k)
{
	struct state *state;
	const void *bytes;
	uint32_t version;
	size_t n;

	ASSERT_OK(state_open(k->lab.registry.attr.store->take(k, SAVE_REGISTRY), &state));
	ASSERT_OK(state_read(state, &version, &bytes, &n));
	ASSERT_OK(registry_import(&k->lab.registry, state, bytes, n));
	registry_count_on(&k->lab.registry);
	registry_save(&k->lab.registry);
}

/* The next daemon, whose NICs are as new. */
static void restart_without_sessions(struct save_lab *k)
{
	save_lab_restart(k, NULL, 0);
	adopt_registry(k);
}

/* Counters of the first NIC, as lists and metrics show them. */
static uint64_t listed_wqes(struct save_lab *k)
{
	struct pair admin;
	struct msg req, rep;
	uint64_t wqes;

	pair_init_hello(&admin, &k->lab, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_NICS;
	raw_expect(&admin.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_STREQ(rep.list_rep.nics[0].name, "fake0");
	wqes = rep.list_rep.nics[0].counters.wqes;
	msg_deinit(&rep);
	pair_deinit(&admin);
	return wqes;
}

static void open_on_first(struct pair *pair, struct save_lab *k)
{
	struct msg req, rep;

	save_lab_hello(pair, k);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "fake0");
	raw_expect(&pair->raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
}

/* Also of contexts that have ended: 5 of a session that was not saved. */
TEST(counters_of_a_nic_go_on_from_the_values_last_shown)
{
	struct save_lab k = {.blocks = false};

	save_lab_init(&k, 100);
	k.lab.nics[0].wqes = 5;
	ASSERT_EQ(listed_wqes(&k), 5);
	for (int i = 0; i < 3; i++) {
		restart_without_sessions(&k);
		ASSERT_EQ(listed_wqes(&k), 5);
	}
	k.lab.nics[0].wqes = 3;
	ASSERT_EQ(listed_wqes(&k), 8);
	restart_without_sessions(&k);
	ASSERT_EQ(listed_wqes(&k), 8);
	save_lab_deinit(&k);
}

/* Firmware counts in 32 bits, and a client may clear them. */
TEST(counters_of_a_nic_that_falls_do_not)
{
	struct save_lab k = {.blocks = false};

	save_lab_init(&k, 100);
	k.lab.nics[0].wqes = 5;
	ASSERT_EQ(listed_wqes(&k), 5);
	k.lab.nics[0].wqes = 3;
	ASSERT_EQ(listed_wqes(&k), 5);
	restart_without_sessions(&k);
	ASSERT_EQ(listed_wqes(&k), 5);
	save_lab_deinit(&k);
}

TEST(counters_of_a_nic_outlast_daemons_that_did_not_have_it)
{
	struct save_lab k = {.blocks = false};

	save_lab_init(&k, 100);
	k.lab.nics[0].wqes = 5;
	ASSERT_EQ(listed_wqes(&k), 5);
	for (int i = 0; i < 2; i++) {
		save_lab_restart(&k, NULL, 0);
		snprintf(k.lab.registry.nics[0].info.name, NIC_NAME_BYTES, "other");
		adopt_registry(&k);
	}
	restart_without_sessions(&k);
	ASSERT_EQ(listed_wqes(&k), 5);
	/* The other NIC has as many. */
	ASSERT_EQ(k.lab.registry.n_absent, 1);
	save_lab_deinit(&k);
}

/* Its driver was loaded behind the daemon's start. */
TEST(counters_of_a_nic_that_comes_later_go_on)
{
	struct save_lab k = {.blocks = false};
	struct registry *registry = &k.lab.registry;
	struct fake_nic later;
	struct nic_counters now;

	save_lab_init(&k, 100);
	k.lab.nics[0].wqes = 5;
	ASSERT_EQ(listed_wqes(&k), 5);
	save_lab_restart(&k, NULL, 0);
	snprintf(registry->nics[0].info.name, NIC_NAME_BYTES, "other");
	adopt_registry(&k);
	ASSERT_EQ(registry->n_absent, 1);
	fake_nic_init(&later, "fake0");
	later.wqes = 1;
	ASSERT_OK(registry_add_nic(registry, &later.base, &later.info));
	ASSERT_EQ(registry->n_absent, 0);
	later.wqes = 3;
	ASSERT_OK(registry_counters_for_reader(&registry->nics[2], &now));
	ASSERT_EQ(now.wqes, 7);
	registry->n_nics--;
	later.base.ops->close(&later.base);
	save_lab_deinit(&k);
}

TEST(counts_of_ended_sessions_go_on)
{
	struct save_lab k = {.blocks = false};
	struct pair a;

	save_lab_init(&k, 100);
	for (uint64_t n = 0; n < 3; n++) {
		ASSERT_EQ(listed_wqes(&k), 7 * n);
		open_on_first(&a, &k);
		/* No list is read between its work and the death. */
		pair_deinit(&a);
		restart_without_sessions(&k);
	}
	ASSERT_EQ(listed_wqes(&k), 21);
	save_lab_deinit(&k);
}

/* Its NIC counts what it has done, as long as it lives. */
TEST(session_that_goes_on_is_counted_once)
{
	struct save_lab k = {.blocks = false};
	struct pair a, *all[] = {&a};
	struct session *session;

	save_lab_init(&k, 100);
	open_on_first(&a, &k);
	k.lab.nics[0].wqes = 7;
	ASSERT_EQ(listed_wqes(&k), 7);
	save_lab_restart(&k, all, 1);
	ASSERT_OK(save_lab_adopt(&k, 1, &session));
	k.lab.nics[0].wqes = 7;
	adopt_registry(&k);
	ASSERT_EQ(listed_wqes(&k), 7);
	session_free(session);
	ASSERT_EQ(listed_wqes(&k), 7);
	restart_without_sessions(&k);
	ASSERT_EQ(listed_wqes(&k), 7);
	raw_close(&a.raw);
	save_lab_deinit(&k);
}
