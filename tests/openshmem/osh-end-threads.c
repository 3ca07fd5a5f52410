/* SPDX-License-Identifier: Apache-2.0 */
/* osh-end: programs with threads, sections 9.2, 9.1.6 and 3. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/openshmem/osh-end.h"
#include "tests/openshmem/osh.h"

/* 9.2, 9.2.1: with MULTIPLE any thread calls at any time; with SERIALIZED one at a time, with FUNNELED and SINGLE the first. */
static long *counters; /* symmetric: one of each thread */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
#define N_THREADS 4
#define N_ADDS 200

static void add(long *counter, int level)
{
	shmem_ctx_t ctx = SHMEM_CTX_INVALID;

	if (level == SHMEM_THREAD_SERIALIZED)
		pthread_mutex_lock(&one_at_a_time);
	CHECK(shmem_ctx_create(0, &ctx) == 0);
	shmem_ctx_long_atomic_add(ctx, counter, 1, next_pe());
	shmem_ctx_quiet(ctx);
	shmem_ctx_destroy(ctx);
	shmem_long_atomic_inc(counter, next_pe());
	if (level == SHMEM_THREAD_SERIALIZED)
		pthread_mutex_unlock(&one_at_a_time);
}

static void *add_multiple(void *counter)
{
	for (int i = 0; i < N_ADDS; i++)
		add(counter, SHMEM_THREAD_MULTIPLE);
	return NULL;
}

static void *add_serialized(void *counter)
{
	for (int i = 0; i < N_ADDS; i++)
		add(counter, SHMEM_THREAD_SERIALIZED);
	return NULL;
}

static void use_threads(int level)
{
	int n = level >= SHMEM_THREAD_SERIALIZED ? N_THREADS : 1;
	pthread_t ids[N_THREADS];

	counters = shmem_calloc(N_THREADS, sizeof(*counters));
	for (int i = 1; i < n; i++)
		CHECK(!pthread_create(&ids[i], NULL, level == SHMEM_THREAD_MULTIPLE ? add_multiple : add_serialized, &counters[i]));
	if (level == SHMEM_THREAD_MULTIPLE)
		add_multiple(&counters[0]);
	else
		add_serialized(&counters[0]);
	for (int i = 1; i < n; i++)
		CHECK(!pthread_join(ids[i], NULL));
	shmem_barrier_all();
	for (int i = 0; i < N_THREADS; i++)
		CHECK(counters[i] == (i < n ? 2 * N_ADDS : 0));
}

/* 9.2.1, 9.2.2: a known level is provided, and later calls do not lower it. */
int way_threads(void)
{
	int provided = -1, asked = -1;

	if (shmem_init_thread(77, &provided) == 0)
		return 1;
	CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0 && provided == SHMEM_THREAD_MULTIPLE);
	shmem_query_thread(&asked);
	CHECK(asked == SHMEM_THREAD_MULTIPLE);
	CHECK(shmem_init_thread(SHMEM_THREAD_SINGLE, &provided) == 0 && provided == SHMEM_THREAD_MULTIPLE);
	shmem_finalize();
	shmem_finalize();
	for (int level = SHMEM_THREAD_SINGLE; level <= SHMEM_THREAD_MULTIPLE; level++) {
		CHECK(shmem_init_thread(level, &provided) == 0 && provided >= level);
		use_threads(level);
		shmem_finalize();
	}
	return 0;
}

/* Each thread has its words and its sets: those of two and three PEs that begin at its number. */
#define N_SET_THREADS 6
#define N_SET_ROUNDS 20

struct set_user {
	pthread_t thread;
	int number;
	long *word; /* symmetric */
};

static void use_set(const struct set_user *user, int start, int size)
{
	static long sync[N_SET_THREADS][SHMEM_BARRIER_SYNC_SIZE];
	int at = shmem_my_pe() - start;

	if (at < 0 || at >= size)
		return;
	for (int round = 1; round <= N_SET_ROUNDS; round++) {
		shmem_long_p(user->word, round * 10 + size, start + (at + 1) % size);
		shmem_barrier(start, 0, size, sync[user->number]);
		CHECK(*user->word == round * 10 + size);
		(shmem_sync)(start, 0, size, sync[user->number]);
	}
}

static void *use_sets(void *arg)
{
	const struct set_user *user = arg;
	int n = shmem_n_pes(), size = 2 + user->number % (n - 1);

	use_set(user, (user->number + user->number / (n - 1)) % (n - size + 1), size);
	return NULL;
}

/* 9.10.2 with 9.2: threads on sets of their own, of which there are more at a time than teams. */
int way_sets_of_threads(void)
{
	struct set_user users[N_SET_THREADS];
	int provided;
	long *words;

	CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
	words = shmem_calloc(N_SET_THREADS, sizeof(*words));
	for (int i = 0; i < N_SET_THREADS; i++) {
		users[i] = (struct set_user){.number = i, .word = &words[i]};
		CHECK(!pthread_create(&users[i].thread, NULL, use_sets, &users[i]));
	}
	for (int i = 0; i < N_SET_THREADS; i++)
		CHECK(!pthread_join(users[i].thread, NULL));
	shmem_finalize();
	return 0;
}

static void *exit_all(void *unused)
{
	(void)unused;
	shmem_global_exit(6);
}

/* 9.1.6: in any thread, while the others of its PE are in the library. */
int way_exit_of_thread(void)
{
	pthread_t thread;
	int provided;
	long *word;

	CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
	word = shmem_calloc(1, sizeof(*word));
	CHECK(shmem_my_pe() || !pthread_create(&thread, NULL, exit_all, NULL));
	/* It never comes. */
	shmem_long_wait_until(word, SHMEM_CMP_NE, 0);
	return 99;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* The library leaves data where it is, or stops no thread while it moves. */
int way_no_ptrace(void)
{
	fprintf(stderr, "the threads of the program could not be stopped: there is no need to\n");
	return 0;
}
#else
/* As containers do: ptrace fails with EPERM, other system calls pass. */
static int forbid_ptrace(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static long filled[1000] = {1, 2, 3}; /* data of the program, which a thread reads while it moves */
static int is_over;

static void *read_data(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		if (__atomic_load_n(&filled[2], __ATOMIC_RELAXED) != 3)
			abort();
	return NULL;
}

/* 3: the data of the program moves beside a thread that cannot be stopped, says so in a line, and is symmetric all the same. */
int way_no_ptrace(void)
{
	pthread_t thread;

	if (forbid_ptrace() || pthread_create(&thread, NULL, read_data, NULL))
		return 1;
	shmem_init();
	CHECK(shmem_addr_accessible(filled, next_pe()) == 1 && filled[0] == 1 && filled[2] == 3);
	shmem_long_p(&filled[1], 100 + shmem_my_pe(), next_pe());
	shmem_barrier_all();
	CHECK(filled[1] == 100 + previous_pe());
	shmem_finalize();
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	return pthread_join(thread, NULL) || filled[2] != 3;
}
#endif
