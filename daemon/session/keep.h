/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions outlive the daemon with all that they hold: as descriptors under names, and one state each.
 *
 * The service manager has the descriptors while no daemon runs. This room knows them by name only, through the operations below.
 * Each change puts new descriptors, commits the state that names them, and then removes the names that the state no longer has.
 * So the state is complete at each moment, and a descriptor that it does not name belongs to nobody. A state has a record for
 * each object of the session. A commit writes the records that change, all at once.
 */
#ifndef SHMEMD_SESSION_KEEP_H
#define SHMEMD_SESSION_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/hash.h"
#include "proto/base/list.h"
#include "proto/codec.h"

#define KEEP_NAME_BYTES 48

struct state; /* records by key: whoever fills in keep_ops knows them */
struct fdlist;
struct publish_entry;
struct registry;
struct resource;
struct session;
struct session_mr;
struct session_nic;
struct session_queues;

struct keep_ops {
	int (*put)(void *arg, const char *name, int fd); /* borrowed. -ENOSPC: no room for more */
	unsigned int (*room)(void *arg); /* for how many more, as names usually are */
	void (*remove)(void *arg, const char *name); /* also when there is none */
	int (*take)(void *arg, const char *name); /* of those that a former daemon put: the caller's. -ENOENT */
	int (*state_new)(struct state **ret_state);
	/* Both stage a change; the commit reports errors. */
	void (*state_put)(struct state *state, uint64_t key, const void *bytes, size_t n);
	void (*state_remove)(struct state *state, uint64_t key);
	int (*state_commit)(struct state *state); /* everything that is staged, or nothing */
	int (*state_fd)(const struct state *state); /* the state's own */
	struct state *(*state_free)(struct state *state);
};

struct keep_gone; /* a name that the next state no longer has */

/* Saved state of one session. */
struct session_keep {
	struct state *state; /* owned; NULL: the session ends with the daemon */
	char reason[128]; /* why it does, though there is something to keep it with; or empty */
	bool is_named; /* the state is: from the first answer on */
	bool changed; /* since the state was written */
	bool adopted; /* by this process: a request of before may come again */
	bool is_stale; /* adopted and not saved since: records may name objects that the import found destroyed */
	unsigned int n_names; /* put, or taken over, and not removed */
	uint32_t last_published; /* number of a descriptor's name */
	struct list gone; /* struct keep_gone.link */
	struct hash memories, memories_by_file; /* struct keep_memory, owned: memory of regions */
	struct list changed_queues; /* struct session_queues.changed_link: batches whose QPs are to be saved */
	/* The last request that changed something, so that it is not carried out twice. */
	uint64_t request; /* 0: none */
	enum msg_kind kind;
	void *reply; /* owned; encoded */
	size_t reply_bytes;
	int reply_fd; /* owned: queue memory of the daemon's that came with it; -1: none, or the session can find it */
};

void session_keep_init(struct session_keep *keep);
bool session_is_kept(const struct session *session); /* it outlives the daemon */
/*
 * Called in Hello; another daemon can take the session over once that is answered. Failing to keep a session is no error: it then ends
 * with this daemon, and keep.reason says why. All of the following leave such a session alone.
 */
void session_keep_begin(struct session *session);
/* It ends with the daemon from now on: nothing of it is anywhere else any more. */
void session_keep_drop(struct session *session, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Teardown has begun: who finds the state only tears down what it names. */
void session_keep_ending(struct session *session);
/* Nothing of it is anywhere any more: the session is no more. */
void session_keep_forget(struct session *session);

void session_changed(struct session *session); /* the next write is not to be left out */
int session_keep_write(struct session *session); /* what fails drops it; for tests its errno */
int session_keep_save(struct session *session); /* keep-write.c: the state alone, of a session that is kept; as above */
/* After a request that may have changed something: it is answered with *rep, when its client asks again. */
void session_keep_reply(struct session *session, const struct msg *request, struct msg *rep, const struct fdlist *fds);
void session_keep_rest(struct session *session); /* after any other, when something has changed */

/* The client sent a request again that was carried out before a restart: it has its answer now. */
bool session_is_repeat(struct session *session, const struct msg *request);

/* Both make parts of the NIC's record, in any thread that may use the context. */
void session_nic_export(struct session_nic *nic);
void session_queues_export(struct session_queues *queues); /* a new batch */
/* Control thread: the next state has the new objects of the session, and no longer those that have gone. */
void session_keep_mr(struct session *session, struct session_mr *mr);
void session_keep_queues(struct session *session, struct session_queues *queues);
void session_keep_entry(struct session *session, struct publish_entry *entry);
void session_keep_qps(struct session_queues *queues); /* what the daemon knows of its QPs has changed */
void session_keep_no_nic(struct session *session, const struct session_nic *nic);
void session_keep_no_entry(struct session *session, const struct publish_entry *entry);
/* Takes it out of the session's table, if it is there; its slot is free from then on, also in the next state. */
void session_keep_no_resource(struct session *session, struct session_nic *nic, struct resource *head);
/* Descriptors of a context, of a region, of a batch: `fd` is borrowed, and -1 allowed where nothing is to be kept. */
void session_keep_nic(struct session *session, struct session_nic *nic);
bool session_keep_put(struct session *session, char kind, uint32_t number, int fd);
/*
 * keep-memory.c: keeps the memory of a region under a name that all regions of the same memory share. The name goes with the last
 * of them. Does nothing without a descriptor.
 */
void session_keep_memory(struct session *session, struct session_mr *mr, int fd);
void session_keep_no_memory(struct session *session, struct session_mr *mr);
uint32_t session_keep_next_memory(const struct session_keep *keep, size_t *pos); /* numbers of names, from pos 0; then 0 */
void session_keep_memory_end(struct session_keep *keep); /* forgets all of them; may be called twice */
/* The daemon removes the name after the next state is written. */
void session_keep_unname(struct session *session, char kind, uint32_t number);

/*
 * A session of a former daemon: what its state says, with the descriptors that `take` finds. Takes `state` in any case. Its contexts
 * rest until every NIC may go on. 0 and *ret_session, whose owner is nobody yet; it may have ended, and is then to be
 * freed. Negative errno: it cannot be, nothing is left of it here, and its client got the reason where that was possible.
 */
int session_adopt(struct registry *registry, uint64_t id, struct state *state, const void *bytes, size_t n,
		  struct session **ret_session);

/*
 * Tells the client of a session of a former daemon, on its socket and in its health words, that no daemon goes on with it. For a
 * session whose state cannot be read. What is kept of it is the caller's to remove.
 */
void session_refuse(struct registry *registry, uint64_t id, const char *why);

/* ---- registry-keep.c: what is the daemon's own -------------------------------------------------------------------- */

/* Its name beside those of sessions. */
#define KEEP_REGISTRY "node-state"

/* Numbers that go on, and assignments: after each change of them. Nothing where nothing is kept. */
void registry_keep(struct registry *registry);
/*
 * As a former daemon left them, before the first session. Takes `state`, which goes on under its name, on success only: what
 * fails changes nothing. Errors as session_adopt.
 */
int registry_adopt(struct registry *registry, struct state *state, const void *bytes, size_t n);
void registry_keep_end(struct registry *registry); /* the registry's own; what is kept stays */

#endif
