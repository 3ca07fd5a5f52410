/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings. All code that describes or reads a setting uses it.
 */
#include "daemon/settings/settings.h"

#include "daemon/log.h"
#include "proto/codec.h"
#include "proto/framing.h"

#define FIELD(member) offsetof(struct settings, member)

#define LIMIT(key_, member, def_, max_, unit_, text_)                                             \
	{                                                                                         \
		.key = key_, .type = SETTINGS_NUMBER, .offset = FIELD(member), .def = def_,         \
		.min = 1, .max = max_, .unit = unit_, .text = text_, .reload = RELOAD,            \
	}

/* How a change takes effect: at SIGHUP, or at the next start. */
#define RELOAD true
#define RESTART false

#define QP "For QPs that are connected from now on, unless their client says otherwise."
#define EACH " for each uid, and for each tenant's cgroup."

static const char *const backend_words[] = {"auto", "soft", "mlx5", NULL};
static const char *const executor_words[] = {"thread", "process", NULL};
static const char *const doorbell_words[] = {"auto", "cpu", NULL};
static const char *const depth_words[] = {"64", "128", "256", "512", "1024", "2048", "4096", "8192", "16384", NULL};
static const uint64_t depth_values[] = {64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
static const char *const mtu_words[] = {"auto", "256", "512", "1024", "2048", "4096", NULL};
static const uint64_t mtu_values[] = {0, 8, 9, 10, 11, 12}; /* log2 */
static const char *const atomics_words[] = {"auto", "off", NULL};
static const char *const level_words[] = {"error", "warning", "notice", "info", "debug", NULL};
static const uint64_t level_values[] = {LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG};
static const char *const target_words[] = {"auto", "journal", "stderr", NULL};

_Static_assert(MSG_MAX_QPS <= MSG_MAX_CQS, "each QP of warm-queues has a CQ, and one request asks for all");

/* clang-format off */
const struct settings_row settings_rows[] = {
	{"socket", SETTINGS_TEXT, FIELD(socket), SHMD_DEFAULT_SOCKET, 1, 107, NULL, NULL, NULL,
	 "Path of the socket that clients connect to. Under socket activation, shmemd uses the socket of the service "
	 "manager instead. The environment variable SHMEMD_SOCKET overrides the file.", RESTART},
	{"socket-mode", SETTINGS_MODE, FIELD(socket_mode), "0660", 0, 0777, NULL, NULL, NULL,
	 "Permissions of the socket. Whoever may write to the socket may connect. Under socket activation, the socket "
	 "unit sets them.", RELOAD},
	{"socket-group", SETTINGS_TEXT, FIELD(socket_group), "", 0, SETTINGS_WORD_BYTES - 1, NULL, NULL, NULL,
	 "Group of the socket. If empty: group shmemd, provided that the daemon runs as root and the group exists; "
	 "otherwise the daemon's own group, which then gets no access. Under socket activation, the socket unit sets it.", RELOAD},
	{"backend", SETTINGS_CHOICE, FIELD(backend), "auto", 0, 0, NULL, backend_words, NULL,
	 "Which NICs shmemd uses. mlx5: ConnectX NICs, in builds with that backend; shmemd does not start if there is "
	 "none. soft: simulated NICs only. auto: every NIC that a backend of this build supports, or simulated NICs if "
	 "there is none.", RESTART},
	{"doorbell", SETTINGS_CHOICE, FIELD(doorbell), "auto", 0, 0, NULL, doorbell_words, NULL,
	 "How clients ring NICs that they open from now on. auto: uar-mmap if the NIC supports it, which is a page of the "
	 "NIC that the client maps with a command descriptor of its own. cpu: always through shmemd, which takes CPU time "
	 "and a few microseconds for each doorbell; no client gets a command descriptor, so quotas count everything that "
	 "it creates. shmemd then refuses queues in a dmabuf.", RELOAD},
	{"soft-nics", SETTINGS_NUMBER, FIELD(soft_nics), "2", 1, 64, "NICs", NULL, NULL,
	 "How many NICs the soft backend simulates.", RESTART},
	{"soft-executors", SETTINGS_CHOICE, FIELD(soft_executors), "process", 0, 0, NULL, executor_words, NULL,
	 "What executes the queues of a user on simulated NICs. process: a process for each user, in which the memory of "
	 "that user's clients is mapped, so that a user who makes the kernel wait for it holds up neither requests of others "
	 "nor the end of shmemd. thread: a thread of shmemd for each user and NIC, which takes fewer processes, and less time "
	 "for a request.", RESTART},
	{"gpu-poll-usec", SETTINGS_NUMBER, FIELD(gpu_poll_usec), "20", 1, 1000000, "us", NULL, NULL,
	 "How often an idle thread that serves doorbells of mode cpu (the thread of a soft NIC, or one beside an mlx5 "
	 "NIC) polls queues that a GPU drives, since a GPU cannot wake it. A smaller value lowers latency and takes more "
	 "CPU time; without such queues it costs nothing.", RESTART},
	{"spin-usec", SETTINGS_NUMBER, FIELD(spin_usec), "20", 0, 1000000, "us", NULL, NULL,
	 "How long such a thread spins and yields when it is idle, before it sleeps.", RESTART},
	{"worker-threads", SETTINGS_NUMBER, FIELD(worker_threads), "8", 1, 64, "threads", NULL, NULL,
	 "At most this many sessions run firmware commands at once; others queue. The daemon never blocks on them. With "
	 "soft NICs alone there are two threads, which fill large CQ rings.", RESTART},
	LIMIT("max-connections", max_connections, "1024", 1000000, "connections",
	      "Open connections" EACH " Sessions, controllers such as shmemctl, and those not yet introduced count; so do ended sessions whose client "
	      "has descriptors left to read."),
	LIMIT("max-sessions", max_sessions, "512", 1000000, "sessions", "Sessions" EACH),
	{"warm-contexts", SETTINGS_NUMBER, FIELD(warm_contexts), "0", 0, 64, "contexts", NULL, NULL,
	 "How many contexts of each mlx5 NIC shmemd creates in advance, each with warm-queues QPs, so that a new session "
	 "does not wait for firmware before it connects. Each is given to one session, and a worker thread then creates "
	 "the next. They hold resources of the NIC, memory and four descriptors each, which count for no user. shmemctl "
	 "status shows whether there are enough. Soft NICs need none. 0: none.", RELOAD},
	{"warm-queues", SETTINGS_NUMBER, FIELD(warm_queues), "1", 0, MSG_MAX_QPS, "QPs", NULL, NULL,
	 "RC QPs of each such context, each with its own collapsed CQ and no receive queue. A session gets them if it "
	 "asks for exactly this number of QPs of this depth in one request, in memory of shmemd; otherwise shmemd creates "
	 "its queues as usual. 0: create contexts alone.", RELOAD},
	{"warm-depth", SETTINGS_CHOICE, FIELD(warm_depth), "256", 0, 0, NULL, depth_words, depth_values,
	 "Depth of these QPs: the WQEBBs of the send queue and the entries of its CQ. The client library's default is "
	 "256.", RELOAD},
	{"mtu", SETTINGS_CHOICE, FIELD(mtu_log2), "auto", 0, 0, NULL, mtu_words, mtu_values,
	 "Largest payload of a packet, in bytes. auto: the MTU of the port. Choose a smaller one if the path between "
	 "nodes does not carry larger packets. The two ends of an RC connection use the smaller of their values; for "
	 "dynamic connections, all nodes need the same.",
	 RESTART},
	{"atomics", SETTINGS_CHOICE, FIELD(atomics), "auto", 0, 0, NULL, atomics_words, NULL,
	 "Whether QPs and targets created from now on execute atomics of their peers. auto: if NIC and client allow it. "
	 "off: never; an atomic ends with a remote error at the peer that posted it.", RELOAD},
	{"qp-timeout", SETTINGS_NUMBER, FIELD(qp_timeout), "14", 0, 31, "steps", NULL, NULL,
	 "How long a QP waits for an acknowledgement before it sends again: 4.096 us times two to the power of this "
	 "value. 14 is 67 ms; 0 waits for ever. " QP,
	 RELOAD},
	{"qp-retries", SETTINGS_NUMBER, FIELD(qp_retries), "7", 0, 7, "retries", NULL, NULL,
	 "How often a QP sends again before the request fails. " QP, RELOAD},
	{"qp-rnr-retries", SETTINGS_NUMBER, FIELD(qp_rnr_retries), "7", 0, 7, "retries", NULL, NULL,
	 "How often a QP sends again when its peer has no receive posted, before the request fails. 7: for ever. " QP, RELOAD},
	{"qp-rnr-timer", SETTINGS_NUMBER, FIELD(qp_rnr_timer), "12", 0, 31, "steps", NULL, NULL,
	 "How long the peers of a QP wait before that, in the steps of InfiniBand: 1 is 10 us, 12 is 640 us, 31 is 492 "
	 "ms, 0 is 655 ms. " QP, RELOAD},
	{"qp-reads", SETTINGS_NUMBER, FIELD(qp_reads), "16", 1, 16, "requests", NULL, NULL,
	 "How many reads and atomics a QP keeps in flight in each direction, within the limit of the NIC; a power of two. "
	 "" QP, RELOAD},
	/* Below what a NIC and vm.max_map_count (65530) have room for, so that one user leaves some to others. */
	LIMIT("max-qps", max_qps, "32768", 16777216, "QPs", "QPs" EACH),
	LIMIT("max-cqs", max_cqs, "49152", 16777216, "CQs", "CQs" EACH),
	LIMIT("max-mrs", max_mrs, "8192", 16777216, "regions", "Registered memory regions" EACH),
	LIMIT("max-registered-bytes", max_registered_bytes, "4T", UINT64_MAX, "bytes",
	      "Bytes of registered memory and of queue memory" EACH),
	LIMIT("max-fds", max_fds, "16384", 1000000, "descriptors",
	      "Descriptors that the daemon holds" EACH " LimitNOFILE binds all users together: shmemd keeps a quarter for itself, and a uid or cgroup with more than 64 "
	      "has at most half of what the others leave."),
	LIMIT("max-published", max_published, "65536", 16777216, "entries", "Published entries" EACH),
	{"max-mappings", SETTINGS_NUMBER, FIELD(max_mappings), "0", 0, 16777216, "mappings", NULL, NULL,
	 "Memory mappings of shmemd" EACH " A session takes 2, each NIC that it opens 2 (ConnectX: 4), each region and each batch of queues 1. "
	 "The sysctl vm.max_map_count bounds all of them, and shmemd keeps an eighth for itself; it counts with 65530, the kernel's default, "
	 "where it cannot read that, as in its systemd unit, which hides /proc/sys. A uid or cgroup with more than 64 has at most "
	 "half of what the others leave, whatever this setting says. 0: that alone is the limit.", RELOAD},
	{"max-kept-fds", SETTINGS_NUMBER, FIELD(max_kept_fds), "8192", 0, 1000000, "descriptors", NULL, NULL,
	 "How many descriptors the service manager keeps for the next daemon, about twelve for each session. The limit of "
	 "the service manager applies as well: FileDescriptorStoreMax= and the environment variable FDSTORE of the "
	 "service. One user gets at most seven eighths of them, the next user seven eighths of the rest, and so on. 0: "
	 "none, so sessions end with the daemon.", RESTART},
	{"handshake-timeout", SETTINGS_NUMBER, FIELD(handshake_timeout_msec), "5000", 1, 3600000, "ms", NULL, NULL,
	 "shmemd closes a connection that has not sent Hello after this time.", RELOAD},
	{"quiesce-timeout", SETTINGS_NUMBER, FIELD(quiesce_timeout_msec), "100", 0, 60000, "ms", NULL, NULL,
	 "How long the end of a session waits for its queues to flush. Meanwhile others wait: everybody for soft NICs, "
	 "and the next session for a worker thread. So all ends share this time, and it grows back at a tenth of the time "
	 "that passes.", RELOAD},
	{"restart-grace", SETTINGS_NUMBER, FIELD(restart_grace_msec), "5000", 0, 600000, "ms", NULL, NULL,
	 "How long clients wait for the next daemon after this one dies, before they count it as gone. If the service "
	 "manager keeps the descriptors, sessions continue in the next daemon. Live sessions keep the time that they were "
	 "given. 0: sessions end with the daemon.", RELOAD},
	{"log-level", SETTINGS_CHOICE, FIELD(log_level), "info", 0, 0, NULL, level_words, level_values,
	 "shmemd does not log lines of lower importance.", RELOAD},
	{"log-target", SETTINGS_CHOICE, FIELD(log_target), "auto", 0, 0, NULL, target_words, NULL,
	 "Where shmemd writes log lines. auto: to the journal if standard error is connected to it, otherwise to standard "
	 "error.", RELOAD},
	{"nics-include", SETTINGS_POLICY, FIELD(nics_include), "", 0, SETTINGS_LIST_BYTES - 1, NULL, NULL, NULL,
	 "The only NICs that sessions may open, as NIC[:PORT], separated by commas or blanks. NIC is a name or a PCI "
	 "address; without a port, all its ports count. shmemd then also uses NICs that are slow, or that look like "
	 "management or storage NICs, or manage the switches of GPU links. A name that this machine does not have is a warning; if it has none of them, shmemd "
	 "refuses the setting. Empty: all NICs.", RELOAD},
	{"nics-exclude", SETTINGS_POLICY, FIELD(nics_exclude), "", 0, SETTINGS_LIST_BYTES - 1, NULL, NULL, NULL,
	 "NICs that no session may open, as NIC[:PORT], each optionally followed by =management or =storage for its "
	 "purpose. A name that this machine does not have is a warning and has no effect.", RELOAD},
	{"gpu-nic-map", SETTINGS_POLICY, FIELD(gpu_nic_map), "", 0, SETTINGS_LIST_BYTES - 1, NULL, NULL, NULL,
	 "NICs for GPUs in place of the nearest ones, as GPU:NIC[:PORT[:WEIGHT]], separated by commas or blanks. GPU is "
	 "an index in the order of PCI addresses, a PCI address or a UUID. Of several NICs the first is the default. With "
	 "weights, up to 1000, the heaviest is the default, and sessions are divided in proportion. GPUs that are not "
	 "named get the nearest NIC. shmemd refuses a map with a GPU or a NIC that does not exist, or a port that is "
	 "down: at the start it exits with status 2, and systemd does not start it again; at a reload it keeps its "
	 "settings. If a port goes down later, its GPUs get other NICs until it is back. shmemctl topology shows the "
	 "result.", RELOAD},
};
/* clang-format on */

const unsigned int settings_n_rows = sizeof(settings_rows) / sizeof(settings_rows[0]);
