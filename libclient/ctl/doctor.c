/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl doctor: the causes on this node that make work of GPUs on NICs slow or fail, and the command that fixes each.
 *
 * daemon/topo/check.h judges; this file only prints. Needs no daemon; a running one reports its pid and those of its sessions that
 * the caller may see. With --root it reads nothing of this machine, and asks no daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/topo/check.h"
#include "libclient/ctl/topology.h"

#define MAX_SESSIONS 65536u
#define MAX_UNMANAGED 256u
#define DRIVER_MLX5 "mlx5_core" /* the kernel's driver of the NICs that the daemon has a backend for */

struct doctor {
	struct ctl *ctl;
	struct json json;
	unsigned int n[3]; /* findings by state */
};

/* ---- the daemon ---------------------------------------------------------------------------------------------------- */

struct collected {
	struct check_session *sessions;
	unsigned int n;
	struct check_unmanaged unmanaged[MAX_UNMANAGED];
	unsigned int n_unmanaged;
};

static int collect(void *arg, const struct shmd_session_item *item)
{
	struct collected *all = arg;
	struct check_session *session;

	/* Room doubles, from a power of two. */
	if (!(all->n & (all->n - 1))) {
		session = reallocarray(all->sessions, all->n ? 2 * all->n : 1, sizeof(*session));
		if (!session)
			return -ENOMEM;
		all->sessions = session;
	}
	session = &all->sessions[all->n++];
	*session = (struct check_session){.session = item->session, .pid = item->pid};
	snprintf(session->command, sizeof(session->command), "%.63s", item->command);
	snprintf(session->doorbell, sizeof(session->doorbell), "%.255s", item->doorbell);
	_Static_assert(sizeof(session->reason) == sizeof(item->doorbell_reason),
		       "nothing is cut here");
	memcpy(session->reason, item->doorbell_reason, sizeof(session->reason));
	return all->n == MAX_SESSIONS;
}

static int collect_unmanaged(void *arg, const struct shmd_undriven_nic *nic)
{
	struct collected *all = arg;
	struct check_unmanaged *unmanaged = &all->unmanaged[all->n_unmanaged];

	if (strcmp(nic->driver, DRIVER_MLX5))
		return 0;
	unmanaged->port = nic->port;
	snprintf(unmanaged->name, sizeof(unmanaged->name), "%.31s", nic->name);
	return ++all->n_unmanaged == MAX_UNMANAGED;
}

static uint64_t now_nsec(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The daemon's clock stands while the machine sleeps; the start times of processes in proc go on. */
static void note_status(const struct shmd_daemon_status *status, struct check_daemon *daemon)
{
	uint64_t awake = now_nsec(CLOCK_MONOTONIC), all = now_nsec(CLOCK_BOOTTIME);

	daemon->pid = status->pid;
	daemon->keeps_sessions = status->keeps_sessions;
	daemon->started_min_nsec = awake > status->uptime_nsec ? awake - status->uptime_nsec : 0;
	daemon->started_max_nsec = all > status->uptime_nsec ? all - status->uptime_nsec : 0;
}

/* The status is read before and after the list: a session that came or went meanwhile is not a hidden one. */
static unsigned int count_unseen(unsigned int before, unsigned int after, unsigned int n_listed)
{
	unsigned int n = before < after ? before : after;

	return n > n_listed ? n - n_listed : 0;
}

/* No daemon runs: no socket exists, or no process listens on it. */
static struct check_daemon ask_daemon(const struct args *args, struct collected *all)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL, .socket_path = args->values[OPTION_SOCKET]};
	struct check_daemon daemon = {0};
	struct shmd_daemon_status before, status;
	struct shmd_client *client = NULL;
	int r = shmd_client_open(&attr, &client);

	if (!r)
		r = shmd_admin_status(client, &before);
	if (!r)
		r = shmd_admin_sessions(client, collect, all);
	if (r >= 0)
		r = shmd_admin_status(client, &status);
	if (!r)
		r = shmd_admin_undriven(client, collect_unmanaged, all);
	shmd_client_close(client);
	daemon.error = r == -ECONNREFUSED ? -ENOENT : r < 0 ? r : 0;
	if (!daemon.error) {
		note_status(&status, &daemon);
		daemon.n_unseen = count_unseen(before.n_sessions, status.n_sessions, all->n);
	}
	daemon.unmanaged = all->unmanaged;
	daemon.n_unmanaged = all->n_unmanaged;
	daemon.sessions = all->sessions;
	daemon.n_sessions = all->n;
	return daemon;
}

/* ---- findings ------------------------------------------------------------------------------------------------------ */

static void print_finding(struct ctl *ctl, const struct check_finding *finding)
{
	static const char *const words[] = {"OK", "WARN", "FAIL"};
	static const enum color colors[] = {COLOR_GREEN, COLOR_YELLOW, COLOR_RED};
	enum color color = colors[finding->state];

	fprintf(ctl->out, "%s%-4s%s  %-14s %s%s%s\n", color_on(ctl->has_color, color), words[finding->state],
		color_off(ctl->has_color, color), finding->check, finding->subject, *finding->subject ? ": " : "", finding->reason);
	if (*finding->fix)
		fprintf(ctl->out, "%-4s  %-14s fix: %s\n", "", "", finding->fix);
}

static void put_finding(struct json *json, const struct check_finding *finding)
{
	static const char *const words[] = {"ok", "warn", "fail"};

	json_begin_object(json, NULL);
	json_string(json, "check", finding->check);
	json_string(json, "state", words[finding->state]);
	json_string(json, "subject", finding->subject);
	json_string(json, "reason", finding->reason);
	json_string(json, "fix", finding->fix);
	json_end_object(json);
}

static void tell(void *arg, const struct check_finding *finding)
{
	struct doctor *doctor = arg;

	doctor->n[finding->state]++;
	if (doctor->ctl->is_json)
		put_finding(&doctor->json, finding);
	else
		print_finding(doctor->ctl, finding);
}

static void run_all(struct doctor *doctor, const struct check_host *host)
{
	for (const struct check *check = check_table; check->name; check++)
		check_run(check, host, tell, doctor);
}

static int show(struct ctl *ctl, const struct check_host *host, const char *source)
{
	struct doctor doctor = {.ctl = ctl};

	if (ctl->is_json) {
		ctl_json_begin(ctl, &doctor.json);
		json_string(&doctor.json, "source", source);
		json_begin_array(&doctor.json, "findings");
		run_all(&doctor, host);
		json_end_array(&doctor.json);
		json_uint(&doctor.json, "n_ok", doctor.n[CHECK_OK]);
		json_uint(&doctor.json, "n_warn", doctor.n[CHECK_WARN]);
		json_uint(&doctor.json, "n_fail", doctor.n[CHECK_FAIL]);
		ctl_json_end(&doctor.json);
	} else {
		run_all(&doctor, host);
		fprintf(ctl->out, "\n%u FAIL, %u WARN, %u OK\n", doctor.n[CHECK_FAIL], doctor.n[CHECK_WARN], doctor.n[CHECK_OK]);
	}
	return doctor.n[CHECK_FAIL] ? CTL_EXIT_FAILED : CTL_EXIT_OK;
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

struct machine {
	struct topo *topo; /* owned */
	const char *error; /* why topo is empty; NULL: it is not */
	char why[TOPO_WHY_BYTES]; /* or the part of the machine that topo lacks */
};

static int read_machine(const char *root, struct machine *machine)
{
	struct topo_host_attr attr = {0};
	char *sys = NULL, *proc = NULL;
	int r = -ENOMEM;

	/* A folder of files has no driver to ask. */
	if (!*root)
		attr = (struct topo_host_attr){
			.nvml = HOST_NVML, .verbs = HOST_VERBS, .mlx5 = HOST_MLX5};
	if (asprintf(&sys, "%s/sys", root) < 0)
		sys = NULL;
	if (asprintf(&proc, "%s/proc", root) < 0)
		proc = NULL;
	attr.sys = sys;
	attr.proc = proc;
	attr.why = machine->why;
	if (sys && proc)
		r = topo_read_host(&attr, &machine->topo);
	free(sys);
	free(proc);
	/* With a GPU that appears twice, or too many devices, the checks of the node still run. */
	if (r != -EBADMSG && r != -E2BIG)
		return r;
	machine->error = machine->why;
	machine->topo = calloc(1, sizeof(*machine->topo));
	return machine->topo ? 0 : -ENOMEM;
}

/* Settings that the machine cannot follow are a finding, and stop no check. They are about this machine, so --root ignores them. */
static int assign(const struct args *args, const struct machine *machine, struct topo_map *map, struct topology_settings *settings)
{
	bool has_settings = !args_has(args, OPTION_ROOT) || args_has(args, OPTION_CONFIG);
	int r = 0;

	if (has_settings && !machine->error)
		r = topology_assign(args, machine->topo, map, settings);
	if (!settings->is_followed)
		topo_assign(machine->topo, NULL, map);
	return r == -ENOMEM ? r : 0;
}

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static int judge(struct ctl *ctl, const struct machine *machine, int root, const char *source)
{
	struct topo_map *map = calloc(1, sizeof(*map));
	struct check_daemon daemon = {.error = -ENOENT};
	struct topology_settings settings = {0};
	struct check_settings told;
	struct collected all = {0};
	int r = map ? assign(ctl->args, machine, map, &settings) : -ENOMEM;

	if (r < 0) {
		free(map);
		return ctl_fail("out of memory");
	}
	if (!source)
		daemon = ask_daemon(ctl->args, &all);
	told = (struct check_settings){or_null(settings.unread), or_null(settings.error), or_null(settings.warning)};
	r = show(ctl,
		 &(struct check_host){.root = root,
				      .topo = machine->topo,
				      .topo_error = machine->error,
				      .left_out = machine->why,
				      .map = map,
				      .daemon = &daemon,
				      .settings = settings.is_given || *settings.unread || *settings.error ? &told : NULL},
		 source ? source : "this machine");
	free(all.sessions);
	free(map);
	return r;
}

int ctl_doctor(struct ctl *ctl)
{
	const char *source = ctl->args->values[OPTION_ROOT];
	int root = open(source ? source : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct machine machine = {0};
	int r;

	if (root < 0)
		return ctl_fail("%s: %s", source ? source : "/", strerror(errno));
	r = read_machine(source ? source : "", &machine);
	r = r < 0 ? ctl_fail("cannot read this machine: %s", strerror(-r))
		  : judge(ctl, &machine, root, source);
	topo_free(machine.topo);
	close(root);
	return r;
}
