/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving sessions: descriptors under names in the store, and objects in the state.
 *
 * The floors, from the bottom: save-codec (items), save-fds and save-memory (descriptors), save-kinds (the bytes of each kind), save
 * (objects as they come and go, and the table of operations). Control thread.
 */
#ifndef SHMEMD_RESTART_SAVE_H
#define SHMEMD_RESTART_SAVE_H

#include <sys/types.h>

#include "daemon/session/session.h"

struct state;

/* Memory of regions, under a name that all regions of the same memory share. */
struct saved_memory {
	uint32_t number; /* of its name, and its key in session_saved.memories */
	uint32_t n_uses; /* regions */
	bool is_shared; /* in memories_by_file */
	dev_t dev;
	ino_t ino;
	int mode; /* of its descriptor: O_ACCMODE */
	int fd; /* owned; only while the session is imported, or -1 */
};

/* For struct registry_attr.save. */
extern const struct save_ops save_ops;

/* Commits all that has changed. A failure drops the session; the errno is for tests. */
int save_write(struct session *session);

/* ---- save-fds.c: descriptors by name -------------------------------------------------------------------------------- */

void save_name_nic(char name[SAVE_NAME_BYTES], uint64_t session, unsigned int nic, unsigned int k);

/* `fd` is borrowed. A failure drops the session. */
int save_fd(struct session *session, const char *name, int fd);
int save_fd_of(struct session *session, const char *what, int fd); /* -1 allowed */
/* False: it is not saved. Drops the session, too, when the descriptor is none that a service manager can close safely. */
bool save_fd_number(struct session *session, char kind, uint32_t number, int fd);
/* The daemon removes the name after the next state is written. */
void save_unname(struct session *session, char kind, uint32_t number);
void save_remove_gone(struct session *session); /* those names */
/* A descriptor of a former daemon, the caller's; -ENOENT. */
int save_take(struct session *session, const char *name);
int save_take_of(struct session *session, const char *what);
int save_take_number(struct session *session, char kind, uint32_t number);

/* It ends with the daemon from now on: nothing of it is anywhere else any more. */
void save_drop(struct session *session, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void save_forget(struct session *session);
void save_forget_reply(struct session_saved *saved);
/* Its porter keeps the socket open while the service manager closes its own. */
void save_tell_porter(struct session *session, bool is_saved);

/* ---- save-memory.c: memory of regions ------------------------------------------------------------------------------- */

/* The name goes with the last region of the memory. */
void save_memory(struct session *session, struct session_mr *mr, int fd);
void save_no_memory(struct session *session, struct session_mr *mr);
/* The memory of one more region: a duplicate, the caller's. Negative errno: the store does not have it, or no descriptor is free. */
int save_take_memory(struct session *session, uint32_t number);
void save_memories_taken(struct session_saved *saved); /* after the last region: closes the descriptors behind the duplicates */

/* ---- repeat.c ------------------------------------------------------------------------------------------------------- */

bool save_repeat(struct session *session, const struct msg *request);

/* ---- save-registry.c: the daemon's own ------------------------------------------------------------------------------ */

/* Its name beside those of sessions. */
#define SAVE_REGISTRY "node-state"

void save_registry(struct registry *registry);
void save_registry_end(struct registry *registry);
/*
 * As a former daemon left it, before the first session. Takes `state`, which goes on under its name, on success only: what
 * fails changes nothing. Errors as session_import.
 */
int registry_import(struct registry *registry, struct state *state, const void *bytes, size_t n);

#endif
