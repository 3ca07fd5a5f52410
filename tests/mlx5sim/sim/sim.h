/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: what is shared by its files.
 *
 * Threads: one for each open command fd (struct ufile) runs that client's calls in order and owns the ufile's objects;
 * one for all NICs runs the engines (nic.c). sim->lock guards engines and what both kinds of thread touch; it is never
 * held while a client is asked for something.
 */
#ifndef SHMEMD_TESTS_MLX5SIM_SIM_H
#define SHMEMD_TESTS_MLX5SIM_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/hash.h"
#include "proto/base/list.h"
#include "tests/mlx5sim/engine-extra/extra.h"
#include "tests/mlx5sim/sim/decode.h"
#include "tests/mlx5sim/wire.h"

#define SIM_NICS_MAX 8
#define SIM_KILL_SENDER (UINT64_C(1) << 63)
#define SIM_GIDS_MAX 4
/* An InfiniBand port that could run as HDR and runs as EDR. */
#define SIM_IB_CAP_MASK (IBV_PORT_EXTENDED_SPEEDS_SUP | IBV_PORT_CAP_MASK2_SUP | IBV_PORT_CM_SUP)
#define SIM_IB_CAP_MASK2 IBV_PORT_LINK_SPEED_HDR_SUP
#define SIM_GID_TABLE 8u /* entries of a port; those behind the last GID are empty */
#define SIM_PAGE 4096u

/* Limits, as query_device tells them. */
#define SIM_MAX_QP 16384u
#define SIM_MAX_QP_WR 32768u
#define SIM_MAX_SGE 30u
#define SIM_MAX_SRQ 4096u
#define SIM_MAX_SRQ_WR 32767u
#define SIM_MAX_SRQ_SGE 31u
#define SIM_MAX_AH 65536u
#define SIM_DM_BYTES (256u << 10)
#define SIM_MAX_CQ 16384u
#define SIM_MAX_CQE 4194303u
#define SIM_MAX_MR 65536u
#define SIM_MAX_MW 65536u
#define SIM_MAX_PD 65536u
#define SIM_MAX_UAR 4096u
#define SIM_MAX_RD_ATOMIC 16u
#define SIM_MAX_UCTX 4096u
#define SIM_MAX_COUNTERS 255u
#define SIM_MAX_LOG2_STREAMS 6u /* of a DCI; as many in error at most */

struct sim;
struct ufile;

struct nic {
	struct sim *sim;
	struct nic *self; /* without const, for callers that have it as an opaque source */
	int index;
	struct engine *engine;
	uint8_t mac[6];
	uint64_t guid; /* host order */
	unsigned int n_gids; /* addresses come and go: read by nic_n_gids() */
	uint8_t gids[SIM_GIDS_MAX][16];
	uint8_t gid_types[SIM_GIDS_MAX]; /* enum ib_uverbs_gid_type */
	uint16_t lid;
	struct list uars;
	struct list armed_cqs;
	struct hash cqs_by_number;
	struct hash qps_by_number;
	struct hash srqs_by_number;
	struct hash devx_qps_by_number;
	struct list xrc_domains;
	uint32_t next_xrcdn;
	uint32_t next_cqn, next_qpn, next_srqn, next_pdn, next_key, next_page, next_umem;
	uint32_t n_cqs, n_qps, n_srqs, n_ahs, n_pds, n_mrs, n_mws, n_uars, n_umems, n_counters, n_uids;
	uint16_t next_uid;
	bool port_down;
	bool lost;
	bool lose_next_route; /* what the next route leads to is nowhere: packets are sent and lost */
	uint8_t counters_used[SIM_MAX_COUNTERS + 1];
	struct list ufiles;
	uint64_t dm_bytes; /* in use */
	bool mtu_gone; /* in a word of its own: those beside `lost` are read together, under sim->lock */
	bool lanes_gone; /* of the port's four there is one */
};

enum happening {
	HAPPEN_FATAL,
	HAPPEN_RETURN,
	HAPPEN_PORT_DOWN,
	HAPPEN_PORT_UP,
	HAPPEN_MTU_GONE,
	HAPPEN_MTU_BACK,
	HAPPEN_GID_GONE,
	HAPPEN_GID_BACK,
	HAPPEN_LANES_GONE,
	HAPPEN_LANES_BACK,
};

/* To the first device, so long after a device was opened. */
struct plan {
	enum happening what;
	int64_t after_msec;
	bool done;
};
#define SIM_PLANS_MAX 8

/* Which the devices have: --atomics. */
enum sim_atomics {
	SIM_ATOMICS_ALL, /* plain and masked, of 4 and 8 bytes; results of 8 bytes as the host has them */
	SIM_ATOMICS_BIG_ENDIAN, /* all, and results of 8 bytes arrive big-endian */
	SIM_ATOMICS_PLAIN, /* compare-swap and fetch-add of 8 bytes */
	SIM_ATOMICS_NONE,
};

struct sim {
	pthread_mutex_t lock;
	pthread_cond_t wake;	/* a ufile was opened or closed, or the end */
	unsigned int n_waiting; /* threads that want the lock: the NICs' lets them in */
	bool stopping;
	unsigned int n_ufiles;
	bool ethernet;
	enum sim_atomics atomics;
	bool atomics_apart; /* they are not atomic with those of a CPU */
	int n_nics;
	int control; /* see control.c */
	uint64_t *n_commands; /* of each device's firmware: the file "commands"... */
	uint64_t *kill_at; /* ...and the sender of that one is killed, with SIM_KILL_SENDER also if it is a mapper; 0: none */
	uint64_t *n_open; /* ...and contexts that are open */
	uint64_t *n_objects; /* ...and what they all have */
	uint64_t fw_latency_usec;
	struct plan plans[SIM_PLANS_MAX];
	unsigned int n_plans;
	int64_t first_open_msec; /* 0: not yet */
	bool memfd_dmabuf; /* take a memfd where a dmabuf is asked for */
	int patience_sec; /* with clients, when the command has ended */
	struct nic nics[SIM_NICS_MAX];
	struct nic nowhere; /* has no engine: what is sent there is lost */
	int clock_memfd;
	char root[80];
	FILE *log;
	FILE *trace; /* or NULL */
};

static inline void sim_lock(struct sim *sim)
{
	__atomic_add_fetch(&sim->n_waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&sim->lock);
	__atomic_sub_fetch(&sim->n_waiting, 1, __ATOMIC_RELAXED);
}

static inline void sim_unlock(struct sim *sim)
{
	pthread_mutex_unlock(&sim->lock);
}

/* One of the counts of what there is on a device. */
static inline uint32_t nic_count(struct nic *nic, const uint32_t *count)
{
	uint32_t n;

	sim_lock(nic->sim);
	n = *count;
	sim_unlock(nic->sim);
	return n;
}

/* ---- objects: one list for each ufile, newest first -------------------------------------------------------------- */

enum object_type {
	OBJECT_PD,
	OBJECT_MR,
	OBJECT_MW,
	OBJECT_CQ,
	OBJECT_QP,
	OBJECT_SRQ,
	OBJECT_XRCD,
	OBJECT_AH,
	OBJECT_DM,
	OBJECT_UAR,
	OBJECT_CHANNEL,
	OBJECT_UMEM,
	OBJECT_DEVX, /* made by a firmware command */
};

struct object {
	enum object_type type;
	uint32_t handle;
	uint32_t users; /* objects that refer to this one */
	struct ufile *ufile;
	struct list link;
	uint16_t opcode; /* of the firmware command that makes such an object: with the number its name in the firmware */
	uint32_t number;
	struct list subscriptions; /* to its events; under sim->lock */
	/* Frees it; also what it has in the engine. Its users are gone. */
	void (*free)(struct object *object);
};

struct ufile {
	struct sim *sim;
	struct nic *nic;
	int sock;
	int wake; /* eventfd: look at `lost` */
	bool lost; /* with its device... */
	bool has_lost; /* ...and what it had is gone: whatever is asked is EIO */
	bool has_context;
	uint16_t uid; /* of the firmware's view of this context; 0: it may send no commands */
	uint32_t free_handle; /* none below is free */
	uint64_t n_commands; /* of the firmware, for the log */
	bool kills; /* the caller does not live to see the answer */
	bool kills_sender; /* itself, not the daemon that a mapper works for */
	struct hash handles;
	struct hash names; /* objects by opcode and number: what commands of this uid can see */
	struct list nic_link;
	struct list port_subscriptions;
	struct list objects;
	struct channel *async;
};

int object_add(struct ufile *ufile, struct object *object, enum object_type type,
	       void (*free)(struct object *));
/* NULL when there is none of that type. */
struct object *object_get(struct ufile *ufile, enum object_type type, uint64_t handle);
struct object *object_any(struct ufile *ufile, uint64_t handle); /* of whichever type; NULL */
/* The firmware knows it as this. */
int object_name(struct object *object, uint16_t opcode, uint32_t number);
struct object *object_named(struct ufile *ufile, uint16_t opcode, uint32_t number); /* NULL */
int object_destroy(struct object *object); /* -EBUSY while it has users */
void objects_free_all(struct ufile *ufile);
void objects_free_but_channels(struct ufile *ufile);

/* ---- memory of clients ------------------------------------------------------------------------------------------- */

struct memory {
	struct engine_mem mem;
	uint8_t *base; /* its first page */
	size_t bytes;
	struct pin_file *files[SIM_SEGMENTS_MAX];
	unsigned int n_files;
};

/* Pin [addr, addr + bytes). -EFAULT when `writable` is wanted of pages that are not. */
int memory_pin(struct call *call, uint64_t addr, uint64_t bytes, bool writable,
	       struct memory **ret_memory);
/* The same of a dmabuf, whose descriptor is taken. -EINVAL: something else, or shorter. */
int memory_of_dmabuf(struct call *call, int fd, uint64_t offset, uint64_t bytes, bool writable,
		     struct memory **ret_memory);
/* All of a memfd, which stays the caller's. */
int memory_of_memfd(int fd, uint64_t bytes, struct memory **ret_memory);
static inline void *memory_at(const struct memory *memory, uint64_t addr)
{
	return memory->base + (addr & (SIM_PAGE - 1));
}
void memory_unref(struct memory *memory); /* takes NULL */

/* ---- event descriptors ------------------------------------------------------------------------------------------- */

struct channel {
	struct object object;
	int ends[2]; /* ours, the client's */
	bool is_async; /* of ibv_get_async_event */
	bool omit_data; /* of DEVX events: the cookie is all there is to read */
};

int channel_new(struct ufile *ufile, struct channel **ret_channel);
int channel_put(struct call *call,
		const struct channel *channel); /* descriptor number in the client */
/* The channel of this ufile that a descriptor of the client's is of; NULL. */
struct object *channel_of_fd(struct call *call, int fd);
/* Nothing comes any more: waiting threads are woken. */
void channel_end(struct channel *channel);
bool channel_send(struct channel *channel, const void *event, size_t bytes);
/* Take back unread ones for which `is_mine` is true. Returns how many. */
unsigned int channel_withdraw(struct channel *channel, size_t event_bytes,
			      bool (*is_mine)(const void *event, const void *of), const void *of);

/* DEVX events: to subscribers, under sim->lock. `type` is the firmware's. */
void event_send(struct object *object, uint8_t type);
void event_send_port(struct nic *nic, bool up);
void event_forget(struct sim *sim, struct list *subscriptions); /* takes sim->lock */

/* ---- what clients map: page numbers are a command with an index around it (mlx5_ib, mlx5_entry_to_mmap_offset) ---- */

#define MMAP_PAGE(command, index) (((uint64_t)(index) >> 8 << 16) | ((command) << 8) | ((index)&0xff))
#define MMAP_COMMAND(page) ((page) >> 8 & 0xff)
#define MMAP_INDEX(page) ((page) >> 16 << 8 | ((page)&0xff))
#define MMAP_UAR 9u

int clock_init(struct sim *sim);

/* ---- UAR pages --------------------------------------------------------------------------------------------------- */

struct uar {
	struct object object;
	struct list nic_link;
	struct list qps, devx_qps, cqs; /* those whose doorbells this page rings */
	uint32_t page_id;
	int memfd;
	uint8_t *page;
};

struct umem;

struct uar *uar_get(struct ufile *ufile, uint32_t page_id);
int uar_mmap(struct ufile *ufile, uint64_t offset, uint64_t bytes, uint64_t prot, int *ret_memfd);

/* ---- NIC --------------------------------------------------------------------------------------------------------- */

struct cq {
	struct object object;
	struct list uar_link, armed_link;
	struct uar *uar;
	struct channel *channel; /* NULL: none */
	struct memory *ring_memory, *dbrec_memory;
	struct umem *ring_umem, *dbrec_umem; /* instead, when DEVX made it */
	const uint8_t *ring;
	uint32_t *dbrec; /* consumer index, arm word */
	bool collapsed, ignores_overrun;
	uint64_t user_handle;
	uint32_t cqn, log2_entries, entry_bytes;
	bool armed;
	uint32_t armed_ci, arm_seen;
	/* Moderation: an event for so many CQEs, or so long after the first of them. */
	uint32_t moderate_count;
	uint64_t moderate_nsec, first_cqe_nsec; /* 0: none yet */
	uint32_t n_comp_events, n_async_events; /* sent */
};

int nic_init(struct nic *nic, struct sim *sim, int index);
void nic_deinit(struct nic *nic);
void *nic_thread(void *sim);
/* Execute what was posted before now, as a device has by the time that a command reaches it. Under sim->lock. */
void nic_catch_up(struct sim *sim);
void cq_arm_seen(struct nic *nic, const struct uar *uar, uint32_t cqn);
void cq_engine_event(struct nic *nic, const struct engine_event *ev);
void cq_notify_armed(struct nic *nic, uint64_t now_nsec);
void srq_engine_event(struct nic *nic, const struct engine_event *ev);
void qp_doorbell(struct nic *nic, const struct uar *uar);
void qp_engine_event(struct nic *nic, const struct engine_event *ev);
void xrc_engine_event(struct nic *nic, const struct engine_event *ev);
void fw_qp_doorbell(struct nic *nic, const struct uar *uar);
void fw_qp_engine_event(struct nic *nic, const struct engine_event *ev);
/* A CQ that is not in the engine yet; frees itself as an object. */
int cq_new(struct call *call, enum object_type type, struct cq **ret_cq);
/* Into the engine, with a number of its own and its ring, dbrec and UAR page set. */
int cq_enter(struct cq *cq, uint32_t flags);
struct nic *sim_nic_of_gid(struct sim *sim, const uint8_t gid[16]);
static inline unsigned int nic_n_gids(const struct nic *nic)
{
	return __atomic_load_n(&nic->n_gids, __ATOMIC_RELAXED);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

struct call {
	struct ufile *ufile;
	struct nic *nic;
	int reply;
	bool refused;	     /* the log has the reason */
	uint64_t attrs_addr; /* of the attributes in the client */
	const struct method_spec *method;
	const char *what; /* of the command, for the log */
	struct ib_uverbs_attr attrs[DECODE_ATTRS_MAX];
	struct decoded decoded;
	void *in[DECODE_ATTRS_MAX]; /* by attr_spec */
};

bool call_has(const struct call *call, uint16_t id);
size_t call_room(const struct call *call, uint16_t id); /* bytes of an ATTR_OUT; 0 absent */
/* The bytes of an ATTR_IN, or NULL when it was not sent. */
const void *call_in(const struct call *call, uint16_t id, size_t *ret_bytes);
size_t call_out_room(const struct call *call, uint16_t id); /* bytes of an ATTR_OUT; 0 absent */
uint64_t call_u64(const struct call *call,
		  uint16_t id); /* ATTR_IN of up to 8 bytes, ATTR_OBJECT, ATTR_FD; 0 absent */
/* Copies a structure: shorter input is filled with zeros, longer must end in zeros (-EOPNOTSUPP). */
int call_in_struct(struct call *call, uint16_t id, void *ret, size_t bytes);
/* As much of it as the client has room for; the rest of that room becomes zeros. Nothing when not asked for. */
int call_out(struct call *call, uint16_t id, const void *data, size_t bytes);
int call_set_handle(struct call *call, uint16_t id, int64_t handle_or_fd);
/* A refusal for a reason the log tells. */
int call_refuse(struct call *call, int error, const char *reason, ...)
	__attribute__((format(printf, 3, 4)));

int upcall_peek(int reply, uint64_t addr, void *to, size_t bytes);
int upcall_poke(int reply, uint64_t addr, const void *from, size_t bytes);
int upcall_get_fd(int reply, int fd); /* a descriptor of ours */
int upcall_put_fd(int reply, int fd); /* its number in the client */
int upcall_pin(int reply, uint64_t addr, uint64_t bytes, uint32_t flags,
	       struct sim_segment *segments, int *fds, unsigned int *ret_n_fds);
int upcall_done(int reply, int64_t result, int fd);

void call_serve_ioctl(struct ufile *ufile, const struct sim_request *request, int reply);
void *ufile_thread(void *ufile);
int sim_write_tree(const struct sim *sim);
void sim_tree_list(const struct nic *nic, bool listed);
void sim_tree_port(const struct nic *nic);

int control_open(const struct sim *sim);
void control_read(struct sim *sim, int control);
/* Does what is due. Milliseconds until it is to be called again, -1 never. */
int control_turn(struct sim *sim);
/* The file "commands": how many each device's firmware has carried out or refused. */
int control_count_open(struct sim *sim);
/* "MSEC" or "MSEC,MSEC": when it happens, and when it ends. */
int control_plan(struct sim *sim, enum happening what, const char *text);
void sim_log(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- the methods, by file ---------------------------------------------------------------------------------------- */

extern const struct method_spec methods[];
extern const size_t n_methods;

int device_info_handles(struct call *call);
int device_query_port(struct call *call);
int device_query_port_speed(struct call *call);
int device_query_mlx5_port(struct call *call);
int device_get_context(struct call *call);
int device_query_context(struct call *call);
int device_query_gid_table(struct call *call);
int device_query_gid_entry(struct call *call);
int device_invoke_write(struct call *call);
int async_event_alloc(struct call *call);
int pd_destroy(struct call *call);
int pd_query(struct call *call);
int mr_query(struct call *call);
int mr_reg_dmabuf(struct call *call);
int mr_advise(struct call *call);
int mr_reg(struct call *call);
int mr_destroy(struct call *call);
int mw_destroy(struct call *call);
int cq_create(struct call *call);
int cq_destroy(struct call *call);
int qp_create(struct call *call);
int qp_destroy(struct call *call);
int srq_create(struct call *call);
int srq_destroy(struct call *call);
int xrcd_destroy(struct call *call);
int ah_destroy(struct call *call);
int dm_alloc(struct call *call);
int dm_destroy(struct call *call);
int dm_query(struct call *call);
int mr_reg_dm(struct call *call);
int uar_alloc(struct call *call);
int uar_destroy(struct call *call);
int umem_reg(struct call *call);
int umem_dereg(struct call *call);
int devx_other(struct call *call);
int devx_query_uar(struct call *call);
int devx_query_eqn(struct call *call);
int devx_subscribe(struct call *call);
int devx_create(struct call *call);
int devx_destroy(struct call *call);
int devx_modify(struct call *call);
int devx_query(struct call *call);
int devx_query_async(struct call *call);
int devx_channel_alloc(struct call *call);

int write_query_device(struct call *call);
int write_ex_query_device(struct call *call);
int write_alloc_pd(struct call *call);
int write_reg_mr(struct call *call);
int write_create_comp_channel(struct call *call);
int write_query_qp(struct call *call);
int write_modify_qp(struct call *call);
int write_resize_cq(struct call *call);
int write_ex_modify_cq(struct call *call);
int write_rereg_mr(struct call *call);
int write_alloc_mw(struct call *call);
int write_ex_modify_qp(struct call *call);
int write_modify_srq(struct call *call);
int write_query_srq(struct call *call);
int write_open_xrcd(struct call *call);
int write_open_qp(struct call *call);
int write_create_ah(struct call *call);

#endif
