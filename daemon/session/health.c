/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health page of a session: one word for the session and one for each NIC, which kernels read while they wait.
 *
 * A word keeps its first final value. "Port down" alone is not final. It is set in every session that has the NIC open, or opens it
 * while its port is down, and ends waits on that NIC. Port up clears it by compare-and-swap, and the waits may be repeated. A lost
 * NIC, the session's end and a daemon that is gone replace it. The page is shared with the client and may hold anything, so this
 * file writes it and never trusts it. Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <fcntl.h>
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

void session_health_port(struct session *session, const struct session_nic *nic, enum nic_port_state state)
{
	uint32_t *word;

	/* It is being torn down. */
	if (!session->health)
		return;
	word = &session->health->nic[nic->index];
	if (state == NIC_PORT_LOST)
		health_set_final(word, SHMD_HEALTH_NIC_LOST);
	else if (state == NIC_PORT_DOWN)
		health_replace(word, SHMD_HEALTH_OK, SHMD_HEALTH_PORT_DOWN);
	else
		health_replace(word, SHMD_HEALTH_PORT_DOWN, SHMD_HEALTH_OK);
}

void session_health_end(struct session *session)
{
	if (!session->health)
		return;
	health_set_final(&session->health->session, SHMD_HEALTH_SESSION_ENDED);
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		health_set_final(&session->health->nic[i], SHMD_HEALTH_SESSION_ENDED);
}

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
