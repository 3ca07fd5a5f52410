/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that runs: its NICs, its threads, and what its clients got. Without one all is good. Keeps nothing; see check.h. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/check-private.h"
#include "daemon/host/sysfs.h"
#include "proto/base/cleanup.h"
#include "proto/base/show.h"

#define MAX_CPU 65535u
#define NIC_NAME_BYTES 10u /* that the name of a thread has room for */
#define PROCESSOR_FIELD 39 /* of /proc/PID/task/TID/stat */

void check_say_unasked(struct check_teller *to, int error)
{
	const char *fix = "run shmemctl doctor as root, or as a user who may connect";

	if (error == -ETIMEDOUT)
		fix = "systemctl status shmemd; journalctl -u shmemd tells what it was at last; systemctl restart shmemd ends the wait";
	else if (error == -EPROTONOSUPPORT)
		fix = "use the shmemctl of its version, or systemctl restart shmemd after an upgrade";
	check_say(to, CHECK_WARN, "", fix, "not known: the daemon cannot be asked: %s", strerror(-error));
}

/* Ends the check if there is no daemon, or none that answers. */
static bool is_judged(const struct check_host *host, struct check_teller *to)
{
	if (host->daemon->error == -ENOENT)
		check_say(to, CHECK_OK, "", "", "no daemon runs");
	else if (host->daemon->error)
		check_say_unasked(to, host->daemon->error);
	return host->daemon->error == 0;
}

/* ---- clients ------------------------------------------------------------------------------------------------------- */

static void say_doorbell(struct check_teller *to, const struct check_session *session)
{
	char name[CHECK_SUBJECT_BYTES];

	snprintf(name, sizeof(name), "session %" PRIu64, session->session);
	check_say(to, CHECK_WARN, name,
		  "mend the cause, see peer-mapping, kernel and rdma-core, and start the process "
		  "again",
		  "%s, pid %" PRIu32 ", has doorbell mode %s: %s", session->command, session->pid,
		  session->doorbell, session->reason);
}

/* Without a reason a NIC has no better mode, or the client named this one; who waits for speed is to know it all the same. */
static unsigned int count_on_cpu(const struct check_daemon *daemon)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < daemon->n_sessions; i++)
		n += !*daemon->sessions[i].reason && strstr(daemon->sessions[i].doorbell, "cpu");
	return n;
}

void check_doorbells(const struct check_host *host, struct check_teller *to)
{
	const struct check_daemon *daemon = host->daemon;
	unsigned int n_on_cpu;

	if (!is_judged(host, to))
		return;
	for (unsigned int i = 0; i < daemon->n_sessions; i++)
		if (*daemon->sessions[i].reason)
			say_doorbell(to, &daemon->sessions[i]);
	if (daemon->n_unseen)
		check_say(to, CHECK_WARN, "",
			  "run shmemctl doctor as root or as the user of the daemon",
			  "not known for %u session%s of other users", daemon->n_unseen, plural_s(daemon->n_unseen));
	n_on_cpu = count_on_cpu(daemon);
	if (n_on_cpu)
		check_say(to, CHECK_OK, "", "",
			  "%u of %u session%s in mode cpu: the NIC offers nothing better, or the client asked for it", n_on_cpu,
			  daemon->n_sessions, plural_s(daemon->n_sessions));
	else if (!daemon->n_sessions && !daemon->n_unseen)
		check_say(to, CHECK_OK, "", "", "there are no sessions");
	else if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u session%s with the best mode of the NICs", daemon->n_sessions,
			  plural_s(daemon->n_sessions));
}

/* ---- NICs ---------------------------------------------------------------------------------------------------------- */

static bool is_of_spare(const struct check_host *host, const struct check_unmanaged *unmanaged)
{
	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (host->topo->nics[i].seen.port == unmanaged->port &&
		    topo_is_of_device(unmanaged->name, host->topo->nics[i].seen.name))
			return check_is_spare(host->map, i);
	return false;
}

void check_driven(const struct check_host *host, struct check_teller *to)
{
	const struct check_daemon *daemon = host->daemon;
	const char *fix = daemon->keeps_sessions
				  ? "systemctl restart shmemd, not with backend soft: sessions "
				    "outlive it; if it stays so, journalctl -u shmemd says why"
				  : "systemctl restart shmemd, not with backend soft: sessions end "
				    "with it; if it stays so, journalctl -u shmemd says why";

	if (!is_judged(host, to))
		return;
	for (unsigned int i = 0; i < daemon->n_unmanaged; i++)
		if (!is_of_spare(host, &daemon->unmanaged[i]))
			check_say(to, CHECK_WARN, daemon->unmanaged[i].name, fix,
				  "no session gets it: the daemon has not opened it, or could not");
	if (!to->n_bad)
		check_say(to, CHECK_OK, "", "",
			  "it has all ConnectX that are here, but those set aside");
}

/* ---- threads ------------------------------------------------------------------------------------------------------- */

/* "0-7,16-23" */
static bool lists_cpu(const char *list, unsigned int cpu)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

		if (cpu >= first && cpu <= last)
			return true;
		list = *end == ',' ? end + 1 : "";
	}
	return false;
}

static int read_cpus(const struct check_host *host, unsigned int numa, char path[CHECK_PATH_BYTES], char text[CHECK_FILE_BYTES])
{
	int r;

	snprintf(path, CHECK_PATH_BYTES, "sys/devices/system/node/node%u/cpulist", numa);
	r = check_text(host, path, text);
	text[strcspn(text, "\n")] = 0;
	return r;
}

/* The processor that a thread ran on last. */
static bool parse_processor(const char *stat, unsigned int *ret_cpu)
{
	const char *at = check_stat_field(stat, PROCESSOR_FIELD);

	return at && sscanf(at, "%5u", ret_cpu) == 1 && *ret_cpu <= MAX_CPU;
}

static bool is_named_for(const char *name, size_t n, const char *nic)
{
	size_t n_of_nic = strlen(nic);

	return n == (n_of_nic < NIC_NAME_BYTES ? n_of_nic : NIC_NAME_BYTES) && strncmp(nic, name, n) == 0;
}

/*
 * The NUMA node of the NIC that such a thread serves: its name is a word, a dash and what of the NIC's there is room for. -1: it serves
 * none, one of several NICs with such names on different nodes, or unknown.
 */
static int find_numa(const struct check_host *host, const char *thread)
{
	const char *name = strchr(thread, '-');
	size_t n = name ? strcspn(++name, "/:") : 0;
	int numa = -1;

	for (unsigned int i = 0; n && i < host->topo->n_nics; i++) {
		int of_nic = host->topo->nodes[host->topo->nics[i].node].numa;

		if (!is_named_for(name, n, host->topo->nics[i].seen.name))
			continue;
		if (numa >= 0 && of_nic != numa)
			return -1;
		numa = of_nic;
	}
	return numa;
}

static void judge_place(const struct check_host *host, struct check_teller *to, const char *tid, const char *thread, unsigned int cpu)
{
	char path[CHECK_PATH_BYTES], cpus[CHECK_FILE_BYTES], name[CHECK_SUBJECT_BYTES], fix[CHECK_TEXT_BYTES];
	int numa = find_numa(host, thread), r;

	if (numa < 0)
		return;
	snprintf(name, sizeof(name), "thread %.16s", thread);
	r = read_cpus(host, (unsigned int)numa, path, cpus);
	if (r < 0) {
		check_say_unread(to, name, path, r);
		return;
	}
	snprintf(fix, sizeof(fix), "taskset -pc %.200s %.16s", cpus, tid);
	if (!lists_cpu(cpus, cpu))
		check_say(to, CHECK_WARN, name, fix, "it ran on processor %u, and its NIC is on NUMA node %d: every doorbell crosses over", cpu,
			  numa);
}

static void judge_thread(const struct check_host *host, struct check_teller *to, const char *folder, const char *tid)
{
	char path[CHECK_PATH_BYTES], text[CHECK_FILE_BYTES], name[SYSFS_TEXT_BYTES];
	unsigned int cpu;
	int r;

	snprintf(path, sizeof(path), "%s/%.16s/comm", folder, tid);
	r = check_text(host, path, text);
	text[strcspn(text, "\n")] = 0;
	snprintf(name, sizeof(name), "%.64s", text);
	if (r >= 0) {
		snprintf(path, sizeof(path), "%s/%.16s/stat", folder, tid);
		r = check_text(host, path, text);
	}
	/* Threads come and go. */
	if (r == -ENOENT || r == -ESRCH)
		return;
	if (r < 0 || !parse_processor(text, &cpu))
		check_say_unread(to, tid, path, r < 0 ? r : -EBADMSG);
	else
		judge_place(host, to, tid, name, cpu);
}

void check_threads(const struct check_host *host, struct check_teller *to)
{
	_cleanup_(sysfs_close_dir) DIR *dir = NULL;
	char folder[CHECK_PATH_BYTES];
	struct dirent *entry;
	unsigned int n = 0;

	if (!is_judged(host, to) || !check_has_machine(host, to) || !check_has_process(host, to))
		return;
	snprintf(folder, sizeof(folder), "proc/%" PRIu32 "/task", host->daemon->pid);
	dir = sysfs_open_dir(host->root, folder);
	if (!dir)
		check_say_unread(to, "", folder, -errno);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		judge_thread(host, to, folder, entry->d_name);
		n++;
	}
	if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u thread%s; those that serve a NIC are on its NUMA node", n, plural_s(n));
}
