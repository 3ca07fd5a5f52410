/* SPDX-License-Identifier: Apache-2.0 */
/* NICs that no backend drives: lists of them, events when they change, and the answer to a client that asks for one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/node-map.h"
#include "daemon/session/unmanaged.h"
#include "daemon/topo/topo.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

struct scene {
	struct lab lab;
	struct pair monitor, client;
};

static void scene_init(struct scene *s)
{
	struct msg req, rep;

	lab_init(&s->lab, 100);
	pair_init_hello(&s->monitor, &s->lab, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_MONITOR_REQ, 0);
	raw_expect(&s->monitor.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	pair_init_hello(&s->client, &s->lab, MSG_ROLE_CLIENT);
	ASSERT_OK(raw_recv(&s->monitor.raw, &rep, NULL)); /* session-opened */
}

static void scene_deinit(struct scene *s)
{
	pair_deinit(&s->client);
	pair_deinit(&s->monitor);
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

/* "rxe0", "rxe1", ... with a driver. Addresses of every other one are of a bond. */
static struct host_list *make_list(unsigned int n, const char *driver)
{
	struct host_list *list = calloc(1, sizeof(*list));

	ASSERT(list);
	list->n = n;
	for (unsigned int i = 0; i < n; i++) {
		struct host_nic *nic = &list->nics[i];

		snprintf(nic->name, sizeof(nic->name), "rxe%u", i);
		snprintf(nic->driver, sizeof(nic->driver), "%s", driver);
		snprintf(nic->netdev, sizeof(nic->netdev), "veth%u", i);
		nic->life = 100 + i;
		nic->port = 1;
		nic->fabric = HOST_FABRIC_ETHERNET;
		nic->state = HOST_STATE_ACTIVE;
		nic->phys_state = 5;
		nic->rate_mbps = 2500;
		nic->pci = HOST_NO_PCI;
		nic->active_mtu_bytes = 1024;
		nic->n_gids = MSG_MAX_GIDS;
		for (unsigned int k = 0; k < MSG_MAX_GIDS; k++) {
			nic->gids[k].index = 2 * k;
			nic->gids[k].type = HOST_GID_ROCE_V2;
			memset(nic->gids[k].bytes, (int)(16 * i + k), 16);
			snprintf(nic->gids[k].netdev, sizeof(nic->gids[k].netdev), "%s", k && i % 2 ? "bond0" : "");
		}
	}
	return list;
}

static void expect_event(struct scene *s, enum msg_event_kind kind, const char *nic, unsigned int detail, const char *words)
{
	struct msg msg;

	ASSERT_OK(raw_recv(&s->monitor.raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_EQ(msg.event.kind, kind);
	ASSERT_STREQ(msg.event.nic_name, nic);
	ASSERT_EQ(msg.event.detail, detail);
	ASSERT_EQ(msg.event.session, 0);
	if (!strstr(msg.event.text, words))
		test_fail(TEST_WHERE, "no \"%s\" in: %s", words, msg.event.text);
}

static void expect_silence(struct scene *s)
{
	struct msg msg;

	ASSERT_ERR(raw_recv(&s->monitor.raw, &msg, NULL), EAGAIN);
}

TEST(monitors_see_nics_that_come_go_and_change)
{
	struct registry *registry;
	struct host_list *list;
	struct scene s;

	scene_init(&s);
	registry = &s.lab.registry;
	unmanaged_update(registry, make_list(2, "rdma_rxe"));
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe0", NIC_PORT_ACTIVE, "found");
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe1", NIC_PORT_ACTIVE, "found");
	/* The same again, and a change that causes no event. */
	list = make_list(2, "rdma_rxe");
	list->nics[1].n_gids = 1;
	unmanaged_update(registry, list);
	expect_silence(&s);
	list = make_list(2, "rdma_rxe");
	list->nics[1].state = HOST_STATE_DOWN;
	unmanaged_update(registry, list);
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe1", NIC_PORT_DOWN, "down");
	expect_silence(&s);
	unmanaged_update(registry, make_list(2, "rdma_rxe"));
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe1", NIC_PORT_ACTIVE, "active");
	/* Removed and made anew between two looks. */
	list = make_list(2, "rdma_rxe");
	list->nics[0].life++;
	unmanaged_update(registry, list);
	expect_event(&s, MSG_EVENT_NIC_LOST, "rxe0", 0, "no backend");
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe0", NIC_PORT_ACTIVE, "found");
	expect_silence(&s);
	list = make_list(1, "rdma_rxe");
	list->nics[0].life++;
	unmanaged_update(registry, list);
	expect_event(&s, MSG_EVENT_NIC_LOST, "rxe1", 0, "no backend");
	unmanaged_update(registry, make_list(0, ""));
	expect_event(&s, MSG_EVENT_NIC_LOST, "rxe0", 0, "no backend");
	expect_silence(&s);
	scene_deinit(&s);
}

static void list_page(struct scene *s, uint64_t cursor, struct msg *rep)
{
	struct msg req;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_NICS;
	req.list_req.cursor = cursor;
	raw_expect(&s->client.raw, &req, NULL, 0, MSG_LIST_REP, rep);
}

static void check_item(const struct msg_undriven_nic *nic, unsigned int i)
{
	uint8_t gid[16];
	char name[32];

	snprintf(name, sizeof(name), "rxe%u", i);
	ASSERT_STREQ(nic->name, name);
	snprintf(name, sizeof(name), "veth%u", i);
	ASSERT_STREQ(nic->netdev, i % 2 ? "bond0" : name);
	ASSERT_STREQ(nic->driver, "rdma_rxe");
	ASSERT_EQ(nic->phys_state, 5);
	ASSERT_EQ(nic->mtu_bytes, 1024);
	ASSERT_EQ(nic->rate_mbps, 2500);
	ASSERT_EQ(nic->n_gids, 16);
	memset(gid, (int)(16 * i + 15), 16);
	ASSERT_MEMEQ(nic->gids[15].gid, gid, 16);
	ASSERT_EQ(nic->gids[15].index, 30);
	ASSERT_EQ(nic->gids[15].type, 3);
	ASSERT(strstr(nic->reason, "shmemd does not support "));
}

/* Full pages fit into packets; NICs that backends drive are on a page of their own. */
TEST(as_many_as_there_can_be_are_listed_page_by_page)
{
	struct scene s;
	struct msg rep;
	unsigned int n = 0;
	uint64_t cursor;

	scene_init(&s);
	list_page(&s, 0, &rep);
	ASSERT_EQ(rep.list_rep.n_nics, 2);
	ASSERT_EQ(rep.list_rep.next_cursor, 0);
	msg_deinit(&rep);
	unmanaged_update(&s.lab.registry, make_list(HOST_LIST_MAX, "rdma_rxe"));
	list_page(&s, 0, &rep);
	ASSERT_EQ(rep.list_rep.n_nics, 2);
	ASSERT_EQ(rep.list_rep.n_undriven, 0);
	cursor = rep.list_rep.next_cursor;
	msg_deinit(&rep);
	while (cursor) {
		list_page(&s, cursor, &rep);
		ASSERT_EQ(rep.list_rep.n_nics, 0);
		for (unsigned int i = 0; i < rep.list_rep.n_undriven; i++)
			check_item(&rep.list_rep.undriven[i], n++);
		cursor = rep.list_rep.next_cursor;
		msg_deinit(&rep);
	}
	ASSERT_EQ(n, HOST_LIST_MAX);
	/* Cursors that a client makes up. */
	for (unsigned int bit = 0; bit < 64; bit++) {
		list_page(&s, UINT64_MAX >> bit, &rep);
		msg_deinit(&rep);
	}
	scene_deinit(&s);
}

static void expect_refusal(struct pair *pair, struct msg *req, const char *words)
{
	struct msg rep;

	raw_expect(&pair->raw, req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_NO_NIC);
	if (!strstr(rep.error_rep.text, words))
		test_fail(TEST_WHERE, "no \"%s\" in: %s", words, rep.error_rep.text);
}

static void expect_open_refused(struct scene *s, const char *nic, const char *words)
{
	struct msg req;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", nic);
	expect_refusal(&s->client, &req, words);
}

TEST(refusal_says_which_backend_is_missing_and_what_to_do)
{
	struct registry *registry;
	struct scene s;
	struct msg req;

	scene_init(&s);
	registry = &s.lab.registry;
	unmanaged_update(registry, make_list(1, "rdma_rxe"));
	expect_open_refused(&s, "rxe0", "which is no ConnectX; choose another NIC");
	expect_open_refused(&s, "rxe0", "(rdma_rxe)");
	expect_open_refused(&s, "rxe0", "choose another NIC");
	expect_open_refused(&s, "rxe0", "--backend soft");
	expect_open_refused(&s, "rxe1", "no NIC is called \"rxe1\"");
	msg_init(&req, MSG_PORT_SET_REQ, 0);
	snprintf(req.port_set_req.nic, sizeof(req.port_set_req.nic), "rxe0");
	req.port_set_req.state = NIC_PORT_DOWN;
	expect_refusal(&s.monitor, &req, "shmemd does not support rxe0");
	unmanaged_update(registry, make_list(1, ""));
	expect_open_refused(&s, "rxe0", "driver not known");
	scene_deinit(&s);
}

TEST(refusal_of_a_connectx_nic_names_its_own_backend)
{
	struct scene s;

	scene_init(&s);
	unmanaged_update(&s.lab.registry, make_list(1, "mlx5_core"));
	expect_open_refused(&s, "rxe0", "restart shmemd");
	s.lab.registry.attr.has_hotplug = true;
	expect_open_refused(&s, "rxe0", "it is new, or the log says why it cannot be used");
	s.lab.registry.attr.no_mlx5 = "it is Sunday";
	expect_open_refused(&s, "rxe0", "it is Sunday; choose another NIC");
	scene_deinit(&s);
}

TEST(new_nic_that_was_opened_is_forgotten_without_a_word)
{
	struct registry *registry;
	struct scene s;

	scene_init(&s);
	registry = &s.lab.registry;
	registry->attr.has_hotplug = true;
	unmanaged_update(registry, make_list(2, "mlx5_core"));
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe0", NIC_PORT_ACTIVE, "about to be opened");
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe1", NIC_PORT_ACTIVE, "about to be opened");
	snprintf(registry->nics[0].info.name, NIC_NAME_BYTES, "rxe0");
	unmanaged_forget(registry, &registry->nics[0]);
	ASSERT(!unmanaged_find(registry, "rxe0"));
	ASSERT(unmanaged_find(registry, "rxe1"));
	/* A look that had begun before. */
	unmanaged_update(registry, make_list(2, "mlx5_core"));
	ASSERT(!unmanaged_find(registry, "rxe0"));
	unmanaged_update(registry, make_list(1, "mlx5_core"));
	expect_event(&s, MSG_EVENT_NIC_LOST, "rxe1", 0, "no backend");
	expect_silence(&s);
	scene_deinit(&s);
}

/* Sessions and what is kept go by names, so it is not opened beside the one that was lost. */
TEST(new_nic_with_the_name_of_a_lost_nic_is_shown_and_left_alone)
{
	struct host_list *list = make_list(1, "mlx5_core");
	struct registry *registry;
	char text[MSG_TEXT_BYTES];
	struct scene s;

	scene_init(&s);
	registry = &s.lab.registry;
	registry->attr.has_hotplug = true;
	snprintf(registry->nics[0].info.name, NIC_NAME_BYTES, "rxe0");
	registry->nics[0].info.guid = 1;
	list->nics[0].node_guid = 2;
	unmanaged_update(registry, list);
	expect_event(&s, MSG_EVENT_PORT_STATE, "rxe0", NIC_PORT_ACTIVE, "shmemd does not manage it");
	ASSERT(!unmanaged_is_openable(registry, &list->nics[0]));
	unmanaged_text(registry, &list->nics[0], text, sizeof(text));
	ASSERT(strstr(text, "the name of a NIC that was lost; restart shmemd"));
	scene_deinit(&s);
}

/* A client that names no NIC gets none of these, even if there is no other. */
TEST(nic_that_no_backend_drives_is_not_assigned)
{
	struct registry *registry;
	struct scene s;

	scene_init(&s);
	registry = &s.lab.registry;
	for (unsigned int i = 0; i < 2; i++) {
		s.lab.nics[i].info.state = NIC_PORT_DOWN;
		registry_refresh_nic(&registry->nics[i]);
	}
	expect_open_refused(&s, "", "no NIC has an active port");
	unmanaged_update(registry, make_list(2, "rdma_rxe"));
	expect_open_refused(&s, "", "shmemd does not manage rxe0 and others");
	unmanaged_update(registry, make_list(1, "rdma_rxe"));
	expect_open_refused(&s, "", "does not manage rxe0; see");
	scene_deinit(&s);
}

/* Their ports are active: the settings exclude all of them. */
TEST(refusal_says_that_settings_keep_all_nics)
{
	char text[] = "<shmemd-topology version=\"1\"><host><function pci=\"11:00.0\" class=\"0207\"/></host></shmemd-topology>";
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];
	struct topo *topo = NULL;
	struct scene s;

	ASSERT(policy);
	scene_init(&s);
	s.lab.nics[0].info.state = NIC_PORT_DOWN;
	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, &s.lab.registry, false, &s.lab.registry.node_map));
	ASSERT_OK(topo_policy_set(policy, "nics-exclude", "fake0,fake1", why));
	node_map_set_policy(s.lab.registry.node_map, policy);
	expect_open_refused(&s, "", "nics-include and nics-exclude of shmemd.conf exclude every NIC with an active port, such as fake1");
	s.lab.nics[1].info.state = NIC_PORT_DOWN;
	expect_open_refused(&s, "", "no NIC has an active port");
	s.lab.registry.node_map = node_map_free(s.lab.registry.node_map);
	scene_deinit(&s);
}
