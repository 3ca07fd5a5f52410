/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health page of a session: one word for the session and one for each NIC, which kernels read while they wait.
 *
 * A word keeps its first final value. "Port down" alone is not final. It is set in every session that has the NIC open, or opens it
 * while its port is down, and ends waits on that NIC. Port up clears it by compare-and-swap, and the waits may be repeated. A lost
 * NIC, the session's end and a daemon that is gone replace it.
 *
 * The client can punch a hole into its page. Whoever writes or unmaps the page then waits for the hole, and a process that has it mapped
 * does not die before. So a session's porter writes it, one order at a time, and the session is not freed before that is done. Where
 * there is no porter a worker writes it, or this thread if there are no workers. Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/porter/porter.h"
#include "proto/base/cleanup.h"

struct health_write {
	struct work work;
	struct session *session; /* it is not freed before this is done */
	int fd; /* the session's */
	struct words words;
};

bool session_health_is_busy(const struct session *session)
{
	return session->health_write || session->is_telling;
}

static void write_words(struct session *session);

/* While firmware closes its contexts, kernels wait for the words of its end. */
static void on_written(struct session *session)
{
	/* A session with a porter has no other writer at its end. */
	if (session->connection.slot)
		write_words(session);
	if (session_health_is_busy(session))
		return;
	if (session->released && (!session->busy || session->contexts_closed))
		session->release(session);
	else
		write_words(session);
}

/* ---- by its porter ------------------------------------------------------------------------------------------------ */

static bool tell_porter(struct session *session)
{
	struct porter_slot *slot = session->connection.slot;

	if (!slot || porter_slot_tell(slot, session->health_fd, &session->words) < 0)
		return false;
	session->words = (struct words){0};
	session->is_telling = !session->registry->left_porters;
	return true;
}

void session_health_told(struct session *session, const struct words *unwritten)
{
	session->is_telling = false;
	if (unwritten)
		words_prepend(&session->words, unwritten);
	on_written(session);
}

void registry_leave_porters(struct registry *registry)
{
	struct session *session, *tmp;

	registry->left_porters = true;
	list_for_each_entry_safe(session, tmp, &registry->sessions, link) {
		if (!session->is_telling)
			continue;
		session->is_telling = false;
		on_written(session);
	}
}

/* ---- by a worker ------------------------------------------------------------------------------------------------- */

static void write_run(struct work *work)
{
	struct health_write *write = container_of(work, struct health_write, work);

	words_write(write->fd, &write->words);
}

static void write_done(struct work *work)
{
	struct health_write *write = container_of(work, struct health_write, work);
	struct session *session = write->session;

	session->health_write = NULL;
	free(write);
	on_written(session);
}

/* Without memory the next call writes the words, or the teardown. */
static void have_worker_write(struct session *session)
{
	struct health_write *write = malloc(sizeof(*write));

	if (!write)
		return;
	*write = (struct health_write){
		.work = {.users = {session->user.uid, session->user.cgroup}, .run = write_run, .done = write_done},
		.session = session, .fd = session->health_fd, .words = session->words};
	session->words = (struct words){0};
	session->health_write = write;
	if (registry_run_at_memory(session->registry, &write->work)) {
		session->health_write = NULL;
		free(write);
	}
}

/* ---- by whom there is ---------------------------------------------------------------------------------------------- */

/* A session that an import gives up has no `release` yet, and is freed at once: its teardown writes. */
static void write_words(struct session *session)
{
	if (session_health_is_busy(session) || !words_are_any(&session->words) || tell_porter(session))
		return;
	if (!registry_has_busy(session->registry)) {
		words_write(session->health_fd, &session->words);
		session->words = (struct words){0};
	} else if (session->release) {
		have_worker_write(session);
	}
}

void session_health_port(struct session *session, const struct session_nic *nic, enum nic_port_state state)
{
	uint64_t bit = UINT64_C(1) << nic->index;
	struct words words = {0};

	if (!session->has_page || (state == NIC_PORT_ACTIVE && !(session->told_down & bit)))
		return;
	session->told_down |= bit;
	words.lost = state == NIC_PORT_LOST ? bit : 0;
	words.down = state == NIC_PORT_DOWN ? bit : 0;
	words.active = state != NIC_PORT_LOST && state != NIC_PORT_DOWN ? bit : 0;
	words_prepend(&words, &session->words);
	session->words = words;
	write_words(session);
}

void session_health_end(struct session *session)
{
	if (!session->has_page || session->told_end)
		return;
	session->told_end = true;
	session->words.has_ended = true;
	write_words(session);
}

/* ---- the page ------------------------------------------------------------------------------------------------------ */

void session_have_page(struct session *session, int fd)
{
	session->health_fd = fd;
	session->told_down = UINT64_MAX;
	session->has_page = true;
}

/* No client has it yet, so writing to it waits for nobody. */
int session_make_health(int *ret_fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const struct shmd_health_page page = {.version = SHMD_HEALTH_PAGE_VERSION};
	_cleanup_close_ int fd = memfd_create("shmemd-health", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t n;

	if (fd < 0 || ftruncate(fd, sizeof(page)) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	n = pwrite(fd, &page, sizeof(page), 0);
	if (n < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return n == (ssize_t)sizeof(page) ? 0 : -EIO;
}
