/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health page of a session: one word for the session and one for each NIC, which kernels read while they wait.
 *
 * A word keeps its first final value. "Port down" alone is not final. It is set in every session that has the NIC open, or opens it
 * while its port is down, and ends waits on that NIC. Port up clears it by compare-and-swap, and the waits may be repeated. A lost
 * NIC, the session's end and a daemon that is gone replace it. The page is shared with the client and may hold anything, so this
 * file writes it and never trusts it.
 *
 * Mapping and unmapping may wait for the memory of a user who stalls, and a client can punch a hole into its page, for which
 * its writers then wait. So workers map the page, write it and unmap it, on all NICs that have workers. Control thread, except
 * session_health_write() and session_make_health().
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

static bool health_replace(uint32_t *word, uint32_t old, uint32_t value)
{
	return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* One try for each value that gives way: the library writes final values only. */
static void health_set_final(uint32_t *word, uint32_t value)
{
	if (!health_replace(word, SHMD_HEALTH_OK, value))
		health_replace(word, SHMD_HEALTH_PORT_DOWN, value);
}

static bool has(uint64_t bits, unsigned int i)
{
	return bits >> i & 1;
}

void session_health_write(struct shmd_health_page *page, const struct health_news *news)
{
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++) {
		if (has(news->lost, i))
			health_set_final(&page->nic[i], SHMD_HEALTH_NIC_LOST);
		else if (has(news->down, i))
			health_replace(&page->nic[i], SHMD_HEALTH_OK, SHMD_HEALTH_PORT_DOWN);
		else if (has(news->active, i))
			health_replace(&page->nic[i], SHMD_HEALTH_PORT_DOWN, SHMD_HEALTH_OK);
	}
	if (!news->has_ended)
		return;
	health_set_final(&page->session, SHMD_HEALTH_SESSION_ENDED);
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		health_set_final(&page->nic[i], SHMD_HEALTH_SESSION_ENDED);
}

/* ---- by a worker ------------------------------------------------------------------------------------------------- */

struct health_write {
	struct work work;
	struct session *session; /* it is not freed before this is done */
	struct shmd_health_page *page;
	struct health_news news;
};

static bool is_news(const struct health_news *news)
{
	return news->has_ended || (news->lost | news->down | news->active) != 0;
}

static void write_run(struct work *work)
{
	struct health_write *write = container_of(work, struct health_write, work);

	session_health_write(write->page, &write->news);
}

static void write_news(struct session *session);

static void write_done(struct work *work)
{
	struct health_write *write = container_of(work, struct health_write, work);
	struct session *session = write->session;

	session->health_write = NULL;
	free(write);
	/* While firmware closes its contexts, kernels wait for the words of its end. */
	if (session->released && (!session->busy || session->contexts_closed))
		session->release(session);
	else
		write_news(session);
}

/* Without memory or a worker, the next call writes the news, or the teardown. */
static void write_news(struct session *session)
{
	struct health_write *write;

	if (session->health_write || !is_news(&session->health_news))
		return;
	write = malloc(sizeof(*write));
	if (!write)
		return;
	*write = (struct health_write){
		.work = {.users = {session->user.uid, session->user.cgroup}, .run = write_run, .done = write_done},
		.session = session, .page = session->health ? session->health : session->last_health, .news = session->health_news};
	session->health_news = (struct health_news){0};
	session->health_write = write;
	if (registry_run_at_memory(session->registry, &write->work)) {
		session->health_write = NULL;
		free(write);
	}
}

/* A session that an import gives up is freed at once, so no worker may hold it: it has no `release` yet. */
static void publish(struct session *session)
{
	if (registry_has_busy(session->registry) && session->release) {
		write_news(session);
		return;
	}
	session_health_write(session->health, &session->health_news);
	session->health_news = (struct health_news){0};
}

void session_health_port(struct session *session, const struct session_nic *nic, enum nic_port_state state)
{
	struct health_news *news = &session->health_news;
	uint64_t bit = UINT64_C(1) << nic->index;

	/* It is being torn down. */
	if (!session->health)
		return;
	if (state == NIC_PORT_ACTIVE && !(session->told_down & bit))
		return;
	session->told_down |= bit;
	/* "Lost" is final. */
	news->lost |= state == NIC_PORT_LOST ? bit : 0;
	news->down &= ~bit;
	news->active &= ~bit;
	if (state == NIC_PORT_DOWN)
		news->down |= bit;
	else if (state != NIC_PORT_LOST)
		news->active |= bit;
	publish(session);
}

void session_health_end(struct session *session)
{
	if (!session->health || session->told_end)
		return;
	session->told_end = true;
	session->health_news.has_ended = true;
	publish(session);
}

/* ---- the page ------------------------------------------------------------------------------------------------------ */

static int map_page(int fd, struct shmd_health_page **ret_page)
{
	void *page = mmap(NULL, sizeof(struct shmd_health_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	*ret_page = page;
	return 0;
}

int session_map_health(struct session *session, int fd)
{
	session->told_down = UINT64_MAX;
	return map_page(fd, &session->health);
}

int session_make_health(struct session_health *ret_health)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	_cleanup_close_ int fd = memfd_create("shmemd-health", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0 || ftruncate(fd, sizeof(struct shmd_health_page)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	r = map_page(fd, &ret_health->page);
	if (r < 0)
		return r;
	ret_health->page->version = SHMD_HEALTH_PAGE_VERSION;
	ret_health->fd = take_fd(&fd);
	return 0;
}
