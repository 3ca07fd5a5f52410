/* SPDX-License-Identifier: Apache-2.0 */
/* A client whose daemon goes or ends the session, or whose process forks. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/objects.h"
#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

static void answer(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	msg_init(&rep, MSG_COUNTERS_REP, req->id);
	fake_send(fake, &rep, NULL, 0);
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void await_health(const struct shmd_health_page *page, uint32_t health)
{
	uint64_t end = nsec_now() + 10 * NSEC_PER_SEC;

	while (load(&page->session) == SHMD_HEALTH_OK && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(load(&page->session), health);
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		ASSERT_EQ(load(&page->nic[i]), health);
}

TEST(daemon_death_is_in_every_health_word_without_a_call)
{
	struct fake_daemon fake = {.handle = answer};
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	fake_stop(&fake);
	await_health(shmd_client_health_page(client), SHMD_HEALTH_DAEMON_GONE);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_DAEMON_GONE);
	shmd_client_close(client);
}

TEST(a_final_health_word_stays_and_port_down_gives_way)
{
	struct fake_daemon fake = {.handle = answer};
	struct shmd_health_page *page;
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	page = shmd_client_health_page(client);
	__atomic_store_n(&page->nic[3], SHMD_HEALTH_NIC_LOST, __ATOMIC_RELEASE);
	__atomic_store_n(&page->nic[5], SHMD_HEALTH_PORT_DOWN, __ATOMIC_RELEASE);
	fake_stop(&fake);
	while (load(&page->session) == SHMD_HEALTH_OK)
		usleep(1000);
	ASSERT_EQ(load(&page->nic[3]), SHMD_HEALTH_NIC_LOST);
	ASSERT_EQ(load(&page->nic[4]), SHMD_HEALTH_DAEMON_GONE);
	ASSERT_EQ(load(&page->nic[5]), SHMD_HEALTH_DAEMON_GONE);
	shmd_client_close(client);
}

TEST(after_death_every_call_gives_the_same_error)
{
	struct fake_daemon fake = {.handle = answer};
	struct shmd_counters counters;
	struct shmd_world_key world = {{1}};
	struct shmd_client *client;
	struct shmd_event event;
	struct pollfd pfd;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	fake_stop(&fake);
	for (int i = 0; i < 3; i++) {
		ASSERT_ERR(shmd_client_counters(client, &counters), ECONNRESET);
		ASSERT(strstr(shmd_error_text(), "the connection to shmemd broke"));
		ASSERT_ERR(shmd_publish(client, &world, 0, 0, NULL, 0, -1), ECONNRESET);
		ASSERT_ERR(shmd_event_next(client, 10 * NSEC_PER_SEC, &event), ECONNRESET);
		ASSERT(strstr(shmd_error_text(), "the connection to shmemd broke"));
	}
	pfd = (struct pollfd){.fd = shmd_client_fd(client), .events = POLLIN};
	ASSERT_EQ(poll(&pfd, 1, 0), 1);
	shmd_client_close(client);
}

/* As shmemd does it: the word, the event, the hang-up. */
static void end_session(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	client_set_health(fake->health, SHMD_HEALTH_SESSION_ENDED);
	fake_send_event(fake, MSG_EVENT_SESSION_END, SHMD_STATUS_KILLED, "killed by uid 0");
	shutdown(fake->sock, SHUT_RDWR);
}

TEST(session_end_is_an_event_and_the_reason_from_then_on)
{
	struct fake_daemon fake = {.handle = end_session};
	struct shmd_counters counters;
	struct shmd_client *client;
	struct shmd_event event;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	ASSERT_ERR(shmd_client_counters(client, &counters), ECANCELED);
	ASSERT_STREQ(shmd_error_text(), "an administrator ended the session: killed by uid 0");
	ASSERT_OK(shmd_event_next(client, 0, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_SESSION_END);
	ASSERT_ERR(shmd_event_next(client, 0, &event), ECANCELED);
	ASSERT_ERR(shmd_client_counters(client, &counters), ECANCELED);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_SESSION_ENDED);
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(reason_sent_before_the_hang_up_is_found_by_the_next_request)
{
	struct fake_daemon fake = {.handle = answer};
	struct shmd_counters counters;
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	fake_send_event(&fake, MSG_EVENT_SESSION_END, SHMD_STATUS_SHUTDOWN, "");
	fake_stop(&fake);
	ASSERT_ERR(shmd_client_counters(client, &counters), ESHUTDOWN);
	ASSERT_STREQ(shmd_error_text(), "the daemon is stopping");
	shmd_client_close(client);
}

static int in_child(struct shmd_client *client, struct shmd_mem *mem)
{
	struct shmd_counters counters;
	struct shmd_event event;
	struct shmd_mem *other;

	if (shmd_client_counters(client, &counters) != -ECHILD ||
	    shmd_client_health(client) != -ECHILD || shmd_mem_alloc(client, 1, &other) != -ECHILD ||
	    shmd_event_next(client, 0, &event) != -ECHILD)
		return 1;
	if (!strstr(shmd_error_text(), "forked"))
		return 2;
	/* Mappings are shared: what the child writes the parent reads. */
	*(volatile int *)shmd_mem_addr(mem) = 5;
	shmd_mem_free(mem);
	shmd_client_close(client);
	return 0;
}

TEST(a_forked_child_gets_echild_and_leaves_the_session_alone)
{
	struct fake_daemon fake = {.handle = answer};
	struct shmd_counters counters;
	struct shmd_client *client;
	struct shmd_mem *mem;
	int status;
	pid_t pid;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	ASSERT_OK(shmd_mem_alloc(client, 4096, &mem));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		_exit(in_child(client, mem));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	ASSERT_OK(shmd_client_counters(client, &counters));
	ASSERT_EQ(*(int *)shmd_mem_addr(mem), 5);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(closing_ends_the_session_although_a_child_holds_the_socket)
{
	struct fake_daemon fake = {.handle = answer};
	struct shmd_client *client;
	int hold[2], status;
	char byte;
	pid_t pid;

	ASSERT_OK(pipe(hold));
	ASSERT_OK(fake_open(&fake, NULL, &client));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
	}
	shmd_client_close(client);
	fake_join(&fake);
	ASSERT(fake.saw_end);
	close(hold[0]);
	close(hold[1]);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

TEST(control_client_has_no_health_page_and_no_thread)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	struct fake_daemon fake = {.handle = answer};
	struct shmd_client *client;

	ASSERT_OK(fake_open(&fake, &attr, &client));
	ASSERT(!shmd_client_health_page(client));
	ASSERT(!client->has_watcher);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	fake_stop(&fake);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_DAEMON_GONE);
	shmd_client_close(client);
}

TEST(null_clients_are_refused_or_nothing)
{
	struct shmd_counters counters;

	shmd_client_close(NULL);
	shmd_mem_free(NULL);
	ASSERT_ERR(shmd_client_counters(NULL, &counters), EINVAL);
	ASSERT_ERR(shmd_nic_close(NULL), EINVAL);
	ASSERT_ERR(shmd_mr_dereg(NULL), EINVAL);
	ASSERT_ERR(shmd_queues_destroy(NULL), EINVAL);
	ASSERT_EQ(shmd_client_fd(NULL), -1);
	ASSERT_EQ(shmd_queues_count(NULL), 0);
}
