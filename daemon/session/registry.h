/* SPDX-License-Identifier: Apache-2.0 */
/* What all sessions share: NICs, limits, quotas, what is published, and the list of sessions itself. */
#ifndef SHMEMD_SESSION_REGISTRY_H
#define SHMEMD_SESSION_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/nic.h"
#include "daemon/session/note.h"
#include "daemon/session/publish.h"
#include "daemon/session/quota.h"
#include "daemon/session/inflight-fds.h"
#include "daemon/session/work.h"
#include "proto/base/list.h"

#define REGISTRY_MAX_NICS 64u
#define REGISTRY_MAX_GPUS 64u
#define REGISTRY_GPU_BYTES 64
#define REGISTRY_PACKET_BYTES 65536u

struct save_ops;
struct save_store;
struct node_map;
struct session;
struct state;

struct registry_nic {
	struct registry *registry;
	struct nic *nic; /* borrowed: the daemon closes it after the last session */
	struct nic_info info; /* as of the last query; of a NIC that blocks, the state as of its last event */
	unsigned int index;
	uint32_t n_sessions; /* contexts open, or being opened */
	uint32_t n_qps;
	uint32_t n_dcis, n_dcts; /* of n_qps */
	struct work query; /* of a NIC that blocks: `fresh` and `result` are its worker's while is_asked */
	struct nic_info fresh;
	int result;
	bool is_taken_down; /* its port, by request: a later daemon does the same */
	bool is_asked, is_stale; /* something has happened meanwhile: the answer may be older */
	uint64_t asked_nsec;
	struct nic_counters before; /* counters that the NIC lacks: those of contexts that had ended when this daemon began */
	struct nic_counters ended; /* of all contexts that have, also since; saved */
	struct nic_counters told; /* of all, as somebody saw them last; saved */
};

/* Counts of a NIC that was there under a former daemon and is not now. */
struct registry_absent {
	char name[NIC_NAME_BYTES];
	struct nic_counters ended, told;
	bool is_taken_down; /* as in struct registry_nic: when it comes again */
};

/* A GPU keeps its NIC, for every client. */
struct registry_gpu {
	char gpu[REGISTRY_GPU_BYTES]; /* normal form; "": free */
	unsigned int nic;
};

struct registry_hooks {
	void *arg;
	void (*note)(void *arg, const struct note *note);
	/* The session has output waiting, or has ended and wants to be freed: not from inside this call. */
	void (*attention)(void *arg, struct session *session);
	/* Call drain_run after this time at the latest; only the last call counts. */
	void (*drain_alarm)(void *arg, uint64_t nsec);
	/* Have it done by another thread, and call its done later: not from inside this call. NULL: nothing is. */
	void (*work)(void *arg, struct work *work);
	/* The same of work that may stall; where that is done at once: true, and done is not called. NULL: it stalls everybody. */
	bool (*run)(void *arg, struct work *work);
	/* As `work`, but if no thread takes it soon, it is not run, and done is called all the same. NULL: as `work`. */
	void (*offer)(void *arg, struct work *work);
	unsigned int debug; /* enum note_topic: debug lines wanted */
};

struct porters;

struct registry_attr {
	struct quota_amount limits;
	struct quota_amount pools; /* struct quota.pools */
	unsigned int n_admin_places; /* connections beyond every limit, for administrators' controllers */
	uint64_t max_inflight_fds; /* sent and not read, per uid and per cgroup; 0: as the kernel likes */
	bool cpu_doorbells; /* no other mode is handed out */
	bool no_atomics; /* of peers, on queues that are made from now on */
	struct nic_qp_params qp_params; /* of QPs whose client says nothing */
	const struct nic_backend *const *backends; /* ended by NULL, constant; NULL: none claims a NIC */
	const char *no_mlx5; /* why ConnectX NICs were not looked for, in words; NULL: they were */
	bool has_hotplug; /* ConnectX NICs that come later are opened */
	/*
	 * For GPUs that the map of the node does not have: whether something at this PCI address may be one all the same, and whether
	 * the driver has exactly so many GPUs, all with one UUID each. NULL: the map is all there is. They do not block.
	 */
	bool (*sees_gpu)(const char *pci);
	bool (*knows_uuids)(unsigned int n_gpus);
	const char *daemon; /* name and version; lives as long as the registry */
	uint64_t quiesce_nsec; /* teardown waits at most this long for queues to flush; all together: registry_quiesce_left */
	uint64_t restart_grace_nsec; /* how long clients wait for the next daemon; 0: sessions end with this one */
	struct registry_hooks hooks;
	struct porters *porters; /* borrowed; NULL: sessions read and close descriptors themselves, for tests */
	/* NULL: nothing outlives the daemon. From it follow saves_sessions below and, for NICs in software, nic_soft_attr.saves. */
	const struct save_ops *save;
	const struct save_store *store; /* with its argument: where `save` has descriptors */
	void *store_arg;
};

struct registry {
	struct registry_attr attr;
	struct quota quota;
	struct publish_table published;
	struct inflight_table inflight;
	unsigned int n_admin_taken; /* of attr.n_admin_places */
	struct list sessions; /* struct session.link, by rising id; all roles and states */
	struct list monitors; /* struct session.monitor_link */
	unsigned int n_monitors;
	bool saves_sessions; /* attr.save was there when the registry was made; set before the first session, never changed */
	bool draining; /* drain.c */
	bool left_porters; /* registry_leave_porters() */
	uint64_t drain_end_nsec;
	uint64_t last_id;
	uint64_t sessions_total, refused_total;
	uint64_t resumed_total; /* sessions taken over from a former daemon */
	struct registry_absent absent[REGISTRY_MAX_NICS];
	unsigned int n_absent;
	uint64_t counted; /* id of the last session whose counters are in `ended`; its saved copy must not be added again */
	bool has_told; /* since the saved state was written */
	uint64_t started_nsec;
	pthread_mutex_t quiesce_lock; /* of the next two, which workers share */
	uint64_t quiesce_left_nsec, quiesce_seen_nsec; /* of registry_quiesce_left */
	uint32_t owner_uid; /* of the daemon: may see everything, as root may */
	unsigned int n_nics;
	bool blocks; /* some NIC does, and there are threads for that */
	bool stalls; /* the same */
	uint64_t counted_nsec, counted_id; /* of registry_count: when, and which session last */
	struct registry_nic nics[REGISTRY_MAX_NICS];
	struct host_list *unmanaged; /* owned; NULL: none was ever seen. unmanaged.c */
	struct node_map *node_map; /* borrowed; NULL: the node was not looked at. GPUs that it does not know are in gpus[] */
	struct registry_gpu gpus[REGISTRY_MAX_GPUS];
	unsigned int next_gpu; /* entry to overwrite when all are taken */
	struct state *state; /* owned: what is saved of the above; NULL: nothing. daemon/restart/save-registry.c */
	uint8_t *packet; /* owned; REGISTRY_PACKET_BYTES for encoding, one thread */
	uint8_t *in_packet; /* the same for receiving */
};

int registry_init(struct registry *registry, const struct registry_attr *attr);
void registry_deinit(struct registry *registry); /* every session is freed already */

/* One that was asked, at any time: it counts on from the figures reported under its name. -ENOSPC above REGISTRY_MAX_NICS. */
int registry_add_nic(struct registry *registry, struct nic *nic, const struct nic_info *info);
/* Done now, or by another thread where it may block. Then `blocks` must be true for some NIC of the work. */
void registry_work(struct registry *registry, bool blocks, struct work *work);
/*
 * By another thread; there are some. False: it is under way, and done() will be called, not from inside this call. True: it may
 * stall and did not, so it has run, and the rest is the caller's.
 */
bool registry_run(struct registry *registry, struct work *work);
/* The same of work that maps, unmaps or touches memory that a client reaches, and needs no NIC. */
bool registry_run_at_memory(struct registry *registry, struct work *work);
/* By another thread, if one takes it soon; else done() is called without run(). */
void registry_offer(struct registry *registry, struct work *work);
/* May sessions be busy here? */
static inline bool registry_has_busy(const struct registry *registry)
{
	return registry->blocks || registry->stalls;
}

/*
 * Ask the NIC for its present state; the last known one stays when it does not answer. One that blocks is asked in the
 * background, ten times a second at most.
 */
void registry_refresh_nic(struct registry_nic *rnic);
void registry_ask_nic(struct registry_nic *rnic); /* however often; one that blocks answers later */
/* Somebody looks at the counters of NICs that block: have them asked of 16 sessions, once a second, for the next look. */
void registry_count(struct registry *registry);
/* Counters that never fall, for a reader that may come back after a restart; call registry_save_told() after the last NIC. */
int registry_counters_for_reader(struct registry_nic *rnic, struct nic_counters *ret_counters);
void registry_save_told(struct registry *registry);
/* Its contexts are closed, and its saved state goes next. */
void registry_count_ended(struct session *session);
/* Every session is imported: NICs count on from the figures that readers saw. */
void registry_count_on(struct registry *registry);
void registry_take_down(struct registry_nic *rnic); /* its port, as before; where that is possible */
struct registry_nic *registry_find_nic(struct registry *registry, const char *name);
/* Numbers that go on, and assignments: after each change of them. Nothing where nothing is saved. */
void registry_save(struct registry *registry);

/* From now on: what is held already stays, also above a lower limit. */
void registry_set_limits(struct registry *registry, const struct quota_amount *limits);

/* events.c: tell the log, the sessions that an event of a NIC concerns, and monitors. */
void registry_event(struct registry *registry, struct registry_nic *rnic, const struct nic_event *event);

/* The session with this id or the next higher one that is listed (a client that said Hello); NULL at the end. */
struct session *registry_next_session(struct registry *registry, uint64_t id);
/* The listed one behind this one, or NULL: a walk over all of them costs no more than one look at each. */
struct session *registry_session_after(struct registry *registry, const struct session *session);
/* The listed session with this id, or NULL. */
struct session *registry_find_session(struct registry *registry, uint64_t id);

/*
 * How long a teardown that begins to wait now may wait for its queues. Others wait meanwhile, for the control thread or
 * for a worker, so all teardowns share `most`, of which a tenth of the time that passes comes back; no more of them wait
 * beside each other than there are workers. Any thread.
 */
uint64_t registry_quiesce_left(struct registry *registry, uint64_t most);
void registry_quiesce_spent(struct registry *registry, uint64_t nsec);

#endif
