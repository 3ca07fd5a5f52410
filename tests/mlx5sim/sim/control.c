/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of devices: they are lost and return, and their ports go down and up, at times that options give, or at once when a test
 * writes a line to the pipe "control" in the simulator's folder. The file "commands" beside it counts firmware commands, and a test
 * writes into it the command at which the sender dies. Runs on the main thread.
 *
 * A lost device acts as if unplugged: its contexts get DEVICE_FATAL and then EIO for ever, the simulator stops reading their pages,
 * their objects are gone, and the device is not listed until it returns.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "tests/mlx5sim/sim/sim.h"

static void nic_lose(struct nic *nic)
{
	struct ufile *ufile;

	sim_log(nic->sim, "mlx5_%d is lost", nic->index);
	sim_tree_list(nic, false);
	sim_lock(nic->sim);
	nic->lost = true;
	list_for_each_entry (ufile, &nic->ufiles, nic_link) {
		__atomic_store_n(&ufile->lost, true, __ATOMIC_RELEASE);
		eventfd_write(ufile->wake, 1);
	}
	sim_unlock(nic->sim);
}

static void nic_return(struct nic *nic)
{
	sim_log(nic->sim, "mlx5_%d is back", nic->index);
	sim_lock(nic->sim);
	nic->lost = false;
	sim_unlock(nic->sim);
	sim_tree_list(nic, true);
}

/* Under sim->lock. */
static void tell_port(struct nic *nic, uint32_t type)
{
	const struct ib_uverbs_async_event_desc event = {.element = 1, .event_type = type};
	struct ufile *ufile;

	list_for_each_entry (ufile, &nic->ufiles, nic_link) {
		if (ufile->async)
			channel_send(ufile->async, &event, sizeof(event));
	}
}

/* The interface of a RoCE port loses its IPv4 address, which is the end of the table, or has it again. */
static void gid_set(struct nic *nic, bool there)
{
	if (!nic->sim->ethernet)
		return;
	sim_log(nic->sim, "mlx5_%d: IPv4 GIDs %s", nic->index, there ? "come" : "go");
	sim_lock(nic->sim);
	__atomic_store_n(&nic->n_gids, there ? SIM_GIDS_MAX : SIM_GIDS_MAX - 2, __ATOMIC_RELAXED);
	tell_port(nic, IBV_EVENT_GID_CHANGE);
	sim_unlock(nic->sim);
}

static void port_set(struct nic *nic, bool up)
{
	sim_log(nic->sim, "mlx5_%d: port is %s", nic->index, up ? "up" : "down");
	sim_lock(nic->sim);
	__atomic_store_n(&nic->port_down, !up, __ATOMIC_RELAXED);
	event_send_port(nic, up);
	tell_port(nic, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	sim_unlock(nic->sim);
	sim_tree_port(nic);
}

static const char *const names[] = {
	[HAPPEN_FATAL] = "fatal",
	[HAPPEN_RETURN] = "return",
	[HAPPEN_PORT_DOWN] = "port-down",
	[HAPPEN_PORT_UP] = "port-up",
	[HAPPEN_MTU_GONE] = "mtu-gone",
	[HAPPEN_MTU_BACK] = "mtu-back",
	[HAPPEN_GID_GONE] = "gid-gone",
	[HAPPEN_GID_BACK] = "gid-back",
	[HAPPEN_LANES_GONE] = "lanes-gone",
	[HAPPEN_LANES_BACK] = "lanes-back",
};

static void happen(struct nic *nic, enum happening what)
{
	switch (what) {
	case HAPPEN_FATAL:
		if (!nic->lost)
			nic_lose(nic);
		break;
	case HAPPEN_RETURN:
		if (nic->lost)
			nic_return(nic);
		break;
	case HAPPEN_PORT_DOWN:
	case HAPPEN_PORT_UP:
		if (nic->port_down == (what == HAPPEN_PORT_UP))
			port_set(nic, what == HAPPEN_PORT_UP);
		break;
	case HAPPEN_MTU_GONE:
	case HAPPEN_MTU_BACK:
		__atomic_store_n(&nic->mtu_gone, what == HAPPEN_MTU_GONE, __ATOMIC_RELAXED);
		break;
	case HAPPEN_GID_GONE:
	case HAPPEN_GID_BACK:
		gid_set(nic, what == HAPPEN_GID_BACK);
		break;
	case HAPPEN_LANES_GONE:
	case HAPPEN_LANES_BACK:
		__atomic_store_n(&nic->lanes_gone, what == HAPPEN_LANES_GONE, __ATOMIC_RELAXED);
		break;
	}
}

/* ---- the pipe -------------------------------------------------------------------------------------------------- */

static void obey(struct sim *sim, const char *line)
{
	char word[16];
	int nic;

	for (int what = 0; what <= HAPPEN_LANES_BACK; what++) {
		if (sscanf(line, "%15s %d", word, &nic) != 2 || nic < 0 || nic >= sim->n_nics)
			break;
		if (strcmp(word, names[what]) == 0) {
			happen(&sim->nics[nic], (enum happening)what);
			return;
		}
	}
	sim_log(sim, "control: not understood: %s", line);
}

int control_open(const struct sim *sim)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/control", sim->root);
	if (mkfifo(path, 0600) < 0)
		return -errno;
	/* Open for writing too, so that there is no end of file. */
	return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

void control_read(struct sim *sim, int control)
{
	char buf[PIPE_BUF + 1], *save = NULL;
	ssize_t n = read(control, buf, sizeof(buf) - 1);

	if (n <= 0)
		return;
	buf[n] = 0;
	for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		obey(sim, line);
}

/* ---- counts ---------------------------------------------------------------------------------------------------- */

int control_count_open(struct sim *sim)
{
	const size_t bytes = 4 * SIM_NICS_MAX * sizeof(*sim->n_commands);
	char path[PATH_MAX];
	void *map;
	int fd, r;

	snprintf(path, sizeof(path), "%s/commands", sim->root);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : 0;
	map = r < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r == 0 && map == MAP_FAILED)
		r = -errno;
	close(fd);
	if (r < 0)
		return r;
	sim->n_commands = map;
	sim->kill_at = sim->n_commands + SIM_NICS_MAX;
	sim->n_open = sim->kill_at + SIM_NICS_MAX;
	sim->n_objects = sim->n_open + SIM_NICS_MAX;
	return 0;
}

/* ---- times ----------------------------------------------------------------------------------------------------- */

static int64_t now_msec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int control_turn(struct sim *sim)
{
	int64_t now = now_msec(), next = INT_MAX;

	if (!sim->n_plans)
		return -1;
	if (!sim->first_open_msec) {
		sim_lock(sim);
		sim->first_open_msec = sim->n_ufiles ? now : 0;
		sim_unlock(sim);
		return sim->first_open_msec ? 0 : 100;
	}
	for (unsigned int i = 0; i < sim->n_plans; i++) {
		struct plan *plan = &sim->plans[i];
		int64_t left = sim->first_open_msec + plan->after_msec - now;

		if (plan->done)
			continue;
		if (left <= 0) {
			plan->done = true;
			happen(&sim->nics[0], plan->what);
		} else if (left < next) {
			next = left;
		}
	}
	return next == INT_MAX ? -1 : (int)next;
}

int control_plan(struct sim *sim, enum happening what, const char *text)
{
	struct plan *plan = &sim->plans[sim->n_plans];
	enum happening back = what == HAPPEN_FATAL ? HAPPEN_RETURN : HAPPEN_PORT_UP;
	unsigned int after, until;
	int n = 0, m = 0;

	if (sscanf(text, "%u%n,%u%n", &after, &n, &until, &m) < 1 || (text[n] && (!m || text[m])) ||
	    sim->n_plans + 2 > SIM_PLANS_MAX || after > INT_MAX / 2)
		return -EINVAL;
	*plan = (struct plan){.what = what, .after_msec = after};
	sim->n_plans++;
	if (!m)
		return 0;
	if (until < after || until > INT_MAX / 2)
		return -EINVAL;
	sim->plans[sim->n_plans++] = (struct plan){.what = back, .after_msec = until};
	return 0;
}
