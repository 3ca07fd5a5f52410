/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of regions that outlives the daemon: one name for each memory, however many regions a client makes of it.
 *
 * A service manager compares each new descriptor with all that it has, and has little room for names, so the daemon sends each
 * memory once. Two descriptors name the same memory if both are memfds with the same inode and access mode. Control thread.
 */
#include "daemon/session/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/session/keep-read.h"
#include "daemon/session/session.h"
#include "proto/base/cleanup.h"

struct keep_memory {
	uint32_t number; /* of its name */
	uint32_t n_uses; /* regions */
	bool is_shared; /* in memories_by_file */
	dev_t dev;
	ino_t ino;
	int mode; /* of its descriptor: O_ACCMODE */
	int fd; /* owned; only while the session is taken over, or -1 */
};

static uint64_t file_key(const struct keep_memory *memory)
{
	return ((uint64_t)memory->ino << 2 | (unsigned int)memory->mode) ^ (uint64_t)memory->dev << 48;
}

/* False: the descriptor is not a memfd, and the daemon compares no other descriptor with it. */
static bool identify(struct keep_memory *memory, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0)
		return false;
	memory->dev = st.st_dev;
	memory->ino = st.st_ino;
	memory->mode = flags & O_ACCMODE;
	return true;
}

static bool is_same(const struct keep_memory *a, const struct keep_memory *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->mode == b->mode;
}

static struct keep_memory *find(const struct session_keep *keep, uint32_t number)
{
	return hash_get(&keep->memories, number);
}

static struct keep_memory *find_file(const struct session_keep *keep, const struct keep_memory *like)
{
	struct keep_memory *memory = hash_get(&keep->memories_by_file, file_key(like));

	return memory && is_same(memory, like) ? memory : NULL;
}

static void forget(struct session_keep *keep, struct keep_memory *memory)
{
	hash_remove(&keep->memories, memory->number);
	if (memory->is_shared)
		hash_remove(&keep->memories_by_file, file_key(memory));
	safe_close(memory->fd);
	free(memory);
}

/* NULL: no memory. `known`: identify() succeeded, so that other regions can share it. */
static struct keep_memory *add(struct session_keep *keep, const struct keep_memory *like, bool known)
{
	struct keep_memory *memory = malloc(sizeof(*memory));

	if (!memory)
		return NULL;
	*memory = *like;
	memory->is_shared = known && hash_add(&keep->memories_by_file, file_key(memory), memory) == 0;
	if (hash_add(&keep->memories, memory->number, memory) == 0)
		return memory;
	if (memory->is_shared)
		hash_remove(&keep->memories_by_file, file_key(memory));
	free(memory);
	return NULL;
}

/* Numbers of names have 32 bits: after a wrap some are taken. */
static uint32_t new_number(struct session *session)
{
	uint32_t number;

	do {
		number = (uint32_t)++session->resources.last_number;
	} while (number == 0 || find(&session->keep, number));
	return number;
}

void session_keep_memory(struct session *session, struct session_mr *mr, int fd)
{
	struct keep_memory like = {.n_uses = 1, .fd = -1}, *memory;
	struct session_keep *keep = &session->keep;
	bool known;

	if (!keep->state || fd < 0)
		return;
	known = identify(&like, fd);
	memory = known ? find_file(keep, &like) : NULL;
	if (memory) {
		memory->n_uses++;
	} else {
		like.number = new_number(session);
		if (!session_keep_put(session, 'm', like.number, fd))
			return;
		memory = add(keep, &like, known);
	}
	if (!memory) {
		session_keep_unname(session, 'm', like.number);
		session_keep_drop(session, "no memory for what is kept of it");
		return;
	}
	mr->memory = memory->number;
	mr->head.is_kept = true;
}

void session_keep_no_memory(struct session *session, struct session_mr *mr)
{
	struct keep_memory *memory = find(&session->keep, mr->memory);

	mr->memory = 0;
	mr->head.is_kept = false;
	if (!memory || --memory->n_uses > 0)
		return;
	session_keep_unname(session, 'm', memory->number);
	forget(&session->keep, memory);
}

uint32_t session_keep_next_memory(const struct session_keep *keep, size_t *pos)
{
	const struct keep_memory *memory;
	uint64_t key;

	memory = hash_next(&keep->memories, pos, &key);
	return memory ? memory->number : 0;
}

void session_keep_memory_end(struct session_keep *keep)
{
	struct keep_memory *memory;
	size_t pos = 0;
	uint64_t key;

	while ((memory = hash_next(&keep->memories, &pos, &key))) {
		safe_close(memory->fd);
		free(memory);
	}
	hash_deinit(&keep->memories);
	hash_deinit(&keep->memories_by_file);
}

/* ---- of a former daemon -------------------------------------------------------------------------------------------- */

static struct keep_memory *take(struct session *session, uint32_t number)
{
	struct keep_memory like = {.number = number, .fd = adopt_take_number(session, 'm', number)}, *memory;

	if (like.fd < 0)
		return NULL;
	memory = add(&session->keep, &like, identify(&like, like.fd));
	if (!memory)
		safe_close(like.fd);
	return memory;
}

int adopt_take_memory(struct session *session, uint32_t number)
{
	struct keep_memory *memory = find(&session->keep, number);
	int fd;

	if (!memory)
		memory = take(session, number);
	if (!memory)
		return -ENOENT;
	fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	memory->n_uses++;
	return fd;
}

void adopt_memories_taken(struct session_keep *keep)
{
	struct keep_memory *memory;
	size_t pos = 0;
	uint64_t key;

	while ((memory = hash_next(&keep->memories, &pos, &key)))
		memory->fd = safe_close(memory->fd);
}
