/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of regions that outlives the daemon: one name for each memory, however many regions a client makes of it.
 *
 * A service manager compares each new descriptor with all that it has, and has little room for names, so the daemon sends each
 * memory once. Two descriptors name the same memory if both are memfds with the same inode and access mode. Control thread.
 */
#include "daemon/restart/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "proto/base/cleanup.h"

static uint64_t file_key(const struct saved_memory *memory)
{
	return ((uint64_t)memory->ino << 2 | (unsigned int)memory->mode) ^ (uint64_t)memory->dev << 48;
}

/* False: the descriptor is not a memfd, and the daemon compares no other descriptor with it. */
static bool identify(struct saved_memory *memory, int fd)
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

static bool is_same(const struct saved_memory *a, const struct saved_memory *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->mode == b->mode;
}

static struct saved_memory *find(const struct session_saved *saved, uint32_t number)
{
	return hash_get(&saved->memories, number);
}

static struct saved_memory *find_file(const struct session_saved *saved, const struct saved_memory *like)
{
	struct saved_memory *memory = hash_get(&saved->memories_by_file, file_key(like));

	return memory && is_same(memory, like) ? memory : NULL;
}

static void forget(struct session_saved *saved, struct saved_memory *memory)
{
	hash_remove(&saved->memories, memory->number);
	if (memory->is_shared)
		hash_remove(&saved->memories_by_file, file_key(memory));
	safe_close(memory->fd);
	free(memory);
}

/* NULL: no memory. `known`: identify() succeeded, so that other regions can share it. */
static struct saved_memory *add(struct session_saved *saved, const struct saved_memory *like, bool known)
{
	struct saved_memory *memory = malloc(sizeof(*memory));

	if (!memory)
		return NULL;
	*memory = *like;
	memory->is_shared = known && hash_add(&saved->memories_by_file, file_key(memory), memory) == 0;
	if (hash_add(&saved->memories, memory->number, memory) == 0)
		return memory;
	if (memory->is_shared)
		hash_remove(&saved->memories_by_file, file_key(memory));
	free(memory);
	return NULL;
}

/* Numbers of names have 32 bits: after a wrap some are taken. */
static uint32_t new_number(struct session *session)
{
	uint32_t number;

	do {
		number = (uint32_t)++session->resources.last_number;
	} while (number == 0 || find(&session->saved, number));
	return number;
}

void save_memory(struct session *session, struct session_mr *mr, int fd)
{
	struct saved_memory like = {.n_uses = 1, .fd = -1}, *memory;
	struct session_saved *saved = &session->saved;
	bool known;

	if (!saved->state || fd < 0)
		return;
	known = identify(&like, fd);
	memory = known ? find_file(saved, &like) : NULL;
	if (memory) {
		memory->n_uses++;
	} else {
		like.number = new_number(session);
		if (!save_fd_number(session, 'm', like.number, fd))
			return;
		memory = add(saved, &like, known);
	}
	if (!memory) {
		save_unname(session, 'm', like.number);
		save_drop(session, "no memory for its saved state");
		return;
	}
	mr->memory = memory->number;
	mr->head.is_saved = true;
}

void save_no_memory(struct session *session, struct session_mr *mr)
{
	struct saved_memory *memory = find(&session->saved, mr->memory);

	mr->memory = 0;
	mr->head.is_saved = false;
	if (!memory || --memory->n_uses > 0)
		return;
	save_unname(session, 'm', memory->number);
	forget(&session->saved, memory);
}

/* ---- of a former daemon -------------------------------------------------------------------------------------------- */

static struct saved_memory *take(struct session *session, uint32_t number)
{
	struct saved_memory like = {.number = number, .fd = save_take_number(session, 'm', number)}, *memory;

	if (like.fd < 0)
		return NULL;
	memory = add(&session->saved, &like, identify(&like, like.fd));
	if (!memory)
		safe_close(like.fd);
	return memory;
}

int save_take_memory(struct session *session, uint32_t number)
{
	struct saved_memory *memory = find(&session->saved, number);
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

void save_memories_taken(struct session_saved *saved)
{
	struct saved_memory *memory;
	size_t pos = 0;
	uint64_t key;

	while ((memory = hash_next(&saved->memories, &pos, &key)))
		memory->fd = safe_close(memory->fd);
}
