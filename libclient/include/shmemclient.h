/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libshmemclient: sessions with shmemd, memory, queues, endpoint addresses.
 *
 * The daemon owns NICs, QPs and registrations; this library requests them over a Unix socket, maps the memory that it
 * receives and fills the dev-state that device functions (<shmd/dev/...>) work on. After set-up the daemon is off
 * the data path.
 *
 * Errors: functions return 0 (or a count, as their comments say) or a negative errno; shmd_error_text() then has a sentence
 * for this thread that names the cause and, if possible, the next step.
 * Threads: any number of threads may use a client; the library serialises calls on it. Closing or
 * destroying an object while another thread uses it is the caller's error.
 * Fork: descriptors are close-on-exec, mappings are shared with a forked child, but a client belongs to the process
 * that opened it: in a child every call returns -ECHILD and shmd_client_close() only frees its copy.
 * Fatal errors: when the connection breaks, or the daemon died and the next one did not take the session over in time, the
 * client stays dead: every call returns the same error, and every health word says SHMD_HEALTH_DAEMON_GONE so that waits on
 * its queues end. A thread of the library does that even if no call is made; it sleeps otherwise.
 *
 * These rules hold for every function, unless its comment says otherwise:
 *	Ownership	a handle belongs to the caller until the function that ends it, and at the latest until
 *			shmd_client_close() of its client, which ends every handle made from it. Descriptors and
 *			strings passed in are borrowed for the call.
 *	Outputs		written on success only. NULL is -EINVAL, unless the comment says that the output may be NULL.
 *	Attrs		zero in a field means the default that its comment names. NULL in place of an attr means all defaults,
 *			if the comment allows NULL. Functions refuse zero in a field without a default, such as a length
 *			(-EINVAL).
 *	Blocks		until the daemon replies, at most the client's time limit: -ETIMEDOUT. The daemon may still
 *			carry out the request; objects that it then makes live until the session ends.
 *	Errors		-EINVAL an argument; -ECHILD in a forked child; -ETIMEDOUT; -ENOMEM; -ECONNRESET (connection
 *			broke), -ECANCELED (session ended by an administrator), -ESHUTDOWN (daemon stops) and -EPROTO
 *			(the daemon answered nonsense), which are fatal; and those that its comment names.
 *	Restart		if the service manager keeps the sessions of shmemd, a call that is under way when the daemon
 *			dies goes on with the next one, within its time limit, and is carried out once. If no daemon starts
 *			within restart-grace, or it starts without the sessions: -ECONNRESET.
 *	Since		0.1, protocol version 1.
 * "Never blocks" also means: makes no request, needs no lock, cannot fail for the reasons above.
 *
 * How the ABI grows: functions, values of enums and bits of flags may be added in any release; ignore values you do not know.
 * Symbols have versions, so a program that calls a function this library lacks does not start with it. Structs carry no size:
 * a field added to one, be it an attr or what a function fills in, changes the soname (libshmemclient.so.0 now), and programs
 * must be compiled anew. Before 1.0 that may happen with a new minor number, never with a new patch number alone. Sources stay
 * valid: fill attrs by designated initialisers or from zero, since 0 in a field that was added later means the behaviour before
 * it. The layouts that kernels see (<shmd/abi/...>) have a version of their own, in struct shmd_dev_state.
 */
#ifndef SHMEMCLIENT_H
#define SHMEMCLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd/abi/dev-state.h>
#include <shmd/abi/doorbell.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHMD_VERSION_MAJOR 0
#define SHMD_VERSION_MINOR 1
#define SHMD_VERSION_PATCH 0

#define SHMD_EXPORT __attribute__((visibility("default")))

struct shmd_client;
struct shmd_nic;
struct shmd_mem;
struct shmd_mr;
struct shmd_queues;
struct shmd_dct;
struct shmd_gpu;

/* ---- client ---------------------------------------------------------------------------------------------- */

enum shmd_role {
	SHMD_ROLE_CLIENT = 1, /* may open NICs */
	SHMD_ROLE_CONTROL = 2, /* looks and administers; never listed, owns nothing */
};

struct shmd_client_attr {
	const char *socket_path; /* NULL: $SHMEMD_SOCKET, else /run/shmemd/shmemd.sock */
	enum shmd_role role; /* 0: SHMD_ROLE_CLIENT */
	uint64_t timeout_nsec; /* for every request; 0: 10 s */
};

struct shmd_limits {
	uint32_t max_qps_per_request, max_peers_per_request, max_nics_per_session;
	uint32_t max_sessions, max_qps, max_cqs, max_mrs, max_fds, max_published; /* per uid */
	uint64_t max_registered_bytes; /* per uid */
};

/*
 * shmd_client_open - connect to shmemd and open a session
 *
 * attr		in; may be NULL: all defaults. Its strings are not kept.
 * ret_client	out; not NULL
 * Lifetime	until shmd_client_close(), also after a fatal error.
 * Errors	-ENOENT, -ECONNREFUSED: shmemd is not running; -EACCES: not in group shmemd; -EDQUOT: too many sessions
 *		of this user; -EPROTONOSUPPORT: no common protocol version; -ESHUTDOWN: it accepts no new sessions
 */
SHMD_EXPORT int shmd_client_open(const struct shmd_client_attr *attr, struct shmd_client **ret_client);
/*
 * shmd_client_close - end the session
 *
 * Destroys the objects left in it, here and in the daemon; every handle and mapping made from this client is invalid
 * afterwards, except the addresses of adopted memory, which stay mapped. The daemon finishes its part shortly after
 * the call returns. In a forked child it frees the child's copy only. NULL is allowed. Always succeeds.
 *
 * Blocks	no; with a memory agent until it has carried out what it has begun, at most the client's time limit: then it frees the rest later
 */
SHMD_EXPORT void shmd_client_close(struct shmd_client *client);
/* Number of the session, as shmemctl shows it; 0 for NULL. Never blocks. */
SHMD_EXPORT uint64_t shmd_client_session(const struct shmd_client *client);
/* The limits that the daemon reported at the start; "per uid" counts all sessions of this user. Never blocks. */
SHMD_EXPORT int shmd_client_limits(const struct shmd_client *client, struct shmd_limits *ret_limits);
/* "shmemd 0.1.0", as it was when the client was opened; valid until close; never NULL. Never blocks. */
SHMD_EXPORT const char *shmd_client_daemon(const struct shmd_client *client);
/*
 * shmd_request_limit_set - the time limit of this thread's requests to a client
 *
 * Until the thread sets another, its requests to limit.client have at most limit.timeout_nsec, and QPs that it creates that time limit for
 * posting, instead of the client's own. A thread has one limit; client NULL: none, as at its start. For code that shares a client with
 * callers of other time limits. Never blocks.
 *
 * Returns	the limit before, which a caller sets again when it is done
 */
struct shmd_request_limit {
	const struct shmd_client *client;
	uint64_t timeout_nsec;
};
SHMD_EXPORT struct shmd_request_limit shmd_request_limit_set(struct shmd_request_limit limit);
/*
 * shmd_client_health - enum shmd_health of the session and of its NICs
 *
 * SHMD_HEALTH_OK: the session lives, and none of its NICs is lost or has its port down. The session's own word comes first, then
 * a lost NIC, then a port; shmd_nic_health() says which NIC. A NIC that was closed still counts, because the session keeps it.
 * The call notices a broken connection and reads events that have arrived. It returns a negative number for -EINVAL and -ECHILD
 * only. A client of SHMD_ROLE_CONTROL has no page; its health is that of the connection.
 *
 * Blocks	never
 */
SHMD_EXPORT int shmd_client_health(struct shmd_client *client);
/* The session's health page, mapped until close; NULL for SHMD_ROLE_CONTROL. Words: see <shmd/abi/doorbell.h>. */
SHMD_EXPORT struct shmd_health_page *shmd_client_health_page(struct shmd_client *client);
/*
 * How many restarts of the daemon this client has seen that took the session over; 0 for NULL. Calls and waits under way went on.
 * Never blocks.
 */
SHMD_EXPORT unsigned int shmd_client_restarts(const struct shmd_client *client);
/*
 * Pollable (poll, epoll): readable when shmd_event_next() may have something or the connection broke. The client owns
 * it; the caller neither reads nor closes it. -1 for NULL. Never blocks.
 */
SHMD_EXPORT int shmd_client_fd(const struct shmd_client *client);

/* The last error of this thread: never NULL, valid until its next call into the library. Success leaves it alone. */
SHMD_EXPORT const char *shmd_error_text(void);
/*
 * For layers above this library, such as the runtime: set the last error of this thread, cut to 511 bytes, and return `error` (a
 * negative errno). The arguments may print the present text. Never blocks.
 */
SHMD_EXPORT int shmd_error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A sentence for enum shmd_health, enum shmd_dev_status, enum shmd_cqe_syndrome; never NULL, constant. */
SHMD_EXPORT const char *shmd_health_text(int health);
SHMD_EXPORT const char *shmd_dev_status_text(int status);
SHMD_EXPORT const char *shmd_syndrome_text(uint32_t syndrome);
/* "0.1.0": the version of the running library. SHMD_VERSION_* are those of the header that was compiled. */
SHMD_EXPORT const char *shmd_version(void);

enum shmd_event_kind {
	SHMD_EVENT_QP_ERROR = 1,
	SHMD_EVENT_CQ_ERROR = 2,
	SHMD_EVENT_PORT_STATE = 3,
	SHMD_EVENT_NIC_LOST = 4,
	SHMD_EVENT_SESSION_END = 5,
	SHMD_EVENT_SESSION_OPENED = 6, /* this one and the next three: to monitors only */
	SHMD_EVENT_SESSION_CLOSED = 7,
	SHMD_EVENT_QUEUES_CREATED = 8,
	SHMD_EVENT_QUEUES_DESTROYED = 9,
	SHMD_EVENT_DRAIN = 10, /* detail 1: finish, the session will be ended; 0: it may go on */
	SHMD_EVENT_DROPPED = 11, /* to monitors only, as the next one */
	SHMD_EVENT_REFUSED = 12,
	SHMD_EVENT_DAEMON_RESUMED = 13, /* number: how often so far; the objects of the session are unchanged */
};

struct shmd_event {
	enum shmd_event_kind kind;
	uint32_t nic; /* NIC index of the session */
	uint32_t number; /* qpn or cqn; 0: several, when many happened at once */
	uint32_t detail; /* syndrome (QP, CQ), port state, the status number the session ended with, drain on or off */
	char text[256];
};

/*
 * shmd_event_next - take the next event of the session
 *
 * At most 64 events wait; beyond that the newest are lost, since every state that they report can be queried.
 *
 * timeout_nsec	0: do not wait
 * Blocks	at most timeout_nsec; events wait while another thread's request is under way
 * Errors	-EAGAIN none came; the fatal error, once the events before it are taken
 */
SHMD_EXPORT int shmd_event_next(struct shmd_client *client, uint64_t timeout_nsec,
				struct shmd_event *ret_event);

/* ---- NICs -------------------------------------------------------------------------------------------------- */

enum shmd_mem_kind {
	SHMD_MEM_MEMFD = 1,
	SHMD_MEM_DMABUF = 2,
	SHMD_MEM_AGENT = 3,
	SHMD_MEM_PEERMEM = 4, /* addresses of this process, which the library registers itself */
};

/* struct shmd_nic_info.atomics: the atomics that its QPs send and carry out. */
#define SHMD_ATOMIC_8 0x1u /* fetch, add and compare-swap of 8 bytes */
#define SHMD_ATOMIC_MASKED_4 0x2u /* all operations of 4 bytes */
#define SHMD_ATOMIC_MASKED_8 0x4u /* and, or, xor, swap and signals that set a word, of 8 bytes */
#define SHMD_ATOMIC_RESULT_BE 0x8u /* results of 8 bytes arrive big-endian; device functions swap them */

struct shmd_nic_info {
	char name[32];
	char backend[32];
	char pci[16];
	uint32_t port;
	uint32_t link; /* 1 Ethernet, 2 InfiniBand */
	uint32_t state; /* 1 down, 2 active, 3 lost */
	uint8_t gid[16];
	uint8_t mac[6];
	uint16_t lid;
	uint32_t mtu_bytes;
	uint64_t rate_mbps;
	uint32_t mem_kinds[4]; /* enum shmd_mem_kind, best first, 0-terminated */
	uint32_t max_log2_sq_wqebbs;
	uint32_t max_log2_cq_entries;
	uint32_t max_qps;
	uint32_t n_sessions;
	uint32_t n_qps;
	uint32_t atomics; /* SHMD_ATOMIC_*, of RC QPs: others end a device function with SHMD_DEV_UNSUPPORTED */
	uint32_t atomics_dc; /* of DCIs and DCTs */
	/* Only after shmd_nic_open: */
	uint32_t index; /* NIC index of the session */
	uint32_t doorbell_mode; /* enum shmd_doorbell_mode taken; may change once, from uar-mmap to cpu */
	char doorbell_reason[256]; /* why a better mode was not taken, or empty */
	char assignment[256]; /* why this NIC, in words */
};

/* Fills up to n entries (infos may be NULL when n is 0); returns how many NICs there are, which may be more. */
SHMD_EXPORT int shmd_nic_list(struct shmd_client *client, struct shmd_nic_info *infos, unsigned int n);

struct shmd_nic_attr {
	const char *gpu; /* PCI bus id or "GPU-..." UUID; NULL: no GPU */
	const char *nic; /* by name; NULL: the daemon assigns */
	enum shmd_doorbell_mode doorbell; /* 0: automatic */
};

/*
 * shmd_nic_open - open a NIC for this session
 *
 * The daemon chooses the NIC for the GPU, or the one named; each NIC at most once in a session. Maps the doorbell
 * page; the daemon makes a protection domain of the session's own.
 *
 * An automatic doorbell mode is uar-mmap if the daemon offers it, and changes to cpu, once, if this process cannot map its page
 * or a GPU cannot reach it (shmd_gpu_dev_state() and shmd_gpu_dev_qp() find out). Queues go on; shmd_nic_info() has the reason.
 *
 * attr		in; may be NULL: no GPU, any NIC, automatic doorbell mode
 * Lifetime	the handle until shmd_nic_close(); the NIC's context, and its place in the session, until the
 *		session ends
 * Errors	-EEXIST the session has this NIC already; -ENODEV no such NIC, or it is gone; -EINVAL no such GPU; -EOPNOTSUPP the doorbell
 *		mode is not offered; -E2BIG too many NICs; -EPERM not allowed; -EDQUOT
 */
SHMD_EXPORT int shmd_nic_open(struct shmd_client *client, const struct shmd_nic_attr *attr,
			      struct shmd_nic **ret_nic);
/* enum shmd_health of one NIC, or of its session after that has ended. Otherwise as shmd_client_health(). */
SHMD_EXPORT int shmd_nic_health(const struct shmd_nic *nic);
/* The NIC at the time when it was opened; doorbell mode and reason are the present ones: see shmd_nic_open(). Never blocks. */
SHMD_EXPORT int shmd_nic_info(const struct shmd_nic *nic, struct shmd_nic_info *ret_info);
/*
 * Frees the handle and its mappings; MRs and queues of it must be gone (-EBUSY). The context ends with the session,
 * so the same NIC cannot be opened again in it (-EEXIST). Blocks no longer than another thread's request, or than the memory agent
 * carries out what it has begun: -ETIMEDOUT, and the call may be repeated.
 */
SHMD_EXPORT int shmd_nic_close(struct shmd_nic *nic);

/* ---- memory -------------------------------------------------------------------------------------------------- */

/*
 * shmd_mem_alloc - a sealed memfd, mapped read-write and shared, zeroed
 *
 * Sealed against shrinking and growing. Nothing is registered and no quota charged yet: that is shmd_mr_reg_mem().
 * A forked child shares the mapping.
 *
 * bytes	at least 1; rounded up to pages
 * Blocks	no longer than another thread's request; makes none itself
 * Errors	-ENOMEM, -EMFILE and other errors of memfd_create and mmap
 */
SHMD_EXPORT int shmd_mem_alloc(struct shmd_client *client, size_t bytes, struct shmd_mem **ret_mem);
/*
 * shmd_mem_adopt - move private anonymous memory into a sealed memfd
 *
 * The same addresses, the same contents, now shareable; afterwards it is shared with children of a fork instead of
 * copied, and advice and locks on the range (madvise, mlock) are gone. Every byte must lie in private anonymous
 * memory that can be read and written: from mmap, the heap, not a stack. No other thread may write to the range
 * during the call; reading is fine.
 *
 * addr, bytes	multiples of the page size
 * Ownership	the address range stays the caller's, and stays mapped after shmd_mem_free() and shmd_client_close()
 * Blocks	as long as copying takes; makes no request
 * Errors	-EINVAL not page-aligned, or not such memory; -EMFILE, -ENOMEM. The range is untouched on failure.
 */
SHMD_EXPORT int shmd_mem_adopt(struct shmd_client *client, void *addr, size_t bytes,
			       struct shmd_mem **ret_mem);
/* Constant until shmd_mem_free(). Never block. */
SHMD_EXPORT void *shmd_mem_addr(const struct shmd_mem *mem);
SHMD_EXPORT size_t shmd_mem_bytes(const struct shmd_mem *mem);
SHMD_EXPORT int shmd_mem_fd(const struct shmd_mem *mem); /* borrowed */
/*
 * Unmaps (allocated) or leaves the mapping in place (adopted), and closes the memfd. MRs on it stay valid: NIC and
 * peers may still write to memory that is no longer mapped here. NULL is allowed; does nothing in a forked child.
 */
SHMD_EXPORT void shmd_mem_free(struct shmd_mem *mem);

#define SHMD_ACCESS_LOCAL_WRITE 0x1u
#define SHMD_ACCESS_REMOTE_WRITE 0x2u
#define SHMD_ACCESS_REMOTE_READ 0x4u
#define SHMD_ACCESS_REMOTE_ATOMIC 0x8u
#define SHMD_ACCESS_ALL 0xfu

struct shmd_mr_attr {
	enum shmd_mem_kind kind; /* 0: SHMD_MEM_MEMFD */
	int fd; /* borrowed: memfd (the library seals it if it can) or dmabuf; SHMD_MEM_PEERMEM: ignored */
	uint64_t offset; /* bytes into fd; SHMD_MEM_PEERMEM: the address. Agrees with iova modulo 4096 */
	uint64_t length_bytes; /* at least 1 */
	uint64_t iova; /* address that work requests will use */
	uint32_t access; /* SHMD_ACCESS_*; 0: only this session's own NIC may read it */
};

/*
 * shmd_mr_reg - register memory with a NIC
 *
 * attr->fd is borrowed: daemon and NIC hold references of their own to the memory, so the caller may close it after the
 * call. The library adds F_SEAL_SHRINK to a memfd without it. Charges the user's registered bytes and MRs.
 *
 * SHMD_MEM_PEERMEM is for memory that has no descriptor, such as that of a GPU without dmabufs and with the nvidia-peermem module:
 * the library registers the addresses by the command descriptor that comes with doorbell mode uar-mmap, and shmemd takes it from
 * there, so that the region is charged, listed, and ended as any other. The memory must stay until then. See shmd_gpu_mr_reg().
 *
 * Errors	-EOPNOTSUPP the NIC does not take this kind, the text names those it takes (see shmd_nic_info.mem_kinds);
 *		-EPERM the memfd cannot be sealed; -ERANGE outside the descriptor; -EBADF not what its kind says;
 *		-EDQUOT; -ENOSPC the NIC is full; -ENODEV the NIC is gone; PEERMEM: -EOPNOTSUPP no command descriptor came
 *		(doorbell mode cpu from the start), and errors of the kernel, -EFAULT if it finds no pages
 */
SHMD_EXPORT int shmd_mr_reg(struct shmd_nic *nic, const struct shmd_mr_attr *attr, struct shmd_mr **ret_mr);
/* shmd_mr_reg() of all of mem, with iova = its address: work requests use this process's addresses. */
SHMD_EXPORT int shmd_mr_reg_mem(struct shmd_nic *nic, const struct shmd_mem *mem, uint32_t access,
				struct shmd_mr **ret_mr);
/* Constant until shmd_mr_dereg(); above 0x100, not guessable. Never block. */
SHMD_EXPORT uint32_t shmd_mr_lkey(const struct shmd_mr *mr);
SHMD_EXPORT uint32_t shmd_mr_rkey(const struct shmd_mr *mr);
/* Big-endian, the form for work requests. */
SHMD_EXPORT shmd_be32 shmd_mr_lkey_be(const struct shmd_mr *mr);
SHMD_EXPORT shmd_be32 shmd_mr_rkey_be(const struct shmd_mr *mr);

struct shmd_mr_info {
	enum shmd_mem_kind kind;
	uint32_t access;
	uint64_t iova, length_bytes;
	char reason[128]; /* why a better kind was not taken by shmd_gpu_mr_reg(), shmd_gpu_mem_alloc(); or empty */
};
/* Constant until shmd_mr_dereg(). Never blocks. */
SHMD_EXPORT int shmd_mr_info(const struct shmd_mr *mr, struct shmd_mr_info *ret_info);
/*
 * shmd_mr_dereg - end a registration
 *
 * Work requests that still use its keys fail. For memory behind the memory agent it waits until what is under way is carried out:
 * -ETIMEDOUT after the client's time limit. The handle is freed on success only.
 */
SHMD_EXPORT int shmd_mr_dereg(struct shmd_mr *mr);

/* ---- queues ---------------------------------------------------------------------------------------------------- */

enum shmd_cq_mode {
	SHMD_CQ_MODE_COLLAPSED = 0, /* one collapsed CQ for each QP, for kernels to poll */
	SHMD_CQ_MODE_ORDINARY = 1, /* one ordinary CQ for each QP */
};

/* How QPs meet their peers. */
enum shmd_qp_type {
	SHMD_QP_TYPE_RC = 1, /* each has one */
	SHMD_QP_TYPE_DCI = 2, /* senders: every work request names the DCT of any resolved peer */
	SHMD_QP_TYPE_DCT = 3, /* a target of all DCIs that know its address: shmd_dct_create() */
};

struct shmd_queues_attr {
	unsigned int n_qps; /* 1..limit, no default; split over packets by the library */
	uint32_t sq_wqebbs; /* power of two, 16..; 0: 256 */
	uint32_t rq_wqes; /* power of two, of at least 64 bytes in all; or 0: the QP receives nothing */
	uint32_t rq_stride_bytes; /* 16..512, power of two; 0: 16 (one data segment) */
	uint32_t recv_cq_entries; /* 0: rq_wqes. One ordinary receive CQ for each QP */
	enum shmd_cq_mode cq_mode; /* 0: collapsed */
	enum shmd_sharing sharing; /* 0: exclusive */
	uint32_t access; /* what peers may do: SHMD_ACCESS_REMOTE_*; 0: all */
	int gpu_driven; /* 1: kernels ring doorbells; 0: CPU threads do */
	/* Queue memory of the caller's instead of a memfd of the daemon's */
	enum shmd_mem_kind mem_kind; /* 0: the daemon makes it, and the next three are ignored */
	int mem_fd;
	uint64_t mem_offset;
	uint64_t mem_bytes;
	enum shmd_qp_type qp_type; /* 0: RC. DCI: rq_wqes and access are 0 */
};

/*
 * shmd_queues_layout - bytes of queue memory that these queues need
 *
 * A multiple of 4096. For callers that bring their own; ignores mem_* of attr.
 */
SHMD_EXPORT int shmd_queues_layout(struct shmd_nic *nic, const struct shmd_queues_attr *attr,
				   uint64_t *ret_bytes);
/*
 * shmd_queues_create - create QPs and CQs, map them and fill their dev-state
 *
 * RC QPs or DCIs in state RST, each with a send CQ and, if rq_wqes is not 0, a receive CQ of its own. Also registers
 * scratch memory for results (16 bytes for each WQEBB), which counts as one MR. All or nothing.
 *
 * attr		in; queue memory of the caller's must be mappable by the CPU: a memfd, or a dmabuf that can be mapped
 * Ownership	queue memory is the daemon's or the caller's and mapped until shmd_queues_destroy(); mem_fd may be
 *		closed after the call
 * Blocks	for each request of at most max_qps_per_request QPs, at most the client's time limit
 * Errors	-EDQUOT QPs, CQs, bytes or MRs of this user; -ENOSPC the NIC is full, or mem_bytes is too small;
 *		-ENODEV the NIC is gone; -EPERM, -ERANGE, -EBADF, -EOPNOTSUPP about the memory, as shmd_mr_reg()
 */
SHMD_EXPORT int shmd_queues_create(struct shmd_nic *nic, const struct shmd_queues_attr *attr,
				   struct shmd_queues **ret_queues);
/*
 * shmd_queues_destroy - destroy the QPs and CQs of a batch and unmap them
 *
 * Work requests under way are dropped. On failure the handle stays, with the QPs that could not be destroyed, and
 * the call may be repeated. No thread or kernel may use its dev-qps during or after the call.
 *
 * Errors	-EBUSY DCIs with a set of hot peers (shmd_hot_close comes first)
 */
SHMD_EXPORT int shmd_queues_destroy(struct shmd_queues *queues);
/* How many QPs; 0 for NULL. Never blocks. */
SHMD_EXPORT unsigned int shmd_queues_count(const struct shmd_queues *queues);

/*
 * Device-side view of QP i for CPU threads (C build of the device functions). Valid until destroy; NULL when there
 * is no QP i. post_timeout_nsec is the client's time limit and may be changed before the first use. Never blocks.
 */
SHMD_EXPORT struct shmd_dev_qp *shmd_queues_dev_qp(struct shmd_queues *queues, unsigned int i);
/* dev-state over all QPs of the batch, host addresses, key tables empty. Valid until destroy. Never blocks. */
SHMD_EXPORT const struct shmd_dev_state *shmd_queues_dev_state(struct shmd_queues *queues);

/* Receive CQ of QP i for CPU threads; entries is 0 if the QP has no receive queue. */
struct shmd_recv_cq {
	void *ring; /* struct shmd_cqe[entries], with owner bits */
	uint32_t entries; /* power of two */
	uint32_t cqn;
	void *dbrec; /* struct shmd_dbrec: the consumer writes its index, 24 bits, to rcv */
};
/* Valid until destroy. The caller owns the consumer index, which goes on through a reset of the QP. Never blocks. */
SHMD_EXPORT int shmd_queues_recv_cq(struct shmd_queues *queues, unsigned int i,
				    struct shmd_recv_cq *ret_cq);

#define SHMD_ADDR_BYTES 64
struct shmd_addr {
	uint32_t bytes; /* used */
	uint8_t data[SHMD_ADDR_BYTES]; /* opaque; send it to the peer by any means */
};
/* Endpoint address of RC QP i, which a peer passes to shmd_queues_connect(). Never blocks. */
SHMD_EXPORT int shmd_queues_addr(const struct shmd_queues *queues, unsigned int i,
				 struct shmd_addr *ret_addr);

/* 0 in a field of struct shmd_qp_params asks for the default. This asks for 0 itself, in the first four fields. */
#define SHMD_QP_PARAM_ZERO 0xffu
struct shmd_qp_params {
	/* 0: the daemon's setting, whose name ends the comment */
	uint8_t timeout; /* 4.096 us << timeout, 1..31; SHMD_QP_PARAM_ZERO: no time limit. qp-timeout */
	uint8_t retry_count; /* 1..7; SHMD_QP_PARAM_ZERO: none. qp-retries */
	uint8_t rnr_retry; /* 1..6, 7: for ever; SHMD_QP_PARAM_ZERO: none. qp-rnr-retries */
	uint8_t min_rnr_timer; /* IBTA encoding, 1..31; SHMD_QP_PARAM_ZERO: 655 ms. qp-rnr-timer */
	uint8_t max_rd_atomic; /* 1..16. qp-reads */
	uint8_t traffic_class; /* 0..255; the default is class 0 */
};

/*
 * shmd_queues_connect - connect QPs to their peers and bring them to RTS
 *
 * Connects QPs first..first+n-1 of the batch to addrs[0..n-1]; each side connects its own QP. Stops at the first failure. DCIs
 * have no peer of their own: this makes them ready to send, with these params.
 *
 * A request to a QP that is not connected yet is lost, and ends in an error when its retries are used up. So post only after both
 * sides have connected: let each inform the other, or call shmd_pair_connect(), which does so.
 *
 * addrs	in; n of them, of this fabric's shmd_queues_addr(); NULL for DCIs
 * params	in; may be NULL: the daemon's settings
 * ret_n_done	out, on failure too; may be NULL: how many are connected
 * Blocks	for each request of at most max_peers_per_request QPs, at most the client's time limit
 * Errors	-EHOSTUNREACH the address leads nowhere from this NIC; -EINVAL not an address, or the QP is neither in
 *		RST nor in INIT
 */
SHMD_EXPORT int shmd_queues_connect(struct shmd_queues *queues, unsigned int first, unsigned int n,
				    const struct shmd_addr *addrs, const struct shmd_qp_params *params,
				    unsigned int *ret_n_done);

enum shmd_qp_state {
	SHMD_QP_RST = 0,
	SHMD_QP_INIT = 1,
	SHMD_QP_RTR = 2,
	SHMD_QP_RTS = 3,
	SHMD_QP_ERR = 6,
	SHMD_QP_SQD = 7,
};

struct shmd_counters {
	uint64_t wqes; /* send WQEs completed with success */
	uint64_t wqes_by_kind[8]; /* nop, write, write-imm, read, send, send-imm, atomic, other */
	uint64_t bytes_sent, bytes_read, recv_wqes, error_cqes, rnr_naks, retries;
};

struct shmd_qp_info {
	uint32_t qpn;
	enum shmd_qp_state state;
	uint32_t dest_qpn;
	uint32_t sq_pi, sq_ci, rq_pi, rq_ci;
	uint32_t first_error; /* syndrome */
	struct shmd_counters counters;
};

/*
 * shmd_queues_modify - move QP i to another state
 *
 * To RST, INIT, ERR, SQD, or from SQD back to RTS. To RST also makes the dev-qp as new: indexes and dbrec 0, the
 * first error forgotten, send CQEs dropped; no thread or kernel may use it during the call. CQEs of its receive CQ stay.
 *
 * Errors	-EINVAL a transition that is not allowed
 */
SHMD_EXPORT int shmd_queues_modify(struct shmd_queues *queues, unsigned int i, enum shmd_qp_state state);
/*
 * The daemon's view of QP i: state, indexes as the NIC sees them (16 bits), first error, counters. For a QP, a ConnectX counts
 * error_cqes only; if several QPs of the session with collapsed CQs fail together, that is a lower bound.
 */
SHMD_EXPORT int shmd_queues_query(struct shmd_queues *queues, unsigned int i, struct shmd_qp_info *ret_info);
/* The work that the daemon has seen executed for this session, including destroyed queues. */
SHMD_EXPORT int shmd_client_counters(struct shmd_client *client, struct shmd_counters *ret_counters);

/* ---- dynamic connections ----------------------------------------------------------------------------------------- */

/*
 * shmd_dct_create - make a target that every DCI with its address can reach
 *
 * It is ready at once. A peer with its address has its key, and may access registered memory of this session on this
 * NIC as far as `access` and the memory's own rkey allow; without the address no peer reaches it. Sends to it find no receive
 * WQE: write, read and use atomics. It counts as one QP and one CQ, whatever the number of senders.
 *
 * access	what peers may do: SHMD_ACCESS_REMOTE_*; 0: all
 * Lifetime	until shmd_dct_destroy(); requests under way then fail at their senders
 * Errors	-EOPNOTSUPP the NIC has no dynamic connections; -EDQUOT; -ENOSPC the NIC is full; -ENODEV the NIC is gone
 */
SHMD_EXPORT int shmd_dct_create(struct shmd_nic *nic, uint32_t access, struct shmd_dct **ret_dct);
/* Its address, a secret for the peers that may reach it, which pass it to shmd_peers_resolve(). Never blocks. */
SHMD_EXPORT int shmd_dct_addr(const struct shmd_dct *dct, struct shmd_addr *ret_addr);
/* On failure the handle stays. */
SHMD_EXPORT int shmd_dct_destroy(struct shmd_dct *dct);

/*
 * shmd_peers_resolve - turn addresses of DCTs into the entries that work requests of DCIs carry
 *
 * For all DCIs of this session on this NIC. Keeps nothing, here or in the daemon: only the caller's array grows with the
 * number of peers, by 64 bytes each. Stops at the first failure.
 *
 * addrs		in; n of them, of this fabric's shmd_dct_addr()
 * traffic_class	of requests to these peers, 0..255; without effect on InfiniBand without a router
 * ret_peers		out; room for n; the first *ret_n_done are written, on failure too
 * ret_n_done		out, on failure too; may be NULL
 * Lifetime		of the entries: as long as the way to the peer stays the same, beyond that of its DCT
 * Blocks		for each request of at most max_peers_per_request addresses, at most the client's time limit
 * Errors		-EINVAL no address of a DCT; -EHOSTUNREACH it leads nowhere from this NIC; -EOPNOTSUPP
 */
SHMD_EXPORT int shmd_peers_resolve(struct shmd_nic *nic, unsigned int n, const struct shmd_addr *addrs,
				   uint8_t traffic_class, struct shmd_dev_peer *ret_peers, unsigned int *ret_n_done);
/*
 * shmd_queues_set_peers - the table of peers in the dev-state of a batch of DCIs
 *
 * Copies it; peers_addr and n_peers of the dev-state name the copy. A GPU gets it with its view of the queues, in GPU
 * memory. Replaces the former table, which no thread may use during or after the call.
 *
 * peers	in; n of them, of shmd_peers_resolve() for this NIC; n 0: none
 * Lifetime	until shmd_queues_destroy()
 * Errors	those of the request that reports the number of peers for the daemon's lists: the table is set then; -EINVAL not
 *		DCIs, or a peer of another NIC; -EBUSY a GPU has a view of these queues already, or shmd_hot_open()
 */
SHMD_EXPORT int shmd_queues_set_peers(struct shmd_queues *queues, unsigned int n, const struct shmd_dev_peer *peers);

/* ---- GPUs ---------------------------------------------------------------------------------------------------------- */

#define SHMD_GPU_CURRENT (-1)

struct shmd_gpu_info {
	char name[64];
	char pci[16]; /* bus id, for shmd_nic_attr.gpu */
	int ordinal; /* CUDA's number in this process */
};

/*
 * shmd_gpu_open - let a GPU use queues and memory of this session
 *
 * Loads the CUDA driver (libcuda.so.1) at the first call. Several GPUs may be open in a session, and a GPU in several
 * sessions.
 *
 * ordinal	CUDA's number: the GPU's primary context is used, as the CUDA runtime does; or SHMD_GPU_CURRENT: the
 *		context that is current in this thread, which must outlive the handle and everything mapped by it
 * Lifetime	until shmd_gpu_close()
 * Blocks	while CUDA starts; makes no request
 * Errors	-ENODEV no CUDA driver, or no such GPU; -EIO and other errors of CUDA, with its words in the text
 */
SHMD_EXPORT int shmd_gpu_open(struct shmd_client *client, int ordinal, struct shmd_gpu **ret_gpu);
/* Never blocks. */
SHMD_EXPORT int shmd_gpu_info(const struct shmd_gpu *gpu, struct shmd_gpu_info *ret_info);
/*
 * shmd_gpu_close - the GPU sees nothing of this session any more
 *
 * Frees the views of queues and the mappings that it had. No kernel may use them during or after the call.
 *
 * Blocks	as long as CUDA does to free memory; makes no request
 */
SHMD_EXPORT int shmd_gpu_close(struct shmd_gpu *gpu);
/*
 * shmd_gpu_map_mem - let kernels read and write host memory of this session
 *
 * Registers the memory with CUDA; a second call gives the same address. Work requests still name it by the iova and
 * the keys of its MR.
 *
 * ret_addr	out: where kernels find it
 * Lifetime	until shmd_gpu_unmap_mem(), shmd_mem_free() or shmd_gpu_close()
 * Blocks	as long as CUDA does to pin the pages; makes no request
 * Errors	-EEXIST other code has registered it with CUDA; -ENOMEM; -EINVAL; -EIO
 */
SHMD_EXPORT int shmd_gpu_map_mem(struct shmd_gpu *gpu, const struct shmd_mem *mem, uint64_t *ret_addr);
/* The opposite; no kernel may use the memory any more. -ENOENT if it is not mapped. Makes no request. */
SHMD_EXPORT int shmd_gpu_unmap_mem(struct shmd_gpu *gpu, const struct shmd_mem *mem);
/*
 * shmd_gpu_dev_state - view of a batch of queues for kernels
 *
 * dev-state and dev-qps in GPU memory, with the addresses of queues, doorbell, health word and scratch memory that
 * hold on this GPU; made by the first call. Queues for a GPU are created with gpu_driven = 1. Each view has indexes
 * of its own, so a QP is driven through one view only: one GPU's, or the CPU's.
 *
 * If the GPU cannot reach the doorbell page of a NIC in mode uar-mmap, and the mode was left to shmemd, the NIC changes to
 * mode cpu. Queues with gpu_driven = 0 then have no view.
 *
 * ret_addr	out: struct shmd_dev_state in GPU memory
 * Lifetime	until shmd_queues_destroy() or shmd_gpu_close()
 * Blocks	as long as CUDA does to allocate memory; and for one request if the doorbell mode changes
 * Errors	-EBUSY the queues have hot peers (shmd_hot_open) and another GPU has their view; -ENOMEM; -EINVAL also queues
 *		with gpu_driven = 0 of a NIC that changed to mode cpu; -EIO; -EOPNOTSUPP the GPU cannot reach the doorbell
 *		page, and mode cpu is not offered or the caller asked for another one; errors of the request
 */
SHMD_EXPORT int shmd_gpu_dev_state(struct shmd_gpu *gpu, struct shmd_queues *queues, uint64_t *ret_addr);
/* The same; address of QP i in it: struct shmd_dev_qp in GPU memory. */
SHMD_EXPORT int shmd_gpu_dev_qp(struct shmd_gpu *gpu, struct shmd_queues *queues, unsigned int i,
				uint64_t *ret_addr);

/* ---- sharing between processes of one user ------------------------------------------------------------------------ */

struct shmd_world_key {
	uint8_t secret[16]; /* from the bootstrap; a process that knows it (and has the uid) may fetch */
};

/*
 * shmd_publish - leave a descriptor and a few bytes for other processes of this user
 *
 * Under (world, pe, slot), for processes that have the same uid and know the world. Lives until shmd_unpublish() or the end
 * of this session.
 *
 * data		in; 0..256 bytes, may be NULL when 0
 * fd		in; -1: none. The daemon keeps a duplicate; counts against max_fds. Memfds, dmabufs, memory that CUDA
 *		exports, eventfds, pipes and sockets; not files, folders and other devices. With anything but a memfd
 *		the session ends with this daemon: a restart does not take it over.
 * Errors	-EEXIST published already; -EDQUOT; -EBADF a kind of descriptor that the daemon does not take
 */
SHMD_EXPORT int shmd_publish(struct shmd_client *client, const struct shmd_world_key *world, uint32_t pe,
			     uint32_t slot, const void *data, size_t bytes, int fd);
/*
 * shmd_unpublish - take back an entry that this session published
 *
 * Descriptors that were fetched stay valid.
 *
 * Errors	-ENOENT nothing is published there; -EPERM another session published it
 */
SHMD_EXPORT int shmd_unpublish(struct shmd_client *client, const struct shmd_world_key *world, uint32_t pe,
			       uint32_t slot);
/*
 * shmd_fetch - get an entry that another session published
 *
 * Waits for it to be published: asks the daemon again, at the latest after 2 ms.
 *
 * data, bytes	out; *bytes in: room, out: size. bytes may be NULL: no room
 * ret_fd	out; may be NULL: the descriptor is not wanted. The caller closes it; -1 if none was published
 * timeout_nsec	how long to wait for it; 0: it must be there
 * Errors	-ENOENT not published in time; -ENOBUFS larger than the room
 */
SHMD_EXPORT int shmd_fetch(struct shmd_client *client, const struct shmd_world_key *world, uint32_t pe,
			   uint32_t slot, void *data, size_t *bytes, int *ret_fd, uint64_t timeout_nsec);

/* The caller as a PE of a world. */
/* How a PE reaches others. */
enum shmd_pe_path {
	SHMD_PE_PATH_MAPPED = 1,
	SHMD_PE_PATH_RC = 2,
	SHMD_PE_PATH_DC = 3,
	SHMD_PE_PATH_NONE = 4,
	SHMD_PE_PATH_MORE = 5, /* several, for which the report had no room */
};
/* PEs with numbers in a row that are reached in one way; the reporting one may be among them. */
struct shmd_pe_run {
	uint32_t first, last;
	enum shmd_pe_path path;
	const char *nic; /* by which requests go; NULL: none */
	const char *reason; /* why the path is no better one, cut to 95 bytes; NULL: none */
};
/* The GPU heap of a PE; all 0: it has none. */
struct shmd_pe_gpu {
	char gpu[64]; /* PCI address of the GPU */
	uint64_t heap_bytes, used_bytes; /* of its chunks; in allocations */
	uint32_t n_chunks;
	uint32_t n_mapped; /* other PEs whose GPU heap is mapped */
	uint32_t mem_kind; /* enum shmd_mem_kind: how the NIC reaches it; 0: none does */
	uint64_t bytes_put, bytes_got; /* copied by the library to and from mapped GPU heaps of other PEs */
};
struct shmd_pe_report {
	uint64_t world; /* any number by which lists tell worlds apart, the same on all its PEs; not the secret */
	uint32_t pe, n_pes;
	uint32_t node, node_pe; /* in the world, and on that node; below n_pes */
	uint64_t heap_bytes;
	uint32_t n_mapped, n_rc, n_dc; /* other PEs, by path */
	const char *reason; /* why some are not mapped, cut to 95 bytes; NULL: all are */
	const struct shmd_pe_run *runs; /* ascending, without overlap; NULL: none */
	unsigned int n_runs;
	struct shmd_pe_gpu gpu;
};
/*
 * shmd_pe_report, shmd_pe_retract - for `shmemctl list pes`: what this process is in a world
 *
 * The daemon lists it and does nothing else with it. The runtime of <shmd.h> reports its own worlds. A report replaces the one of the
 * same world and PE, and lives until shmd_pe_retract() or the end of this session. 32 runs with 8 different ways have room; behind the
 * last that has, one with SHMD_PE_PATH_MORE stands for the rest.
 *
 * Errors	-EINVAL numbers that do not fit n_pes, or runs out of order; -EDQUOT this session has 64 reports; -ENOSYS an older daemon; retract: -ENOENT there
 *		is none
 */
SHMD_EXPORT int shmd_pe_report(struct shmd_client *client, const struct shmd_pe_report *report);
SHMD_EXPORT int shmd_pe_retract(struct shmd_client *client, uint64_t world, uint32_t pe);

#define SHMD_PAIR_DATA_BYTES 65536u
/* The QPs of one pair of PEs, and the data that they exchange. */
struct shmd_pair {
	uint32_t pe; /* the peer's number */
	unsigned int first; /* QPs first..first+n_qps-1 of the batch are for this peer */
	unsigned int n_qps; /* 0: 1. The peer passes the same number */
	const void *data; /* for the peer: the address and the key of memory, for example. NULL: nothing */
	size_t bytes; /* of data, up to SHMD_PAIR_DATA_BYTES */
	void *peer_data; /* out: the peer's data. NULL: not wanted */
	size_t peer_bytes; /* in: room at peer_data; out: bytes that the peer gave */
};
struct shmd_pair_attr {
	struct shmd_world_key world;
	uint32_t pe; /* the caller's own number */
	uint32_t tag; /* the same on both sides; another one for each of the calls that the same two PEs make at once */
	const struct shmd_qp_params *params; /* NULL: the daemon's settings */
	uint64_t timeout_nsec; /* for all of it; 0: the client's time limit */
};
/*
 * shmd_pair_connect - connect RC QPs with those of other processes of this user and node
 *
 * Publishes the addresses of the QPs, fetches those of each peer, connects, and returns when every peer has connected its own QPs
 * too: from then on either side may post. The sides call in any order, each for the other; a process may name itself. Calls may
 * follow one another under the same tag, also while a peer is still in the call before. The call takes back what it published.
 * Its entries never meet those of shmd_publish().
 *
 * On failure the QPs that the call moved are in RST again, peers that still wait get -ECONNABORTED, and the call may be repeated.
 * A QP that was connected before the call stays connected. If the daemon does not answer, the states of the QPs are unknown, and
 * entries stay until the next call for the same peer, or until the session ends.
 * A side may fail after its peer has returned 0, for example because another of its peers did not come. The peer's requests then
 * end in an error.
 *
 * attr		in; no default for world
 * pairs	in and out; n of them, each for another peer. Outputs are undefined on failure
 * Blocks	until every peer has connected, at most attr->timeout_nsec. Beyond that it connects, resets and takes back: as
 *		long as the daemon takes to answer. A daemon that does not answer holds it up for two time limits of the client
 * Errors	-ETIMEDOUT a peer did not come in time; -ECONNABORTED a peer came and then ended, gave up or failed: the text
 *		has its reason; -EINVAL not RC QPs in RST, not all in the batch, one peer in two pairs, or the peer passes
 *		another number of QPs; -ENOBUFS the peer gave more bytes than there is room; -EPROTO the peer published something
 *		else, or uses another version of the library; -EEXIST another session has this PE and tag; those of
 *		shmd_publish() and shmd_queues_connect()
 */
SHMD_EXPORT int shmd_pair_connect(struct shmd_queues *queues, const struct shmd_pair_attr *attr, struct shmd_pair *pairs,
				  unsigned int n);

/* ---- hooks of the C build of the device functions (see <shmd/dev/hooks.h>) ------------------------------------------- */

/* CLOCK_MONOTONIC in nsec. Never blocks. */
SHMD_EXPORT uint64_t shmd_dev_host_now_nsec(void);
/*
 * One round of waiting; round counts up in each wait. Spins for 64 rounds, yields the core for 64, then sleeps for
 * growing times, at most 1 ms.
 */
SHMD_EXPORT void shmd_dev_host_relax(uint32_t round);
/* Wake the NIC thread behind this handle (wake_handle of a dev-qp). Keeps errno. Never blocks. */
SHMD_EXPORT void shmd_dev_host_wake(uint64_t wake_handle);

#ifdef __cplusplus
}
#endif

#include <shmemclient-gpu-mem.h>
#include <shmemclient-hot.h>

#endif
