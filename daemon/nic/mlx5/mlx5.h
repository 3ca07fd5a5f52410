/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to daemon/nic/mlx5: the backend's objects.
 *
 * Threads: those of nic.h. One thread at a time uses a context. The NIC's lock protects state that contexts share with each
 * other and with the control thread. No thread holds it while a command runs, so the control thread never waits for firmware.
 */
#ifndef SHMEMD_NIC_MLX5_H
#define SHMEMD_NIC_MLX5_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "daemon/nic/mlx5/mlx5-bell.h"
#include "daemon/nic/mlx5/mlx5-cmd.h"
#include "daemon/nic/mlx5/mlx5-mapper.h"
#include "daemon/nic/mlx5/mlx5-record.h"
#include "daemon/nic/nic.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"

/* For the errno of a call that failed, other than a firmware command; 0: it left none. */
static inline int mlx5_errno(int err)
{
	return err == EIO || err == ENODEV ? -ENODEV : err ? -err : -EIO;
}

/* For a call that returns 0 or a positive errno. */
static inline int mlx5_result(int err)
{
	return err ? mlx5_errno(err) : 0;
}

/* ---- mlx5-object.c: objects in the kernel of a context -------------------------------------------------------------- */

/* The part of libmlx5 that exports objects: rdma-core 63 and later. */
struct mlx5_library {
	int (*obj_export)(struct mlx5dv_devx_obj *obj, void *data);
	struct mlx5dv_devx_obj *(*obj_import)(struct ibv_context *ibv, void *data);
	void (*obj_unimport)(struct mlx5dv_devx_obj *obj);
	int (*umem_export)(struct mlx5dv_devx_umem *umem, void *data);
	struct mlx5dv_devx_umem *(*umem_import)(struct ibv_context *ibv, void *data);
	void (*umem_unimport)(struct mlx5dv_devx_umem *umem);
	uint32_t obj_bytes, umem_bytes; /* of exported data */
};

enum mlx5_object_kind {
	MLX5_OBJECT_DEVX = 1,
	MLX5_OBJECT_UMEM = 2,
	MLX5_OBJECT_UAR = 3,
	/* Made by libibverbs: only listed and destroyed here. */
	MLX5_OBJECT_MR = 4,
	MLX5_OBJECT_AH = 5,
	MLX5_OBJECT_PD = 6,
};
#define MLX5_OBJECT_KINDS 7

struct mlx5_object {
	struct ibv_context *ibv; /* borrowed */
	enum mlx5_object_kind kind;
	uint32_t number; /* id of a umem, page of a UAR */
	uint32_t handle; /* the kernel's */
	/* One of these is owned if libmlx5 made the object. All are NULL if our own calls made it. */
	const struct mlx5_library *library;
	struct mlx5dv_devx_obj *obj;
	struct mlx5dv_devx_umem *umem;
};

struct mlx5_uar {
	struct mlx5_object *object; /* owned */
	uint64_t mmap_off; /* of the command descriptor */
	uint8_t *base_addr; /* mapped for writing */
};

/* Returns false if this libmlx5 exports no objects. */
bool mlx5_library_find(struct mlx5_library *ret_library);

/*
 * With a `library` of NULL, by our own calls. All return 0 or a negative errno of nic.h. `out` has cmd->out_bytes and
 * holds the firmware's answer, also of a command that failed.
 */
int mlx5_object_create(struct ibv_context *ibv, const struct mlx5_library *library, const struct mlx5_cmd *cmd,
		       void *out, struct mlx5_object **ret_object);
int mlx5_object_modify(struct mlx5_object *object, const struct mlx5_cmd *cmd, void *out);
int mlx5_object_query(struct mlx5_object *object, const struct mlx5_cmd *cmd, void *out);
int mlx5_object_subscribe(struct mlx5_object *object, struct mlx5dv_devx_event_channel *channel,
			  uint16_t *types, uint16_t bytes, uint64_t cookie);
int mlx5_umem_reg(struct ibv_context *ibv, const struct mlx5_library *library, struct mlx5dv_devx_umem_in *in,
		  struct mlx5_object **ret_umem);
/* The same for a umem by own calls, on any duplicate of the command descriptor. */
int mlx5_uverbs_reg_umem(int command_fd, const struct mlx5dv_devx_umem_in *in, uint32_t *ret_number, uint32_t *ret_handle);

struct mlx5_reg {
	const void *data;
	uint64_t bytes, iova;
	uint32_t pd; /* the kernel's handle */
	uint32_t access; /* IBV_ACCESS_* */
};

int mlx5_uverbs_reg_mr(int command_fd, const struct mlx5_reg *reg, uint32_t *ret_handle);
/* A doorbell page that no other context has. */
int mlx5_uar_alloc(struct ibv_context *ibv, struct mlx5_uar **ret_uar);
void mlx5_uar_free(struct mlx5_uar *uar);
/* Frees the struct even if the kernel refuses. */
int mlx5_object_destroy(struct mlx5_object *object);

/* Data for another process that has the command descriptor. */
int mlx5_object_export(const struct mlx5_object *object, struct mlx5_object_record *ret_record);
/* -EOPNOTSUPP: exported by another libmlx5. Does not check that the object exists. */
int mlx5_object_import(struct ibv_context *ibv, const struct mlx5_library *library, enum mlx5_object_kind kind,
		       const struct mlx5_object_record *record, struct mlx5_object **ret_object);
int mlx5_uar_import(struct ibv_context *ibv, const struct mlx5_object_record *record, uint64_t mmap_off,
		    struct mlx5_uar **ret_uar);
/* Frees the struct and keeps the object in the kernel. */
void mlx5_object_unimport(struct mlx5_object *object);
void mlx5_uar_unimport(struct mlx5_uar *uar);

/*
 * Lists the first `room` handles of one kind of the descriptor's context, newest first. The 16 bits of an attribute's length
 * limit their number.
 */
#define MLX5_HANDLES_MAX 16383u
int mlx5_handles_list(int command_fd, enum mlx5_object_kind kind, uint32_t *handles, uint32_t room, uint32_t *ret_n);
int mlx5_handle_destroy(int command_fd, enum mlx5_object_kind kind, uint32_t handle);

/* ---- mlx5-strays.c: a context's handles in the kernel, and those that a record names ---------------------------------- */

struct mlx5_handle {
	uint32_t handle;
	bool named;
};

struct mlx5_present {
	struct {
		uint32_t n;
		struct mlx5_handle *at; /* owned, sorted */
	} of[MLX5_OBJECT_KINDS];
};

/* 0 or a negative errno; the caller deinitializes in both cases. */
int mlx5_present_list(struct mlx5_present *present, int command_fd);
void mlx5_present_deinit(struct mlx5_present *present);
/* Returns false if the context has no such object. Believes names beyond the limit of the list. */
bool mlx5_present_name(struct mlx5_present *present, enum mlx5_object_kind kind, uint32_t handle);
/* Forgets all names. */
void mlx5_present_unname(struct mlx5_present *present);
struct mlx5_strays_attr {
	struct mappers *mappers; /* of the NIC */
	uint32_t uid; /* whose memory may be pinned */
	int command_fd; /* of the context */
};

/* Destroys all objects without a name. No other process uses the context. */
void mlx5_strays_destroy(struct mlx5_present *present, const struct mlx5_strays_attr *attr);

/* ---- the backend's objects -------------------------------------------------------------------------------------------- */

/* The context pool. Under the NIC's lock. */
struct mlx5_ctx_pool {
	struct nic_ctx_pool_attr attr;
	uint32_t shape; /* counts changes of attr.queues */
	struct list ready; /* struct mlx5_ctx.link, owned, oldest first */
	struct list stale; /* the same; to be destroyed, no session had them */
	struct nic_ctx_pool_info info; /* n_ready counts `ready` */
};

struct mlx5_nic {
	struct nic base; /* event_fd is an epoll set: the NIC's own events, those of each context, and more_fd */
	int more_fd; /* owned eventfd: `news` has events to report */
	int return_fd; /* owned timerfd: runs while the NIC is lost */
	uint32_t n_looks; /* searches for a lost NIC; control thread */
	struct mlx5_library library_functions;
	const struct mlx5_library *library; /* those, or NULL: our own calls make objects */
	char pci[16];
	FILE *trace; /* owned, or NULL */
	struct mappers mappers; /* who have memory of clients, and ring in doorbell mode cpu */

	pthread_mutex_t lock; /* protects all below; only the control thread changes the first three */
	struct ibv_context *ibv; /* owned; for queries, without objects of sessions */
	struct mlx5_caps caps;
	uint32_t life; /* counts returns; a context belongs to one life */
	struct ibv_context *former_ibv; /* owned; of the previous life, or NULL: a thread may still use it */
	struct mlx5_life *next; /* owned: the returned NIC, for the control thread to take over */
	struct mlx5_port port; /* link and number are constant */
	bool readdress; /* the port's addresses have changed since the last query */
	struct list ctxs; /* of sessions */
	struct nic_counters past; /* of contexts that were closed */
	uint64_t last_key;
	struct list news; /* struct mlx5_news, oldest first */
	struct mlx5_ctx_pool ctx_pool;
	bool lost; /* and reported */
	bool ended; /* a channel of this life has ended: the NIC is lost, to be reported */
};

/* The facts about a NIC that returned. */
struct mlx5_life {
	struct ibv_context *ibv; /* owned */
	struct mlx5_caps caps;
	struct mlx5_port port;
	enum nic_port_state state;
};

/* One queue's waiting event, at most one at a time. */
struct mlx5_news {
	struct list link; /* mlx5_nic.news, under its lock */
	struct nic_event event;
};

struct mlx5_cq {
	struct mlx5_object *obj; /* owned; NULL: not made, or destroyed before the import */
	struct mlx5_queues *queues;
	uint32_t cqn;
	uint32_t n_foreign_qps; /* of other batches */
	uint32_t arm_sn; /* of the last arming */
	uint32_t seen_ci; /* CQEs before this one were read */
	uint32_t counted_ci; /* errors before this one were counted */
	uint32_t n_idle_events; /* events without news */
	bool failed; /* overrun; reported, or waiting to be */
	struct mlx5_news news;
};

struct mlx5_qp {
	struct mlx5_object *obj; /* owned; NULL as with CQs */
	struct mlx5_queues *queues;
	struct nic_qp *desc;
	struct mlx5_cq *send_cq;
	struct mlx5_cq *recv_cq;
	enum nic_qp_state state; /* by our own commands */
	uint32_t first_error;
	uint64_t error_cqes; /* by the last count: mlx5-count.c */
	bool shows_errors; /* in its collapsed CQ, since it was reset */
	bool event_told; /* the failure is reported, or the client requested ERR: no more reports until the next RST */
	bool cut; /* imported, and closer to RTS than its record: the client will ask again */
	struct mlx5_news news;
};

struct mlx5_mr {
	struct nic_mr base;
	bool is_mapped; /* its pages are, or may be, others than a dmabuf's: a mapper unpins them */
	struct ibv_mr *ibv; /* owned; NULL: destroyed before the import */
};

/* Queue memory, mapped by a mapper. */
struct mlx5_memory {
	struct mapper *mapper; /* owned reference; NULL: not mapped */
	uint64_t id;
};

/* A doorbell page of mode cpu. */
struct mlx5_page {
	struct mapper *mapper; /* owned reference */
	uint64_t id;
	int fds[MLX5_SAVED_FDS]; /* owned, or -1; the first one is the NIC page for clients to read */
};

struct mlx5_queues {
	struct nic_queues base; /* in the list of its context when it is complete */
	struct mlx5_ctx *ctx;
	enum nic_mem_kind mem_kind;
	uint64_t mem_offset;
	struct mlx5_memory memory; /* owned; not mapped if it is a dmabuf, which the CPU cannot read */
	struct mlx5_object *umem; /* owned; NULL as with CQs */
	struct mlx5_cq *cqs;
	struct mlx5_qp *qps;
};

/* The receive memory pool of DCTs: mlx5-dc.c. */
struct mlx5_rmp {
	void *page; /* owned, as all; NULL too if another process made it */
	struct mlx5_object *umem;
	struct mlx5_object *obj; /* NULL: not made */
	uint32_t rmpn;
};

struct mlx5_ctx {
	struct nic_ctx base;
	struct mlx5_nic *nic;
	uint32_t uid; /* of its session */
	uint32_t life; /* life and capabilities of the NIC when the context was made */
	struct mlx5_caps caps;
	struct ibv_context *ibv; /* owned, as all below */
	struct ibv_pd *pd;
	struct mlx5_uar *uar; /* a page of its own: no other doorbell rings these queues */
	struct mapper *mapper; /* owned reference; NULL: not needed yet */
	uint64_t mapper_ctx; /* its name for this context */
	bool is_pooled; /* no session has it: its memory is the daemon's */
	struct mlx5_page *page; /* owned; in doorbell mode cpu. Changes under the NIC's lock, as do the next two */
	bool page_is_lost;
	struct mlx5_news page_news;
	struct mlx5_object *counter_set;
	struct mlx5_rmp rmp;
	struct mlx5dv_devx_event_channel *events;
	uint32_t pdn;
	uint32_t eqn;
	uint32_t counter_set_id;
	uint64_t error_cqes_counted; /* of that set, assigned to QPs */
	bool counted_is_stale; /* earlier errors belong to none of these QPs */
	struct hash qps; /* by number */
	struct hash cqs;
	struct mlx5_queues *pooled; /* owned: the pooled batch, not handed out; in none of the tables above */
	int pooled_fd; /* owned: its memory, or -1 */
	bool pooled_told; /* the last request was counted, with its reason */
	uint32_t pool_shape; /* shape of the context pool when it was made */
	bool meddled; /* its client destroyed an object of ours: it gets no new ones */
	struct mlx5_present *present; /* borrowed, during the import */
	uint64_t key; /* in the epoll set: the control thread holds no pointer that a worker may free */
	struct nic_counters counters; /* by the last query; under the NIC's lock */
	struct list link; /* mlx5_nic.ctxs, or a list of the context pool, under its lock */
};

static inline const struct nic_cq *mlx5_cq_desc(const struct mlx5_cq *cq)
{
	return &cq->queues->base.layout.cqs[cq - cq->queues->cqs];
}

static inline struct mlx5_nic *mlx5_nic(struct nic *nic)
{
	return container_of(nic, struct mlx5_nic, base);
}

static inline struct mlx5_ctx *mlx5_ctx(struct nic_ctx *ctx)
{
	return container_of(ctx, struct mlx5_ctx, base);
}

/* ---- mlx5-exec.c: one firmware command -------------------------------------------------------------------------- */

/* `out` has cmd->out_bytes. All return a negative errno of nic.h. */
int mlx5_exec_create(struct mlx5_ctx *ctx, const struct mlx5_cmd *cmd, void *out,
		     struct mlx5_object **ret_obj);
int mlx5_exec_modify(struct mlx5_ctx *ctx, struct mlx5_object *obj, const struct mlx5_cmd *cmd);
int mlx5_exec_query(struct mlx5_ctx *ctx, struct mlx5_object *obj, const struct mlx5_cmd *cmd, void *out);
int mlx5_exec_general(struct mlx5_nic *nic, struct ibv_context *ibv, const struct mlx5_cmd *cmd, void *out);
/*
 * Notes the result of destroying an object. Destruction fails if the NIC is gone, or if the client used the command descriptor
 * to destroy the object or to make something that uses it. In the latter case the context gets no new objects.
 */
void mlx5_note_destroyed(struct mlx5_ctx *ctx, int r);

/* The kernel's list of devices, and their nodes. */
#define MLX5_SYSFS_VERBS "/sys/class/infiniband_verbs"
#define MLX5_DEV_VERBS "/dev/infiniband"

/* ---- mlx5-open.c -------------------------------------------------------------------------------------------------- */

/*
 * Opens a device context with DEVX. The calling thread drops capabilities meanwhile that would stick to the context and go with
 * its command descriptor.
 */
int mlx5_open(struct ibv_device *device, struct ibv_context **ret_ibv);

/* ---- mlx5-nic.c, mlx5-return.c ----------------------------------------------------------------------------------------- */

void mlx5_return_wait(struct mlx5_nic *nic, bool on);
/* After the timer has expired: reports that it is time to query. */
int mlx5_return_look(struct mlx5_nic *nic, struct nic_event *ret_event);
/* Searches for a lost NIC. Any thread; a NIC that it finds waits for the control thread. */
void mlx5_return_find(struct mlx5_nic *nic);
/* The control thread takes over the NIC that was found. Returns false if there is none. */
bool mlx5_return_take(struct mlx5_nic *nic, struct nic_event *ret_event);
struct mlx5_life *mlx5_life_free(struct mlx5_life *life);

/* ---- mlx5-port.c ---------------------------------------------------------------------------------------------------- */

int mlx5_caps_query(struct mlx5_nic *nic, struct ibv_context *ibv, struct mlx5_caps *ret_caps);
/* The answer of nic.h's query, also for a lost NIC. */
int mlx5_port_query(struct mlx5_nic *nic, struct nic_info *ret_info);
/* Link, GID, MAC of the port with port->number. */
int mlx5_port_init(struct mlx5_nic *nic, struct ibv_context *ibv, const struct mlx5_caps *caps,
		   struct mlx5_port *port);
/* The port as it is now. Any thread. */
struct mlx5_port mlx5_port_now(struct mlx5_nic *nic);
struct ibv_context *mlx5_ibv_now(struct mlx5_nic *nic);
bool mlx5_is_lost(struct mlx5_nic *nic);
enum nic_port_state mlx5_port_state(const struct ibv_port_attr *attr);
void mlx5_port_learn(struct mlx5_port *port, const struct ibv_port_attr *attr);
/* The next hop of packets to a peer, as the kernel answered last: in one request many peers are on one NIC. */
struct mlx5_next_hop {
	bool known;
	uint8_t gid[16];
	uint8_t mac[6];
};

/* Asks the kernel, which asks the network, unless *hop knows the answer. */
int mlx5_ask_next_hop(struct mlx5_ctx *ctx, struct mlx5_next_hop *hop, const struct nic_addr *remote);

/* ---- mlx5-watch.c ---------------------------------------------------------------------------------------------------- */

/* `what` is a context's key, or one of these. The set reports a context once, and again after mlx5_events_listen(). */
#define MLX5_WATCH_NIC 0u
#define MLX5_WATCH_MORE 1u
#define MLX5_WATCH_RETURN 2u
#define MLX5_WATCH_MAPPERS 3u
#define MLX5_WATCH_KEYS 4u /* keys of contexts start here */
int mlx5_events_watch(struct mlx5_nic *nic, int fd, uint64_t what);
void mlx5_events_unwatch(struct mlx5_nic *nic, int fd);
/* Watches the asynchronous events of the NIC's own context. */
int mlx5_nic_watch(struct mlx5_nic *nic, struct ibv_context *ibv);
/* The set reports the context's channel again, even if it did before. */
void mlx5_events_listen(struct mlx5_ctx *ctx);
/* Wakes the control thread for mlx5_nic.news, .ended or .next. Any thread. */
void mlx5_events_wake(struct mlx5_nic *nic);
/* The event waits for mlx5_next_event(), in place of an older one of the same queue. */
void mlx5_news_add(struct mlx5_nic *nic, struct mlx5_news *news, const struct nic_event *event);
/* Forgets an event that waits, of a queue that goes or is reset. */
void mlx5_news_drop(struct mlx5_nic *nic, struct mlx5_news *news);

/* ---- mlx5-events.c --------------------------------------------------------------------------------------------------- */

int mlx5_events_subscribe_qp(struct mlx5_ctx *ctx, struct mlx5_qp *qp);
/* Also arms it for error CQEs, where the CPU reaches it. */
int mlx5_events_subscribe_cq(struct mlx5_ctx *ctx, struct mlx5_cq *cq);
/* Reads the context's events: sets words beside dbrecs and queues news for mlx5_next_event(). */
void mlx5_events_read(struct mlx5_ctx *ctx);
/* After a QP's reset: reads and forgets errors of its former life. */
void mlx5_events_settle(struct mlx5_ctx *ctx, struct mlx5_qp *qp);
/* Reports a QP that was found in ERR, unless it was reported before. */
void mlx5_events_qp_failed(struct mlx5_ctx *ctx, struct mlx5_qp *qp);
int mlx5_next_event(struct nic *nic, struct nic_event *ret_event);
void mlx5_ctx_look(struct nic_ctx *ctx);

/* ---- mlx5-memory.c --------------------------------------------------------------------------------------------------- */

struct mlx5_memory_attr {
	int fd; /* borrowed: a sealed memfd */
	uint64_t offset, bytes;
	uint64_t fill_bytes; /* how much of it becomes 0xff */
};

/* The context has a mapper that lives, as far as is known. */
int mlx5_memory_need_mapper(struct mlx5_ctx *ctx);
/* A region of a memfd: pd, access, offset, bytes, address and is_writable of `region`. */
int mlx5_memory_reg(struct mlx5_ctx *ctx, const struct mapper_request *region, int fd, uint32_t *ret_handle);
/* A region or a umem of memory that a mapper has pinned. */
int mlx5_memory_destroy(struct mlx5_ctx *ctx, enum mlx5_object_kind kind, uint32_t handle);
/* Maps queue memory; a umem of it too, unless ret_umem is NULL. The caller closes *ret_memory also if it fails. */
int mlx5_memory_open(struct mlx5_ctx *ctx, const struct mlx5_memory_attr *attr, struct mlx5_memory *ret_memory,
		     struct mlx5_object **ret_umem);
void mlx5_memory_close(struct mlx5_memory *memory);
/* False for memory that the CPU does not reach, or whose mapper has died. */
bool mlx5_memory_is_there(const struct mlx5_memory *memory);
/* -EOPNOTSUPP: it is not there. */
int mlx5_memory_read(const struct mlx5_memory *memory, uint64_t offset, void *buf, size_t bytes);
int mlx5_memory_store(const struct mlx5_memory *memory, uint64_t offset, uint32_t word);
/* As it is in memory; 0 if it is not there. */
uint32_t mlx5_memory_word(const struct mlx5_memory *memory, uint64_t offset);
/* The context lets go of its mapper, which then has nothing of it but what is mapped. */
void mlx5_memory_leave(struct mlx5_ctx *ctx);
/* A mapper has hung up: sessions whose doorbell page it had get an event. Control thread. */
void mlx5_memory_hung_up(struct mlx5_nic *nic);

/* `saved`: descriptors of a page of a former process, or NULL. The descriptors in *ret_doorbell stay the page's. */
int mlx5_page_open(struct mlx5_ctx *ctx, const struct nic_saved_fds *saved, struct nic_doorbell *ret_doorbell,
		   struct mlx5_page **ret_page);
struct mlx5_page *mlx5_page_free(struct mlx5_page *page);
DEFINE_CLEANUP(struct mlx5_page *, mlx5_page_free);
void mlx5_page_saved_fds(const struct mlx5_page *page, struct nic_saved_fds *saved);
/* `offset`: of the send word of the QP's dbrec. -EOPNOTSUPP: other mappers have page and memory. */
int mlx5_page_add(const struct mlx5_page *page, const struct mlx5_memory *memory, uint64_t offset, uint32_t qpn, bool is_gpu_driven);
/* MAPPER_QP_REMOVE, MAPPER_QP_RESET; MAPPER_PAGE_CATCH_UP, _LOOK, _SILENCE. Nothing for a page of NULL. */
void mlx5_page_qp(const struct mlx5_page *page, enum mapper_op op, uint32_t qpn);
void mlx5_page_tell(const struct mlx5_page *page, enum mapper_op op);

/* ---- mlx5-cqe.c ----------------------------------------------------------------------------------------------------- */

/* Some CQEs of a ring, read together. */
struct mlx5_cqes {
	uint32_t first_slot, n;
	uint8_t bytes[MAPPER_DATA_BYTES];
};

/* Returns the syndrome of the error CQE at this index and the QP's number; 0: it is not an error CQE. `cqes` begins as zeros. */
uint32_t mlx5_cq_error_at(const struct mlx5_cq *cq, struct mlx5_cqes *cqes, uint64_t index, uint32_t *ret_qpn);
/*
 * *ret_end is the CQE up to which the NIC has written. Returns how many before that, from `from_ci` on, can be read; 0 where
 * the CPU cannot, and then *ret_end stays.
 */
uint64_t mlx5_cq_look(struct mlx5_ctx *ctx, const struct mlx5_cq *cq, uint32_t from_ci, uint64_t *ret_end);
/* Sets the word beside the QP's dbrec, where the first error stays; 0 clears it. */
void mlx5_qp_tell_error(struct mlx5_qp *qp, uint32_t syndrome);

/* ---- mlx5-count.c ---------------------------------------------------------------------------------------------------- */

int mlx5_ctx_counters(struct nic_ctx *ctx, struct nic_counters *ret_counters);
/* Updates qp->error_cqes by up to three commands. For a QP that is in ERR or was until its reset. */
void mlx5_count_errors(struct mlx5_ctx *ctx, struct mlx5_qp *qp);

/* ---- mlx5-ctx-pool.c ----------------------------------------------------------------------------------------------------- */

void mlx5_ctx_pool_init(struct mlx5_nic *nic);
/* Destroys all pooled contexts. */
void mlx5_ctx_pool_deinit(struct mlx5_nic *nic);
int mlx5_ctx_open(struct nic *nic, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx);
int mlx5_ctx_pool_set(struct nic *nic, const struct nic_ctx_pool_attr *attr);
int mlx5_ctx_pool_query(struct nic *nic, struct nic_ctx_pool_info *ret_info);
int mlx5_ctx_pool_step(struct nic *nic);
int mlx5_queues_take(struct nic_ctx *ctx, struct nic_layout *layout, int *ret_fd, struct nic_queues **ret_queues);

/* ---- the operations of nic.h ------------------------------------------------------------------------------------------- */

/* Makes everything but the doorbell. */
int mlx5_ctx_make(struct mlx5_nic *nic, const struct nic_ctx_attr *attr, struct mlx5_ctx **ret_ctx);
/* An empty context, for mlx5_ctx_make() and mlx5_ctx_import(). */
struct mlx5_ctx *mlx5_ctx_alloc(struct mlx5_nic *nic, const struct nic_ctx_attr *attr);
int mlx5_ctx_open_events(struct mlx5_ctx *ctx);
/* No more thread rings for it. */
void mlx5_ctx_close_page(struct mlx5_ctx *ctx);
int mlx5_ctx_open_doorbell(struct mlx5_ctx *ctx, enum nic_doorbell_mode mode);
void mlx5_ctx_make_doorbell(struct mlx5_ctx *ctx);
/* After the import of its queues: mode cpu with the former pages. `fds` are those of mlx5_ctx_saved_fds(). */
int mlx5_ctx_hear_again(struct mlx5_ctx *ctx, const struct nic_saved_fds *fds);
/* mlx5-adopt.c */
int mlx5_ctx_export(struct nic_ctx *ctx, void **ret_part, size_t *ret_bytes);
int mlx5_mr_export(const struct nic_mr *mr, void **ret_part, size_t *ret_bytes);
int mlx5_queues_export(const struct nic_queues *queues, void **ret_part, size_t *ret_bytes);
int mlx5_ctx_saved_fds(struct nic_ctx *ctx, struct nic_saved_fds *ret_saved);
int mlx5_ctx_import(struct nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported);
struct nic_ctx *mlx5_ctx_unimport(struct nic_ctx *ctx);
struct nic_ctx *mlx5_ctx_close(struct nic_ctx *ctx);
int mlx5_ctx_to_cpu(struct nic_ctx *ctx);
void mlx5_ctx_quiesce(struct nic_ctx *ctx, uint64_t timeout_nsec);

int mlx5_mr_reg(struct nic_ctx *ctx, const struct nic_mr_attr *attr, struct nic_mr **ret_mr);
struct nic_mr *mlx5_mr_dereg(struct nic_mr *mr);

int mlx5_queues_create(struct nic_ctx *ctx, const struct nic_queue_mem *mem, struct nic_layout *layout,
		       struct nic_queues **ret_queues);
int mlx5_queues_destroy(struct nic_queues *queues);
/* Has this page poll the QP's doorbells; does nothing for a page of NULL. -ENOMEM. */
int mlx5_qp_hear(const struct mlx5_page *page, const struct mlx5_qp *qp);
/* Destroys a batch, whether or not it is in the context's tables. */
struct mlx5_queues *mlx5_queues_free(struct mlx5_queues *queues);
/* Destroys the context's pooled batch, if there is one. */
void mlx5_pooled_drop(struct mlx5_ctx *ctx);
/* Removes a complete batch from the tables of its context, so that no number finds it; or puts it back. */
void mlx5_queues_hide(struct mlx5_queues *queues);
int mlx5_queues_show(struct mlx5_queues *queues); /* -ENOMEM: it stays hidden */
/* A CQ of this batch by index, or an older one of the same context by number; else NULL. */
struct mlx5_cq *mlx5_cq_find(struct mlx5_queues *queues, uint32_t name);
/* Sets a new address, from the port's present state, with a random PSN and key. -EIO. */
int mlx5_qp_set_addr(struct mlx5_nic *nic, struct nic_qp *desc);
/* Enters an existing CQ or QP of an imported batch into the context's tables. */
int mlx5_cq_enter(struct mlx5_queues *queues, uint32_t i);
int mlx5_qp_enter(struct mlx5_queues *queues, uint32_t i);
int mlx5_queues_copy_layout(struct mlx5_queues *queues, const struct nic_layout *layout);
int mlx5_queues_read(struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes);

/* ---- mlx5-dc.c */

/* Makes the context's receive memory pool first, if there is none yet. */
int mlx5_dct_create(struct mlx5_ctx *ctx, struct mlx5_qp *qp, uint32_t user_index);
int mlx5_dct_query(struct mlx5_ctx *ctx, struct mlx5_qp *qp, struct nic_qp_info *ret_info);
/* After all DCTs. Does nothing without a pool. */
void mlx5_rmp_deinit(struct mlx5_ctx *ctx);
void mlx5_rmp_unimport(struct mlx5_ctx *ctx);
/* Checks that the pool exists. */
int mlx5_rmp_query(struct mlx5_ctx *ctx);
int mlx5_resolve(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		 struct nic_dc_peer *ret_peers, unsigned int *ret_n_done);

int mlx5_connect(struct nic_ctx *ctx, unsigned int n, const struct nic_peer *peers,
		 const struct nic_qp_params *params, unsigned int *ret_n_done);
int mlx5_qp_modify(struct nic_ctx *ctx, uint32_t qpn, enum nic_qp_state state);
int mlx5_qp_query(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info);
/* The same without counters, by one command. */
int mlx5_qp_ask(struct mlx5_ctx *ctx, struct mlx5_qp *qp, struct nic_qp_info *ret_info);
/* Reads the state of an imported QP, and the error of a QP in ERR if its CQs still have it. */
int mlx5_qp_learn_state(struct mlx5_ctx *ctx, struct mlx5_qp *qp);
int mlx5_qp_to_state(struct mlx5_ctx *ctx, struct mlx5_qp *qp, enum prm_opcode opcode, enum nic_qp_state state);
#endif
