/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where NICs block, workers touch the memory that a client reaches, its health page, and no firmware waits for them; and a look at
 * NICs waits for no worker.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "proto/framing.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

struct scene {
	struct lab lab;
	struct pair pair;
	struct shmd_health_page *page; /* the client's */
};

static void scene_init(struct scene *s)
{
	lab_init_blocking(&s->lab, 100);
	pair_init_hello(&s->pair, &s->lab, MSG_ROLE_CLIENT);
	raw_open_nic(&s->pair.raw, "fake0");
	s->page = mmap(NULL, sizeof(*s->page), PROT_READ, MAP_SHARED, s->pair.session->health_fd, 0);
	ASSERT(s->page != MAP_FAILED);
	s->lab.registry.counted_nsec = UINT64_MAX; /* no look of its own */
	s->lab.memory_waits = true;
	s->pair.waits = true;
}

static void scene_deinit(struct scene *s)
{
	if (s->pair.session)
		s->pair.session->owner = NULL;
	session_release(s->pair.session);
	lab_work(&s->lab);
	raw_close(&s->pair.raw);
	munmap(s->page, sizeof(*s->page));
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

static void release(struct scene *s)
{
	s->pair.session->owner = NULL;
	session_release(s->pair.session);
	s->pair.session = NULL;
}

static void change_port(struct scene *s, enum nic_port_state state)
{
	const struct nic_event event = {.kind = NIC_EVENT_PORT_STATE, .state = state};

	registry_event(&s->lab.registry, &s->lab.registry.nics[0], &event);
}

static void expect_msg(struct pair *pair, enum msg_kind kind)
{
	struct msg msg;

	ASSERT_OK(raw_recv(&pair->raw, &msg, NULL));
	ASSERT_STREQ(msg_kind_name(msg.kind), msg_kind_name(kind));
	msg_deinit(&msg);
}

TEST(a_worker_writes_the_end_into_the_health_page)
{
	struct pair pair;
	struct lab lab;

	lab_init_blocking(&lab, 100);
	lab.memory_waits = true;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	pair.waits = true;
	session_release(pair.session);
	ASSERT(!list_empty(&lab.registry.sessions));
	ASSERT_EQ(lab_work(&lab), 1u);
	ASSERT(list_empty(&lab.registry.sessions));
	raw_close(&pair.raw);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Works that the control thread has submitted, a query of the NIC among them, and none that follows from their end. */
static void run_all(struct scene *s)
{
	while (lab_run(&s->lab))
		;
}

TEST(workers_write_the_health_words)
{
	struct scene s;

	scene_init(&s);
	change_port(&s, NIC_PORT_DOWN);
	expect_msg(&s.pair, MSG_EVENT);
	ASSERT_EQ(s.page->nic[0], SHMD_HEALTH_OK);
	run_all(&s);
	ASSERT_EQ(s.page->nic[0], SHMD_HEALTH_PORT_DOWN);
	/* News that come while a hole keeps the writer are written after it. */
	change_port(&s, NIC_PORT_ACTIVE);
	expect_msg(&s.pair, MSG_EVENT);
	run_all(&s);
	ASSERT_EQ(s.page->nic[0], SHMD_HEALTH_PORT_DOWN);
	lab_work(&s.lab);
	ASSERT_EQ(s.page->nic[0], SHMD_HEALTH_OK);
	session_end(s.pair.session, SHMD_STATUS_KILLED, "for a test");
	ASSERT_EQ(s.page->session, SHMD_HEALTH_OK);
	ASSERT(lab_run(&s.lab));
	ASSERT_EQ(s.page->session, SHMD_HEALTH_SESSION_ENDED);
	scene_deinit(&s);
}

/* The client is not announced dead, and its NICs are left before its page is reached. */
TEST(a_hole_in_a_health_page_does_not_put_off_the_end_of_the_contexts)
{
	struct work *hole;
	struct scene s;

	scene_init(&s);
	release(&s);
	hole = list_first_entry(&s.lab.todo, struct work, link);
	list_del(&hole->link);
	/* All that firmware has to do, and nothing else. */
	ASSERT_EQ(lab_work(&s.lab), 1u);
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 0);
	ASSERT(!list_empty(&s.lab.registry.sessions));
	ASSERT_EQ(s.page->session, SHMD_HEALTH_OK);
	list_add_tail(&s.lab.todo, &hole->link);
	ASSERT_EQ(lab_work(&s.lab), 1u);
	ASSERT_EQ(s.page->session, SHMD_HEALTH_SESSION_ENDED);
	ASSERT(list_empty(&s.lab.registry.sessions));
	scene_deinit(&s);
}

/* The other way round: firmware takes its time. */
TEST(health_words_tell_of_the_end_before_firmware_has_ended_the_contexts)
{
	struct scene s;

	scene_init(&s);
	release(&s);
	ASSERT(lab_run(&s.lab));
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 1);
	ASSERT_EQ(s.page->session, SHMD_HEALTH_SESSION_ENDED);
	ASSERT(lab_done(&s.lab));
	ASSERT_EQ(lab_work(&s.lab), 1u);
	ASSERT(list_empty(&s.lab.registry.sessions));
	scene_deinit(&s);
}

/* Also when another word was being written as the session ended. */
TEST(words_of_the_end_that_wait_for_other_words_do_not_wait_for_firmware)
{
	struct work *firmware;
	struct scene s;

	scene_init(&s);
	change_port(&s, NIC_PORT_DOWN);
	release(&s);
	firmware = container_of(s.lab.todo.prev, struct work, link);
	list_del(&firmware->link);
	lab_work(&s.lab);
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 1);
	ASSERT_EQ(s.page->session, SHMD_HEALTH_SESSION_ENDED);
	ASSERT_EQ(s.page->nic[0], SHMD_HEALTH_SESSION_ENDED);
	list_add_tail(&s.lab.todo, &firmware->link);
	lab_work(&s.lab);
	ASSERT(list_empty(&s.lab.registry.sessions));
	scene_deinit(&s);
}

/* ---- looks at NICs -------------------------------------------------------------------------------------------------- */

static void send_list(struct pair *pair, enum msg_list_what what)
{
	struct msg req;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = what;
	raw_send(&pair->raw, &req, NULL, 0);
}

static void expect_list(struct pair *pair, struct msg *ret_rep)
{
	ASSERT_OK(raw_recv(&pair->raw, ret_rep, NULL));
	ASSERT_EQ(ret_rep->kind, MSG_LIST_REP);
}

static uint32_t create(struct scene *s)
{
	struct msg rep;
	uint32_t qpn;

	s->pair.waits = false;
	raw_create_queues(&s->pair.raw, 2, &rep);
	s->pair.waits = true;
	qpn = rep.queue_create_rep.qps[0].qpn;
	msg_deinit(&rep);
	return qpn;
}

TEST(a_list_that_no_worker_takes_shows_what_is_known)
{
	static const enum msg_list_what whats[] = {MSG_LIST_QPS, MSG_LIST_SESSIONS};
	struct pair admin;
	struct scene s;
	uint32_t qpn;

	scene_init(&s);
	qpn = create(&s);
	pair_init_hello(&admin, &s.lab, MSG_ROLE_CONTROL);
	admin.waits = true;
	s.lab.keeps_offers = true;
	s.lab.nics[0].log[0] = 0;
	for (unsigned int i = 0; i < 2; i++) {
		struct msg rep;

		send_list(&admin, whats[i]);
		ASSERT(s.lab.offered && s.pair.session->busy);
		ASSERT(list_empty(&s.lab.todo));
		s.lab.offered->done(s.lab.offered);
		s.lab.offered = NULL;
		expect_list(&admin, &rep);
		ASSERT_EQ(rep.list_rep.n_qps, i == 0 ? 2u : 0u);
		ASSERT_EQ(rep.list_rep.n_sessions, i == 0 ? 0u : 1u);
		if (i == 0)
			ASSERT_EQ(rep.list_rep.qps[0].qpn, qpn);
		ASSERT(!s.pair.session->busy);
		msg_deinit(&rep);
	}
	ASSERT_STREQ(s.lab.nics[0].log, "");
	session_release(admin.session);
	raw_close(&admin.raw);
	scene_deinit(&s);
}
