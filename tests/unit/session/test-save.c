/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that outlive their daemon: their saved state, and what a later daemon makes of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/session/save-scene.h"

/* A region of the client's own making, whose reason is listed. */
static void reg_peermem(struct pair *pair)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_PEERMEM, .access = 0xf, .length_bytes = 4096, .kernel_handle = 4, .reason = "no dmabuf"};
	raw_expect(&pair->raw, &req, NULL, 0, MSG_MEM_REG_REP, &rep);
}

/* ---- what an administrator sees ------------------------------------------------------------------------------------ */

struct view {
	struct msg_session_item session;
	unsigned int n_qps, n_mrs, n_pes;
	struct msg_pe_item pes[4];
	unsigned int n_paths;
	struct msg_path_item paths[8];
	struct msg_qp_item qps[16];
	struct msg_mr_item mrs[16];
	struct quota_amount total;
	uint32_t n_nic_sessions[2], n_nic_qps[2];
};

static void look(struct save_scene *s, struct view *view)
{
	struct pair admin;
	struct msg rep;

	memset(view, 0, sizeof(*view));
	view->total = s->k.lab.registry.quota.total;
	pair_init_hello(&admin, &s->k.lab, MSG_ROLE_CONTROL);
	save_scene_list(&admin, MSG_LIST_SESSIONS, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	view->session = rep.list_rep.sessions[0];
	ASSERT_GT(view->session.age_nsec, 0);
	view->session.age_nsec = 0;
	msg_deinit(&rep);
	save_scene_list(&admin, MSG_LIST_QPS, &rep);
	view->n_qps = rep.list_rep.n_qps;
	if (view->n_qps > 0)
		memcpy(view->qps, rep.list_rep.qps, view->n_qps * sizeof(view->qps[0]));
	msg_deinit(&rep);
	save_scene_list(&admin, MSG_LIST_MRS, &rep);
	view->n_mrs = rep.list_rep.n_mrs;
	if (view->n_mrs > 0)
		memcpy(view->mrs, rep.list_rep.mrs, view->n_mrs * sizeof(view->mrs[0]));
	msg_deinit(&rep);
	save_scene_list(&admin, MSG_LIST_PES, &rep);
	view->n_pes = rep.list_rep.n_pes;
	if (view->n_pes > 0)
		memcpy(view->pes, rep.list_rep.pes, view->n_pes * sizeof(view->pes[0]));
	msg_deinit(&rep);
	save_scene_list(&admin, MSG_LIST_PATHS, &rep);
	view->n_paths = rep.list_rep.n_paths;
	if (view->n_paths > 0)
		memcpy(view->paths, rep.list_rep.paths, view->n_paths * sizeof(view->paths[0]));
	msg_deinit(&rep);
	pair_deinit(&admin);
	for (int i = 0; i < 2; i++) {
		view->n_nic_sessions[i] = s->k.lab.registry.nics[i].n_sessions;
		view->n_nic_qps[i] = s->k.lab.registry.nics[i].n_qps;
	}
}

static void assert_same(const struct view *a, const struct view *b)
{
	ASSERT_EQ(memcmp(&a->session, &b->session, sizeof(a->session)), 0);
	ASSERT_EQ(a->n_qps, b->n_qps);
	ASSERT_EQ(a->n_mrs, b->n_mrs);
	ASSERT_EQ(a->n_pes, b->n_pes);
	ASSERT_EQ(memcmp(a->pes, b->pes, sizeof(a->pes)), 0);
	ASSERT_EQ(a->n_paths, b->n_paths);
	ASSERT_EQ(memcmp(a->paths, b->paths, sizeof(a->paths)), 0);
	ASSERT_EQ(memcmp(a->qps, b->qps, sizeof(a->qps)), 0);
	ASSERT_EQ(memcmp(a->mrs, b->mrs, sizeof(a->mrs)), 0);
	ASSERT_EQ(memcmp(&a->total, &b->total, sizeof(a->total)), 0);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(a->n_nic_sessions[i], b->n_nic_sessions[i]);
		ASSERT_EQ(a->n_nic_qps[i], b->n_nic_qps[i]);
	}
}

TEST(region_that_a_client_made_and_its_reason_go_on)
{
	struct view before, after;
	struct save_scene s;

	save_lab_init(&s.k, 100);
	s.k.lab.nics[1].has_uar = s.k.lab.nics[1].info.doorbell_uar_mmap = true;
	s.k.lab.nics[1].info.accepted_kinds[1] = NIC_MEM_PEERMEM;
	registry_refresh_nic(&s.k.lab.registry.nics[1]);
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	raw_open_nic(&s.a.raw, "fake1");
	reg_peermem(&s.a);
	look(&s, &before);
	ASSERT_EQ(before.n_mrs, 1);
	ASSERT_EQ(before.mrs[0].kind, MSG_MEM_PEERMEM);
	ASSERT_STREQ(before.mrs[0].reason, "no dmabuf");
	save_scene_restart(&s);
	save_scene_adopt(&s);
	look(&s, &after);
	assert_same(&before, &after);
	save_scene_deinit(&s);
}

static void report_pe(struct save_scene *s, uint64_t world, bool ends)
{
	struct msg req, rep;

	msg_init(&req, MSG_PE_REPORT_REQ, 0);
	req.pe_report_req = (struct msg_pe_report_req){.world = world, .pe = 2, .ends = ends, .n_pes = 8, .node = 1, .node_pe = 1,
						       .heap_bytes = 4096, .n_mapped = 3, .n_rc = 2, .n_dc = 1, .reason = "another node",
						       .has_gpu = true, .gpu = {.gpu = "0000:17:00.0", .heap_bytes = 9, .used_bytes = 8, .n_chunks = 7,
							       .n_mapped = 6, .mem_kind = MSG_MEM_AGENT, .bytes_put = 5, .bytes_got = 4}};
	req.pe_report_req.n_ways = 2;
	req.pe_report_req.ways[0] = (struct msg_pe_way){.path = MSG_PE_PATH_MAPPED};
	req.pe_report_req.ways[1] = (struct msg_pe_way){.path = MSG_PE_PATH_DC, .nic = "soft1", .reason = "another node"};
	req.pe_report_req.n_runs = 3;
	req.pe_report_req.runs[0] = (struct msg_pe_run){.first = 0, .last = 1};
	req.pe_report_req.runs[1] = (struct msg_pe_run){.first = 3, .last = 6, .way = 1};
	req.pe_report_req.runs[2] = (struct msg_pe_run){.first = 7, .last = 7};
	raw_expect(&s->a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

TEST(pes_that_a_client_reported_go_on_and_those_that_ended_do_not)
{
	struct view before, after;
	struct save_scene s;

	save_scene_init(&s, 100);
	for (uint64_t world = 1; world <= 3; world++)
		report_pe(&s, world, false);
	report_pe(&s, 2, true);
	look(&s, &before);
	ASSERT_EQ(before.n_pes, 2);
	ASSERT_EQ(before.pes[1].world, 3);
	ASSERT_STREQ(before.pes[1].reason, "another node");
	ASSERT_EQ(before.n_paths, 6);
	ASSERT_STREQ(before.paths[4].nic, "soft1");
	save_scene_restart(&s);
	save_scene_adopt(&s);
	look(&s, &after);
	assert_same(&before, &after);
	report_pe(&s, 3, true);
	look(&s, &before);
	ASSERT_EQ(before.n_pes, 1);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	look(&s, &after);
	assert_same(&before, &after);
	save_scene_deinit(&s);
}

TEST(session_goes_on_as_it_was)
{
	struct view before, after;
	struct msg req, rep;
	struct save_scene s;
	uint32_t mr;

	save_scene_init(&s, 100);
	look(&s, &before);
	ASSERT_EQ(before.n_qps, 2);
	ASSERT_EQ(before.n_mrs, 1);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	look(&s, &after);
	assert_same(&before, &after);
	ASSERT_STREQ(s.a.session->nics[0]->gpu, "");
	ASSERT_STREQ(s.a.session->nics[1]->gpu, GPU);

	/* The client knows its handles, and gets others than those for what is new. */
	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = s.mr;
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	raw_expect_error(&s.a.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	mr = raw_reg(&s.a.raw, 4096);
	ASSERT_NE(mr, s.mr);
	ASSERT_NE(mr, s.queues);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = s.queues;
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	msg_init(&req, MSG_FETCH_REQ, 0);
	req.fetch_req.slot = 1;
	req.fetch_req.world[3] = 7;
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_FETCH_REP, &rep);
	ASSERT_EQ(rep.fetch_rep.data_bytes, 5);
	ASSERT(rep.fetch_rep.has_fd);
	save_scene_deinit(&s);
}

static uint32_t memory_of(const struct save_scene *s, uint32_t handle)
{
	struct resource *head = resource_find(&s->a.session->resources, handle, RESOURCE_MR);

	ASSERT(head);
	return container_of(head, struct session_mr, head)->memory;
}

TEST(names_go_with_what_they_are_for)
{
	struct msg req, rep;
	struct save_scene s;
	char name[64];

	save_scene_init(&s, 100);
	/* fake1's contexts do not need the memory, only the page. */
	ASSERT(save_lab_has(&s.k, "s1-c0.0") && save_lab_has(&s.k, "s1-c1.0") && !save_lab_has(&s.k, "s1-c2.0"));
	ASSERT_EQ(s.id, 1);
	snprintf(name, sizeof(name), "s1-m%x", memory_of(&s, s.mr));
	ASSERT(save_lab_has(&s.k, name));
	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = s.mr;
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT(!save_lab_has(&s.k, name));
	snprintf(name, sizeof(name), "s1-q%x", s.queues);
	ASSERT(save_lab_has(&s.k, name));
	ASSERT(save_lab_has(&s.k, "s1-p1"));
	msg_init(&req, MSG_UNPUBLISH_REQ, 0);
	req.unpublish_req.slot = 1;
	req.unpublish_req.world[3] = 7;
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT(!save_lab_has(&s.k, "s1-p1"));
	save_scene_deinit(&s);
}

/*
 * An import may have found objects destroyed, whose numbers are others' soon: the first change writes all parts anew, and no adoption
 * does, since the one after it must find a request that was cut.
 */
TEST(first_change_of_the_next_daemon_writes_all_parts_anew)
{
	const struct fake_nic *nic;
	unsigned int n;
	struct save_scene s;

	save_scene_init(&s, 100);
	nic = &s.k.lab.nics[0];
	n = nic->n_exports;
	raw_reg(&s.a.raw, 4096);
	ASSERT_EQ(nic->n_exports, n + 1);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	ASSERT_EQ(nic->n_exports, 0);
	raw_reg(&s.a.raw, 4096);
	/* Two regions and a batch of before. */
	ASSERT_GE(nic->n_exports, 1 + 3);
	n = nic->n_exports;
	raw_reg(&s.a.raw, 4096);
	ASSERT_EQ(nic->n_exports, n + 1);
	save_scene_deinit(&s);
}

/* ---- memory that several regions are of ---------------------------------------------------------------------------- */

static uint32_t reg_fd(struct save_scene *s, int fd, uint32_t access)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .access = access, .length_bytes = 4096};
	raw_expect(&s->a.raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	return rep.mem_reg_rep.mr;
}

static void dereg(struct save_scene *s, uint32_t handle)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = handle;
	raw_expect(&s->a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

/* The name goes with the last of them, whichever daemon they were made by. */
TEST(regions_of_one_memory_have_one_name)
{
	uint32_t regions[3], other, read_only;
	int fd = raw_memfd(8192), another = raw_memfd(8192), reader;
	struct save_scene s;
	char path[32], name[SAVE_NAME_BYTES];
	unsigned int n;

	save_scene_init(&s, 100);
	n = save_lab_count(&s.k);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(reader, 0);
	for (unsigned int i = 0; i < 3; i++)
		regions[i] = reg_fd(&s, fd, 0xf);
	ASSERT_EQ(save_lab_count(&s.k), n + 1);
	/* A read-only descriptor does not stand in for one that writes, nor does other memory of the same size. */
	read_only = reg_fd(&s, reader, NIC_ACCESS_REMOTE_READ);
	other = reg_fd(&s, another, 0xf);
	ASSERT_EQ(save_lab_count(&s.k), n + 3);
	dereg(&s, regions[0]);
	ASSERT_EQ(save_lab_count(&s.k), n + 3);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	ASSERT_EQ(memory_of(&s, regions[1]), memory_of(&s, regions[2]));
	snprintf(name, sizeof(name), "s1-m%x", memory_of(&s, regions[1]));
	regions[0] = reg_fd(&s, fd, 0xf);
	ASSERT_EQ(memory_of(&s, regions[0]), memory_of(&s, regions[1]));
	ASSERT_NE(memory_of(&s, read_only), memory_of(&s, regions[1]));
	ASSERT_EQ(save_lab_count(&s.k), n + 3);
	dereg(&s, regions[1]);
	dereg(&s, other);
	dereg(&s, regions[2]);
	ASSERT(save_lab_has(&s.k, name));
	dereg(&s, regions[0]);
	ASSERT(!save_lab_has(&s.k, name));
	dereg(&s, read_only);
	ASSERT_EQ(save_lab_count(&s.k), n);
	close(fd);
	close(another);
	close(reader);
	save_scene_deinit(&s);
}

/* ---- NICs ---------------------------------------------------------------------------------------------------------- */

static void set_devices(struct save_lab *k, const char *first, const char *second)
{
	for (unsigned int i = 0; i < 2; i++) {
		k->lab.nics[i].info.guid = 0x1000 + i;
		k->lab.nics[i].info.port = 1;
		snprintf(k->lab.nics[i].info.name, NIC_NAME_BYTES, "%s", i == 0 ? first : second);
		registry_refresh_nic(&k->lab.registry.nics[i]);
	}
}

/* The kernel may count devices in another order, so that names are others' by now. */
TEST(session_follows_a_nic_that_was_renamed)
{
	struct registry_nic *nics;
	struct save_scene s;

	s.k.blocks = false;
	save_lab_init(&s.k, 100);
	nics = s.k.lab.registry.nics;
	set_devices(&s.k, "fake0", "fake1");
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	raw_open_nic(&s.a.raw, "fake0");
	save_scene_restart(&s);
	set_devices(&s.k, "fake1", "fake0");
	save_scene_adopt(&s);
	ASSERT_EQ(s.a.session->nics[0]->rnic, &nics[0]);
	ASSERT_STREQ(s.a.session->nics[0]->rnic->info.name, "fake1");
	save_scene_restart(&s);
	/* Another one by that name is not it. */
	nics[0].info.guid = nics[1].info.guid = 0x2000;
	ASSERT_ERR(save_lab_adopt(&s.k, s.id, &s.a.session), ENODEV);
	save_lab_let_go(&s.k, s.id);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
}
