/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/restart-lab.h"

#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

static enum way way_of(const struct saved *saved, uint64_t id)
{
	if (saved->died_at == id)
		return NEVER;
	if (saved->dies == EACH_WAY)
		return (enum way)(id % EACH_WAY);
	return saved->died_at ? NEVER : saved->dies;
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
	struct saved *saved = fake->arg;
	struct stat st;

	if (!fds->n || fake->n_requests > 2)
		return;
	ASSERT_OK(fstat(fds->fds[0], &st));
	saved->inode[fake->n_requests - 1] = st.st_ino;
}

static void die_and_come_back(struct fake_daemon *fake, uint64_t id)
{
	struct saved *saved = fake->arg;

	saved->died_at = id;
	fake_crash(fake);
	fake_come_back(fake);
}

static void reply(struct fake_daemon *fake, const struct msg *req)
{
	struct saved *saved = fake->arg;

	if (req->kind == MSG_COUNTERS_REQ)
		tell_counters(fake, req->id, saved->n_done);
	else
		fake_send_ok(fake, req->id);
}

/* Counts what it carries out, and tells that number. */
void handle(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct saved *saved = fake->arg;
	enum way way = way_of(saved, req->id);

	note_fd(fake, fds);
	if (way != BEFORE_IT_IS_DONE) {
		if (req->id == saved->last_id)
			saved->n_repeated++;
		else
			saved->n_done++;
		saved->last_id = req->id;
	}
	if (way == NEVER || way == AFTER_THE_REPLY)
		reply(fake, req);
	if (way != NEVER)
		die_and_come_back(fake, req->id);
}

void await_restarts(const struct shmd_client *client, unsigned int n)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (shmd_client_restarts(client) < n && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(shmd_client_restarts(client), n);
}

void await_noticed(struct shmd_client *client)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (!restart_is_away(&client->restart) && nsec_now() < end)
		usleep(1000);
	ASSERT(restart_is_away(&client->restart));
}

uint32_t health_of(struct shmd_client *client)
{
	return __atomic_load_n(&shmd_client_health_page(client)->session, __ATOMIC_ACQUIRE);
}

void await_gone(struct shmd_client *client)
{
	const struct shmd_health_page *page = shmd_client_health_page(client);
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (health_of(client) == SHMD_HEALTH_OK && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(health_of(client), SHMD_HEALTH_DAEMON_GONE);
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		ASSERT_EQ(__atomic_load_n(&page->nic[i], __ATOMIC_ACQUIRE), SHMD_HEALTH_DAEMON_GONE);
}

uint64_t ask(struct shmd_client *client)
{
	struct shmd_counters counters;

	ASSERT_OK(shmd_client_counters(client, &counters));
	return counters.wqes;
}

void assert_alive(struct shmd_client *client, unsigned int n_restarts)
{
	ASSERT_EQ(shmd_client_restarts(client), n_restarts);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
}

void assert_dead(struct shmd_client *client, int err, const char *why)
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

struct shmd_client *open_client(struct fake_daemon *fake, uint64_t timeout_nsec)
{
	struct shmd_client_attr attr = {.timeout_nsec = timeout_nsec};
	struct shmd_client *client;

	ASSERT_OK(fake_open(fake, &attr, &client));
	return client;
}
