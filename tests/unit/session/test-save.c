/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that outlive their daemon: their saved state, and what a later daemon makes of it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/restart/state.h"
#include "tests/unit/session/save-lab.h"
#include "tests/lib/test.h"

#define GPU "0000:3b:00.0"

/* A client with something of each kind. */
struct scene {
	struct save_lab k;
	struct pair a;
	uint64_t id;
	uint32_t mr, queues, qpn;
};

static void publish(struct pair *pair, uint32_t slot, int fd)
{
	struct msg req, rep;

	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.key.slot = slot;
	req.publish_req.key.world[3] = 7;
	req.publish_req.has_fd = fd >= 0;
	req.publish_req.data_bytes = 5;
	memcpy(req.publish_req.data, "hello", 5);
	raw_expect(&pair->raw, &req, &fd, fd >= 0, MSG_OK_REP, &rep);
}

static void connect_qp(struct pair *pair, uint32_t qpn, const struct msg_qp_info *to)
{
	struct msg req, rep;

	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.peers = calloc(1, sizeof(*req.connect_req.peers));
	req.connect_req.n_peers = 1;
	req.connect_req.peers[0] = (struct msg_peer){.qpn = qpn, .addr_bytes = to->addr_bytes};
	memcpy(req.connect_req.peers[0].addr, to->addr, to->addr_bytes);
	raw_expect(&pair->raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.n_done, 1);
	msg_deinit(&req);
}

/* A region of the client's own making, whose reason is listed. */
static void reg_peermem(struct pair *pair)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_PEERMEM, .access = 0xf, .length_bytes = 4096, .kernel_handle = 4, .reason = "no dmabuf"};
	raw_expect(&pair->raw, &req, NULL, 0, MSG_MEM_REG_REP, &rep);
}

/* By name, and for a GPU: what should carry its load depends on that. */
static void open_for_gpu(struct pair *pair, const char *nic)
{
	struct msg req, rep;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", nic);
	snprintf(req.nic_open_req.gpu, sizeof(req.nic_open_req.gpu), GPU);
	raw_expect(&pair->raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
}

static void scene_init(struct scene *s, uint64_t limit)
{
	struct msg rep;
	int fd;

	s->k.blocks = false;
	save_lab_init(&s->k, limit);
	save_lab_hello(&s->a, &s->k);
	s->id = s->a.session->id;
	raw_open_nic(&s->a.raw, "fake0");
	open_for_gpu(&s->a, "fake1");
	s->mr = raw_reg(&s->a.raw, 8192);
	raw_create_queues(&s->a.raw, 2, &rep);
	s->queues = rep.queue_create_rep.queues;
	s->qpn = rep.queue_create_rep.qps[0].qpn;
	connect_qp(&s->a, s->qpn, &rep.queue_create_rep.qps[1]);
	msg_deinit(&rep);
	fd = raw_memfd(4096);
	publish(&s->a, 1, fd);
	publish(&s->a, 2, -1);
	close(fd);
}

static void adopt(struct scene *s)
{
	ASSERT_OK(save_lab_adopt(&s->k, s->id, &s->a.session));
	s->a.session->owner = &s->a;
}

static void restart(struct scene *s)
{
	struct pair *pairs[] = {&s->a};

	save_lab_restart(&s->k, pairs, 1);
}

static void scene_deinit(struct scene *s)
{
	pair_deinit(&s->a);
	save_lab_deinit(&s->k);
}

/* ---- what an administrator sees ------------------------------------------------------------------------------------ */

struct view {
	struct msg_session_item session;
	unsigned int n_qps, n_mrs;
	struct msg_qp_item qps[16];
	struct msg_mr_item mrs[16];
	struct quota_amount total;
	uint32_t n_nic_sessions[2], n_nic_qps[2];
};

static void ask_list(struct pair *admin, enum msg_list_what what, struct msg *rep)
{
	struct msg req;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = what;
	raw_expect(&admin->raw, &req, NULL, 0, MSG_LIST_REP, rep);
}

static void look(struct scene *s, struct view *view)
{
	struct pair admin;
	struct msg rep;

	memset(view, 0, sizeof(*view));
	view->total = s->k.lab.registry.quota.total;
	pair_init_hello(&admin, &s->k.lab, MSG_ROLE_CONTROL);
	ask_list(&admin, MSG_LIST_SESSIONS, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	view->session = rep.list_rep.sessions[0];
	ASSERT_GT(view->session.age_nsec, 0);
	view->session.age_nsec = 0;
	msg_deinit(&rep);
	ask_list(&admin, MSG_LIST_QPS, &rep);
	view->n_qps = rep.list_rep.n_qps;
	if (view->n_qps > 0)
		memcpy(view->qps, rep.list_rep.qps, view->n_qps * sizeof(view->qps[0]));
	msg_deinit(&rep);
	ask_list(&admin, MSG_LIST_MRS, &rep);
	view->n_mrs = rep.list_rep.n_mrs;
	if (view->n_mrs > 0)
		memcpy(view->mrs, rep.list_rep.mrs, view->n_mrs * sizeof(view->mrs[0]));
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
	struct scene s;

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
	restart(&s);
	adopt(&s);
	look(&s, &after);
	assert_same(&before, &after);
	scene_deinit(&s);
}

TEST(session_goes_on_as_it_was)
{
	struct view before, after;
	struct msg req, rep;
	struct scene s;
	uint32_t mr;

	scene_init(&s, 100);
	look(&s, &before);
	ASSERT_EQ(before.n_qps, 2);
	ASSERT_EQ(before.n_mrs, 1);
	restart(&s);
	adopt(&s);
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
	scene_deinit(&s);
}

static uint32_t memory_of(const struct scene *s, uint32_t handle)
{
	struct resource *head = resource_find(&s->a.session->resources, handle, RESOURCE_MR);

	ASSERT(head);
	return container_of(head, struct session_mr, head)->memory;
}

TEST(names_go_with_what_they_are_for)
{
	struct msg req, rep;
	struct scene s;
	char name[64];

	scene_init(&s, 100);
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
	scene_deinit(&s);
}

/*
 * An import may have found objects destroyed, whose numbers are others' soon: the first change writes all parts anew, and no adoption
 * does, since the one after it must find a request that was cut.
 */
TEST(first_change_of_the_next_daemon_writes_all_parts_anew)
{
	const struct fake_nic *nic;
	unsigned int n;
	struct scene s;

	scene_init(&s, 100);
	nic = &s.k.lab.nics[0];
	n = nic->n_exports;
	raw_reg(&s.a.raw, 4096);
	ASSERT_EQ(nic->n_exports, n + 1);
	restart(&s);
	adopt(&s);
	ASSERT_EQ(nic->n_exports, 0);
	raw_reg(&s.a.raw, 4096);
	/* Two regions and a batch of before. */
	ASSERT_GE(nic->n_exports, 1 + 3);
	n = nic->n_exports;
	raw_reg(&s.a.raw, 4096);
	ASSERT_EQ(nic->n_exports, n + 1);
	scene_deinit(&s);
}

/* ---- memory that several regions are of -------------------------------------------------------------------------------- */

static uint32_t reg_fd(struct scene *s, int fd, uint32_t access)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .access = access, .length_bytes = 4096};
	raw_expect(&s->a.raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	return rep.mem_reg_rep.mr;
}

static void dereg(struct scene *s, uint32_t handle)
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
	struct scene s;
	char path[32], name[SAVE_NAME_BYTES];
	unsigned int n;

	scene_init(&s, 100);
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
	restart(&s);
	adopt(&s);
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
	scene_deinit(&s);
}

/* ---- what no daemon has written ------------------------------------------------------------------------------------- */

/* Adopted or not: nothing is left of it in the end, and nothing breaks. */
static bool try_bytes(struct scene *s, const void *bytes, size_t n)
{
	struct session *session = NULL;
	int r = save_lab_adopt_bytes(&s->k, s->id, bytes, n, &session);

	if (r == 0)
		session_free(session);
	return r == 0;
}

/* Each in a process of its own would take long: the store is copied instead, and what a try leaves of it is dropped. */
static void reset(struct scene *s, const struct save_lab *saved)
{
	s->k.n = saved->n;
	memcpy(s->k.kept, saved->kept, sizeof(saved->kept));
	for (unsigned int i = 0; i < s->k.n; i++) {
		s->k.kept[i].fd = dup(saved->kept[i].fd);
		s->k.kept[i].claimed = true;
	}
}

/* A strange state may say that the client has unread descriptors: the daemon then waits until the client has read everything. */
static void read_all(const struct scene *s)
{
	char buf[4096];

	while (recv(s->a.raw.sock, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		continue;
}

static void forget(struct scene *s)
{
	save_lab_let_go(&s->k, s->id);
	read_all(s);
	lab_assert_empty(&s->k.lab);
	if (save_lab_has(&s->k, SAVE_REGISTRY))
		s->k.lab.registry.attr.store->remove(&s->k, SAVE_REGISTRY);
	ASSERT_EQ(s->k.n, 0);
}

static void try_all(void (*spoil)(uint8_t *bytes, size_t *n, size_t i), size_t step, bool may_pass)
{
	struct save_lab *saved = calloc(1, sizeof(*saved));
	uint8_t *bytes, *spoilt;
	struct scene s;
	size_t n;

	scene_init(&s, 100);
	restart(&s);
	bytes = save_lab_state(&s.k, s.id, &n);
	*saved = s.k;
	for (size_t i = 0; i < n; i += step) {
		size_t m = n;

		spoilt = malloc(n);
		memcpy(spoilt, bytes, n);
		spoil(spoilt, &m, i);
		reset(&s, saved);
		ASSERT(!try_bytes(&s, spoilt, m) || may_pass);
		forget(&s);
		free(spoilt);
	}
	for (unsigned int i = 0; i < saved->n; i++)
		close(saved->kept[i].fd);
	free(bytes);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
	free(saved);
}

static void cut(uint8_t *bytes, size_t *n, size_t i)
{
	*n = i;
}

static void flip(uint8_t *bytes, size_t *n, size_t i)
{
	bytes[i] ^= (uint8_t)(1u << (i % 8));
}

static void fill(uint8_t *bytes, size_t *n, size_t i)
{
	memset(bytes + i, 0xff, *n - i < 4 ? *n - i : 4);
}

TEST_TIMEOUT(state_that_was_cut_is_refused, 60)
{
	try_all(cut, test_is_full() ? 1 : 97, false);
}

TEST_TIMEOUT(strange_state_breaks_nothing, 60)
{
	try_all(flip, test_is_full() ? 1 : 61, true);
	try_all(fill, test_is_full() ? 3 : 67, true);
}

/* Descriptors that are gone, one at a time. */
TEST(session_without_a_descriptor_is_refused)
{
	struct save_lab *saved = calloc(1, sizeof(*saved));
	uint8_t *bytes;
	struct scene s;
	size_t n;

	scene_init(&s, 100);
	restart(&s);
	bytes = save_lab_state(&s.k, s.id, &n);
	*saved = s.k;
	for (unsigned int i = 0; i < saved->n; i++) {
		if (strstr(saved->kept[i].name, "state"))
			continue;
		reset(&s, saved);
		s.k.lab.registry.attr.store->remove(&s.k, saved->kept[i].name);
		/* A batch of a NIC that does not need it is only not to be read. */
		ASSERT(!try_bytes(&s, bytes, n));
		forget(&s);
	}
	for (unsigned int i = 0; i < saved->n; i++)
		close(saved->kept[i].fd);
	free(bytes);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
	free(saved);
}

enum hindrance { NIC_REFUSES, NIC_MISSING, STATE_CUT };

static int adopt_with(struct scene *s, enum hindrance what)
{
	struct session *session;
	size_t n;
	void *state = save_lab_state(&s->k, s->id, &n);
	int r;

	if (what == NIC_REFUSES) {
		s->k.lab.nics[1].fail_at = s->k.lab.nics[1].n_calls + 1;
		s->k.lab.nics[1].fail_err = -ENOENT;
	}
	if (what == NIC_MISSING)
		snprintf(s->k.lab.registry.nics[1].info.name, NIC_NAME_BYTES, "other");
	r = save_lab_adopt_bytes(&s->k, s->id, state, what == STATE_CUT ? n - 1 : n, &session);
	free(state);
	return r;
}

static void cannot_go_on(enum hindrance what)
{
	struct shmd_health_page *page;
	struct scene s;

	scene_init(&s, 100);
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, s.a.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	restart(&s);
	ASSERT_EQ(page->session, SHMD_HEALTH_OK);
	ASSERT_NE(adopt_with(&s, what), 0);
	raw_expect_end(&s.a.raw, SHMD_STATUS_INTERNAL);
	/* Kernels that read no socket see it as well. */
	ASSERT_EQ(page->session, SHMD_HEALTH_SESSION_ENDED);
	munmap(page, sizeof(*page));
	save_lab_let_go(&s.k, s.id);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
}

TEST(client_of_a_session_that_cannot_go_on_is_told)
{
	cannot_go_on(NIC_REFUSES);
	cannot_go_on(NIC_MISSING);
	cannot_go_on(STATE_CUT);
}

TEST(session_that_had_ended_is_only_torn_down)
{
	struct session *session;
	struct scene s;
	void *bytes;
	size_t n;

	scene_init(&s, 100);
	session_end(s.a.session, SHMD_STATUS_KILLED, "a test ended it");
	restart(&s);
	bytes = save_lab_state(&s.k, s.id, &n);
	ASSERT_OK(save_lab_adopt_bytes(&s.k, s.id, bytes, n, &session));
	ASSERT(session->ended);
	ASSERT_EQ(s.k.lab.nics[0].n_queues, 1);
	session_free(session);
	free(bytes);
	/* Its published entries belong to nobody. */
	ASSERT(save_lab_has(&s.k, "s1-p1"));
	save_lab_let_go(&s.k, s.id);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
}

/* ---- what cannot be saved -------------------------------------------------------------------------------------------- */

/* The only session as an administrator sees it. */
static void expect_unkept(struct save_lab *k, const char *why)
{
	struct pair admin;
	struct msg rep;

	pair_init_hello(&admin, &k->lab, MSG_ROLE_CONTROL);
	ask_list(&admin, MSG_LIST_SESSIONS, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	ASSERT_EQ(rep.list_rep.sessions[0].kept, !why[0]);
	ASSERT_STREQ(rep.list_rep.sessions[0].unkept_reason, why);
	msg_deinit(&rep);
	pair_deinit(&admin);
}

TEST(nic_that_saves_nothing_ends_the_saving)
{
	struct save_lab k = {.blocks = false};
	struct pair pair;

	save_lab_init(&k, 100);
	k.lab.nics[1].saves = false;
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	ASSERT(session_is_saved(pair.session));
	expect_unkept(&k, "");
	ASSERT_EQ(save_lab_count(&k), 5 - (pair.session->identity.pidfd < 0));
	raw_open_nic(&pair.raw, "fake1");
	ASSERT(!session_is_saved(pair.session));
	ASSERT(strstr(pair.session->saved.reason, "fake1"));
	expect_unkept(&k, "what it has on fake1 ends with the daemon");
	ASSERT_EQ(save_lab_count(&k), 0);
	raw_reg(&pair.raw, 4096);
	ASSERT_EQ(save_lab_count(&k), 0);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

TEST(session_for_which_the_store_is_too_small_is_saved_no_more)
{
	for (unsigned int max = 1; max < 16; max++) {
		struct save_lab k = {.blocks = false};
		struct pair pair;
		struct msg rep;

		save_lab_init(&k, 100);
		k.max = max;
		save_lab_hello(&pair, &k);
		raw_open_nic(&pair.raw, "fake0");
		raw_reg(&pair.raw, 4096);
		raw_create_queues(&pair.raw, 1, &rep);
		msg_deinit(&rep);
		raw_reg(&pair.raw, 4096);
		if (!session_is_saved(pair.session)) {
			ASSERT(strstr(pair.session->saved.reason, "FileDescriptorStoreMax"));
			ASSERT_EQ(save_lab_count(&k), 0);
		} else {
			ASSERT_LE(k.n, max);
		}
		ASSERT_EQ(session_is_saved(pair.session), max >= 9u - (pair.session->identity.pidfd < 0));
		pair_deinit(&pair);
		save_lab_deinit(&k);
	}
}

static unsigned int count_kept(struct pair *pairs, unsigned int n)
{
	unsigned int n_kept = 0;

	for (unsigned int i = 0; i < n; i++)
		n_kept += session_is_saved(pairs[i].session);
	return n_kept;
}

/* However many sessions one user has, another one's is kept; also when all of them were taken over from a former daemon. */
TEST(one_user_leaves_room_for_others)
{
	enum { N_GREEDY = 60 };
	static struct pair greedy[N_GREEDY], other, more;
	struct save_lab k = {.blocks = false};
	struct pair *kept[N_GREEDY + 1];
	unsigned int n_kept = 0;

	save_lab_init(&k, 1000);
	k.max = 100;
	for (unsigned int i = 0; i < N_GREEDY; i++)
		save_lab_hello(&greedy[i], &k);
	n_kept = count_kept(greedy, N_GREEDY);
	ASSERT_GT(k.n, 80);
	ASSERT_LE(k.n, 90);
	ASSERT(strstr(greedy[N_GREEDY - 1].session->saved.reason, "this user has its share"));
	for (unsigned int i = n_kept; i < N_GREEDY; i++)
		pair_deinit(&greedy[i]);
	for (unsigned int i = 0; i < n_kept; i++)
		kept[i] = &greedy[i];
	for (unsigned int i = 0; i < n_kept; i++) {
		greedy[i].session->identity.uid = 4242;
		save_write(greedy[i].session);
	}
	save_lab_restart(&k, kept, n_kept);
	save_lab_peer_uid = 4242;
	for (unsigned int i = 0; i < n_kept; i++) {
		ASSERT_OK(save_lab_adopt(&k, i + 1, &greedy[i].session));
		greedy[i].session->owner = &greedy[i];
	}
	save_lab_peer_uid = 0;
	save_lab_hello(&other, &k);
	ASSERT(session_is_saved(other.session));
	/* Adopted descriptors count like stored ones. */
	other.session->identity.uid = 4242;
	save_lab_hello(&more, &k);
	ASSERT(session_is_saved(more.session));
	more.session->identity.uid = 4242;
	raw_open_nic(&more.raw, "fake0");
	ASSERT(!session_is_saved(more.session));
	for (unsigned int i = 0; i < n_kept; i++)
		pair_deinit(&greedy[i]);
	pair_deinit(&other);
	pair_deinit(&more);
	save_lab_deinit(&k);
}

TEST(client_that_cannot_go_on_is_not_saved)
{
	struct save_lab k = {.blocks = false};
	struct pair pair;

	save_lab_init(&k, 100);
	pair_init_hello(&pair, &k.lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	ASSERT(!session_is_saved(pair.session));
	expect_unkept(&k, "its client does not wait for another daemon");
	ASSERT_EQ(save_lab_count(&k), 0);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

/* ---- requests that come again ---------------------------------------------------------------------------------------- */

/* Sent as the last one was, with its number. */
static void send_again(struct scene *s, struct msg *req, const int *fds, unsigned int n_fds, struct msg *rep)
{
	s->a.raw.last_id--;
	raw_ask(&s->a.raw, req, fds, n_fds, rep);
}

TEST(request_that_was_answered_is_not_carried_out_again)
{
	struct msg req, rep, again;
	unsigned int n_calls;
	struct scene s;

	scene_init(&s, 100);
	raw_fill_create(&req, 3);
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	restart(&s);
	adopt(&s);
	n_calls = s.k.lab.nics[0].n_calls;
	send_again(&s, &req, NULL, 0, &again);
	ASSERT_EQ(again.kind, MSG_QUEUE_CREATE_REP);
	ASSERT_EQ(again.n_fds, 1);
	ASSERT_EQ(again.id, rep.id);
	ASSERT_EQ(again.queue_create_rep.queues, rep.queue_create_rep.queues);
	ASSERT_EQ(again.queue_create_rep.qps[2].qpn, rep.queue_create_rep.qps[2].qpn);
	ASSERT_EQ(s.k.lab.nics[0].n_calls, n_calls);
	ASSERT_EQ(s.k.lab.nics[0].n_queues, 2);
	msg_deinit(&again);
	/* Another number is another request. */
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &again);
	ASSERT_NE(again.queue_create_rep.queues, rep.queue_create_rep.queues);
	msg_deinit(&again);
	msg_deinit(&rep);
	scene_deinit(&s);
}

/* Its client got that answer, and has gone on when another copy of the request comes. */
TEST(request_that_was_refused_stays_refused)
{
	struct msg req, rep;
	struct scene s;

	scene_init(&s, 100);
	s.k.lab.registry.quota.limits.n[QUOTA_QPS] = 4;
	raw_fill_create(&req, 3);
	raw_expect_error(&s.a.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_QPS);
	restart(&s);
	adopt(&s);
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_ERROR_REP);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_QUOTA_QPS);
	ASSERT(strstr(rep.error_rep.text, "max-qps"));
	ASSERT_EQ(s.k.lab.nics[0].n_queues, 1);
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	msg_deinit(&rep);
	scene_deinit(&s);
}

TEST(answers_with_the_descriptors_of_a_context_come_again)
{
	struct msg req, rep;
	struct scene s;

	s.k.blocks = false;
	save_lab_init(&s.k, 100);
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	restart(&s);
	adopt(&s);
	/* Hello itself, whose answer brings another pipe. */
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT, .resumes = true};
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(rep.n_fds, 2);
	ASSERT_EQ(rep.hello_rep.session, s.id);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "fake1");
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	restart(&s);
	adopt(&s);
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_NIC_OPEN_REP);
	ASSERT_EQ(rep.n_fds, 1);
	ASSERT_EQ(s.k.lab.nics[1].n_ctxs, 1);
	scene_deinit(&s);
}

static int ask_hello_again(struct scene *s, struct fdlist *fds)
{
	struct msg req, rep;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT, .resumes = true};
	s->a.raw.last_id--;
	raw_send(&s->a.raw, &req, NULL, 0);
	fdlist_init(fds);
	ASSERT_OK(raw_recv(&s->a.raw, &rep, fds));
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(rep.hello_rep.session, s->id);
	ASSERT_EQ(fds->n, 2);
	return fds->fds[rep.hello_rep.watch_fd - 1];
}

/* A session can be found from its answer on, and not before: whoever dies between the two leaves a client that asks again. */
TEST(hello_that_was_not_answered_is_answered_by_the_next_daemon)
{
	struct fdlist fds, more;
	struct pollfd watch;
	struct scene s;

	s.k.blocks = false;
	save_lab_init(&s.k, 100);
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	restart(&s);
	ASSERT_OK(save_lab_adopt_bytes(&s.k, s.id, s.k.first_state, s.k.first_bytes, &s.a.session));
	s.a.session->owner = &s.a;
	watch = (struct pollfd){.fd = ask_hello_again(&s, &fds)};
	ASSERT_EQ(poll(&watch, 1, 0), 0);
	/* When it dies once more, two copies may lie in the socket: an answer that nobody waits for leaves that pipe alone. */
	ask_hello_again(&s, &more);
	ASSERT_EQ(poll(&watch, 1, 0), 0);
	fdlist_deinit(&more);
	ASSERT_EQ(poll(&watch, 1, 0), 0);
	restart(&s);
	ASSERT_EQ(poll(&watch, 1, 0), 1);
	fdlist_deinit(&fds);
	adopt(&s);
	scene_deinit(&s);
}

TEST(request_that_changed_nothing_is_carried_out_again)
{
	struct msg req, rep;
	struct scene s;

	scene_init(&s, 100);
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_STATUS_REP, &rep);
	restart(&s);
	adopt(&s);
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_STATUS_REP);
	scene_deinit(&s);
}

/* ---- NICs ------------------------------------------------------------------------------------------------------------ */

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
	struct scene s;

	s.k.blocks = false;
	save_lab_init(&s.k, 100);
	nics = s.k.lab.registry.nics;
	set_devices(&s.k, "fake0", "fake1");
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	raw_open_nic(&s.a.raw, "fake0");
	restart(&s);
	set_devices(&s.k, "fake1", "fake0");
	adopt(&s);
	ASSERT_EQ(s.a.session->nics[0]->rnic, &nics[0]);
	ASSERT_STREQ(s.a.session->nics[0]->rnic->info.name, "fake1");
	restart(&s);
	/* Another one by that name is not it. */
	nics[0].info.guid = nics[1].info.guid = 0x2000;
	ASSERT_ERR(save_lab_adopt(&s.k, s.id, &s.a.session), ENODEV);
	save_lab_let_go(&s.k, s.id);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
}
