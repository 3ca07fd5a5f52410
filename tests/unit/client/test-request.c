/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and replies against a fake daemon: matching, waiting, refusals, and what ends a client. */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "libclient/objects.h"
#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

static void send_counters(struct fake_daemon *fake, uint64_t id, uint64_t wqes)
{
	struct msg rep;

	msg_init(&rep, MSG_COUNTERS_REP, id);
	rep.counters_rep.counters.wqes = wqes;
	fake_send(fake, &rep, NULL, 0);
}

static void answer_counters(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	ASSERT_EQ(req->kind, MSG_COUNTERS_REQ);
	send_counters(fake, req->id, 42);
}

static void finish(struct fake_daemon *fake, struct shmd_client *client)
{
	shmd_client_close(client);
	fake_join(fake);
}

/* The client is dead with this error, now and in every other call. */
static void assert_dead(struct shmd_client *client, int err)
{
	char text[CLIENT_TEXT_BYTES];
	struct shmd_counters counters;
	struct shmd_daemon_status status;
	struct shmd_mem *mem;

	ASSERT_EQ(shmd_client_counters(client, &counters), -err);
	text_copy(text, sizeof(text), shmd_error_text());
	ASSERT_OK(shmd_mem_alloc(client, 1, &mem));
	ASSERT_EQ(shmd_admin_status(client, &status), -err);
	ASSERT_STREQ(shmd_error_text(), text);
	ASSERT_EQ(shmd_nic_list(client, NULL, 0), -err);
	ASSERT_STREQ(shmd_error_text(), text);
	ASSERT_NE(shmd_client_health(client), SHMD_HEALTH_OK);
}

static void say_nothing(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
}

struct asker {
	struct shmd_client *client;
	pthread_t thread;
	int result;
	char text[CLIENT_TEXT_BYTES];
	uint64_t nsec;
};

static void *ask(void *arg)
{
	struct asker *asker = arg;
	struct shmd_counters counters;
	uint64_t begin = nsec_now();

	asker->result = shmd_client_counters(asker->client, &counters);
	asker->nsec = nsec_now() - begin;
	text_copy(asker->text, sizeof(asker->text), shmd_error_text());
	return NULL;
}

/* Sixteen limits in a row would be 8 s. */
TEST(time_limit_holds_while_other_threads_wait_for_a_silent_daemon)
{
	struct shmd_client_attr attr = {.timeout_nsec = 500 * NSEC_PER_MSEC};
	struct fake_daemon fake = {.handle = say_nothing};
	struct asker askers[16] = {0};
	struct shmd_client *client;
	struct shmd_event event;
	uint64_t begin;

	ASSERT_OK(fake_open(&fake, &attr, &client));
	for (int i = 0; i < 16; i++) {
		askers[i].client = client;
		ASSERT_OK(pthread_create(&askers[i].thread, NULL, ask, &askers[i]));
	}
	begin = nsec_now();
	ASSERT_ERR(shmd_event_next(client, 100 * NSEC_PER_MSEC, &event), EAGAIN);
	ASSERT_STREQ(shmd_error_text(), "no event came in time");
	ASSERT_LT(nsec_now() - begin, 5 * NSEC_PER_SEC);
	for (int i = 0; i < 16; i++) {
		ASSERT_OK(pthread_join(askers[i].thread, NULL));
		ASSERT_ERR(askers[i].result, ETIMEDOUT);
		ASSERT(strstr(askers[i].text, "shmemd did not answer"));
		ASSERT_LT(askers[i].nsec, 5 * NSEC_PER_SEC);
	}
	finish(&fake, client);
}

TEST(hello_tells_session_daemon_and_limits)
{
	struct fake_daemon fake = {.handle = answer_counters};
	struct shmd_client *client;
	struct shmd_limits limits;

	fake.limits = (struct msg_limits){.max_qps_per_request = 11, .max_peers_per_request = 12, .max_qps = 13};
	ASSERT_OK(fake_open(&fake, NULL, &client));
	ASSERT_EQ(shmd_client_session(client), 7);
	ASSERT_STREQ(shmd_client_daemon(client), "fake 1.2.3");
	ASSERT_OK(shmd_client_limits(client, &limits));
	ASSERT_EQ(limits.max_qps_per_request, 11);
	ASSERT_EQ(limits.max_peers_per_request, 12);
	ASSERT_EQ(limits.max_qps, 13);
	finish(&fake, client);
}

TEST(hello_refuses_a_version_it_does_not_speak)
{
	struct fake_daemon fake = {.handle = answer_counters, .hello_version = 9};
	struct shmd_client *client = NULL;

	ASSERT_ERR(fake_open(&fake, NULL, &client), EPROTONOSUPPORT);
	ASSERT(!client);
	fake_join(&fake);
}

TEST(hello_refused_by_the_daemon_says_why)
{
	struct fake_daemon fake = {.handle = answer_counters, .hello_status = SHMD_STATUS_QUOTA_SESSIONS};
	struct shmd_client *client = NULL;

	ASSERT_ERR(fake_open(&fake, NULL, &client), EDQUOT);
	ASSERT_STREQ(shmd_error_text(), "limit reached: max-sessions");
	ASSERT(!client);
	fake_join(&fake);
}

static void answer_with_noise(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	static const uint8_t unknown_body[] = {0x9a, 0x06, 0x00}; /* field 99, empty */
	int fd = fake_memfd(PAGE_BYTES);
	struct msg stale;

	msg_init(&stale, MSG_FETCH_REP, req->id + 1000);
	stale.fetch_rep.has_fd = true;
	fake_send(fake, &stale, &fd, 1);
	safe_close(fd);
	fake_send_event(fake, MSG_EVENT_PORT_STATE, 3, "noise");
	fake_send_raw(fake, unknown_body, sizeof(unknown_body));
	send_counters(fake, req->id, 42);
}

TEST(reply_is_found_among_other_packets)
{
	struct fake_daemon fake = {.handle = answer_with_noise};
	struct shmd_counters counters;
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	for (int i = 0; i < 3; i++) {
		ASSERT_OK(shmd_client_counters(client, &counters));
		ASSERT_EQ(counters.wqes, 42);
	}
	finish(&fake, client);
}

static void refuse(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	fake_send_error(fake, req->id, SHMD_STATUS_QUOTA_QPS, "6 QPs asked for, 4 left");
}

TEST(refusal_gives_sentence_and_facts_and_leaves_the_client_alive)
{
	struct fake_daemon fake = {.handle = refuse};
	struct shmd_counters counters;
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	ASSERT_ERR(shmd_client_counters(client, &counters), EDQUOT);
	ASSERT_STREQ(shmd_error_text(), "limit reached: max-qps: 6 QPs asked for, 4 left");
	fake.handle = answer_counters;
	ASSERT_OK(shmd_client_counters(client, &counters));
	finish(&fake, client);
}

static void refuse_kind(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	if (req->kind == MSG_NIC_OPEN_REQ) {
		int fd = fake_memfd(PAGE_BYTES);

		msg_init(&rep, MSG_NIC_OPEN_REP, req->id);
		rep.nic_open_rep.register_offset = SHMD_DB_SEND_OFFSET;
		rep.nic_open_rep.doorbell = 1;
		fake_send(fake, &rep, &fd, 1);
		safe_close(fd);
		return;
	}
	msg_init(&rep, MSG_ERROR_REP, req->id);
	rep.error_rep.status = SHMD_STATUS_MEM_KIND;
	rep.error_rep.accepted_kinds = 1u << MSG_MEM_MEMFD | 1u << MSG_MEM_AGENT;
	fake_send(fake, &rep, NULL, 0);
}

TEST(refused_memory_kind_names_the_accepted_ones)
{
	struct fake_daemon fake = {.handle = refuse_kind};
	struct shmd_mr_attr attr = {.kind = SHMD_MEM_DMABUF, .length_bytes = 4096};
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mr *mr;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	ASSERT_OK(shmd_nic_open(client, NULL, &nic));
	attr.fd = fake_memfd(4096);
	ASSERT_ERR(shmd_mr_reg(nic, &attr, &mr), EOPNOTSUPP);
	ASSERT(strstr(shmd_error_text(), "it accepts memfd, agent"));
	close(attr.fd);
	ASSERT_OK(shmd_nic_close(nic));
	finish(&fake, client);
}

static void answer_other_kind(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	fake_send_ok(fake, req->id);
}

TEST(answer_of_another_kind_ends_the_client)
{
	struct fake_daemon fake = {.handle = answer_other_kind};
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	assert_dead(client, EPROTO);
	finish(&fake, client);
}

static void answer_garbage(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	fake_send_raw(fake, "\xff\xff\xff\xff", 4);
}

TEST(unreadable_packet_ends_the_client)
{
	struct fake_daemon fake = {.handle = answer_garbage};
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	assert_dead(client, EPROTO);
	finish(&fake, client);
}

static void answer_without_promised_fd(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	uint8_t buf[256];
	struct msg rep;
	int n;

	msg_init(&rep, MSG_COUNTERS_REP, req->id);
	rep.n_fds = 1;
	n = msg_encode(&rep, buf, sizeof(buf));
	ASSERT_GT(n, 0);
	fake_send_raw(fake, buf, (size_t)n);
}

TEST(wrong_number_of_descriptors_ends_the_client)
{
	struct fake_daemon fake = {.handle = answer_without_promised_fd};
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	assert_dead(client, EPROTO);
	finish(&fake, client);
}

static sem_t late;

static void answer_late(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	int fd = fake_memfd(PAGE_BYTES);
	struct msg rep;

	if (fake->n_requests == 1) {
		ASSERT_OK(sem_wait(&late));
		msg_init(&rep, MSG_FETCH_REP, req->id);
		rep.fetch_rep.has_fd = true;
		fake_send(fake, &rep, &fd, 1);
	} else {
		send_counters(fake, req->id, 42);
	}
	safe_close(fd);
}

TEST(timeout_is_an_error_and_the_late_reply_is_dropped)
{
	struct shmd_client_attr attr = {.timeout_nsec = NSEC_PER_SEC};
	struct fake_daemon fake = {.handle = answer_late};
	struct shmd_world_key world = {{1}};
	struct shmd_counters counters;
	struct shmd_client *client;
	int fd = -1;

	ASSERT_OK(sem_init(&late, 0, 0));
	ASSERT_OK(fake_open(&fake, &attr, &client));
	ASSERT_ERR(shmd_fetch(client, &world, 0, 0, NULL, NULL, &fd, 0), ETIMEDOUT);
	ASSERT_EQ(fd, -1);
	/* Its answer arrives before the one to the next request. */
	ASSERT_OK(sem_post(&late));
	ASSERT_OK(shmd_client_counters(client, &counters));
	ASSERT_EQ(counters.wqes, 42);
	finish(&fake, client);
}

struct counter_thread {
	struct shmd_client *client;
	pthread_t thread;
};

static void *ask_often(void *arg)
{
	struct counter_thread *t = arg;
	struct shmd_counters counters;

	for (int i = 0; i < 200; i++) {
		ASSERT_OK(shmd_client_counters(t->client, &counters));
		ASSERT_EQ(counters.wqes, 42);
	}
	return NULL;
}

TEST(threads_share_one_client)
{
	struct fake_daemon fake = {.handle = answer_with_noise};
	struct counter_thread threads[4];
	struct shmd_client *client;
	struct shmd_event event;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	for (int i = 0; i < 4; i++) {
		threads[i].client = client;
		ASSERT_OK(pthread_create(&threads[i].thread, NULL, ask_often, &threads[i]));
	}
	for (int i = 0; i < 50; i++)
		ASSERT_OK(shmd_event_next(client, 10 * NSEC_PER_SEC, &event));
	for (int i = 0; i < 4; i++)
		ASSERT_OK(pthread_join(threads[i].thread, NULL));
	finish(&fake, client);
}

TEST(error_text_belongs_to_the_thread)
{
	struct shmd_client *client;

	ASSERT_ERR(shmd_client_open(&(struct shmd_client_attr){.socket_path = "/nonexistent/shmemd.sock"}, &client),
		   ENOENT);
	ASSERT_STREQ(shmd_error_text(), "shmemd is not running: there is no socket /nonexistent/shmemd.sock; "
					"start it with \"shmemd --socket /nonexistent/shmemd.sock\"");
	ASSERT_ERR(shmd_client_open(NULL, NULL), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "ret_client is NULL");
}
