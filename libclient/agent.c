/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory agent of a client: one thread for all of its NICs in software and all GPUs with regions that these reach.
 *
 * It works in rounds. A round looks at every ring, carries out what is there and posts completions; the thread looks on for SPIN_NSEC
 * behind the last request, and then a round ends with a sleep on the descriptors of all rings and one of its own. Everything that a round uses
 * stays until it is over: links and regions are taken off their lists under agent->lock, and freed once the next round has begun. So
 * the thread holds the lock only while it looks up addresses, never while it carries out.
 *
 * Ends: an error that a GPU's context does not get over, or closing, stores SHMD_AGENT_ENDED in every ring; from then on the NIC fails
 * requests. An error is printed, since no call of the program returns it, and is the reason why later regions are refused.
 *
 * Locks: callers hold client->lock before agent->lock; the thread takes agent->lock only. A forked child has no thread: there the
 * locks are not taken and nothing is stored in rings, which it shares with its parent.
 *
 * CUDA calls of the program that hold the driver's own lock while they wait for kernels (loading modules, and the first launch of a kernel that
 * CUDA loads then) stop the agent for as long as they take; so do eight streams that wait for values (cuStreamWaitValue64()). Closing the
 * client waits for the client's time limit, then leaves the rest to the thread.
 */
#include "libclient/agent.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/base/thread.h"

/* A wake costs some 50 us; a NIC that is at work asks again sooner. */
#define SPIN_NSEC (100 * NSEC_PER_USEC)
#define MAX_LINKS SHMD_HEALTH_NICS

/* One NIC. */
struct agent_link {
	struct list link;
	struct shmd_nic *nic;
	struct agent_ring ring;
	int wake_fd; /* the NIC writes it if the agent sleeps */
	struct shmd_gpu *pinned_by; /* the ring, in this context; or NULL */
};

struct agent {
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows, to the mark */
	pthread_cond_t changed;
	struct list links, regions;
	uint64_t n_rounds; /* begun */
	unsigned int n_waiters;
	bool stop, is_over; /* closing; the thread is behind its last round */
	struct shmd_client *left_client; /* closed without waiting for the thread, which ends it by end_client(); or NULL */
	void (*end_client)(struct shmd_client *client);
	int error; /* 0, or why it ended */
	char error_text[CLIENT_TEXT_BYTES];
	/* the mark */
	int kick_fd; /* eventfd: ends the thread's sleep */
	struct list gpus; /* agent_gpu.link; under client->lock */
	struct agent_op ops[SHMD_AGENT_ENTRIES]; /* the thread's */
};

/* The links that a round works on. */
struct round {
	struct agent_link *links[MAX_LINKS];
	unsigned int n;
};

/* ---- the thread ------------------------------------------------------------------------------------------------------ */

static bool round_begin(struct agent *agent, struct round *round)
{
	struct agent_link *link;
	bool goes_on;

	pthread_mutex_lock(&agent->lock);
	agent->n_rounds++;
	if (agent->n_waiters)
		pthread_cond_broadcast(&agent->changed);
	round->n = 0;
	list_for_each_entry(link, &agent->links, link)
		round->links[round->n++] = link;
	goes_on = !agent->stop && !agent->error;
	pthread_mutex_unlock(&agent->lock);
	return goes_on;
}

static void wake_nic(struct shmd_nic *nic)
{
	pthread_mutex_lock(&nic->doorbell_lock);
	if (nic->nic_page && nic->wake_fd >= 0 && __atomic_load_n(&nic->nic_page->asleep, __ATOMIC_RELAXED))
		shmd_dev_host_wake((uint64_t)nic->wake_fd);
	pthread_mutex_unlock(&nic->doorbell_lock);
}

static void fail(struct agent *agent, int err)
{
	pthread_mutex_lock(&agent->lock);
	agent->error = err;
	text_copy(agent->error_text, sizeof(agent->error_text), shmd_error_text());
	pthread_mutex_unlock(&agent->lock);
	fprintf(stderr, "shmemclient: the memory agent has ended, and NICs in software reach no GPU memory of this process any more: %s\n",
		shmd_error_text());
}

/* True if there was something to do. */
static bool serve(struct agent *agent, struct agent_link *link)
{
	unsigned int n;
	int r;

	if (!agent_ring_has_news(&link->ring))
		return false;
	pthread_mutex_lock(&agent->lock);
	n = agent_ring_take(&link->ring, &agent->regions, agent->ops, SHMD_AGENT_ENTRIES);
	pthread_mutex_unlock(&agent->lock);
	r = agent_gpu_carry_out(agent->ops, n);
	if (r < 0)
		fail(agent, r);
	else
		agent_ring_complete(&link->ring, agent->ops, n);
	wake_nic(link->nic);
	return true;
}

static bool serve_all(struct agent *agent, const struct round *round)
{
	bool is_busy = false;

	for (unsigned int i = 0; i < round->n; i++)
		is_busy |= serve(agent, round->links[i]);
	return is_busy;
}

static void take_wake(const struct pollfd *pfd)
{
	uint64_t count;

	/* Only this thread reads it, and it is readable. */
	if (pfd->revents && read(pfd->fd, &count, sizeof(count)) < 0)
		return;
}

static void sleep_round(struct agent *agent, const struct round *round)
{
	struct pollfd pfds[1 + MAX_LINKS] = {{.fd = agent->kick_fd, .events = POLLIN}};
	bool has_news = false;

	for (unsigned int i = 0; i < round->n; i++) {
		pfds[1 + i] = (struct pollfd){.fd = round->links[i]->wake_fd, .events = POLLIN};
		agent_ring_set_asleep(&round->links[i]->ring, true);
		has_news |= agent_ring_has_news(&round->links[i]->ring);
	}
	if (!has_news)
		(void)poll(pfds, 1 + round->n, -1);
	for (unsigned int i = 0; i < round->n; i++)
		agent_ring_set_asleep(&round->links[i]->ring, false);
	for (unsigned int i = 0; i <= round->n; i++)
		take_wake(&pfds[i]);
}

/* Returns the client that nobody else ends. */
static struct shmd_client *say_over(struct agent *agent)
{
	struct shmd_client *client;
	struct agent_link *link;

	pthread_mutex_lock(&agent->lock);
	list_for_each_entry(link, &agent->links, link) {
		agent_ring_set_state(&link->ring, SHMD_AGENT_ENDED);
		wake_nic(link->nic);
	}
	agent->is_over = true;
	client = agent->left_client;
	pthread_cond_broadcast(&agent->changed);
	pthread_mutex_unlock(&agent->lock);
	return client;
}

static void *agent_run(void *arg)
{
	struct agent *agent = arg;
	struct shmd_client *client;
	struct round round;
	uint64_t idle_since = nsec_now();

	while (round_begin(agent, &round)) {
		if (serve_all(agent, &round)) {
			idle_since = nsec_now();
		} else if (nsec_now() - idle_since < SPIN_NSEC) {
			shmd_dev_host_relax(0);
		} else {
			sleep_round(agent, &round);
			idle_since = nsec_now();
		}
	}
	client = say_over(agent);
	if (client)
		agent->end_client(client);
	return NULL;
}

static void kick(struct agent *agent)
{
	shmd_dev_host_wake((uint64_t)agent->kick_fd);
}

/* Waits until `n` more rounds have begun, with agent->lock held: what was taken off a list is unused when the next one has. */
static int wait_rounds(struct agent *agent, unsigned int n, uint64_t timeout_nsec)
{
	const struct timespec until = nsec_to_timespec(nsec_add(nsec_now(), timeout_nsec));
	uint64_t wanted = agent->n_rounds + n;
	int err = 0;

	agent->n_waiters++;
	while (!err && !agent->is_over && agent->n_rounds < wanted) {
		kick(agent);
		err = timeout_nsec == UINT64_MAX ? pthread_cond_wait(&agent->changed, &agent->lock)
						 : pthread_cond_timedwait(&agent->changed, &agent->lock, &until);
	}
	agent->n_waiters--;
	return !agent->is_over && agent->n_rounds < wanted ? -ETIMEDOUT : 0;
}

/* ---- its parts: client->lock is held ---------------------------------------------------------------------------------- */

static void init_lock(struct agent *agent)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&agent->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&agent->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static int start(struct shmd_client *client)
{
	struct agent *agent = calloc(1, sizeof(*agent));
	int r;

	if (!agent)
		return text_fail(-ENOMEM, "no memory for a memory agent");
	init_lock(agent);
	list_init(&agent->links);
	list_init(&agent->regions);
	list_init(&agent->gpus);
	agent->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = agent->kick_fd < 0 ? -errno : thread_start(&agent->thread, 0, "shmd-agent", agent_run, agent);
	if (r < 0) {
		safe_close(agent->kick_fd);
		free(agent);
		return text_fail(r, "cannot start the memory agent: %s", strerror(-r));
	}
	client->agent = agent;
	return 0;
}

static int check_alive(struct agent *agent)
{
	char why[CLIENT_TEXT_BYTES];
	int r;

	pthread_mutex_lock(&agent->lock);
	r = agent->error;
	text_copy(why, sizeof(why), agent->error_text);
	pthread_mutex_unlock(&agent->lock);
	return r < 0 ? text_fail(r, "the memory agent has ended: %s", why) : 0;
}

static void link_free(struct agent_link *link)
{
	if (link->pinned_by)
		agent_gpu_unpin(link->pinned_by, link->ring.map);
	agent_ring_free(&link->ring);
	safe_close(link->wake_fd);
	free(link);
}
DEFINE_CLEANUP(struct agent_link *, link_free);

static int attach(struct agent_link *link)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_AGENT_ATTACH_REQ, MSG_AGENT_ATTACH_REP);
	call.req.agent_attach_req.nic = link->nic->info.index;
	call.fd = link->ring.fd;
	r = request_call_locked(link->nic->client, &call);
	if (!r)
		r = link->wake_fd = request_take_fd(&call, call.rep.agent_attach_rep.wake_fd);
	if (r < 0)
		return r;
	link->ring.fd = safe_close(link->ring.fd);
	return 0;
}

/* The ring is pinned in the context of the GPU that came first. */
static int link_make(struct shmd_nic *nic, struct shmd_gpu *gpu, struct agent_link **ret_link)
{
	_cleanup_(link_freep) struct agent_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return text_fail(-ENOMEM, "no memory for a memory agent");
	link->nic = nic;
	link->wake_fd = link->ring.fd = -1;
	r = agent_ring_make(&link->ring);
	if (!r)
		r = agent_gpu_pin(gpu, link->ring.map, agent_ring_bytes());
	if (r < 0)
		return r;
	link->pinned_by = gpu;
	agent_ring_set_state(&link->ring, SHMD_AGENT_RUNNING);
	r = attach(link);
	if (r < 0)
		return r;
	*ret_link = take_ptr(link);
	return 0;
}

static struct agent_link *find_link(const struct agent *agent, const struct shmd_nic *nic)
{
	struct agent_link *link;

	list_for_each_entry(link, &agent->links, link)
		if (link->nic == nic)
			return link;
	return NULL;
}

static int get_link(struct agent *agent, struct shmd_nic *nic, struct shmd_gpu *gpu)
{
	struct agent_link *link = NULL;
	int r;

	/* Lists change under client->lock too. */
	if (find_link(agent, nic))
		return 0;
	r = link_make(nic, gpu, &link);
	if (r < 0)
		return r;
	pthread_mutex_lock(&agent->lock);
	list_add_tail(&agent->links, &link->link);
	if (agent->is_over)
		agent_ring_set_state(&link->ring, SHMD_AGENT_ENDED);
	pthread_mutex_unlock(&agent->lock);
	kick(agent);
	return 0;
}

static int get_gpu(struct agent *agent, struct shmd_gpu *gpu, struct agent_gpu **ret_gpu)
{
	struct agent_gpu *agent_gpu;
	int r;

	list_for_each_entry(agent_gpu, &agent->gpus, link)
		if (agent_gpu->gpu == gpu) {
			*ret_gpu = agent_gpu;
			return 0;
		}
	r = agent_gpu_new(gpu, ret_gpu);
	if (!r)
		list_add_tail(&agent->gpus, &(*ret_gpu)->link);
	return r;
}

static void put_gpu(struct agent_gpu *agent_gpu)
{
	if (!--agent_gpu->n_regions)
		agent_gpu_free(agent_gpu);
}

/* ---- regions ---------------------------------------------------------------------------------------------------------- */

static int region_add(struct shmd_nic *nic, struct shmd_gpu *gpu, struct agent_region *region)
{
	struct shmd_client *client = nic->client;
	int r = client->agent ? check_alive(client->agent) : start(client);

	if (!r)
		r = get_link(client->agent, nic, gpu);
	if (!r)
		r = get_gpu(client->agent, gpu, &region->gpu);
	if (r < 0)
		return r;
	region->gpu->n_regions++;
	pthread_mutex_lock(&client->agent->lock);
	list_add_tail(&client->agent->regions, &region->link);
	pthread_mutex_unlock(&client->agent->lock);
	return 0;
}

int agent_region_add(struct shmd_nic *nic, struct shmd_gpu *gpu, uint64_t addr, uint64_t bytes, struct agent_region **ret_region)
{
	_cleanup_free_ struct agent_region *region = calloc(1, sizeof(*region));
	int r;

	if (!region)
		return text_fail(-ENOMEM, "no memory for a region of the memory agent");
	list_init(&region->link);
	region->addr = addr;
	region->bytes = bytes;
	client_lock(nic->client);
	r = region_add(nic, gpu, region);
	client_unlock(nic->client);
	if (r < 0)
		return r;
	*ret_region = take_ptr(region);
	return 0;
}

int agent_region_end(struct shmd_client *client, struct agent_region *region)
{
	struct agent *agent = client->agent;
	int r;

	pthread_mutex_lock(&agent->lock);
	list_del(&region->link);
	/* The round under way may have looked at a ring before the NIC's last request was there: the next one carries that out. */
	r = wait_rounds(agent, 2, client_timeout_nsec(client));
	/* It still belongs to the agent, which frees what is left. The NIC asks for nothing there. */
	if (r < 0)
		list_add_tail(&agent->regions, &region->link);
	pthread_mutex_unlock(&agent->lock);
	if (r < 0)
		return text_fail(r, "the GPU has not carried out a NIC's requests for this memory in time; it is still in use");
	client_lock(client);
	put_gpu(region->gpu);
	client_unlock(client);
	free(region);
	return 0;
}

/* ---- ends ------------------------------------------------------------------------------------------------------------- */

int agent_forget_nic(struct shmd_nic *nic)
{
	struct agent *agent = nic->client->agent;
	struct agent_link *link = agent ? find_link(agent, nic) : NULL;
	int r;

	if (!link)
		return 0;
	pthread_mutex_lock(&agent->lock);
	list_del(&link->link);
	/* A NIC with regions is not freed, but the round may hold requests of other NICs. */
	r = wait_rounds(agent, 1, client_timeout_nsec(nic->client));
	if (r < 0)
		list_add_tail(&agent->links, &link->link);
	else
		agent_ring_set_state(&link->ring, SHMD_AGENT_ENDED);
	pthread_mutex_unlock(&agent->lock);
	if (r < 0)
		return text_fail(r, "a GPU has not carried out requests of NICs in time; the NIC is still open");
	link_free(link);
	return 0;
}

/* With the lock. False after the time limit. */
static bool wait_over(struct agent *agent, uint64_t timeout_nsec)
{
	const struct timespec until = nsec_to_timespec(nsec_add(nsec_now(), timeout_nsec));
	int err = 0;

	while (!err && !agent->is_over)
		err = pthread_cond_timedwait(&agent->changed, &agent->lock, &until);
	return agent->is_over;
}

bool agent_stop(struct shmd_client *client, void (*end_client)(struct shmd_client *client))
{
	struct agent *agent = client->agent;
	pthread_t thread;
	bool is_over;

	if (!agent)
		return true;
	thread = agent->thread;
	pthread_mutex_lock(&agent->lock);
	agent->stop = true;
	agent->end_client = end_client;
	kick(agent);
	is_over = wait_over(agent, client_timeout_nsec(client));
	/* Under the same lock in which the thread says that it is over: one of the two ends the client. */
	if (!is_over)
		agent->left_client = client;
	pthread_mutex_unlock(&agent->lock);
	if (is_over)
		pthread_join(thread, NULL);
	else
		pthread_detach(thread);
	return is_over;
}

void agent_free(struct shmd_client *client)
{
	struct agent *agent = client->agent;
	struct agent_region *region, *next_region;
	struct agent_link *link, *next_link;
	struct agent_gpu *gpu, *next_gpu;

	if (!agent)
		return;
	list_for_each_entry_safe(region, next_region, &agent->regions, link)
		free(region);
	list_for_each_entry_safe(gpu, next_gpu, &agent->gpus, link)
		agent_gpu_free(gpu);
	list_for_each_entry_safe(link, next_link, &agent->links, link)
		link_free(link);
	safe_close(agent->kick_fd);
	client->agent = NULL;
	free(agent);
}
