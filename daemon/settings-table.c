/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings. Whatever describes or reads a setting reads it here.
 */
#include "daemon/settings.h"

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
	 "Path of the socket that clients connect to. Under socket activation the service manager's socket is used "
	 "instead. The environment variable SHMEMD_SOCKET overrides the file.", RESTART},
	{"socket-mode", SETTINGS_MODE, FIELD(socket_mode), "0660", 0, 0777, NULL, NULL, NULL,
	 "Permissions of the socket. Who may write to it may connect. Under socket activation the socket unit says it.", RELOAD},
	{"socket-group", SETTINGS_TEXT, FIELD(socket_group), "", 0, SETTINGS_WORD_BYTES - 1, NULL, NULL, NULL,
	 "Group of the socket. Empty: group shmemd when the daemon runs as root and that group exists; otherwise "
	 "the daemon's own group, which then gets no access. Under socket activation the socket unit says it.", RELOAD},
	{"backend", SETTINGS_CHOICE, FIELD(backend), "auto", 0, 0, NULL, backend_words, NULL,
	 "Which NICs are used. mlx5: ConnectX NICs, in builds with that backend; none is an error. soft: simulated NICs "
	 "only. auto: every NIC a backend of this build can drive, and simulated NICs where there is none.", RESTART},
	{"doorbell", SETTINGS_CHOICE, FIELD(doorbell), "auto", 0, 0, NULL, doorbell_words, NULL,
	 "How clients ring NICs that they open from now on. auto: with uar-mmap where the NIC has it, a page of the NIC that the "
	 "client maps with a command descriptor of its own. cpu: always through shmemd, which takes CPU time and a few microseconds "
	 "for each doorbell; no client gets a command descriptor, so all that it makes is counted. Queues in a dmabuf are refused "
	 "then.", RELOAD},
	{"soft-nics", SETTINGS_NUMBER, FIELD(soft_nics), "2", 1, 64, "NICs", NULL, NULL,
	 "How many simulated NICs the soft backend makes.", RESTART},
	{"gpu-poll-usec", SETTINGS_NUMBER, FIELD(gpu_poll_usec), "20", 1, 1000000, "us", NULL, NULL,
	 "How often an idle thread that hears doorbells of mode cpu (a soft NIC's, or one beside an mlx5 NIC) looks at "
	 "queues that a GPU drives, since a GPU cannot wake it. Smaller is "
	 "faster and takes more CPU time; without such queues it costs nothing.", RESTART},
	{"spin-usec", SETTINGS_NUMBER, FIELD(spin_usec), "20", 0, 1000000, "us", NULL, NULL,
	 "How long such a thread spins and yields when it is idle, before it sleeps.", RESTART},
	{"worker-threads", SETTINGS_NUMBER, FIELD(worker_threads), "8", 1, 64, "threads", NULL, NULL,
	 "How many threads wait for the firmware of NICs. So many sessions have commands carried out at a time; the others "
	 "wait for their turn, the daemon for none of them. With soft NICs alone there are two, which fill large rings of CQs.", RESTART},
	LIMIT("max-connections", max_connections, "1024", 1000000, "connections",
	      "Open connections" EACH " Sessions, controllers such as shmemctl, and those not yet introduced count; so do ended sessions whose client "
	      "has descriptors left to read."),
	LIMIT("max-sessions", max_sessions, "512", 1000000, "sessions", "Sessions" EACH),
	{"warm-contexts", SETTINGS_NUMBER, FIELD(warm_contexts), "0", 0, 64, "contexts", NULL, NULL,
	 "How many contexts of each mlx5 NIC are made in advance, with warm-queues QPs in each, so that a session that comes waits for "
	 "no firmware until it connects. Each is handed out once, and one worker thread makes the next. They hold resources of the "
	 "NIC, memory and four descriptors each, which count for no user. shmemctl status shows whether there are enough. Soft NICs need none. 0: none.", RELOAD},
	{"warm-queues", SETTINGS_NUMBER, FIELD(warm_queues), "1", 0, MSG_MAX_QPS, "QPs", NULL, NULL,
	 "RC QPs of each such context, each with a collapsed CQ of its own and no receive queue. They are used where a session asks for "
	 "exactly so many of this depth in one request, in memory of shmemd; others are made as without. 0: contexts alone are made in "
	 "advance.", RELOAD},
	{"warm-depth", SETTINGS_CHOICE, FIELD(warm_depth), "256", 0, 0, NULL, depth_words, depth_values,
	 "Depth of these QPs: WQEBBs of the send queue, and entries of its CQ. 256 is the client library's own choice.", RELOAD},
	{"mtu", SETTINGS_CHOICE, FIELD(mtu_log2), "auto", 0, 0, NULL, mtu_words, mtu_values,
	 "Bytes of payload in a packet, at most. auto: the MTU of the port. A smaller one where the way between nodes takes no "
	 "larger packets; the two ends of an RC connection take the smaller of theirs, for dynamic connections all nodes want the same.",
	 RESTART},
	{"atomics", SETTINGS_CHOICE, FIELD(atomics), "auto", 0, 0, NULL, atomics_words, NULL,
	 "Whether QPs and targets made from now on carry out atomics of their peers. auto: where NIC and client allow it. off: never; an "
	 "atomic ends with a remote error at who asked for it.", RELOAD},
	{"qp-timeout", SETTINGS_NUMBER, FIELD(qp_timeout), "14", 0, 31, "steps", NULL, NULL,
	 "How long a QP waits for an acknowledgement before it sends again: 4.096 us, doubled so many times. 14 is 67 ms; 0: for ever. " QP,
	 RELOAD},
	{"qp-retries", SETTINGS_NUMBER, FIELD(qp_retries), "7", 0, 7, "retries", NULL, NULL,
	 "How often it does so before the request fails. " QP, RELOAD},
	{"qp-rnr-retries", SETTINGS_NUMBER, FIELD(qp_rnr_retries), "7", 0, 7, "retries", NULL, NULL,
	 "How often it sends again when the peer has no receive ready, before the request fails. 7: for ever. " QP, RELOAD},
	{"qp-rnr-timer", SETTINGS_NUMBER, FIELD(qp_rnr_timer), "12", 0, 31, "steps", NULL, NULL,
	 "How long its peers wait before that, in the steps of InfiniBand: 1 is 10 us, 12 is 640 us, 31 is 492 ms, 0 is 655 ms. " QP, RELOAD},
	{"qp-reads", SETTINGS_NUMBER, FIELD(qp_reads), "16", 1, 16, "requests", NULL, NULL,
	 "How many reads and atomics a QP has under way in each direction, as far as the NIC can; a power of two. " QP, RELOAD},
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
	 "Descriptors that the service manager keeps for the next daemon, about twelve for a session. No more than its own limit: "
	 "FileDescriptorStoreMax= and the environment variable FDSTORE of the service say that. One user has seven "
	 "eighths of them at most, and of what that leaves the next one, and so on. 0: none are kept, and sessions end with the daemon.", RESTART},
	{"handshake-timeout", SETTINGS_NUMBER, FIELD(handshake_timeout_msec), "5000", 1, 3600000, "ms", NULL, NULL,
	 "A connection that has not said Hello after this time is closed.", RELOAD},
	{"quiesce-timeout", SETTINGS_NUMBER, FIELD(quiesce_timeout_msec), "100", 0, 60000, "ms", NULL, NULL,
	 "How long the end of a session waits for its queues to flush. Others wait meanwhile, everybody for soft NICs and "
	 "the next for a worker thread, so all ends share it: a tenth of the time that passes comes back.", RELOAD},
	{"restart-grace", SETTINGS_NUMBER, FIELD(restart_grace_msec), "5000", 0, 600000, "ms", NULL, NULL,
	 "How long clients wait for the next daemon when this one dies, before they count it as gone. Where the service manager keeps "
	 "what the daemon leaves behind, sessions go on in the next one. Those that exist keep the time they were told. 0: sessions end "
	 "with the daemon.", RELOAD},
	{"log-level", SETTINGS_CHOICE, FIELD(log_level), "info", 0, 0, NULL, level_words, level_values,
	 "Lines of lower importance are not written.", RELOAD},
	{"log-target", SETTINGS_CHOICE, FIELD(log_target), "auto", 0, 0, NULL, target_words, NULL,
	 "Where log lines go. auto: the journal when standard error is connected to it, otherwise standard error.", RELOAD},
	{"nics-include", SETTINGS_POLICY, FIELD(nics_include), "", 0, SETTINGS_LIST_BYTES - 1, NULL, NULL, NULL,
	 "The only NICs that are given to anybody, as NIC[:PORT] with commas or blanks between them; NIC is a name or a PCI address, "
	 "and without a port all of it are meant. That they are slow, or seem to be for management, storage or the switches of GPU links, does not count then. Empty: all.", RELOAD},
	{"nics-exclude", SETTINGS_POLICY, FIELD(nics_exclude), "", 0, SETTINGS_LIST_BYTES - 1, NULL, NULL, NULL,
	 "NICs that are given to nobody, as NIC[:PORT], each with =management or =storage behind it to say what it is for. Those that "
	 "are not there do no harm.", RELOAD},
	{"gpu-nic-map", SETTINGS_POLICY, FIELD(gpu_nic_map), "", 0, SETTINGS_LIST_BYTES - 1, NULL, NULL, NULL,
	 "NICs for GPUs in place of the nearest ones, as GPU:NIC[:PORT[:WEIGHT]] with commas or blanks between them. GPU is an index in the order "
	 "of PCI addresses, a PCI address or a UUID. Of several NICs the first one is the default; with weights, up to 1000, the heaviest "
	 "one is, and what is opened is divided in their proportion. GPUs that are not named get what is nearest. A map with a "
	 "GPU or a NIC that is not there, or a port that is down, is refused: a daemon that starts ends with exit status 2, and systemd does not "
	 "start it again; one that is told to read the settings again keeps what it had. When ports go down later, their GPUs have others "
	 "until they are back. shmemctl topology shows what comes of it.", RELOAD},
	{"hot-spot-period", SETTINGS_NUMBER, FIELD(hot_spot_period_msec), "5000", 0, 3600000, "ms", NULL, NULL,
	 "How often the counters of NICs are looked at while sessions use them: is there one that carries most of what several should? "
	 "Those are the NICs that a process has opened, and all that belong to the GPUs it named, with those of processes that share some "
	 "of them. One line in the log names such a "
	 "NIC, the others and the processes; shmemctl status and metrics show it as long as it lasts. 0: nobody looks.", RELOAD},
	{"hot-spot-share", SETTINGS_NUMBER, FIELD(hot_spot_share_percent), "80", 51, 100, "percent", NULL, NULL,
	 "From which share of the load of all those NICs on this is said of one. Load is traffic over the rate of the port, where the rates "
	 "of all are known; weights of gpu-nic-map play no part.", RELOAD},
	{"hot-spot-time", SETTINGS_NUMBER, FIELD(hot_spot_time_msec), "60000", 0, 86400000, "ms", NULL, NULL,
	 "For how long, and for three looks in a row at least, it must have carried that share before it is told of, and must not have "
	 "done so before it is again.", RELOAD},
	{"hot-spot-rate", SETTINGS_NUMBER, FIELD(hot_spot_rate_mbps), "1000", 0, 1000000, "Mb/s", NULL, NULL,
	 "Below this traffic, both ways together, no NIC is told of: it slows nobody.", RELOAD},
};
/* clang-format on */

const unsigned int settings_n_rows = sizeof(settings_rows) / sizeof(settings_rows[0]);
