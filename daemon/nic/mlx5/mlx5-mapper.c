/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappers as the daemon has them: their start, requests, and end.
 *
 * A mapper that has died is in no list any more, and the user's next request starts another one. The struct lives until its last user
 * lets go of it. Threads that wait for an answer wait in a socket, so SIGKILL ends them at once.
 */
#include "daemon/nic/mlx5/mlx5-mapper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "daemon/nic/nic-page.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define START_NSEC (5 * NSEC_PER_SEC)
#define RETRY_NSEC (1 * NSEC_PER_MSEC)

/* The files of doorbell pages of one user's contexts belong to one thread there, hence one NIC page. */
struct nic_page_of {
	struct list link;
	uint32_t uid;
	int fd; /* owned */
};

struct mapper {
	struct mappers *all;
	struct list nic_pages; /* struct nic_page_of.link, owned; under all->lock */
	struct list link; /* all->all while it lives */
	uint32_t uid;
	uint32_t refs; /* under all->lock */
	bool is_own; /* no process */
	bool is_dead; /* atomic; changes under all->lock */
	pthread_mutex_t lock; /* one request at a time; of the next two */
	bool was_started;
	int sock; /* owned; -1: not started, or no process */
};

void mappers_init(struct mappers *mappers, const struct mappers_attr *attr)
{
	mappers->attr = *attr;
	mapper_side_init(&mappers->side, &attr->bells);
	pthread_mutex_init(&mappers->lock, NULL);
	list_init(&mappers->all);
	mappers->n = 0;
}

void mappers_deinit(struct mappers *mappers)
{
	assert_bug(list_empty(&mappers->all));
	mapper_side_deinit(&mappers->side);
	pthread_mutex_destroy(&mappers->lock);
}

bool mapper_is_dead(const struct mapper *mapper)
{
	return __atomic_load_n(&mapper->is_dead, __ATOMIC_ACQUIRE);
}

int mapper_channel(const struct mapper *mapper)
{
	return mapper->sock;
}

bool mapper_has_hung_up(const struct mapper *mapper)
{
	struct pollfd pfd = {.fd = mapper->sock};

	return mapper_is_dead(mapper) || (mapper->sock >= 0 && poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP);
}

/* ---- references -------------------------------------------------------------------------------------------------------- */

/* Under the lock of all. */
static void leave(struct mapper *mapper)
{
	if (mapper->is_dead)
		return;
	__atomic_store_n(&mapper->is_dead, true, __ATOMIC_RELEASE);
	list_del(&mapper->link);
	mapper->all->n--;
}

static int died(struct mapper *mapper)
{
	pthread_mutex_lock(&mapper->all->lock);
	leave(mapper);
	pthread_mutex_unlock(&mapper->all->lock);
	if (mapper->sock >= 0)
		shutdown(mapper->sock, SHUT_RDWR);
	return -EPIPE;
}

struct mapper *mapper_ref(struct mapper *mapper)
{
	pthread_mutex_lock(&mapper->all->lock);
	mapper->refs++;
	pthread_mutex_unlock(&mapper->all->lock);
	return mapper;
}

static void free_nic_pages(struct mapper *mapper)
{
	struct nic_page_of *page, *tmp;

	list_for_each_entry_safe (page, tmp, &mapper->nic_pages, link) {
		safe_close(page->fd);
		free(page);
	}
}

/* The process ends with its channel. */
void mapper_put(struct mapper *mapper)
{
	bool is_last;

	if (!mapper)
		return;
	pthread_mutex_lock(&mapper->all->lock);
	is_last = --mapper->refs == 0;
	if (is_last)
		leave(mapper);
	pthread_mutex_unlock(&mapper->all->lock);
	if (!is_last)
		return;
	safe_close(mapper->sock);
	free_nic_pages(mapper);
	pthread_mutex_destroy(&mapper->lock);
	free(mapper);
}

/* ---- start ------------------------------------------------------------------------------------------------------------- */

/* The process that starts it may have its hands full. */
static int start_process(struct mapper *mapper)
{
	const struct mappers_attr *attr = &mapper->all->attr;
	const struct timespec pause = nsec_to_timespec(RETRY_NSEC);
	uint64_t end = nsec_now() + START_NSEC;
	int r;

	while ((r = attr->start_process(attr->start_arg, mapper->uid, &mapper->sock)) == -EAGAIN && nsec_now() < end)
		nanosleep(&pause, NULL);
	if (r < 0)
		return r == -EAGAIN ? -ENOMEM : r == -EPIPE || r == -ECONNRESET ? -EUSERS : r;
	return fcntl(mapper->sock, F_SETFL, 0) < 0 ? -errno : 0;
}

static int await_hello(const struct mapper *mapper)
{
	struct pollfd pfd = {.fd = mapper->sock, .events = POLLIN};
	int r;

	do
		r = poll(&pfd, 1, (int)(START_NSEC / NSEC_PER_MSEC));
	while (r < 0 && errno == EINTR);
	return r > 0 ? 0 : -ENOMEM;
}

static int receive(struct mapper *mapper, const struct mapper_request *request, struct mapper_answer *answer)
{
	size_t bytes;
	int r = mapper_recv(mapper->sock, answer, sizeof(*answer), &bytes, NULL);

	if (r < 0)
		return r;
	return bytes == mapper_answer_bytes(request) && answer->result <= 0 && answer->result >= -4095 ? answer->result : -EPIPE;
}

static int start(struct mapper *mapper)
{
	const struct bells_attr *bells = &mapper->all->attr.bells;
	struct mapper_request request = {.op = MAPPER_INIT,
					 .uid = mapper->uid,
					 .gpu_poll_usec = bells->gpu_poll_usec,
					 .spin_usec = bells->spin_usec};
	struct mapper_answer answer;
	int r = start_process(mapper);

	snprintf(request.name, sizeof(request.name), "%s", bells->name);
	if (r == 0)
		r = mapper_send(mapper->sock, &request, sizeof(request), NULL);
	if (r == 0)
		r = await_hello(mapper);
	return r < 0 ? r : receive(mapper, &request, &answer);
}

/* Under the lock of all. */
static struct mapper *find(const struct mappers *mappers, uint32_t uid, bool is_own)
{
	struct mapper *mapper;

	list_for_each_entry (mapper, &mappers->all, link)
		if (is_own ? mapper->is_own : !mapper->is_own && mapper->uid == uid)
			return mapper;
	return NULL;
}

/* Under the lock of all. */
static int add(struct mappers *mappers, uint32_t uid, bool is_own, struct mapper **ret_mapper)
{
	struct mapper *mapper = mappers->n < BELLS_MAX ? calloc(1, sizeof(*mapper)) : NULL;

	if (!mapper)
		return mappers->n < BELLS_MAX ? -ENOMEM : -EUSERS;
	*mapper = (struct mapper){.all = mappers, .uid = uid, .is_own = is_own, .was_started = is_own, .sock = -1};
	pthread_mutex_init(&mapper->lock, NULL);
	list_init(&mapper->nic_pages);
	list_add_tail(&mappers->all, &mapper->link);
	mappers->n++;
	*ret_mapper = mapper;
	return 0;
}

int mapper_get(struct mappers *mappers, uint32_t uid, bool is_own, struct mapper **ret_mapper)
{
	struct mapper *mapper;
	int r = 0;

	is_own |= !mappers->attr.start_process;
	pthread_mutex_lock(&mappers->lock);
	mapper = find(mappers, uid, is_own);
	if (!mapper)
		r = add(mappers, uid, is_own, &mapper);
	if (r == 0)
		mapper->refs++;
	pthread_mutex_unlock(&mappers->lock);
	if (r < 0)
		return r;
	pthread_mutex_lock(&mapper->lock);
	if (!mapper->was_started)
		r = start(mapper);
	mapper->was_started = true;
	/* Before another thread asks it. */
	if (r < 0)
		died(mapper);
	pthread_mutex_unlock(&mapper->lock);
	if (r < 0) {
		mapper_put(mapper);
		return r == -EPIPE ? -ENOMEM : r;
	}
	*ret_mapper = mapper;
	return 0;
}

/* ---- requests ---------------------------------------------------------------------------------------------------------- */

static int call_there(struct mapper *mapper, const struct mapper_request *request, const struct mapper_fds *fds,
		      struct mapper_answer *ret_answer)
{
	int r;

	pthread_mutex_lock(&mapper->lock);
	r = mapper_is_dead(mapper) ? -EPIPE : mapper_send(mapper->sock, request, sizeof(*request), fds);
	if (r == 0)
		r = receive(mapper, request, ret_answer);
	pthread_mutex_unlock(&mapper->lock);
	return r == -EPIPE ? died(mapper) : r;
}

int mapper_call(struct mapper *mapper, const struct mapper_request *request, const struct mapper_fds *fds,
		struct mapper_answer *ret_answer)
{
	assert_bug(request->op != MAPPER_READ || request->bytes <= MAPPER_DATA_BYTES);
	if (!mapper->is_own)
		return call_there(mapper, request, fds, ret_answer);
	mapper_serve(&mapper->all->side, request, fds, ret_answer);
	return ret_answer->result;
}

/* ---- NIC pages --------------------------------------------------------------------------------------------------------- */

static int create_nic_page(int *ret_fd)
{
	struct nic_page page;
	int r = nic_page_create(true, &page);

	if (r < 0)
		return r;
	*ret_fd = take_fd(&page.fd);
	nic_page_deinit(&page);
	return 0;
}

/* Under the lock of all. */
static struct nic_page_of *find_nic_page(const struct mapper *mapper, uint32_t uid)
{
	struct nic_page_of *page;

	list_for_each_entry (page, &mapper->nic_pages, link)
		if (page->uid == uid)
			return page;
	return NULL;
}

/* Under the lock of all. */
static int add_nic_page(struct mapper *mapper, uint32_t uid, int saved_fd, struct nic_page_of **ret_page)
{
	struct nic_page_of *page = malloc(sizeof(*page));
	int r = 0;

	if (!page)
		return -ENOMEM;
	*page = (struct nic_page_of){.uid = uid, .fd = -1};
	if (saved_fd < 0)
		r = create_nic_page(&page->fd);
	else if ((page->fd = fcntl(saved_fd, F_DUPFD_CLOEXEC, 3)) < 0)
		r = -errno;
	if (r < 0) {
		free(page);
		return r;
	}
	list_add_tail(&mapper->nic_pages, &page->link);
	*ret_page = page;
	return 0;
}

int mapper_nic_page(struct mapper *mapper, uint32_t uid, int saved_fd, int *ret_fd)
{
	struct nic_page_of *page;
	int r = 0;

	pthread_mutex_lock(&mapper->all->lock);
	page = find_nic_page(mapper, uid);
	if (!page)
		r = add_nic_page(mapper, uid, saved_fd, &page);
	if (r == 0) {
		*ret_fd = fcntl(saved_fd < 0 ? page->fd : saved_fd, F_DUPFD_CLOEXEC, 3);
		r = *ret_fd < 0 ? -errno : 0;
	}
	pthread_mutex_unlock(&mapper->all->lock);
	return r;
}
