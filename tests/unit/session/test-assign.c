/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/assign.h"
#include "daemon/session/node-map.h"
#include "daemon/topo/topo.h"
#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

static void expect_gpu(const char *text, const char *expected)
{
	char buf[REGISTRY_GPU_BYTES];

	if (!expected) {
		ASSERT_ERR(assign_parse_gpu(text, buf), EINVAL);
		return;
	}
	ASSERT_OK(assign_parse_gpu(text, buf));
	ASSERT_STREQ(buf, expected);
}

TEST(gpu_names_have_one_normal_form)
{
	expect_gpu("0000:3b:00.0", "0000:3b:00.0");
	expect_gpu("3B:00.0", "0000:3b:00.0");
	expect_gpu("00000000:3B:00.0", "0000:3b:00.0");
	expect_gpu("10000:e1:00.0", "10000:e1:00.0");
	expect_gpu("GPU-6E5F0F1e-0000-1111-2222-333344445555", "GPU-6e5f0f1e-0000-1111-2222-333344445555");
	expect_gpu("", NULL);
	expect_gpu("0", NULL);
	expect_gpu("3b:00", NULL);
	expect_gpu("0000:3b:20.0", NULL);
	expect_gpu("0000:3b:00.8", NULL);
	expect_gpu("0000:3b:00.0x", NULL);
	expect_gpu("0000:3bb:00.0", NULL);
	expect_gpu("GPU-6e5f0f1e-0000-1111-2222-33334444555", NULL);
	expect_gpu("GPU-6e5f0f1e-0000-1111-2222-33334444555g", NULL);
	expect_gpu("GPU-6e5f0f1e0000-1111-2222-3333444455556", NULL);
}

static const char *assign(struct lab *lab, const char *gpu, const char *nic, uint64_t taken)
{
	const struct assign_request request = {.gpu = gpu, .nic = nic, .taken = taken};
	struct registry_nic *rnic;
	char reason[128];
	int r = assign_nic(&lab->registry, &request, reason, sizeof(reason), &rnic);

	return r == -ENODEV ? "nodev" : r == -ENOENT ? "noent" : rnic->info.name;
}

TEST(gpus_spread_and_keep_their_nic)
{
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_STREQ(assign(&lab, "gpu-a", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "gpu-b", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "gpu-a", "", 0), "fake0");
	lab.registry.nics[1].n_sessions = 9;
	ASSERT_STREQ(assign(&lab, "gpu-b", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "gpu-c", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "gpu-d", "", 0), "fake1");
	lab_deinit(&lab);
}

TEST(without_a_gpu_the_least_loaded_and_not_one_it_has)
{
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake0");
	lab.registry.nics[0].n_sessions = 1;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	lab.registry.nics[1].n_sessions = 1;
	lab.registry.nics[0].n_qps = 1;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "", "", 2), "fake0");
	lab_deinit(&lab);
}

TEST(names_and_ports_that_are_down)
{
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_STREQ(assign(&lab, "", "fake1", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "", "mlx5_0", 0), "noent");
	lab.nics[0].info.state = NIC_PORT_DOWN;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "", "fake0", 0), "fake0");
	lab.nics[0].info.state = NIC_PORT_LOST;
	ASSERT_STREQ(assign(&lab, "", "fake0", 0), "nodev");
	lab.nics[1].info.state = NIC_PORT_DOWN;
	ASSERT_STREQ(assign(&lab, "", "", 0), "nodev");
	lab_deinit(&lab);
}

TEST(the_table_of_gpus_is_bounded)
{
	struct lab lab;
	char name[32];

	lab_init(&lab, 10);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "gpu-%d", i);
		assign(&lab, name, "", 0);
	}
	ASSERT_STREQ(lab.registry.gpus[0].gpu, "gpu-960");
	lab_deinit(&lab);
}

/* ---- GPUs that are not there ---------------------------------------------------------------------------------------- */

#define UUID_A "GPU-6e5f0f1e-0000-1111-2222-33334444555a"
#define UUID_B "GPU-6e5f0f1e-0000-1111-2222-33334444555b"

static struct node_map *map_of(struct lab *lab, const char *functions)
{
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES], text[1024];

	snprintf(text, sizeof(text), "<shmemd-topology version=\"1\"><host>%s</host></shmemd-topology>", functions);
	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, &lab->registry, false, &map));
	lab->registry.node_map = map;
	return map;
}

static bool sees_late(const char *pci)
{
	return !strcmp(pci, "0000:77:00.0");
}

static bool is_sure;

static bool knows_uuids(unsigned int n_gpus)
{
	ASSERT_EQ(n_gpus, 2);
	return is_sure;
}

TEST(only_a_gpu_that_is_certainly_not_there_is_lacking)
{
	const char gpu_a[] = "<function pci=\"01:00.0\" class=\"0302\"><gpu uuid=\"" UUID_A "\"/></function>";
	char both[512];
	struct node_map *map;
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT(!node_map_lacks_gpu(NULL, "0000:03:00.0"));
	map = map_of(&lab, "<function pci=\"11:00.0\" class=\"0207\"/>");
	ASSERT(!node_map_lacks_gpu(map, "0000:03:00.0"));
	node_map_free(map);
	/* A GPU whose UUID is not known may have any. */
	snprintf(both, sizeof(both), "%s<function pci=\"02:00.0\" class=\"0302\"/>", gpu_a);
	map = map_of(&lab, both);
	ASSERT(!node_map_lacks_gpu(map, UUID_B));
	ASSERT(!node_map_lacks_gpu(map, UUID_A));
	ASSERT(!node_map_lacks_gpu(map, "0000:02:00.0"));
	ASSERT(node_map_lacks_gpu(map, "0000:03:00.0"));
	node_map_free(map);
	snprintf(both, sizeof(both), "%s<function pci=\"02:00.0\" class=\"0302\"><gpu uuid=\"GPU-b\"/></function>", gpu_a);
	map = map_of(&lab, both);
	ASSERT(node_map_lacks_gpu(map, UUID_B));
	/* The kernel and the driver may have more GPUs than the map. */
	lab.registry.attr.sees_gpu = sees_late;
	lab.registry.attr.knows_uuids = knows_uuids;
	ASSERT(!node_map_lacks_gpu(map, UUID_B));
	is_sure = true;
	ASSERT(node_map_lacks_gpu(map, UUID_B));
	ASSERT(!node_map_lacks_gpu(map, "0000:77:00.0"));
	ASSERT(node_map_lacks_gpu(map, "0000:78:00.0"));
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

TEST(present_gpus_are_named_as_far_as_the_text_has_room)
{
	char functions[900] = "", text[128];
	struct node_map *map;
	struct lab lab;

	lab_init(&lab, 10);
	for (unsigned int i = 1; i <= 16; i++)
		snprintf(functions + strlen(functions), sizeof(functions) - strlen(functions), "<function pci=\"%02x:00.0\" class=\"0302\"/>", i);
	map = map_of(&lab, functions);
	node_map_gpus_text(map, text, sizeof(text));
	ASSERT_STREQ(text, "0000:01:00.0, 0000:02:00.0, 0000:03:00.0, 0000:04:00.0, 0000:05:00.0, 0000:06:00.0, 0000:07:00.0, 0000:08:00.0 and 8 more");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* ---- doubtful settings ----------------------------------------------------------------------------------------------- */

static void include(struct node_map *map, const char *value)
{
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];

	ASSERT(policy);
	ASSERT_OK(topo_policy_set(policy, "nics-include", value, why));
	node_map_set_policy(map, policy);
}

TEST(settings_that_name_a_missing_device_are_reported_until_it_comes)
{
	struct node_map *map;
	struct topo *topo;
	char why[TOPO_WHY_BYTES], more[] = "<shmemd-topology version=\"1\"><host><function pci=\"11:00.0\" class=\"0207\"><nic name=\"late\" port=\"1\"/>"
		"</function></host></shmemd-topology>";
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_STREQ(node_map_doubts(NULL), "");
	map = map_of(&lab, "<function pci=\"11:00.0\" class=\"0302\"/>");
	ASSERT_STREQ(node_map_doubts(map), "");
	/* The daemon's own NICs are none of the machine. */
	include(map, "fake0, fake1");
	ASSERT_STREQ(node_map_doubts(map), "");
	include(map, "fake0, late");
	ASSERT_STREQ(node_map_doubts(map), "nics-include names late, a NIC that this machine does not have (it has fake0, fake1)");
	ASSERT_OK(topo_parse(more, strlen(more), &topo, why));
	node_map_redraw(map, topo);
	ASSERT_STREQ(node_map_doubts(map), "");
	include(map, "fake7");
	ASSERT(strstr(node_map_doubts(map), "no session can open a NIC: nics-include names fake7, a NIC that"));
	node_map_set_policy(map, NULL);
	ASSERT_STREQ(node_map_doubts(map), "");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* ---- the map of the node ------------------------------------------------------------------------------------------ */

/* Each GPU beside the NIC that the fakes' order would give to the other one. A third hangs apart. */
static struct node_map *give_map(struct lab *lab)
{
	char text[] = "<shmemd-topology version=\"1\" numa_nodes=\"2\"><host numa=\"0\"><bridge hops=\"1\">"
		      "<function pci=\"01:00.0\" class=\"0302\"/><function pci=\"11:00.0\" class=\"0207\"><nic name=\"fake1\" port=\"1\"/>"
		      "</function></bridge></host><host numa=\"1\"><bridge hops=\"1\"><function pci=\"02:00.0\" class=\"0302\"/>"
		      "<function pci=\"12:00.0\" class=\"0207\"><nic name=\"fake0\" port=\"1\"/></function></bridge></host>"
		      "<host numa=\"1\"><bridge hops=\"1\"><function pci=\"13:00.0\" class=\"0207\"><nic name=\"stranger\" port=\"1\"/>"
		      "</function></bridge></host></shmemd-topology>";
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];

	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, &lab->registry, false, &map));
	lab->registry.node_map = map;
	return map;
}

TEST(a_gpu_gets_its_nic_of_the_map)
{
	const struct assign_request request = {.gpu = "0000:01:00.0", .nic = ""};
	struct registry_nic *rnic;
	struct node_map *map;
	char reason[128];
	struct lab lab;

	lab_init(&lab, 10);
	map = give_map(&lab);
	lab.registry.nics[1].n_sessions = 9;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "0000:02:00.0", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "fake0", 0), "fake0");
	ASSERT_OK(assign_nic(&lab.registry, &request, reason, sizeof(reason), &rnic));
	ASSERT_STREQ(reason, "GPU0: PIX: the nearest NIC");
	/* One that the map does not know gets what it got without one. */
	ASSERT_STREQ(assign(&lab, "0000:77:00.0", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake0");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

TEST(while_its_port_is_down_a_gpu_gets_the_next_nearest)
{
	struct node_map *map;
	struct lab lab;

	lab_init(&lab, 10);
	map = give_map(&lab);
	lab.nics[1].info.state = NIC_PORT_DOWN;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	lab.nics[1].info.state = NIC_PORT_ACTIVE;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake1");
	lab.nics[0].info.state = lab.nics[1].info.state = NIC_PORT_DOWN;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "nodev");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

TEST(a_second_nic_of_a_gpu_is_the_next_of_its_own)
{
	char text[] = "<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/>"
		      "<function pci=\"11:00.0\" class=\"0207\"><nic name=\"x\" port=\"1\"/></function>"
		      "<function pci=\"12:00.0\" class=\"0207\"><nic name=\"y\" port=\"1\"/></function></host></shmemd-topology>";
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	/* By order, since the names are others. */
	ASSERT_OK(node_map_new(topo, &lab.registry, true, &map));
	lab.registry.node_map = map;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 1), "fake1");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 3), "fake0");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* fake0 is a slow NIC beside a fast one. */
TEST(nics_that_the_map_sets_aside_come_last_for_clients_without_a_gpu_of_it)
{
	char text[] = "<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/><function pci=\"11:00.0\" class=\"0207\">"
		      "<nic name=\"fake0\" port=\"1\" rate_mbps=\"25000\"/></function><function pci=\"12:00.0\" class=\"0207\">"
		      "<nic name=\"fake1\" port=\"1\" rate_mbps=\"400000\"/></function></host></shmemd-topology>";
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];
	struct lab lab;

	lab_init(&lab, 10);
	lab.nics[0].info.rate_mbps = lab.registry.nics[0].info.rate_mbps = 25000;
	/* A daemon that did not know the machine yet. */
	ASSERT_STREQ(assign(&lab, "0000:77:00.0", "", 0), "fake0");
	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, &lab.registry, false, &map));
	lab.registry.node_map = map;
	lab.registry.nics[1].n_sessions = 9;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "0000:78:00.0", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "0000:77:00.0", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "", "fake0", 0), "fake0");
	/* Better than none; and of a GPU without a place only one entry is kept. */
	lab.nics[1].info.state = NIC_PORT_DOWN;
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_STREQ(assign(&lab, "0000:77:00.0", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake0");
	ASSERT_STREQ(lab.registry.gpus[2].gpu, "");
	lab.nics[1].info.state = NIC_PORT_ACTIVE;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* The nearer of two trains to a rate that makes it slow beside the other, and back; a rate that is not known says nothing. */
TEST(a_port_that_comes_up_at_another_rate_has_that_one)
{
	struct node_map *map;
	struct lab lab;

	lab_init(&lab, 10);
	lab.nics[0].info.rate_mbps = lab.nics[1].info.rate_mbps = 400000;
	map = give_map(&lab);
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake1");
	lab.nics[1].info.rate_mbps = 25000;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	lab.nics[1].info.rate_mbps = 0;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	/* For a NIC that is down it gives no reason either. */
	lab.nics[0].info.state = NIC_PORT_DOWN;
	lab.nics[0].info.rate_mbps = 10000;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake1");
	lab.nics[0].info.state = NIC_PORT_ACTIVE;
	lab.nics[0].info.rate_mbps = 400000;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	lab.nics[1].info.rate_mbps = 400000;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake1");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

static void tell_port(struct lab *lab, unsigned int nic, enum nic_port_state state, uint64_t rate_mbps)
{
	const struct nic_event event = {.kind = NIC_EVENT_PORT_STATE, .state = state};

	lab->nics[nic].info.state = state;
	lab->nics[nic].info.rate_mbps = rate_mbps;
	registry_event(&lab->registry, &lab->registry.nics[nic], &event);
}

/* NICs that take their time with an answer: a port is up before its rate is known. */
TEST(a_rate_that_was_asked_while_the_port_was_down_counts_no_more)
{
	struct node_map *map;
	struct lab lab;

	lab_init_blocking(&lab, 10);
	lab.registry.nics[0].info.rate_mbps = lab.registry.nics[1].info.rate_mbps = 400000;
	map = give_map(&lab);
	tell_port(&lab, 1, NIC_PORT_DOWN, 10000);
	lab_work(&lab);
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	tell_port(&lab, 1, NIC_PORT_ACTIVE, 25000);
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake1");
	lab_work(&lab);
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	lab_work(&lab);
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

TEST(nic_of_one_gpu_alone_comes_last_for_others)
{
	char text[] = "<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/><function pci=\"11:00.0\" class=\"0207\">"
		      "<nic name=\"fake0\" port=\"1\" role=\"storage\"/></function><function pci=\"12:00.0\" class=\"0207\">"
		      "<nic name=\"fake1\" port=\"1\"/></function></host></shmemd-topology>";
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	struct lab lab;

	ASSERT(policy);
	lab_init(&lab, 10);
	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, &lab.registry, false, &map));
	lab.registry.node_map = map;
	ASSERT_OK(topo_policy_set(policy, "gpu-nic-map", "0:fake0:1", why));
	ASSERT_OK(node_map_check_policy(map, policy, why));
	node_map_set_policy(map, policy);
	lab.registry.nics[1].n_sessions = 9;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* ---- the policy --------------------------------------------------------------------------------------------------- */

static void set_policy(struct node_map *map, const char *key, const char *value)
{
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];

	ASSERT(policy);
	ASSERT_OK(topo_policy_set(policy, key, value, why));
	ASSERT_OK(node_map_check_policy(map, policy, why));
	node_map_set_policy(map, policy);
}

TEST(nics_that_the_policy_sets_aside_are_not_assigned)
{
	const struct assign_request request = {.gpu = "", .nic = "fake1"};
	/* One of the registry's that is none of the map's is known by its name and its address. */
	const struct registry_nic apart = {.index = 9, .info = {.name = "apart", .pci = "0000:77:00.0", .port = 1}};
	struct registry_nic *rnic;
	struct node_map *map;
	char reason[128];
	struct lab lab;

	lab_init(&lab, 10);
	map = give_map(&lab);
	ASSERT(node_map_allows(map, &apart));
	set_policy(map, "nics-exclude", "fake1=storage, apart:1");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "0000:77:00.0", "", 0), "fake0");
	lab.registry.nics[0].n_sessions = 9;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake0");
	ASSERT_EQ(assign_nic(&lab.registry, &request, reason, sizeof(reason), &rnic), -EPERM);
	ASSERT(!node_map_allows(map, &apart));
	/* A GPU that had it before the policy gets another. */
	set_policy(map, "nics-include", "fake1");
	ASSERT(!node_map_allows(map, &apart));
	ASSERT_STREQ(assign(&lab, "0000:77:00.0", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "0000:02:00.0", "", 0), "fake1");
	set_policy(map, "nics-include", "fake1, 77:00.0");
	ASSERT(node_map_allows(map, &apart));
	node_map_set_policy(map, NULL);
	ASSERT_STREQ(assign(&lab, "0000:02:00.0", "", 0), "fake0");
	ASSERT(node_map_allows(map, &apart));
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* The daemon drives a NIC that the map has not, as one that came when the machine could not be read. */
TEST(a_nic_that_the_map_has_not_is_set_aside_by_its_address)
{
	struct node_map *map;
	struct lab lab;

	lab_init(&lab, 10);
	map = give_map(&lab);
	snprintf(lab.nics[0].info.name, sizeof(lab.nics[0].info.name), "late");
	snprintf(lab.nics[0].info.pci, sizeof(lab.nics[0].info.pci), "0000:78:00.0");
	lab.registry.nics[0].info = lab.nics[0].info;
	node_map_take_nics(map);
	lab.registry.nics[1].n_sessions = 9;
	ASSERT_STREQ(assign(&lab, "", "", 0), "late");
	set_policy(map, "nics-exclude", "78:00.0");
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "0000:77:00.0", "", 0), "fake1");
	set_policy(map, "nics-include", "fake1");
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	set_policy(map, "nics-include", "fake1, 78:00.0");
	ASSERT_STREQ(assign(&lab, "", "", 0), "late");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

TEST(a_map_is_followed_and_refused_as_ports_are_now)
{
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];
	struct node_map *map;
	struct lab lab;

	ASSERT(policy);
	lab_init(&lab, 10);
	map = give_map(&lab);
	set_policy(map, "gpu-nic-map", "0:fake0:1");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	lab.nics[0].info.state = NIC_PORT_DOWN;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake1");
	ASSERT_OK(topo_policy_set(policy, "gpu-nic-map", "0:fake0:1", why));
	ASSERT_EQ(node_map_check_policy(map, policy, why), -ENETDOWN);
	ASSERT_STREQ(why, "gpu-nic-map: fake0:1 cannot be used: its port is down; valid NICs: fake1:1");
	/* The machine has it, the daemon has not. */
	ASSERT_OK(topo_policy_set(policy, "gpu-nic-map", "0:stranger:1", why));
	ASSERT_EQ(node_map_check_policy(map, policy, why), -EINVAL);
	ASSERT_STREQ(why, "gpu-nic-map: stranger:1 cannot be used: the daemon does not drive it; valid NICs: fake1:1");
	lab.nics[0].info.state = NIC_PORT_ACTIVE;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	/* Without a map of the node there is nothing to hold it against. */
	ASSERT_EQ(node_map_check_policy(NULL, policy, why), -EINVAL);
	ASSERT_OK(topo_policy_set(policy, "gpu-nic-map", "", why));
	ASSERT_OK(node_map_check_policy(NULL, policy, why));
	node_map_set_policy(NULL, policy);
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* The registry has "two:1" and "two:2" for what the machine calls ports 1 and 2 of "two". */
TEST(ports_of_one_device_are_found_and_set_aside)
{
	char text[] = "<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/>"
		      "<function pci=\"11:00.0\" class=\"0207\"><nic name=\"two\" port=\"1\"/><nic name=\"two\" port=\"2\"/></function>"
		      "</host></shmemd-topology>";
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];
	struct lab lab;

	lab_init(&lab, 10);
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(lab.registry.nics[i].info.name, sizeof(lab.registry.nics[i].info.name), "two:%u", i + 1);
		lab.registry.nics[i].info.port = (uint8_t)(i + 1);
		lab.nics[i].info = lab.registry.nics[i].info;
	}
	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, &lab.registry, false, &map));
	lab.registry.node_map = map;
	ASSERT_EQ(node_map_nics(map, "0000:01:00.0"), 3);
	set_policy(map, "gpu-nic-map", "0:two:2");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "two:2");
	set_policy(map, "nics-exclude", "two:1");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "two:2");
	ASSERT(!node_map_allows(map, &lab.registry.nics[0]) && node_map_allows(map, &lab.registry.nics[1]));
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* The machine has a NIC for storage that the daemon has not, and the map names it. */
TEST(a_nic_that_the_daemon_does_not_have_is_not_assigned)
{
	char text[] = "<shmemd-topology version=\"1\"><host><function pci=\"01:00.0\" class=\"0302\"/>"
		      "<function pci=\"11:00.0\" class=\"0207\"><nic name=\"fake0\" port=\"1\"/></function>"
		      "<function pci=\"12:00.0\" class=\"0207\"><nic name=\"gone\" port=\"1\" role=\"storage\"/></function>"
		      "</host></shmemd-topology>";
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	char why[TOPO_POLICY_WHY_BYTES];
	struct lab lab;

	ASSERT(policy);
	lab_init(&lab, 10);
	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, &lab.registry, false, &map));
	lab.registry.node_map = map;
	ASSERT_OK(topo_policy_set(policy, "gpu-nic-map", "0:gone:1:9", why));
	/* As a daemon with sessions does. */
	ASSERT_EQ(node_map_check_policy(map, policy, why), -EINVAL);
	node_map_set_policy(map, policy);
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	ASSERT_EQ(node_map_nics(map, "0000:01:00.0"), 1);
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

TEST(weights_divide_what_is_opened)
{
	unsigned int n_heavy = 0;
	struct node_map *map;
	struct lab lab;

	lab_init(&lab, 10);
	map = give_map(&lab);
	set_policy(map, "gpu-nic-map", "0:fake0:1:1,0:fake1:1:3");
	for (unsigned int i = 0; i < 40; i++) {
		bool is_heavy = !strcmp(assign(&lab, "0000:01:00.0", "", 0), "fake1");

		ASSERT(i > 0 || is_heavy);
		n_heavy += is_heavy;
		lab.registry.nics[is_heavy].n_sessions++;
	}
	ASSERT_EQ(n_heavy, 30);
	/* One that the session has is not given to it again. */
	lab.registry.nics[0].n_sessions = 100;
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 2), "fake0");
	/* Without weights the first one is the default, however much it has. */
	set_policy(map, "gpu-nic-map", "0:fake0:1,0:fake1:1");
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}

/* A client that lists all of them may be the first to see that a port has changed. */
TEST(all_nics_of_a_gpu_are_those_of_the_policy_also_after_a_port_changed)
{
	struct node_map *map;
	struct lab lab;

	lab_init(&lab, 10);
	map = give_map(&lab);
	ASSERT_EQ(node_map_nics(map, "0000:01:00.0"), 2);
	ASSERT_EQ(node_map_nics(map, "0000:77:00.0"), 0);
	ASSERT_EQ(node_map_nics(NULL, "0000:01:00.0"), 0);
	set_policy(map, "nics-exclude", "fake1");
	ASSERT_EQ(node_map_nics(map, "0000:01:00.0"), 1);
	lab.registry.nics[0].info.state = NIC_PORT_DOWN;
	ASSERT_EQ(node_map_nics(map, "0000:01:00.0"), 0);
	lab.registry.nics[0].info.state = NIC_PORT_ACTIVE;
	ASSERT_EQ(node_map_nics(map, "0000:01:00.0"), 1);
	ASSERT_STREQ(assign(&lab, "0000:01:00.0", "", 0), "fake0");
	set_policy(map, "gpu-nic-map", "0:fake0:1,0:fake1:1");
	ASSERT_EQ(node_map_nics(map, "0000:01:00.0"), 3);
	lab.registry.node_map = node_map_free(map);
	lab_deinit(&lab);
}
