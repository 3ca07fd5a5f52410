/* SPDX-License-Identifier: Apache-2.0 */
/* A client whose daemon dies and whose session does not. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/client/restart-lab.h"

static void die_for_good(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	fake_crash(fake);
}

/* ---- death between requests ----------------------------------------------------------------------------------- */

TEST(a_restart_between_calls_is_an_event_and_nothing_else)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
	ASSERT_EQ(saved.n_repeated, 0);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(while_there_is_no_daemon_health_and_events_are_quiet)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_noticed(client);
	shmd_client_close(client);
	fake_join(&fake);
	ASSERT(fake.saw_end);
}

/* ---- death with a request under way ------------------------------------------------------------------------------- */

static void one_request(struct saved *saved)
{
	struct fake_daemon fake = {.handle = handle, .arg = saved, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	ASSERT_EQ(ask(client), 1);
	await_restarts(client, 1);
	ASSERT_EQ(ask(client), 2);
	assert_alive(client, 1);
	ASSERT_EQ(saved->n_done, 2);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(request_that_was_lost_is_sent_again)
{
	struct saved saved = {.dies = BEFORE_IT_IS_DONE};

	one_request(&saved);
	ASSERT_EQ(saved.n_repeated, 0);
}

TEST(request_whose_reply_was_lost_is_sent_again_and_carried_out_once)
{
	struct saved saved = {.dies = BEFORE_THE_REPLY};

	one_request(&saved);
	ASSERT_EQ(saved.n_repeated, 1);
}

TEST(reply_that_lies_in_the_socket_is_taken)
{
	struct saved saved = {.dies = AFTER_THE_REPLY};

	one_request(&saved);
	ASSERT_EQ(saved.n_repeated, 0);
}

TEST(descriptors_are_sent_again_too)
{
	struct saved saved = {.dies = BEFORE_IT_IS_DONE};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);
	struct shmd_world_key world = {{1}};
	int fd = fake_memfd(4096);
	struct stat st;

	ASSERT_OK(fstat(fd, &st));
	ASSERT_OK(shmd_publish(client, &world, 0, 0, NULL, 0, fd));
	ASSERT_EQ(fake.n_requests, 2);
	ASSERT_EQ(saved.inode[0], st.st_ino);
	ASSERT_EQ(saved.inode[1], st.st_ino);
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
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
	ASSERT_EQ(saved.n_done, 3);
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
	struct saved saved = {.dies = EACH_WAY};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, FOR_EVER);
	pthread_t threads[N_THREADS];

	for (int i = 0; i < N_THREADS; i++)
		ASSERT_OK(pthread_create(&threads[i], NULL, ask_often, client));
	for (int i = 0; i < N_THREADS; i++)
		ASSERT_OK(pthread_join(threads[i], NULL));
	ASSERT_EQ(saved.n_done, N_THREADS * N_CALLS);
	ASSERT_GE(shmd_client_restarts(client), N_THREADS * N_CALLS / 2);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	shmd_client_close(client);
	fake_join(&fake);
}

/* ---- no next daemon ------------------------------------------------------------------------------------------------- */

TEST(after_the_grace_it_is_gone_without_a_call)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = SOON_NSEC};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_gone(client);
	assert_dead(client, ECONNRESET, "shmemd is gone: it died and did not come back within 0.02 s");
	/* A daemon that comes late sees that the client is gone. */
	fake_join(&fake);
	ASSERT(fake.saw_end);
	shmd_client_close(client);
}

TEST(grace_of_nothing_is_none)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = 1};
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
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_noticed(client);
	fake_stop(&fake);
	await_gone(client);
	assert_dead(client, ECONNRESET, "the connection to shmemd broke");
	shmd_client_close(client);
}

TEST(daemon_that_does_not_save_sessions_ends_them)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved};
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
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
	/* No call waits for that one: it is not sent again. Its reply is late like any other. */
	client->timeout_nsec = FOR_EVER;
	ASSERT_EQ(ask(client), 2);
	ASSERT_EQ(saved.n_repeated, 0);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(socket_that_is_full_is_waited_for)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
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
