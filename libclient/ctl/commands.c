/* SPDX-License-Identifier: Apache-2.0 */
/* See commands.h. */
#include "libclient/ctl/commands.h"

#include <inttypes.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

/* ---- candidates for completion that the daemon has */

struct offering {
	args_offer_fn *offer;
	void *arg;
};

static int offer_session(void *arg, const struct shmd_session_item *item)
{
	struct offering *to = arg;
	char word[24], about[160];

	snprintf(word, sizeof(word), "%" PRIu64, item->session);
	snprintf(about, sizeof(about), "%s, uid %u, pid %u", item->command, item->uid, item->pid);
	to->offer(to->arg, word, about);
	return 0;
}

static void live_sessions(struct shmd_client *client, args_offer_fn *offer, void *arg)
{
	struct offering to = {offer, arg};

	shmd_admin_sessions(client, offer_session, &to);
}

static int offer_nic(void *arg, const struct shmd_nic_item *item)
{
	struct offering *to = arg;
	char about[64];

	snprintf(about, sizeof(about), "%s, %s", item->info.backend, ctl_nic_state(item->info.state));
	to->offer(to->arg, item->info.name, about);
	return 0;
}

static void live_nics(struct shmd_client *client, args_offer_fn *offer, void *arg)
{
	struct offering to = {offer, arg};

	shmd_admin_nics(client, offer_nic, &to);
}

static int offer_qp(void *arg, const struct shmd_qp_item *item)
{
	struct offering *to = arg;
	char word[96], about[64];

	snprintf(word, sizeof(word), "%s/0x%x", item->nic, item->qpn);
	snprintf(about, sizeof(about), "%s, session %" PRIu64, ctl_qp_state(item->state), item->session);
	to->offer(to->arg, word, about);
	return 0;
}

static void live_qps(struct shmd_client *client, args_offer_fn *offer, void *arg)
{
	struct offering to = {offer, arg};

	shmd_admin_qps(client, offer_qp, &to);
}

/* ---- words */

static const char *const list_choices[] = {"sessions", "qps", "mrs", "pes", "paths", "nics", NULL};
static const char *const stats_choices[] = {"nics", "sessions", "qps", "pes", NULL};
static const char *const port_choices[] = {"up", "down", NULL};

static const char *const topology_choices[] = {"dump", NULL};
static const char *const config_choices[] = {"import-env", NULL};
static const char *const metrics_choices[] = {"daemon", "nics", "sessions", "qps", "mrs", NULL};
const char *const ctl_command_names[] = {"status", "list", "stats", "monitor", "dump-queue", "kill", "drain", "port", "topology",
					  "metrics", "config", "doctor", "info", "run", "help", NULL};
static const struct args_word config_word = {"ACTION", config_choices, NULL};
static const struct args_word topology_word = {"ACTION", topology_choices, NULL};
static const struct args_word metrics_word = {"WHAT", metrics_choices, NULL};
static const struct args_word list_word = {"WHAT", list_choices, NULL};
static const struct args_word stats_word = {"WHAT", stats_choices, NULL};
static const struct args_word session_word = {"SESSION", NULL, live_sessions};
static const struct args_word nic_word = {"NIC", NULL, live_nics};
static const struct args_word qp_word = {"[NIC/]QPN", NULL, live_qps};
static const struct args_word port_word = {"STATE", port_choices, NULL};
static const struct args_word command_word = {"COMMAND", ctl_command_names, NULL};

static int show_help(struct ctl *ctl)
{
	const struct args *args = ctl->args;

	args_print_help(ctl_commands, args->n_words ? args_find_command(ctl_commands, args->words[0]) : NULL, ctl->out);
	return 0;
}

const struct args_command ctl_commands[] = {
	{"status", "", "show the daemon, its NICs and its sessions",
	 "Shows the daemon and its totals, then a table of NICs and one of sessions.\n",
	 OPTION_BIT(OPTION_WATCH) | OPTION_BIT(OPTION_WIDE), 0, {NULL}, ctl_status},
	{"list", "sessions|qps|mrs|pes|paths|nics", "list sessions, QPs, memory regions, PEs or NICs",
	 "sessions are the processes that use the daemon, qps their queue pairs, mrs their\n"
	 "memory regions, and pes what they are in worlds of the runtime; paths are how\n"
	 "each PE reaches the others, by which NIC and why; nics are the ports of the\n"
	 "daemon's NICs. A user sees own sessions only, and how many others are hidden;\n"
	 "root and the daemon's user see all. In the column ACCESS of mrs, lw is local\n"
	 "write, rw remote write, rr remote read and ra remote atomic.\n",
	 OPTION_BIT(OPTION_WATCH) | OPTION_BIT(OPTION_WIDE), 1, {&list_word}, ctl_list},
	{"stats", "[nics|sessions|qps|pes] [--all]", "show rates of nics, sessions, qps or PEs, busiest first",
	 "Reads the counters twice, one second apart, and shows the rates in between; with\n"
	 "--watch, the rates since the previous reading. The default is nics. The table\n"
	 "leaves out what is idle, and says so, unless --all is given.\n",
	 OPTION_BIT(OPTION_WATCH) | OPTION_BIT(OPTION_ALL) | OPTION_BIT(OPTION_WIDE), 0, {&stats_word}, ctl_stats},
	{"monitor", "[--kind KIND[,KIND]] [--count N]", "print events as they happen, one line each",
	 "Reports sessions that open and close, queues created and destroyed, QP errors,\n"
	 "ports that go up and down, drains, refused connections and restarts of the\n"
	 "daemon, until interrupted. With --json, each line is one object. A user sees\n"
	 "events of own sessions, of NICs and of the daemon; root and the daemon's user\n"
	 "see all.\n",
	 OPTION_BIT(OPTION_KIND) | OPTION_BIT(OPTION_COUNT), 0, {NULL}, ctl_monitor},
	{"dump-queue", "[NIC/]QPN [--all] [--keys] [--payload]", "decode the queues of a QP: WQEs, CQEs, indexes",
	 "Shows state, peer, indexes, doorbell records and first error of a QP, and its\n"
	 "WQEs and CQEs: consumed by the NIC, pending, in the doorbell record but not\n"
	 "rung, or written but not announced. A few consumed entries are shown for\n"
	 "context; --all shows all of them. Keys and inline data are secrets of the\n"
	 "client, so they need --keys and --payload. Only root and the daemon's user may\n"
	 "do this.\n",
	 OPTION_BIT(OPTION_ALL) | OPTION_BIT(OPTION_KEYS) | OPTION_BIT(OPTION_PAYLOAD) | OPTION_BIT(OPTION_WIDE), 1, {&qp_word}, ctl_dump_queue},
	{"kill", "SESSION", "end a session at once",
	 "Waits of the client end with \"session ended by an administrator\", and the daemon\n"
	 "frees its queues and memory. The process itself keeps running. Only root and the\n"
	 "daemon's user may do this.\n",
	 0, 1, {&session_word}, ctl_kill},
	{"drain", "[--grace SECONDS] | --off", "refuse new sessions and end live ones cleanly",
	 "The daemon refuses new sessions from now on. It tells live ones, lets them\n"
	 "finish within the grace time, and then ends them. The command returns when no\n"
	 "session is left. Interrupting it does not stop the drain; --off does. Only root\n"
	 "and the daemon's user may do this.\n",
	 OPTION_BIT(OPTION_GRACE) | OPTION_BIT(OPTION_OFF), 0, {NULL}, ctl_drain},
	{"port", "NIC up|down", "take the port of a NIC up or down",
	 "While a port is down, work requests on it fail as if the cable were pulled, and\n"
	 "clients are notified. Only root and the daemon's user may do this.\n",
	 0, 2, {&nic_word, &port_word}, ctl_port},
	{"topology", "[dump] [--from FILE] [--config FILE] [--why GPU] [--svg FILE]", "show GPUs and NICs, their distances, and who uses which",
	 "Shows the distances between the GPUs and NICs of this machine, in the words of\n"
	 "nvidia-smi topo -m, and which NIC each GPU gets, with the reasons. GPU is an\n"
	 "index, a PCI address or a UUID. dump writes the machine in a form that --from\n"
	 "reads elsewhere; --from also reads the XML of hwloc (lstopo --of xml) and of\n"
	 "NCCL (NCCL_TOPO_DUMP_FILE), and - is standard input. The map of this machine\n"
	 "follows nics-include, nics-exclude and gpu-nic-map of shmemd.conf; another\n"
	 "machine needs --config for that. No daemon has to run.\n",
	 OPTION_BIT(OPTION_FROM) | OPTION_BIT(OPTION_CONFIG) | OPTION_BIT(OPTION_WHY) | OPTION_BIT(OPTION_SVG) | OPTION_BIT(OPTION_WIDE), 0, {&topology_word}, ctl_topology,
	 true},
	{"metrics", "[daemon|nics|sessions|qps|mrs]", "print all gauges and counters for Prometheus",
	 "Writes gauges and counters in the text format of Prometheus: all of them, or\n"
	 "those of the daemon, of NICs, sessions, QPs or MRs. It writes either everything\n"
	 "or, if the daemon does not answer, nothing. For the counters of ports use\n"
	 "node_exporter.\n",
	 0, 0, {&metrics_word}, ctl_metrics},
	{"config", "import-env [--from FILE]", "translate NVSHMEM and DeepEP settings to shmemd.conf",
	 "import-env translates NVSHMEM_HCA_LIST, NVSHMEM_HCA_PE_MAPPING and\n"
	 "DEEP_EP_DEVICE_TO_HCA_MAPPING of the environment and checks the result against\n"
	 "this machine, or against a captured one. With NVSHMEM_ENABLE_NIC_PE_MAPPING=0 a\n"
	 "PE mapping is a list of NICs, as it is for NVSHMEM. The lines go to standard\n"
	 "output; no file is changed. No daemon has to run.\n",
	 OPTION_BIT(OPTION_FROM), 1, {&config_word}, ctl_config, true},
	{"doctor", "[--config FILE] [--root DIR]", "find what makes IBGDA slow or fail here, with the fix",
	 "Checks driver, kernel, libraries, PCI, ports, firmware and, if one runs, the\n"
	 "daemon. Each check reports OK, WARN or FAIL, the reason, and the fix; WARN also\n"
	 "stands for what cannot be read. The exit status is 1 if any check fails. No\n"
	 "daemon has to run; root sees more.\n",
	 OPTION_BIT(OPTION_CONFIG) | OPTION_BIT(OPTION_ROOT), 0, {NULL}, ctl_doctor, true},
	{"info", "[--all]", "show the runtime: build, settings and sources, own paths",
	 "Shows the options with which the library was built, and the settings of the\n"
	 "runtime that differ from their defaults, each with the environment variable that\n"
	 "gives it; with --all, every setting with its text. A value that is not allowed,\n"
	 "with which no world opens, makes the exit status 1. shmd-settings(7) explains\n"
	 "the settings. If a daemon runs, the paths of this user's PEs in worlds follow,\n"
	 "each with its reason; list paths shows those of all users. No daemon has to run.\n",
	 OPTION_BIT(OPTION_ALL) | OPTION_BIT(OPTION_WIDE), 0, {NULL}, ctl_info, true},
	{"run", "-n N [OPTION...] [--] PROG [ARG...]", "start N processes of a program, and end them together",
	 "Starts N processes (PEs) of PROG on this node, and serves them PMI-1. Each line\n"
	 "of output comes with the rank before it. PE 0 gets standard input. SIGINT and\n"
	 "SIGTERM go to all; a second SIGINT kills. When a PE fails, the others get\n"
	 "SIGTERM, and SIGKILL if they do not end; the exit status is that of the first\n"
	 "failure, 128 and the number of a signal. 124 is the time limit, 126 and 127 are\n"
	 "a program that cannot be executed or found. No daemon has to run.\n",
	 OPTION_BIT(OPTION_PES) | OPTION_BIT(OPTION_ENV) | OPTION_BIT(OPTION_CHDIR) | OPTION_BIT(OPTION_BIND) | OPTION_BIT(OPTION_NO_PREFIX) |
		 OPTION_BIT(OPTION_OUTPUT_FILES) | OPTION_BIT(OPTION_KEEP_GOING) | OPTION_BIT(OPTION_KILL_AFTER) | OPTION_BIT(OPTION_TIMEOUT) |
		 OPTION_BIT(OPTION_NODES) | OPTION_BIT(OPTION_NVSHMEM),
	 0, {NULL}, ctl_run, true, true},
	{"help", "[COMMAND]", "explain all commands, or one",
	 "The same as --help, or as COMMAND --help.\n",
	 0, 0, {&command_word}, show_help, true},
	{NULL, NULL, NULL, NULL, 0, 0, {NULL}, NULL},
};
