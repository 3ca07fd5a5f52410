/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "daemon/session/drain.h"
#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

#define N_STEPS 9

static void publish_one(struct pair *pair, uint32_t pe)
{
	struct msg req, rep;
	int fd = raw_memfd(4096);

	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req = (struct msg_publish_req){
		.key = {.world = "a secret world!", .pe = pe}, .has_fd = true, .data_bytes = 3, .data = "abc"};
	raw_expect(&pair->raw, &req, &fd, 1, MSG_OK_REP, &rep);
	close(fd);
}

static void create(struct pair *pair, uint32_t n_qps)
{
	struct msg rep;

	raw_create_queues(&pair->raw, n_qps, &rep);
	msg_deinit(&rep);
}

/* A client that does everything a client can own, up to `n` steps. */
static void live(struct pair *pair, struct lab *lab, int n)
{
	pair_init(pair, lab);
	for (int i = 1; i <= n; i++) {
		switch (i) {
		case 1:
			pair_deinit(pair);
			pair_init_hello(pair, lab, MSG_ROLE_CLIENT);
			break;
		case 2:
			raw_open_nic(&pair->raw, "fake0");
			break;
		case 3:
			raw_reg(&pair->raw, 8192);
			break;
		case 4:
			create(pair, 4);
			break;
		case 5:
			publish_one(pair, 1);
			break;
		case 6:
			raw_open_nic(&pair->raw, "fake1");
			break;
		case 7:
			raw_reg(&pair->raw, 4096);
			break;
		case 8:
			create(pair, 1);
			break;
		case 9:
			publish_one(pair, 2);
			break;
		}
	}
}

TEST(session_ended_at_every_point_leaves_nothing)
{
	for (int n = 0; n <= N_STEPS; n++) {
		struct pair pair;
		struct lab lab;

		lab_init(&lab, 100);
		live(&pair, &lab, n);
		if (n > 0)
			ASSERT_EQ(lab.registry.quota.total.n[QUOTA_SESSIONS], 1);
		pair_deinit(&pair);
		lab_assert_empty(&lab);
		lab_deinit(&lab);
	}
}

/* The request that fails inside is answered or ends the session; nothing stays behind. */
TEST(backend_failure_at_every_call_leaves_nothing)
{
	static const int errs[] = {-ENOMEM, -EIO, -ENOSPC, -ENODEV};

	for (unsigned int k = 0; k < sizeof(errs) / sizeof(errs[0]); k++) {
		for (unsigned int at = 1; at <= 4; at++) {
			struct msg req, rep;
			struct pair pair;
			struct lab lab;
			int fd = raw_memfd(4096);

			lab_init(&lab, 100);
			lab.nics[0].fail_at = at;
			lab.nics[0].fail_err = errs[k];
			pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
			for (unsigned int step = 1; step <= at && !pair.session->ended; step++) {
				if (step == 1) {
					msg_init(&req, MSG_NIC_OPEN_REQ, 0);
				} else if (step < 4) {
					msg_init(&req, MSG_MEM_REG_REQ, 0);
					req.mem_reg_req = (struct msg_mem_reg_req){
						.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
				} else {
					raw_fill_create(&req, 2);
				}
				raw_ask(&pair.raw, &req, &fd, step == 2 || step == 3, &rep);
				ASSERT_EQ(rep.kind == MSG_ERROR_REP, step == at);
				msg_deinit(&rep);
			}
			ASSERT_EQ(pair.session->ended, errs[k] == -EIO);
			pair_deinit(&pair);
			lab_assert_empty(&lab);
			lab_deinit(&lab);
			close(fd);
		}
	}
}

TEST(teardown_goes_by_kind_in_the_fixed_order)
{
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	create(&pair, 1);
	raw_reg(&pair.raw, 4096);
	create(&pair, 1);
	raw_reg(&pair.raw, 4096);
	lab.nics[0].log[0] = 0;
	pair_deinit(&pair);
	ASSERT_STREQ(lab.nics[0].log, "quiesce destroy destroy dereg dereg close ");
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

static void end_one(struct lab *lab, bool gone)
{
	struct pair pair;

	pair_init_hello(&pair, lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	if (gone)
		session_end_gone(pair.session);
	else
		session_end(pair.session, SHMD_STATUS_KILLED, "killed");
	pair_deinit(&pair);
}

/* The control thread serves no client while it waits. */
TEST(sessions_that_end_share_one_wait_for_their_queues)
{
	uint64_t begin, most;
	struct lab lab;

	lab_init(&lab, 1000);
	lab.nics[0].never_flushes = true;
	most = lab.registry.attr.quiesce_nsec;
	begin = nsec_now();
	end_one(&lab, false);
	ASSERT_GT(lab.nics[0].quiesce_nsec, most / 2);
	for (int i = 0; i < 50; i++)
		end_one(&lab, false);
	ASSERT_LE(lab.nics[0].quiesce_nsec, most + (nsec_now() - begin) / 10 + 1);
	/* It comes back with time, up to where it was. */
	nanosleep(&(struct timespec){.tv_nsec = (long)(20 * most)}, NULL);
	lab.nics[0].quiesce_nsec = 0;
	end_one(&lab, false);
	ASSERT_GT(lab.nics[0].quiesce_nsec, most / 2);
	ASSERT_LE(lab.nics[0].quiesce_nsec, most);
	lab_deinit(&lab);
}

TEST(queues_of_a_client_that_has_gone_delay_nothing)
{
	struct lab lab;

	lab_init(&lab, 100);
	end_one(&lab, true);
	ASSERT_EQ(lab.nics[0].quiesce_nsec, 0);
	ASSERT(strstr(lab.nics[0].log, "quiesce"));
	lab_deinit(&lab);
}

TEST(end_tells_client_and_health_page)
{
	struct shmd_health_page *page;
	struct pair pair;
	struct msg msg;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	ASSERT_EQ(page->version, SHMD_HEALTH_PAGE_VERSION);
	ASSERT_EQ(page->session, SHMD_HEALTH_OK);
	session_end(pair.session, SHMD_STATUS_SHUTDOWN, "going away");
	session_end(pair.session, SHMD_STATUS_KILLED, "again");
	ASSERT_EQ(lab.n_attentions, 1);
	ASSERT_EQ(page->session, SHMD_HEALTH_SESSION_ENDED);
	for (int i = 0; i < (int)SHMD_HEALTH_NICS; i++)
		ASSERT_EQ(page->nic[i], SHMD_HEALTH_SESSION_ENDED);
	ASSERT_OK(raw_recv(&pair.raw, &msg, NULL));
	ASSERT_EQ(msg.event.detail, SHMD_STATUS_SHUTDOWN);
	ASSERT_STREQ(msg.event.text, "going away");
	ASSERT_ERR(raw_recv(&pair.raw, &msg, NULL), EAGAIN);
	pair_deinit(&pair);
	munmap(page, sizeof(*page));
	lab_deinit(&lab);
}

/* It sees the words before the end of its socket, and the daemon never maps the page. */
TEST_TIMEOUT(session_is_freed_once_its_porter_has_written_the_words_of_its_end, 60)
{
	struct shmd_health_page *page;
	struct pair pair;
	struct lab lab;

	lab_init_porters(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	session_end_gone(pair.session);
	ASSERT(session_health_is_busy(pair.session));
	pair.session->owner = NULL;
	session_release(pair.session);
	ASSERT(!list_empty(&lab.registry.sessions));
	for (int i = 0; i < 10000 && !list_empty(&lab.registry.sessions); i++)
		lab_hear_porters(&lab);
	ASSERT(list_empty(&lab.registry.sessions));
	ASSERT_EQ(page->session, SHMD_HEALTH_SESSION_ENDED);
	raw_close(&pair.raw);
	munmap(page, sizeof(*page));
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* At a stop of the daemon nobody hears its porters. */
TEST_TIMEOUT(session_is_freed_without_its_porter_when_the_loop_has_ended, 60)
{
	struct pair pair;
	struct lab lab;

	lab_init_porters(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	pair.session->owner = NULL;
	session_release(pair.session);
	ASSERT(!list_empty(&lab.registry.sessions));
	registry_leave_porters(&lab.registry);
	ASSERT(list_empty(&lab.registry.sessions));
	raw_close(&pair.raw);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* As when the loop cannot watch its socket any more. */
TEST(health_page_shows_an_unannounced_end)
{
	struct shmd_health_page *page;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	pair.session->ended = true;
	pair_deinit(&pair);
	ASSERT_EQ(page->session, SHMD_HEALTH_SESSION_ENDED);
	for (int i = 0; i < (int)SHMD_HEALTH_NICS; i++)
		ASSERT_EQ(page->nic[i], SHMD_HEALTH_SESSION_ENDED);
	munmap(page, sizeof(*page));
	lab_deinit(&lab);
}

TEST(health_word_keeps_its_first_final_value)
{
	struct shmd_health_page *page;
	struct nic_event event = {.kind = NIC_EVENT_LOST};
	struct pair pair;
	struct msg msg;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake1");
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	registry_event(&lab.registry, &lab.registry.nics[0], &event);
	ASSERT_ERR(raw_recv(&pair.raw, &msg, NULL), EAGAIN);
	registry_event(&lab.registry, &lab.registry.nics[1], &event);
	ASSERT_OK(raw_recv(&pair.raw, &msg, NULL));
	ASSERT_EQ(msg.event.kind, MSG_EVENT_NIC_LOST);
	ASSERT_EQ(msg.event.nic, 0);
	session_end_gone(pair.session);
	ASSERT_EQ(page->nic[0], SHMD_HEALTH_NIC_LOST);
	ASSERT_EQ(page->nic[1], SHMD_HEALTH_SESSION_ENDED);
	pair_deinit(&pair);
	munmap(page, sizeof(*page));
	lab_deinit(&lab);
}

TEST(nic_that_is_back_stays_lost_for_sessions_that_had_it)
{
	const struct nic_event lost = {.kind = NIC_EVENT_LOST};
	const struct nic_event returned = {.kind = NIC_EVENT_RETURNED, .state = NIC_PORT_ACTIVE};
	struct shmd_health_page *page;
	struct pair pair, later;
	struct msg msg;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	lab.nics[0].info.state = NIC_PORT_LOST;
	registry_event(&lab.registry, &lab.registry.nics[0], &lost);
	ASSERT_OK(raw_recv(&pair.raw, &msg, NULL));
	lab.nics[0].info.state = NIC_PORT_ACTIVE;
	registry_event(&lab.registry, &lab.registry.nics[0], &returned);
	ASSERT_ERR(raw_recv(&pair.raw, &msg, NULL), EAGAIN);
	ASSERT_EQ(page->nic[0], SHMD_HEALTH_NIC_LOST);
	ASSERT_EQ(lab.registry.nics[0].info.state, NIC_PORT_ACTIVE);
	pair_init_hello(&later, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&later.raw, "fake0");
	ASSERT_EQ(lab_page(later.session).nic[0], SHMD_HEALTH_OK);
	munmap(page, sizeof(*page));
	pair_deinit(&pair);
	pair_deinit(&later);
	lab_deinit(&lab);
}

/* The client's word for a NIC, as this value arrives. */
static uint32_t port_event(struct lab *lab, const struct shmd_health_page *page, enum nic_port_state state)
{
	const struct nic_event event = {.kind = NIC_EVENT_PORT_STATE, .state = state};

	registry_event(&lab->registry, &lab->registry.nics[0], &event);
	return page->nic[0];
}

TEST(port_down_passes_and_a_final_health_word_stays)
{
	struct shmd_health_page *page;
	struct pair pair;
	struct msg msg;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(port_event(&lab, page, NIC_PORT_DOWN), SHMD_HEALTH_PORT_DOWN);
		ASSERT_EQ(page->session, SHMD_HEALTH_OK);
		ASSERT_EQ(page->nic[1], SHMD_HEALTH_OK);
		ASSERT_OK(raw_recv(&pair.raw, &msg, NULL));
		ASSERT_EQ(msg.event.kind, MSG_EVENT_PORT_STATE);
		ASSERT_EQ(msg.event.detail, NIC_PORT_DOWN);
		ASSERT_STREQ(msg.event.text, "the port of fake0 is down");
		ASSERT_EQ(port_event(&lab, page, NIC_PORT_ACTIVE), SHMD_HEALTH_OK);
		ASSERT_OK(raw_recv(&pair.raw, &msg, NULL));
		ASSERT_STREQ(msg.event.text, "the port of fake0 is active");
	}
	/* A word that the library or the loss of the NIC writes in the meantime is final. */
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_DOWN), SHMD_HEALTH_PORT_DOWN);
	page->nic[0] = SHMD_HEALTH_DAEMON_GONE;
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_ACTIVE), SHMD_HEALTH_DAEMON_GONE);
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_DOWN), SHMD_HEALTH_DAEMON_GONE);
	page->nic[0] = SHMD_HEALTH_OK;
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_DOWN), SHMD_HEALTH_PORT_DOWN);
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_LOST), SHMD_HEALTH_NIC_LOST);
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_ACTIVE), SHMD_HEALTH_NIC_LOST);
	pair_deinit(&pair);
	munmap(page, sizeof(*page));
	lab_deinit(&lab);
}

TEST(end_of_the_session_replaces_port_down)
{
	struct shmd_health_page *page;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_DOWN), SHMD_HEALTH_PORT_DOWN);
	session_end(pair.session, SHMD_STATUS_KILLED, "by the test");
	ASSERT_EQ(page->nic[0], SHMD_HEALTH_SESSION_ENDED);
	ASSERT_EQ(port_event(&lab, page, NIC_PORT_ACTIVE), SHMD_HEALTH_SESSION_ENDED);
	pair_deinit(&pair);
	munmap(page, sizeof(*page));
	lab_deinit(&lab);
}

TEST(nic_opened_while_its_port_is_down_says_so)
{
	struct shmd_health_page *page;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	lab.nics[1].info.state = NIC_PORT_DOWN;
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, pair.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	raw_open_nic(&pair.raw, "fake0");
	raw_open_nic(&pair.raw, "fake1");
	ASSERT_EQ(page->nic[0], SHMD_HEALTH_OK);
	ASSERT_EQ(page->nic[1], SHMD_HEALTH_PORT_DOWN);
	pair_deinit(&pair);
	munmap(page, sizeof(*page));
	lab_deinit(&lab);
}

TEST(event_reaches_the_session_it_concerns)
{
	struct nic_event event = {.kind = NIC_EVENT_QP_ERROR, .number = 0x12, .syndrome = 0x13};
	struct pair a, b;
	struct msg msg;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&a, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&b, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&a.raw, "fake0");
	raw_open_nic(&b.raw, "fake0");
	event.session_id = b.session->id;
	registry_event(&lab.registry, &lab.registry.nics[0], &event);
	ASSERT_ERR(raw_recv(&a.raw, &msg, NULL), EAGAIN);
	ASSERT_OK(raw_recv(&b.raw, &msg, NULL));
	ASSERT_EQ(msg.event.kind, MSG_EVENT_QP_ERROR);
	ASSERT_EQ(msg.event.number, 0x12);
	ASSERT_EQ(msg.event.detail, 0x13);
	pair_deinit(&a);
	pair_deinit(&b);
	lab_deinit(&lab);
}

TEST(client_that_never_reads_is_ended_with_bounded_memory)
{
	struct nic_event event = {.kind = NIC_EVENT_QP_ERROR, .number = 1};
	struct pair pair;
	struct lab lab;
	int n;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	for (n = 0; n < 100000 && !pair.session->ended; n++) {
		registry_event(&lab.registry, &lab.registry.nics[0], &event);
		ASSERT_LE(pair.session->connection.n_out, CONNECTION_MAX_PACKETS);
	}
	ASSERT(pair.session->ended);
	ASSERT_LT(n, 10000);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(slow_client_gets_everything_in_order)
{
	struct nic_event event = {.kind = NIC_EVENT_QP_ERROR};
	struct pair pair;
	struct msg msg;
	struct lab lab;
	uint32_t sent = 0, got = 0;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	while (pair.session->connection.n_out < CONNECTION_MAX_PACKETS / 2) {
		event.number = ++sent;
		registry_event(&lab.registry, &lab.registry.nics[0], &event);
	}
	ASSERT(session_wants_write(pair.session));
	while (got < sent) {
		if (raw_recv(&pair.raw, &msg, NULL) == -EAGAIN) {
			session_writable(pair.session);
			continue;
		}
		ASSERT_EQ(msg.event.number, ++got);
	}
	ASSERT(!session_wants_write(pair.session));
	ASSERT(!pair.session->ended);
	pair_deinit(&pair);
	lab_deinit(&lab);
}

TEST(hang_up_ends_the_session)
{
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	close(pair.raw.sock);
	pair.raw.sock = -1;
	session_readable(pair.session);
	ASSERT(pair.session->ended);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(connections_of_a_user_are_bounded_and_the_refused_one_gets_the_reason)
{
	struct pair pairs[5];
	struct session *session;
	struct pair refused = {0};
	struct msg msg;
	struct lab lab;
	int socks[2];

	lab_init(&lab, 100);
	lab.registry.quota.limits.n[QUOTA_CONNECTIONS] = 5;
	for (int i = 0; i < 5; i++)
		pair_init(&pairs[i], &lab);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	ASSERT_ERR(session_new(&lab.registry, socks[0], &session), EDQUOT);
	refused.raw.sock = socks[1];
	ASSERT_OK(raw_recv(&refused.raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_ERROR_REP);
	ASSERT_EQ(msg.error_rep.status, SHMD_STATUS_QUOTA_SESSIONS);
	ASSERT(strstr(msg.error_rep.text, "max-connections"));
	ASSERT_ERR(raw_recv(&refused.raw, &msg, NULL), ECONNRESET);
	close(socks[1]);
	for (int i = 0; i < 5; i++)
		pair_deinit(&pairs[i]);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* ---- operational events --------------------------------------------------------------------------------------- */

struct noted {
	enum catalog_event event;
	unsigned int n; /* with an event */
	int level;
	bool provoked;
	char text[200];
};

static void on_note(void *arg, const struct note *note)
{
	struct noted *noted = arg;

	if (note->event == CATALOG_NONE)
		return;
	noted->event = note->event;
	noted->level = note->level;
	noted->provoked = note->provoked;
	noted->n++;
	snprintf(noted->text, sizeof(noted->text), "%s", note->text);
}

static void note_to(struct lab *lab, struct noted *noted)
{
	*noted = (struct noted){0};
	lab->registry.attr.hooks = (struct registry_hooks){.arg = noted, .note = on_note};
}

TEST(every_end_that_concerns_an_administrator_is_an_event)
{
	static const struct {
		enum shmd_status status;
		enum catalog_event event;
	} ends[] = {
		{SHMD_STATUS_PROTOCOL, CATALOG_CLIENT_VIOLATION}, {SHMD_STATUS_FDS, CATALOG_CLIENT_VIOLATION},
		{SHMD_STATUS_INTERNAL, CATALOG_SESSION_FAILED},   {SHMD_STATUS_VERSION, CATALOG_VERSION_MISMATCH},
		{SHMD_STATUS_KILLED, CATALOG_SESSION_KILLED},	  {SHMD_STATUS_QUOTA_SESSIONS, CATALOG_SESSION_REFUSED},
		{SHMD_STATUS_QUOTA_FDS, CATALOG_SESSION_REFUSED}, {SHMD_STATUS_SHUTDOWN, CATALOG_NONE},
	};
	struct noted noted;
	struct pair pair;
	struct lab lab;

	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		lab_init(&lab, 100);
		note_to(&lab, &noted);
		pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
		session_end(pair.session, ends[i].status, "because");
		ASSERT_EQ(noted.event, ends[i].event);
		ASSERT_EQ(noted.n, ends[i].event != CATALOG_NONE);
		/* Lines that clients do not cause survive when clients cause too many. */
		ASSERT_EQ(noted.provoked, noted.n > 0 && noted.event != CATALOG_SESSION_KILLED);
		pair_deinit(&pair);
		lab_deinit(&lab);
	}
}

TEST(change_of_a_nic_is_one_event_however_many_sessions_it_has)
{
	static const struct {
		struct nic_event news;
		enum catalog_event event;
		const char *text;
	} cases[] = {
		{{.kind = NIC_EVENT_LOST}, CATALOG_NIC_LOST, "NIC fake0 is gone"},
		{{.kind = NIC_EVENT_PORT_STATE, .state = NIC_PORT_LOST}, CATALOG_NIC_LOST, "NIC fake0 is gone"},
		{{.kind = NIC_EVENT_PORT_STATE, .state = NIC_PORT_DOWN}, CATALOG_PORT_DOWN, "the port of NIC fake0 is down"},
		{{.kind = NIC_EVENT_PORT_STATE, .state = NIC_PORT_ACTIVE}, CATALOG_PORT_UP, "the port of NIC fake0 is up"},
		{{.kind = NIC_EVENT_RETURNED, .state = NIC_PORT_ACTIVE}, CATALOG_NIC_BACK, "NIC fake0 is back"},
		{{.kind = NIC_EVENT_QP_ERROR, .number = 1}, CATALOG_NONE, ""},
	};
	struct noted noted;
	struct pair pairs[2];
	struct lab lab;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		lab_init(&lab, 100);
		for (int k = 0; k < 2; k++) {
			pair_init_hello(&pairs[k], &lab, MSG_ROLE_CLIENT);
			raw_open_nic(&pairs[k].raw, "fake0");
		}
		note_to(&lab, &noted);
		registry_event(&lab.registry, &lab.registry.nics[0], &cases[i].news);
		ASSERT_EQ(noted.event, cases[i].event);
		ASSERT_EQ(noted.n, cases[i].event != CATALOG_NONE);
		ASSERT_STREQ(noted.text, cases[i].text);
		for (int k = 0; k < 2; k++)
			pair_deinit(&pairs[k]);
		lab_deinit(&lab);
	}
}

TEST(drain_is_an_event_at_its_beginning_and_when_it_is_called_off)
{
	struct noted noted;
	struct lab lab;

	lab_init(&lab, 100);
	note_to(&lab, &noted);
	drain_begin(&lab.registry, 1000000000);
	ASSERT_EQ(noted.event, CATALOG_DRAIN_BEGUN);
	drain_stop(&lab.registry);
	ASSERT_EQ(noted.event, CATALOG_DRAIN_ENDED);
	ASSERT_EQ(noted.n, 2);
	lab_deinit(&lab);
}

TEST(lower_limits_bind_what_is_charged_from_then_on)
{
	struct quota_amount limits = {.n = {[QUOTA_CONNECTIONS] = 1, [QUOTA_SESSIONS] = 100, [QUOTA_FDS] = 100}};
	struct noted noted;
	struct session *refused;
	struct pair pair;
	struct lab lab;
	int socks[2];

	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	note_to(&lab, &noted);
	limits.n[QUOTA_SESSIONS] = 0;
	registry_set_limits(&lab.registry, &limits);
	ASSERT(!pair.session->ended);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	ASSERT_ERR(session_new(&lab.registry, socks[0], &refused), EDQUOT);
	ASSERT_EQ(noted.event, CATALOG_SESSION_REFUSED);
	close(socks[1]);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}
