/* SPDX-License-Identifier: Apache-2.0 */
/* What a client does when the daemon dies and its session does not. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/objects.h"
#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

#define FOR_EVER (600 * NSEC_PER_SEC)
#define SOON_NSEC (20 * NSEC_PER_MSEC)
#define PATIENCE_NSEC (10 * NSEC_PER_SEC)

/* ---- daemons ------------------------------------------------------------------------------------------------ */

enum way {
	NEVER,
	BEFORE_IT_IS_DONE,
	BEFORE_THE_REPLY,
	AFTER_THE_REPLY,
	EACH_WAY, /* request by request */
};

/* The state that a daemon keeps of a session, so that it does not carry out a repeated request twice. */
struct kept {
	uint64_t last_id;
	uint64_t n_done;
	unsigned int n_repeated;
	enum way dies; /* at the first request, EACH_WAY at most of them */
	uint64_t died_at; /* the last one; 0: at none */
	ino_t inode[2]; /* of the descriptors that the first two requests brought */
};

static enum way way_of(const struct kept *kept, uint64_t id)
{
	if (kept->died_at == id)
		return NEVER;
	if (kept->dies == EACH_WAY)
		return (enum way)(id % EACH_WAY);
	return kept->died_at ? NEVER : kept->dies;
}

static void tell_counters(struct fake_daemon *fake, uint64_t id, uint64_t n)
{
	struct msg rep;

	msg_init(&rep, MSG_COUNTERS_REP, id);
	rep.counters_rep.counters.wqes = n;
	fake_send(fake, &rep, NULL, 0);
}

static void note_fd(struct fake_daemon *fake, struct fdlist *fds)
{
	struct kept *kept = fake->arg;
	struct stat st;

	if (!fds->n || fake->n_requests > 2)
		return;
	ASSERT_OK(fstat(fds->fds[0], &st));
	kept->inode[fake->n_requests - 1] = st.st_ino;
}

static void die_and_come_back(struct fake_daemon *fake, uint64_t id)
{
	struct kept *kept = fake->arg;

	kept->died_at = id;
	fake_crash(fake);
	fake_come_back(fake);
}

static void reply(struct fake_daemon *fake, const struct msg *req)
{
	struct kept *kept = fake->arg;

	if (req->kind == MSG_COUNTERS_REQ)
		tell_counters(fake, req->id, kept->n_done);
	else
		fake_send_ok(fake, req->id);
}

/* Counts what it carries out, and tells that number. */
static void handle(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct kept *kept = fake->arg;
	enum way way = way_of(kept, req->id);

	note_fd(fake, fds);
	if (way != BEFORE_IT_IS_DONE) {
		if (req->id == kept->last_id)
			kept->n_repeated++;
		else
			kept->n_done++;
		kept->last_id = req->id;
	}
	if (way == NEVER || way == AFTER_THE_REPLY)
		reply(fake, req);
	if (way != NEVER)
		die_and_come_back(fake, req->id);
}

static void die_for_good(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	fake_crash(fake);
}

/* ---- looking ------------------------------------------------------------------------------------------------- */

static void await_restarts(const struct shmd_client *client, unsigned int n)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (shmd_client_restarts(client) < n && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(shmd_client_restarts(client), n);
}

static void await_noticed(struct shmd_client *client)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (!restart_is_away(&client->restart) && nsec_now() < end)
		usleep(1000);
	ASSERT(restart_is_away(&client->restart));
}

static uint32_t health_of(struct shmd_client *client)
{
	return __atomic_load_n(&shmd_client_health_page(client)->session, __ATOMIC_ACQUIRE);
}

static void await_gone(struct shmd_client *client)
{
	const struct shmd_health_page *page = shmd_client_health_page(client);
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (health_of(client) == SHMD_HEALTH_OK && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(health_of(client), SHMD_HEALTH_DAEMON_GONE);
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		ASSERT_EQ(__atomic_load_n(&page->nic[i], __ATOMIC_ACQUIRE), SHMD_HEALTH_DAEMON_GONE);
}

static uint64_t ask(struct shmd_client *client)
{
	struct shmd_counters counters;

	ASSERT_OK(shmd_client_counters(client, &counters));
	return counters.wqes;
}

static void assert_alive(struct shmd_client *client, unsigned int n_restarts)
{
	ASSERT_EQ(shmd_client_restarts(client), n_restarts);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
}

static void assert_dead(struct shmd_client *client, int err, const char *why)
{
	struct pollfd pfd = {.fd = shmd_client_fd(client), .events = POLLIN};
	struct shmd_counters counters;
	struct shmd_event event;

	for (int i = 0; i < 2; i++) {
		test_check_err(TEST_WHERE, "a call on a dead client", shmd_client_counters(client, &counters), err);
		if (!strstr(shmd_error_text(), why))
			ASSERT_STREQ(shmd_error_text(), why);
		while (!shmd_event_next(client, 0, &event))
			;
		test_check_err(TEST_WHERE, "an event of a dead client", shmd_event_next(client, 0, &event), err);
	}
	ASSERT_EQ(poll(&pfd, 1, 0), 1);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_DAEMON_GONE);
}

static struct shmd_client *open_client(struct fake_daemon *fake, uint64_t timeout_nsec)
{
	struct shmd_client_attr attr = {.timeout_nsec = timeout_nsec};
	struct shmd_client *client;

	ASSERT_OK(fake_open(fake, &attr, &client));
	return client;
}

/* ---- death between requests ----------------------------------------------------------------------------------- */

TEST(a_restart_while_nobody_calls_is_an_event_and_nothing_else)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	struct pollfd pfd = {.fd = shmd_client_fd(client), .events = POLLIN};
	struct shmd_event event;

	ASSERT(fake.hello_resumes);
	fake_send_event(&fake, MSG_EVENT_QP_ERROR, 0x17, "of the former daemon");
	fake_crash(&fake);
	fake_come_back(&fake);
	await_restarts(client, 1);
	ASSERT_EQ(health_of(client), SHMD_HEALTH_OK);
	ASSERT_EQ(poll(&pfd, 1, 0), 1);
	ASSERT_OK(shmd_event_next(client, PATIENCE_NSEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_QP_ERROR);
	ASSERT_OK(shmd_event_next(client, PATIENCE_NSEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_DAEMON_RESUMED);
	ASSERT_EQ(event.number, 1);
	ASSERT_STREQ(event.text, "fake 1.2.4 has restarted and taken this session over");
	ASSERT_ERR(shmd_event_next(client, 0, &event), EAGAIN);
	ASSERT_EQ(poll(&pfd, 1, 0), 0);
	ASSERT_EQ(ask(client), 1);
	ASSERT_EQ(kept.n_repeated, 0);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(while_there_is_no_daemon_health_and_events_are_quiet)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	struct shmd_event event;

	fake_crash(&fake);
	await_noticed(client);
	assert_alive(client, 0);
	ASSERT_ERR(shmd_event_next(client, 0, &event), EAGAIN);
	fake_come_back(&fake);
	ASSERT_OK(shmd_event_next(client, PATIENCE_NSEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_DAEMON_RESUMED);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(each_restart_has_a_pipe_and_a_grace_of_its_own)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	for (unsigned int i = 1; i <= 50; i++) {
		fake_crash(&fake);
		fake_come_back(&fake);
		await_restarts(client, i);
	}
	/* The last one said another time. */
	fake.grace_nsec = SOON_NSEC;
	fake_crash(&fake);
	fake_come_back(&fake);
	await_restarts(client, 51);
	fake_crash(&fake);
	await_gone(client);
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(closing_waits_for_no_daemon)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_noticed(client);
	shmd_client_close(client);
	fake_join(&fake);
	ASSERT(fake.saw_end);
}

/* ---- death with a request under way ------------------------------------------------------------------------------- */

static void one_request(struct kept *kept)
{
	struct fake_daemon fake = {.handle = handle, .arg = kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	ASSERT_EQ(ask(client), 1);
	await_restarts(client, 1);
	ASSERT_EQ(ask(client), 2);
	assert_alive(client, 1);
	ASSERT_EQ(kept->n_done, 2);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(request_that_was_lost_is_sent_again)
{
	struct kept kept = {.dies = BEFORE_IT_IS_DONE};

	one_request(&kept);
	ASSERT_EQ(kept.n_repeated, 0);
}

TEST(request_whose_reply_was_lost_is_sent_again_and_carried_out_once)
{
	struct kept kept = {.dies = BEFORE_THE_REPLY};

	one_request(&kept);
	ASSERT_EQ(kept.n_repeated, 1);
}

TEST(reply_that_lies_in_the_socket_is_taken)
{
	struct kept kept = {.dies = AFTER_THE_REPLY};

	one_request(&kept);
	ASSERT_EQ(kept.n_repeated, 0);
}

TEST(descriptors_are_sent_again_too)
{
	struct kept kept = {.dies = BEFORE_IT_IS_DONE};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	struct shmd_world world = {{1}};
	int fd = fake_memfd(4096);
	struct stat st;

	ASSERT_OK(fstat(fd, &st));
	ASSERT_OK(shmd_publish(client, &world, 0, 0, NULL, 0, fd));
	ASSERT_EQ(fake.n_requests, 2);
	ASSERT_EQ(kept.inode[0], st.st_ino);
	ASSERT_EQ(kept.inode[1], st.st_ino);
	close(fd);
	shmd_client_close(client);
	fake_join(&fake);
}

static void *ask_in_thread(void *arg)
{
	ASSERT_EQ(ask(arg), 1);
	return NULL;
}

/* The next daemon reads what was sent meanwhile, and then the copy. */
TEST(request_made_meanwhile_waits_and_is_carried_out_once)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	struct pollfd pfd;
	pthread_t thread;

	fake_crash(&fake);
	await_noticed(client);
	ASSERT_OK(pthread_create(&thread, NULL, ask_in_thread, client));
	pfd = (struct pollfd){.fd = fake.sock, .events = POLLIN};
	ASSERT_EQ(poll(&pfd, 1, (int)(PATIENCE_NSEC / NSEC_PER_MSEC)), 1);
	fake_come_back(&fake);
	ASSERT_OK(pthread_join(thread, NULL));
	/* Late second replies are no replies of these. */
	ASSERT_EQ(ask(client), 2);
	ASSERT_EQ(ask(client), 3);
	ASSERT_EQ(kept.n_done, 3);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

#define N_THREADS 4
#define N_CALLS 60

static void *ask_often(void *arg)
{
	for (int i = 0; i < N_CALLS; i++)
		ask(arg);
	return NULL;
}

TEST(threads_go_on_through_many_restarts)
{
	struct kept kept = {.dies = EACH_WAY};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, FOR_EVER);
	pthread_t threads[N_THREADS];

	for (int i = 0; i < N_THREADS; i++)
		ASSERT_OK(pthread_create(&threads[i], NULL, ask_often, client));
	for (int i = 0; i < N_THREADS; i++)
		ASSERT_OK(pthread_join(threads[i], NULL));
	ASSERT_EQ(kept.n_done, N_THREADS * N_CALLS);
	ASSERT_GE(shmd_client_restarts(client), N_THREADS * N_CALLS / 2);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	shmd_client_close(client);
	fake_join(&fake);
}

/* ---- death in Hello ----------------------------------------------------------------------------------------------- */

static void open_through_deaths(unsigned int n)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER, .n_hello_deaths = n};
	struct shmd_client *client = open_client(&fake, 0);
	struct shmd_event event;

	ASSERT_EQ(fake.n_hellos, n + 1);
	/* There was no session yet that could have been taken over. */
	ASSERT_ERR(shmd_event_next(client, 0, &event), EAGAIN);
	assert_alive(client, 0);
	ASSERT_EQ(ask(client), 1);
	fake_crash(&fake);
	fake_come_back(&fake);
	await_restarts(client, 1);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(hello_is_said_again_to_the_next_daemon)
{
	open_through_deaths(1);
	open_through_deaths(3);
}

/* A socket that clients find, and daemons behind it of which the first so many die without a word. */
struct listener {
	char folder[64], path[96];
	int sock;
	unsigned int n_deaths;
	bool leaves; /* the first takes the socket with it */
	struct fake_daemon fake;
	pthread_t thread;
};

/* Before it reads Hello, and after. */
static void die_silently(const struct listener *listener, int sock, bool reads)
{
	char byte;

	if (reads)
		ASSERT_EQ(recv(sock, &byte, 1, 0), 1);
	if (listener->leaves)
		ASSERT_OK(unlink(listener->path));
	close(sock);
}

static void *listen_and_die(void *arg)
{
	struct listener *listener = arg;

	for (unsigned int i = 0;; i++) {
		int sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC);

		if (sock < 0)
			return NULL;
		if (i >= listener->n_deaths) {
			fake_serve(&listener->fake, sock);
			return NULL;
		}
		die_silently(listener, sock, i % 2);
	}
}

static void listener_start(struct listener *listener)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *tmp = getenv("TMPDIR");

	snprintf(listener->folder, sizeof(listener->folder), "%s/shmemd-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	ASSERT(mkdtemp(listener->folder));
	snprintf(listener->path, sizeof(listener->path), "%s/sock", listener->folder);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", listener->path);
	listener->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ASSERT_GE(listener->sock, 0);
	ASSERT_OK(bind(listener->sock, (struct sockaddr *)&addr, sizeof(addr)));
	ASSERT_OK(listen(listener->sock, 8));
	ASSERT_OK(pthread_create(&listener->thread, NULL, listen_and_die, listener));
}

static void listener_stop(struct listener *listener)
{
	ASSERT_OK(shutdown(listener->sock, SHUT_RDWR));
	ASSERT_OK(pthread_join(listener->thread, NULL));
	close(listener->sock);
	if (!listener->leaves)
		ASSERT_OK(unlink(listener->path));
	ASSERT_OK(rmdir(listener->folder));
}

TEST(client_without_a_session_connects_anew_to_the_next_daemon)
{
	struct kept kept = {};
	struct listener listener = {.n_deaths = 4, .fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER}};
	const struct shmd_client_attr attr = {.socket_path = listener.path, .timeout_nsec = FOR_EVER};
	struct shmd_client *client;

	listener_start(&listener);
	ASSERT_OK(shmd_client_open(&attr, &client));
	ASSERT_EQ(client->timeout_nsec, FOR_EVER);
	ASSERT_EQ(ask(client), 1);
	assert_alive(client, 0);
	shmd_client_close(client);
	fake_join(&listener.fake);
	listener_stop(&listener);
}

static void stop_at_hello(struct fake_daemon *fake)
{
	struct msg msg;

	msg_init(&msg, MSG_EVENT, 0);
	msg.event.kind = MSG_EVENT_SESSION_END;
	msg.event.detail = SHMD_STATUS_SHUTDOWN;
	fake_send(fake, &msg, NULL, 0);
}

/* Whoever opens one by a path connects anew then. */
TEST(daemon_that_stops_before_it_has_answered_hello_has_hung_up)
{
	struct fake_daemon fake = {.in_hello = stop_at_hello, .n_hello_deaths = 1};
	struct shmd_client *client;

	ASSERT_ERR(fake_open(&fake, NULL, &client), ECONNRESET);
	ASSERT_STREQ(shmd_error_text(), "shmemd stopped before it had opened the session");
	fake_stop(&fake);
}

/* One that is no more. */
TEST(client_that_cannot_connect_anew_says_so)
{
	struct listener listener = {.n_deaths = 1, .leaves = true};
	const struct shmd_client_attr attr = {.socket_path = listener.path, .timeout_nsec = FOR_EVER};
	struct shmd_client *client;

	listener_start(&listener);
	ASSERT_ERR(shmd_client_open(&attr, &client), ENOENT);
	listener_stop(&listener);
}

TEST(client_connects_anew_no_longer_than_a_request_may_take)
{
	struct listener listener = {.n_deaths = 1000};
	const struct shmd_client_attr attr = {.socket_path = listener.path, .timeout_nsec = 2 * SOON_NSEC};
	uint64_t begin = nsec_now();
	struct shmd_client *client;
	int r;

	listener_start(&listener);
	r = shmd_client_open(&attr, &client);
	ASSERT(r == -ECONNRESET || r == -ETIMEDOUT);
	ASSERT_LT(nsec_now() - begin, PATIENCE_NSEC);
	listener_stop(&listener);
}

/* ---- no next daemon ------------------------------------------------------------------------------------------------- */

TEST(after_the_grace_it_is_gone_without_a_call)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = SOON_NSEC};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_gone(client);
	assert_dead(client, ECONNRESET, "shmemd is gone: it died and did not come back within 0.02 s");
	/* A daemon that comes late sees that nobody is there. */
	fake_join(&fake);
	ASSERT(fake.saw_end);
	shmd_client_close(client);
}

TEST(grace_of_nothing_is_none)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = 1};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_gone(client);
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(request_under_way_ends_with_the_grace)
{
	struct fake_daemon fake = {.handle = die_for_good, .grace_nsec = SOON_NSEC};
	struct shmd_client *client = open_client(&fake, FOR_EVER);

	assert_dead(client, ECONNRESET, "did not come back within 0.02 s");
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(end_of_the_connection_is_final_at_once)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_noticed(client);
	fake_stop(&fake);
	await_gone(client);
	assert_dead(client, ECONNRESET, "the connection to shmemd broke");
	shmd_client_close(client);
}

TEST(daemon_that_does_not_keep_sessions_ends_them)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept};
	struct shmd_client *client = open_client(&fake, 0);

	ASSERT(fake.hello_resumes);
	ASSERT_EQ(client->restart.wake_fd, -1);
	fake_stop(&fake);
	await_gone(client);
	assert_dead(client, ECONNRESET, "the connection to shmemd broke");
	ASSERT_EQ(shmd_client_restarts(client), 0);
	shmd_client_close(client);
}

TEST(controllers_ask_for_nothing)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, &attr, &client));
	ASSERT(!fake.hello_resumes);
	ASSERT_EQ(shmd_client_restarts(client), 0);
	ASSERT_EQ(shmd_client_restarts(NULL), 0);
	shmd_client_close(client);
	fake_join(&fake);
}

/* ---- time limits ------------------------------------------------------------------------------------------------------ */

TEST(a_call_waits_no_longer_than_its_own_time)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	struct shmd_counters counters;

	client->timeout_nsec = SOON_NSEC;
	fake_crash(&fake);
	await_noticed(client);
	ASSERT_ERR(shmd_client_counters(client, &counters), ETIMEDOUT);
	ASSERT(strstr(shmd_error_text(), "did not answer counters-req in time: it died and is not back yet"));
	assert_alive(client, 0);
	fake_come_back(&fake);
	await_restarts(client, 1);
	/* Nobody waits for that one: it is not sent again. Its reply is late like any other. */
	client->timeout_nsec = FOR_EVER;
	ASSERT_EQ(ask(client), 2);
	ASSERT_EQ(kept.n_repeated, 0);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(socket_that_is_full_is_waited_for)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	struct shmd_counters counters;
	bool is_full = false;

	client->timeout_nsec = NSEC_PER_USEC;
	fake_crash(&fake);
	await_noticed(client);
	for (int i = 0; i < 100000 && !is_full; i++) {
		ASSERT_ERR(shmd_client_counters(client, &counters), ETIMEDOUT);
		is_full = strstr(shmd_error_text(), "shmemd takes no requests: it died and is not back yet");
	}
	ASSERT(is_full);
	client->timeout_nsec = FOR_EVER;
	fake_come_back(&fake);
	ask(client);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

/* Whoever has the lock reads the news, and may do something else first. */
TEST(news_that_lie_in_the_socket_in_time_count_later)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = SOON_NSEC};
	struct shmd_client *client = open_client(&fake, 0);

	client_lock(client);
	fake.grace_nsec = FOR_EVER;
	fake_crash(&fake);
	fake_come_back(&fake);
	await_noticed(client);
	usleep(3 * SOON_NSEC / NSEC_PER_USEC);
	ASSERT_EQ(health_of(client), SHMD_HEALTH_OK);
	client_unlock(client);
	await_restarts(client, 1);
	assert_alive(client, 1);
	ASSERT_EQ(ask(client), 1);
	shmd_client_close(client);
	fake_join(&fake);
}

/* ---- processes -------------------------------------------------------------------------------------------------------- */

static int in_child(struct shmd_client *client)
{
	struct shmd_counters counters;

	if (shmd_client_counters(client, &counters) != -ECHILD || shmd_client_health(client) != -ECHILD)
		return 1;
	shmd_client_close(client);
	return 0;
}

TEST(a_child_forked_meanwhile_leaves_the_session_alone)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	int status;
	pid_t pid;

	fake_crash(&fake);
	await_noticed(client);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		_exit(in_child(client));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	assert_alive(client, 0);
	fake_come_back(&fake);
	await_restarts(client, 1);
	ASSERT_EQ(ask(client), 1);
	shmd_client_close(client);
	fake_join(&fake);
}

/* ---- what no daemon should send ---------------------------------------------------------------------------------------- */

static void send_news(struct fake_daemon *fake, uint32_t index, const int *fds, unsigned int n_fds)
{
	struct msg msg;

	msg_init(&msg, MSG_RESUMED_EVENT, 0);
	msg.resumed_event.watch_fd = index;
	msg.resumed_event.restart_grace_nsec = FOR_EVER;
	fake_send(fake, &msg, fds, n_fds);
}

static void ignore(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
}

static void expect_news_refused(uint64_t grace_nsec, uint32_t index, const int *fds, unsigned int n_fds, const char *why)
{
	struct fake_daemon fake = {.handle = ignore, .grace_nsec = grace_nsec};
	struct shmd_client *client = open_client(&fake, 0);

	send_news(&fake, index, fds, n_fds);
	assert_dead(client, EPROTO, why);
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(news_without_a_proper_socket_end_the_client)
{
	const char *why = "without a socket to watch";
	int memfd = fake_memfd(4096), pair[2], pipefds[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	ASSERT_OK(pipe2(pipefds, O_CLOEXEC));
	expect_news_refused(FOR_EVER, 0, NULL, 0, why);
	expect_news_refused(FOR_EVER, 1, pair, 1, why);
	expect_news_refused(FOR_EVER, UINT32_MAX, pair, 1, why);
	expect_news_refused(FOR_EVER, 0, &memfd, 1, why);
	expect_news_refused(FOR_EVER, 0, pipefds, 1, why);
	expect_news_refused(0, 0, pair, 1, "to a client that watches for none");
	close(memfd);
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(pipefds[i]);
	}
}

/* It read nothing of its own death: the connection stays until the grace is over, then it is closed. */
TEST(bad_news_while_it_is_away_end_the_client_at_once)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_noticed(client);
	send_news(&fake, 0, NULL, 0);
	await_gone(client);
	assert_dead(client, EPROTO, "without a socket to watch");
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(news_of_no_death_change_little)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	for (unsigned int i = 0; i < 2 * CLIENT_EVENTS_MAX; i++)
		fake_come_back(&fake);
	ASSERT_EQ(ask(client), 1);
	assert_alive(client, 2 * CLIENT_EVENTS_MAX);
	/* The last one is the one that counts. */
	fake_crash(&fake);
	await_noticed(client);
	fake_come_back(&fake);
	await_restarts(client, 2 * CLIENT_EVENTS_MAX + 1);
	shmd_client_close(client);
	fake_join(&fake);
}

/* It dies again and again before it has said anything: one grace for all. */
TEST(next_daemon_that_dies_silently_gives_no_new_time)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = SOON_NSEC};
	struct shmd_client *client = open_client(&fake, 0);
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	fake_crash(&fake);
	/* Earlier reports carry no news. */
	while (health_of(client) == SHMD_HEALTH_OK && nsec_now() < end) {
		fake_send_event(&fake, MSG_EVENT_PORT_STATE, 2, "of a daemon that dies");
		usleep(2000);
	}
	await_gone(client);
	shmd_client_close(client);
	fake_stop(&fake);
}

static void expect_hello_refused(int watch_fd, uint32_t index, const char *why)
{
	struct kept kept = {};
	struct fake_daemon fake = {.handle = handle, .arg = &kept, .grace_nsec = FOR_EVER, .hello_watch_fd = watch_fd,
				   .hello_watch_index = index};
	struct shmd_client *client;

	ASSERT_ERR(fake_open(&fake, NULL, &client), EPROTO);
	if (!strstr(shmd_error_text(), why))
		ASSERT_STREQ(shmd_error_text(), why);
	fake_stop(&fake);
}

TEST(hello_with_something_else_to_watch_is_refused)
{
	int memfd = fake_memfd(4096), pair[2], pipefds[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	ASSERT_OK(pipe2(pipefds, O_CLOEXEC));
	expect_hello_refused(memfd, 0, "not a socket");
	expect_hello_refused(pipefds[0], 0, "not a socket");
	expect_hello_refused(pair[0], 1, "lacks descriptor 0");
	expect_hello_refused(pair[0], 9, "lacks descriptor 8");
	close(memfd);
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(pipefds[i]);
	}
}
