/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of shmemctl: what stands on their line, what they are for, who carries them out. */
#include <inttypes.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

/* ---- what the daemon has, for completion */

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

static const char *const list_choices[] = {"sessions", "qps", "mrs", "nics", NULL};
static const char *const stats_choices[] = {"nics", "sessions", "qps", NULL};
static const char *const port_choices[] = {"up", "down", NULL};

static const char *const topology_choices[] = {"dump", NULL};
static const char *const config_choices[] = {"import-env", NULL};
static const struct args_word config_word = {"ACTION", config_choices, NULL};
static const struct args_word topology_word = {"ACTION", topology_choices, NULL};
static const char *const metrics_choices[] = {"daemon", "nics", "sessions", "qps", "mrs", NULL};
static const struct args_word metrics_word = {"WHAT", metrics_choices, NULL};
static const struct args_word list_word = {"WHAT", list_choices, NULL};
static const struct args_word stats_word = {"WHAT", stats_choices, NULL};
static const struct args_word session_word = {"SESSION", NULL, live_sessions};
static const struct args_word nic_word = {"NIC", NULL, live_nics};
static const struct args_word qp_word = {"[NIC/]QPN", NULL, live_qps};
static const struct args_word port_word = {"STATE", port_choices, NULL};

const struct args_command args_commands[] = {
	{"status", "", "the daemon, its NICs and its sessions",
	 "Shows the daemon with its totals, then the tables of NICs and of sessions.\n",
	 OPTION_BIT(OPTION_WATCH) | OPTION_BIT(OPTION_WIDE), 0, {NULL}, ctl_status},
	{"list", "sessions|qps|mrs|nics", "sessions, qps, mrs or nics, one line each",
	 "sessions are the processes that use the daemon, qps their queue pairs, mrs\n"
	 "their memory regions. nics are the ports it has. In ACCESS of mrs, lw is local\n"
	 "write, rw remote write, rr remote read and ra remote atomic.\n",
	 OPTION_BIT(OPTION_WATCH) | OPTION_BIT(OPTION_WIDE), 1, {&list_word}, ctl_list},
	{"stats", "[nics|sessions|qps] [--all]", "rates of nics, sessions or qps, busiest first",
	 "Looks twice, a second apart, and shows the rates between the two looks; with\n"
	 "--watch the rates since the look before. Without a word: nics. What did nothing\n"
	 "is left out of the table, and said so, unless --all is given.\n",
	 OPTION_BIT(OPTION_WATCH) | OPTION_BIT(OPTION_ALL) | OPTION_BIT(OPTION_WIDE), 0, {&stats_word}, ctl_stats},
	{"monitor", "[--kind KIND[,KIND]] [--count N]", "events as they happen, one line each",
	 "Sessions that open and close, queues made and destroyed, errors of QPs, ports\n"
	 "that go up and down, drains, refused connections, restarts of the daemon; until\n"
	 "interrupted. With --json one object a line. Who is neither root nor the daemon's\n"
	 "user sees events of own sessions, of NICs and of the daemon.\n",
	 OPTION_BIT(OPTION_KIND) | OPTION_BIT(OPTION_COUNT), 0, {NULL}, ctl_monitor},
	{"dump-queue", "[NIC/]QPN [--all] [--keys] [--payload]", "a QP's queues in words: WQEs, CQEs, indexes",
	 "Shows state, peer, indexes, doorbell records and first error of a QP, and its\n"
	 "WQEs and CQEs: consumed by the NIC, pending, in the doorbell record but not\n"
	 "rung, or written and not announced. A few consumed entries are shown for\n"
	 "context, all with --all. Keys and inline data stay hidden without --keys and\n"
	 "--payload, since they are the client's secrets. For root and the daemon's user\n"
	 "only.\n",
	 OPTION_BIT(OPTION_ALL) | OPTION_BIT(OPTION_WIDE) | OPTION_BIT(OPTION_KEYS) | OPTION_BIT(OPTION_PAYLOAD), 1, {&qp_word}, ctl_dump_queue},
	{"kill", "SESSION", "end a session at once",
	 "The client's waits end with \"session ended by an administrator\"; its queues and\n"
	 "memory are given back. The process itself goes on. For root and the daemon's\n"
	 "user only.\n",
	 0, 1, {&session_word}, ctl_kill},
	{"drain", "[--grace SECONDS] | --off", "refuse new sessions, end live ones cleanly",
	 "New sessions are refused from now on. Live ones are told, may finish within the\n"
	 "grace time and are ended after it. Returns when no session is left;\n"
	 "interrupting it does not stop the drain, --off does. For root and the daemon's\n"
	 "user only.\n",
	 OPTION_BIT(OPTION_GRACE) | OPTION_BIT(OPTION_OFF), 0, {NULL}, ctl_drain},
	{"port", "NIC up|down", "take a NIC's port up or down",
	 "While a port is down, work requests on it fail as with a pulled cable, and\n"
	 "clients are told. For root and the daemon's user only.\n",
	 0, 2, {&nic_word, &port_word}, ctl_port},
	{"topology", "[dump] [--from FILE] [--config FILE] [--why GPU] [--svg FILE]", "GPUs and NICs, how near, and who uses which",
	 "Shows how near the GPUs and NICs of this machine are to each other, as nvidia-smi\n"
	 "topo -m does, and which GPU gets which NIC, with the reasons. GPU is an index, a\n"
	 "PCI address or a UUID. dump writes the machine in a form that --from reads\n"
	 "elsewhere; it also reads an XML of hwloc (lstopo --of xml) or of NCCL\n"
	 "(NCCL_TOPO_DUMP_FILE), and - is standard input. Of this machine the map is\n"
	 "as nics-include, nics-exclude and gpu-nic-map of shmemd.conf want it; of another\n"
	 "with --config. Needs no daemon.\n",
	 OPTION_BIT(OPTION_FROM) | OPTION_BIT(OPTION_CONFIG) | OPTION_BIT(OPTION_WHY) | OPTION_BIT(OPTION_SVG) | OPTION_BIT(OPTION_WIDE), 0,
	 {&topology_word}, ctl_topology, true},
	{"metrics", "[daemon|nics|sessions|qps|mrs]", "everything that is counted, for Prometheus",
	 "Writes gauges and counters in the text format of Prometheus: all of them, or\n"
	 "those of the daemon, of NICs, sessions, QPs or MRs. All comes at once or, where\n"
	 "the daemon does not answer, nothing. What the counters of a port say is left to\n"
	 "node_exporter.\n",
	 0, 0, {&metrics_word}, ctl_metrics},
	{"config", "import-env [--from FILE]", "settings of NVSHMEM and DeepEP as lines of shmemd.conf",
	 "import-env translates NVSHMEM_HCA_LIST, NVSHMEM_HCA_PE_MAPPING and\n"
	 "DEEP_EP_DEVICE_TO_HCA_MAPPING of the environment and holds the result against\n"
	 "this machine, or against a captured one. With NVSHMEM_ENABLE_NIC_PE_MAPPING=0 a\n"
	 "PE mapping is a list of NICs, as to NVSHMEM. Nothing is written but the lines,\n"
	 "on standard output. Needs no daemon.\n",
	 OPTION_BIT(OPTION_FROM), 1, {&config_word}, ctl_config, true},
	{"doctor", "[--config FILE] [--root DIR]", "what makes IBGDA slow or fail here, and the fix",
	 "Checks driver, kernel, libraries, PCI, ports, firmware and, where one runs, the\n"
	 "daemon. Each check says OK, WARN or FAIL, why, and what fixes it; what cannot be\n"
	 "read is WARN. Exit status 1 with any FAIL. Needs no daemon; root sees more.\n",
	 OPTION_BIT(OPTION_CONFIG) | OPTION_BIT(OPTION_ROOT), 0, {NULL}, ctl_doctor, true},
	{NULL, NULL, NULL, NULL, 0, 0, {NULL}, NULL},
};
