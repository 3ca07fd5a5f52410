/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own state, which outlives it: numbers, the NICs of GPUs, ports. */
#include <stdio.h>
#include <string.h>

#include "daemon/restart/state.h"
#include "tests/unit/session/fake-nic.h"
#include "tests/unit/session/save-lab.h"
#include "tests/lib/test.h"

TEST(numbers_and_assignments_go_on)
{
	struct save_lab k = {.blocks = false};
	struct pair a, b;
	struct state *state;
	const void *bytes;
	uint32_t version;
	struct msg req, rep;
	size_t n;

	save_lab_init(&k, 100);
	save_lab_hello(&a, &k);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.gpu, sizeof(req.nic_open_req.gpu), "0000:3b:00.0");
	raw_expect(&a.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	pair_deinit(&a);
	save_lab_restart(&k, NULL, 0);
	ASSERT_OK(state_open(k.lab.registry.attr.store->take(&k, SAVE_REGISTRY), &state));
	ASSERT_OK(state_read(state, &version, &bytes, &n));
	/* NICs are found by their names. */
	snprintf(k.lab.registry.nics[0].info.name, NIC_NAME_BYTES, "fake1");
	snprintf(k.lab.registry.nics[1].info.name, NIC_NAME_BYTES, "fake0");
	for (size_t i = 0; i < n; i += 13)
		ASSERT_LT(registry_import(&k.lab.registry, state, bytes, i), 0);
	ASSERT_EQ(k.lab.registry.last_id, 0);
	ASSERT_OK(registry_import(&k.lab.registry, state, bytes, n));
	ASSERT_EQ(k.lab.registry.last_id, 1);
	ASSERT_EQ(k.lab.registry.sessions_total, 1);
	ASSERT_STREQ(k.lab.registry.gpus[0].gpu, "0000:3b:00.0");
	ASSERT_EQ(k.lab.registry.gpus[0].nic, 1);
	save_lab_hello(&b, &k);
	ASSERT_EQ(b.session->id, 2);
	pair_deinit(&b);
	save_lab_deinit(&k);
}

static void set_port(struct save_lab *k, const char *nic, enum nic_port_state state)
{
	struct pair admin;
	struct msg req, rep;

	pair_init_hello(&admin, &k->lab, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_PORT_SET_REQ, 0);
	snprintf(req.port_set_req.nic, sizeof(req.port_set_req.nic), "%s", nic);
	req.port_set_req.state = state;
	raw_expect(&admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	pair_deinit(&admin);
}

static void adopt_registry(struct save_lab *k)
{
	struct state *state;
	const void *bytes;
	uint32_t version;
	size_t n;

	ASSERT_OK(state_open(k->lab.registry.attr.store->take(k, SAVE_REGISTRY), &state));
	ASSERT_OK(state_read(state, &version, &bytes, &n));
	ASSERT_OK(registry_import(&k->lab.registry, state, bytes, n));
	registry_save(&k->lab.registry);
}

/* The next daemon, whose NICs are as new. */
static void restart_without_sessions(struct save_lab *k)
{
	save_lab_restart(k, NULL, 0);
	adopt_registry(k);
}

/* Also of NICs without a context that could keep it. */
TEST(port_that_was_taken_down_stays_down)
{
	struct save_lab k = {.blocks = false};

	save_lab_init(&k, 100);
	set_port(&k, "fake0", NIC_PORT_DOWN);
	set_port(&k, "fake1", NIC_PORT_DOWN);
	set_port(&k, "fake0", NIC_PORT_ACTIVE);
	for (int i = 0; i < 2; i++) {
		restart_without_sessions(&k);
		ASSERT_EQ(k.lab.nics[0].port_set, 0);
		ASSERT_EQ(k.lab.nics[1].port_set, NIC_PORT_DOWN);
	}
	set_port(&k, "fake1", NIC_PORT_ACTIVE);
	restart_without_sessions(&k);
	ASSERT_EQ(k.lab.nics[1].port_set, 0);
	save_lab_deinit(&k);
}

/* Through daemons that do not have the NIC, to one that has it from the start and to one that gets it later. */
TEST(port_of_a_nic_that_was_missing_stays_down)
{
	struct save_lab k = {.blocks = false};
	struct fake_nic later;

	save_lab_init(&k, 100);
	set_port(&k, "fake1", NIC_PORT_DOWN);
	for (int i = 0; i < 2; i++) {
		save_lab_restart(&k, NULL, 0);
		snprintf(k.lab.registry.nics[1].info.name, NIC_NAME_BYTES, "other");
		adopt_registry(&k);
		ASSERT_EQ(k.lab.nics[1].port_set, 0);
	}
	fake_nic_init(&later, "fake1");
	ASSERT_OK(registry_add_nic(&k.lab.registry, &later.base, &later.info));
	ASSERT_EQ(later.port_set, NIC_PORT_DOWN);
	ASSERT(k.lab.registry.nics[2].is_taken_down);
	k.lab.registry.n_nics--;
	later.base.ops->close(&later.base);
	restart_without_sessions(&k);
	ASSERT_EQ(k.lab.nics[1].port_set, NIC_PORT_DOWN);
	save_lab_deinit(&k);
}
