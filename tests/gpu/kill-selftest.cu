/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PE, a memory agent or the daemon dies while kernels of all PEs wait: each call of a kernel returns a status within its limit. gpu-kill.py runs it
 * many times. usage: shmemctl run --keep-going -n 3 gpu-kill-selftest WHO PATH DELAY_MSEC
 *
 *	WHO	nobody; pe: the last PE kills itself; agent: it ends the thread that is its memory agent, without notice; daemon: gpu-kill.py
 *		kills shmemd when all PEs have said that they wait
 *	PATH	mapped, queues
 *
 * First all PEs exchange data and check it, as proof that the death before has left nothing behind. It returns 0 if all was so, 1 if not, and 77
 * without a GPU.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <shmd.h>
#include <shmd/dev/coll.h>
#include <shmd/dev/pe.h>

#define N_THREADS 64u
#define BYTES 20000u
#define LIMIT_NSEC 2000000000ull /* of each call */
#define SLACK_NSEC 1500000000ull /* GPUs that are shared take turns */
#define LAST_RESORT_SEC 40

/* The blocks of a PE do all of this at once. The last PE takes no part in the syncs, so nothing but its death or the limit ends them. */
enum part { PART_WAIT, PART_SYNC, PART_REDUCE, PART_PUTS, N_PARTS };
static const char *const part_names[N_PARTS] = {"wait", "sync", "reduce", "puts"};

struct report {
	volatile uint32_t is_waiting, has_ended;
	int status;
	uint64_t nsec; /* that the call, or the newest of the puts, took */
};

struct test {
	struct shmd_dev_ctx *ctx;
	struct shmd_dev_team *team, *other; /* of all PEs */
	uint8_t *source, *dest; /* BYTES each */
	uint64_t *words;
	struct report *reports; /* N_PARTS; memory of the host */
	uint32_t *n_wrong; /* of the host, too */
	uint32_t me, n;
};

/* ---- kernels */

static __device__ uint64_t now_nsec(void)
{
	uint64_t nsec;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nsec));
	return nsec;
}

static __device__ struct shmd_dev_mode mode_of(const struct test &t)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(t.ctx, SHMD_DEV_BLOCK);

	mode.timeout_nsec = LIMIT_NSEC;
	return mode;
}

static __device__ uint8_t pattern(uint32_t i, uint32_t pe)
{
	return (uint8_t)(i * 7 + pe * 131 + 3);
}

static __global__ void exchange(struct test t)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(t.ctx, SHMD_DEV_BLOCK);
	uint32_t right = (t.me + 1) % t.n, left = (t.me + t.n - 1) % t.n;
	struct shmd_dev_put_item put = {t.dest, t.source, BYTES, right};
	int status;

	for (uint32_t i = threadIdx.x; i < BYTES; i += blockDim.x)
		t.source[i] = pattern(i, t.me);
	__syncthreads();
	status = shmd_dev_put_signal_as(t.ctx, put, shmd_dev_pe_signal_of(&t.words[0], SHMD_DEV_SIGNAL_SET, 1), mode);
	if (!status)
		status = shmd_dev_wait_until_as(t.ctx, &t.words[0], 8, SHMD_DEV_CMP_EQ, 1, mode);
	for (uint32_t i = threadIdx.x; !status && i < BYTES; i += blockDim.x)
		if (*(volatile uint8_t *)&t.dest[i] != pattern(i, left))
			atomicAdd_system(t.n_wrong, 1);
	if (!status)
		status = shmd_dev_team_barrier_as(t.ctx, t.team, mode);
	if (status && threadIdx.x == 0)
		atomicAdd_system(t.n_wrong, 1);
}

static __device__ int reduce(const struct test &t)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(t.dest, t.source, 100, SHMD_DEV_TYPE_FLOAT, SHMD_DEV_REDUCE_SUM);

	return shmd_dev_reduce_as(t.ctx, t.other, &args, mode_of(t));
}

/* To the PE that dies, or to the one that lives, until one fails. */
static __device__ int puts(const struct test &t, uint64_t *begin)
{
	struct shmd_dev_mode mode = mode_of(t);
	uint64_t end = now_nsec() + 2 * LIMIT_NSEC;
	uint32_t to = t.me == t.n - 1 ? 0 : t.n - 1;
	int status = SHMD_DEV_OK;

	/* All threads of the block end together. */
	while (!status && !__syncthreads_or(now_nsec() >= end)) {
		*begin = now_nsec();
		status = shmd_dev_put_as(t.ctx, t.dest + 8 * t.me, t.source, 8, to, mode);
		if (!status)
			status = shmd_dev_quiet_as(t.ctx, mode);
	}
	return status;
}

static __global__ void wait_for_death(struct test t, bool takes_part)
{
	struct report *report = &t.reports[blockIdx.x];
	uint64_t begin = now_nsec();
	int status = SHMD_DEV_OK;

	if (threadIdx.x == 0)
		report->is_waiting = 1;
	if (blockIdx.x == PART_WAIT)
		status = shmd_dev_wait_until_as(t.ctx, &t.words[1], 8, SHMD_DEV_CMP_EQ, 1, mode_of(t));
	else if (blockIdx.x == PART_SYNC && takes_part)
		status = shmd_dev_team_sync_as(t.ctx, t.team, mode_of(t));
	else if (blockIdx.x == PART_REDUCE && takes_part)
		status = reduce(t);
	else if (blockIdx.x == PART_PUTS)
		status = puts(t, &begin);
	if (threadIdx.x == 0) {
		report->status = status;
		report->nsec = now_nsec() - begin;
		__threadfence_system();
		report->has_ended = 1;
	}
}

/* ---- the host */

static void cuda(const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "gpu-kill-selftest: %s: %s\n", what, cudaGetErrorString(error));
	_exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "gpu-kill-selftest: %s: %s\n", what, shmd_error_text());
	_exit(1);
}

static void sleep_msec(long msec)
{
	const struct timespec time = {msec / 1000, msec % 1000 * 1000000};

	nanosleep(&time, NULL);
}

/* The library's threads take no signals. Here they take the one that ends an agent. */
struct thread_start {
	void *(*run)(void *arg);
	void *arg;
};

static void *run_thread(void *arg)
{
	struct thread_start start = *(struct thread_start *)arg;
	sigset_t signals;

	free(arg);
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	return start.run(start.arg);
}

/* In place of libc's, also for the library. */
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg) noexcept
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
	struct thread_start *start = (struct thread_start *)malloc(sizeof(*start));

	if (!create || !start)
		abort();
	start->run = run;
	start->arg = arg;
	return create(thread, attr, run_thread, start);
}

/* Only the thread that gets the signal ends, and gives nothing back. */
static void end_thread(int number)
{
	(void)number;
	syscall(SYS_exit, 0);
}

/* The thread called shmd-agent. */
static int find_agent(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	int found = 0;

	while (tasks && !found && (task = readdir(tasks))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && !strcmp(name, "shmd-agent\n"))
			found = atoi(task->d_name);
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static void kill_agent(void)
{
	struct sigaction action = {};
	int thread = find_agent();

	if (!thread) {
		fprintf(stderr, "gpu-kill-selftest: no memory agent\n");
		_exit(1);
	}
	action.sa_handler = end_thread;
	sigaction(SIGUSR1, &action, NULL);
	syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
}

static void die(const char *who, long delay_msec)
{
	sleep_msec(delay_msec);
	if (!strcmp(who, "pe"))
		kill(getpid(), SIGKILL);
	if (!strcmp(who, "agent"))
		kill_agent();
}

static void check_exchange(struct test *t)
{
	exchange<<<1, N_THREADS>>>(*t);
	cuda("exchange", cudaDeviceSynchronize());
	if (!*t->n_wrong)
		return;
	fprintf(stderr, "gpu-kill-selftest: PE %u: the exchange before has failed: %u\n", t->me, *t->n_wrong);
	_exit(1);
}

static void wait_until_waiting(struct test *t)
{
	for (int i = 0; i < N_PARTS; i++)
		while (!t->reports[i].is_waiting)
			sleep_msec(1);
	printf("PE %u waits\n", t->me);
	fflush(stdout);
}

/* Waits that nobody ends must have failed, and puts by an agent that has ended. Puts to a PE that is mapped, or whose agent is there, may go on. */
static bool is_good(const struct report *report, int part, bool takes_part, bool has_agent_died)
{
	bool must_fail = part == PART_WAIT || (takes_part && (part == PART_SYNC || part == PART_REDUCE || has_agent_died));

	return report->has_ended && report->nsec <= LIMIT_NSEC + SLACK_NSEC && (!must_fail || report->status < 0);
}

static int judge(const struct test *t, bool takes_part, bool has_agent_died)
{
	bool all_good = true;

	printf("PE %u:", t->me);
	for (int i = 0; i < N_PARTS; i++) {
		const struct report *report = &t->reports[i];
		bool good = is_good(report, i, takes_part, has_agent_died);

		printf(" %s %d after %.0f ms%s;", part_names[i], report->status, (double)report->nsec / 1e6, good ? "" : " WRONG");
		all_good &= good;
	}
	printf("\n");
	fflush(stdout);
	return all_good ? 0 : 1;
}

static void prepare(struct shmd_world *world, struct test *t)
{
	uint64_t ctx, team, other;
	struct shmd_team *split;
	void *memory;

	must(shmd_team_split_strided(shmd_team_world(world), 0, 1, shmd_n_pes(world), &split), "split");
	must(shmd_calloc(world, 1, 2 * BYTES + 2 * sizeof(uint64_t), SHMD_HINT_GPU, &memory), "allocate GPU memory");
	must(shmd_ctx_gpu_dev(shmd_world_ctx(world), &ctx), "the context");
	must(shmd_team_gpu_dev(shmd_team_world(world), &team), "the team");
	must(shmd_team_gpu_dev(split, &other), "the team of a split");
	t->ctx = (struct shmd_dev_ctx *)ctx;
	t->team = (struct shmd_dev_team *)team;
	t->other = (struct shmd_dev_team *)other;
	t->source = (uint8_t *)memory;
	t->dest = t->source + BYTES;
	t->words = (uint64_t *)(t->dest + BYTES);
	t->me = (uint32_t)shmd_my_pe(world);
	t->n = (uint32_t)shmd_n_pes(world);
	cuda("allocate reports", cudaHostAlloc((void **)&t->reports, N_PARTS * sizeof(*t->reports), cudaHostAllocMapped));
	memset(t->reports, 0, N_PARTS * sizeof(*t->reports));
	cuda("allocate a count", cudaHostAlloc((void **)&t->n_wrong, sizeof(*t->n_wrong), cudaHostAllocMapped));
	*t->n_wrong = 0;
}

static void choose_gpu(void)
{
	const char *rank = getenv("SHMD_NODE_RANK");
	int n = 0;

	cuda("count the GPUs", cudaGetDeviceCount(&n));
	cuda("choose the GPU", cudaSetDevice(rank ? atoi(rank) % n : 0));
	/* No launch may wait for kernels that wait. */
	cuda("set the stack", cudaDeviceSetLimit(cudaLimitStackSize, 2048));
}

int main(int argc, char **argv)
{
	struct shmd_world_attr attr = {};
	struct shmd_world *world;
	struct test t = {};
	bool is_victim, takes_part;

	if (argc != 4) {
		fprintf(stderr, "usage: shmemctl run --keep-going -n 3 gpu-kill-selftest nobody|pe|agent|daemon mapped|queues DELAY_MSEC\n");
		return 2;
	}
	alarm(LAST_RESORT_SEC);
	choose_gpu();
	attr.gpu = "current";
	attr.paths = strcmp(argv[2], "queues") ? 0 : SHMD_ALLOW_QUEUE;
	must(shmd_world_open(&attr, &world), "open the world");
	must(shmd_world_start(world), "start the world");
	prepare(world, &t);
	check_exchange(&t);
	if (!strcmp(argv[1], "nobody")) {
		must(shmd_world_close(world), "close the world");
		return 0;
	}
	takes_part = t.me != t.n - 1;
	is_victim = !takes_part && strcmp(argv[1], "daemon");
	wait_for_death<<<N_PARTS, N_THREADS>>>(t, takes_part);
	cuda("launch", cudaGetLastError());
	wait_until_waiting(&t);
	if (is_victim)
		die(argv[1], atol(argv[3]));
	cuda("wait for the kernel", cudaDeviceSynchronize());
	/* The world is not whole any more. */
	_exit(judge(&t, takes_part, !strcmp(argv[1], "agent")));
}
