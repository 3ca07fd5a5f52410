/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions outlive the daemon with all that they hold: as descriptors under names, and one state each.
 *
 * The room daemon/restart saves and imports them. It lies above this one, so a session reaches it through the table of operations
 * below, which the daemon puts into the registry. Without a table nothing outlives the daemon.
 *
 * Each change puts new descriptors into the store, commits the state that names them, and then removes the names that the state no
 * longer has. So the state is complete at each moment, and a descriptor that it does not name belongs to nobody. A state has a
 * record for each object of the session. A commit writes the records that change, all at once.
 */
#ifndef SHMEMD_SESSION_SAVE_H
#define SHMEMD_SESSION_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/hash.h"
#include "proto/base/list.h"
#include "proto/codec.h"

#define SAVE_NAME_BYTES 48

struct fdlist;
struct registry;
struct session;
struct state; /* records by key: daemon/restart/state.h */

/* Kinds of objects, in the order in which they are read. The numbers are part of the keys of records. */
enum save_kind {
	SAVE_SESSION = 1,
	SAVE_NIC, /* struct session_nic */
	SAVE_SLOT, /* uint32_t: a slot of the resource table that was used and is free */
	SAVE_MR, /* struct session_mr */
	SAVE_QUEUES, /* struct session_queues */
	SAVE_ENTRY, /* struct publish_entry */
	SAVE_PE, /* struct session_pe */
	SAVE_QPS, /* struct session_queues: the last known state of its QPs */
	SAVE_N,
};

/*
 * None of them fails for its caller: a session of which something cannot be saved ends with this daemon, and saved.reason says why.
 * All leave a session alone that is not saved. Control thread, except export.
 */
struct save_ops {
	/* Hello: another daemon can import the session once that is answered. */
	void (*begin)(struct session *session);
	/* After a request that may have changed something. Its client gets *rep, should it ask again. */
	void (*answer)(struct session *session, const struct msg *request, struct msg *rep, const struct fdlist *fds);
	void (*due)(struct session *session); /* before an answer leaves: what answer() has left for later */
	void (*changes)(struct session *session); /* after any other request: what has changed, if anything has */
	/* True: a daemon before this one carried the request out, and its client has the answer now. */
	bool (*repeat)(struct session *session, const struct msg *request);
	void (*ending)(struct session *session); /* the next daemon only tears down what the state names */
	void (*forget)(struct session *session); /* nothing of it is saved any more */
	void (*lost)(struct session *session); /* something of it did not reach the service manager */

	/* The next commit has this object as it is now. `fd`: its memory or what it publishes, borrowed; -1: nothing */
	void (*add)(struct session *session, enum save_kind kind, void *object, int fd);
	void (*remove)(struct session *session, enum save_kind kind, void *object);
	/* By any thread that may use the context: what the backend says of a NIC's context or of a new batch. */
	void (*export)(enum save_kind kind, void *object);

	/* The daemon's own: after each change of numbers that go on, and of assignments. */
	void (*registry)(struct registry *registry);
	void (*registry_end)(struct registry *registry); /* frees; what is saved stays */
};

/* The service manager's store, which has the descriptors while no daemon runs. */
struct save_store {
	int (*put)(void *arg, const char *name, int fd); /* borrowed. -ENOSPC: no room for more */
	int (*put_memory)(void *arg, const char *name, int fd); /* the same for memfds, of which there may be thousands */
	unsigned int (*room)(void *arg); /* for how many more, as names usually are */
	void (*remove)(void *arg, const char *name); /* also when there is none */
	void (*settle)(void *arg); /* after the last of a row of removes */
	uint64_t (*mark)(void *arg); /* of what was put last; marks rise */
	bool (*reached)(void *arg, uint64_t mark); /* the manager has all up to there: it may be busy */
	bool (*lost)(void *arg, uint64_t session); /* something of it was to reach the manager later, and never will */
	int (*follow)(void *arg); /* hangs up when the manager has heard of all removes: the caller's, or negative errno */
	int (*take)(void *arg, const char *name); /* of those that a former daemon put: the caller's. -ENOENT */
};

/* Saved state of one session. daemon/restart changes it; others read it, and set `changed`. */
struct session_saved {
	struct state *state; /* owned; NULL: the session ends with the daemon */
	char reason[128]; /* why it does, though there is a store; or empty */
	uint64_t mark; /* of the store: for all that was put; 0: the manager has it */
	uint64_t held_since_nsec; /* when a packet first had to wait until the manager has what was put; 0: none waits */
	bool is_held_by_porter; /* beyond the death of this daemon: once the manager has everything that makes it go on */
	bool is_named; /* the state is: from the first answer on */
	bool changed; /* since the state was written */
	bool is_due; /* the state is to be written before an answer leaves: the manager has not got what it names */
	bool imported; /* by this process: a request of before may come again */
	bool is_stale; /* imported and not saved since: records may name objects that the import found destroyed */
	unsigned int n_names; /* put, or imported, and not removed */
	uint32_t last_published; /* number of a descriptor's name */
	struct list gone; /* struct saved_gone.link: names that the next state no longer has */
	struct hash memories, memories_by_file; /* struct saved_memory, owned: memory of regions */
	struct list changed_queues; /* struct session_queues.changed_link: batches whose QPs are to be saved */
	/* The last request that changed something, so that it is not carried out twice. */
	uint64_t request; /* 0: none */
	enum msg_kind kind;
	void *reply; /* owned; encoded */
	size_t reply_bytes;
	int reply_fd; /* owned: queue memory of the daemon's that came with it; -1: none, or the session can find it */
};

#endif
