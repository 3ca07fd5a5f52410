/* SPDX-License-Identifier: Apache-2.0 */
/* Saved state: a writer is killed after every instruction, bytes are changed, versions come, it grows. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/restart/state.h"
#include "proto/base/cleanup.h"
#include "tests/lib/test.h"

static void fill(unsigned char *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

static int make_memfd(size_t n, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_OK(ftruncate(fd, (off_t)n));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

/* A copy: the process that opens a state finishes what its writer did not finish. */
static struct state *open_bytes(const void *bytes, size_t n)
{
	int fd = make_memfd(n, F_SEAL_SHRINK);
	struct state *again;

	ASSERT_EQ(pwrite(fd, bytes, n, 0), (ssize_t)n);
	ASSERT_OK(state_open(fd, &again));
	return again;
}

static unsigned char *copy_file(const struct state *state, size_t *ret_n)
{
	unsigned char *bytes;
	struct stat st;

	ASSERT_OK(fstat(state_fd(state), &st));
	*ret_n = (size_t)st.st_size;
	bytes = malloc(*ret_n);
	ASSERT(bytes);
	ASSERT_EQ(pread(state_fd(state), bytes, *ret_n, 0), (ssize_t)*ret_n);
	return bytes;
}

/* The bytes that the next daemon would read. */
static struct state *open_again(const struct state *state)
{
	size_t n;
	unsigned char *bytes = copy_file(state, &n);
	struct state *again = open_bytes(bytes, n);

	free(bytes);
	return again;
}

static bool is_read(struct state *state, const void *want, size_t n)
{
	const void *bytes;
	uint32_t version;
	size_t size;

	return state_read(state, &version, &bytes, &size) == 0 && version == STATE_VERSION && size == n &&
	       (n == 0 || memcmp(bytes, want, n) == 0);
}

static void assert_kept(const struct state *state, const void *want, size_t n)
{
	struct state *again = open_again(state);

	ASSERT(is_read(again, want, n));
	state_free(again);
}

TEST(last_write_is_read_by_the_next_open)
{
	unsigned char bytes[300];
	struct state *state;
	const void *read;
	uint32_t version;
	size_t n;

	ASSERT_OK(state_new(&state));
	ASSERT_ERR(state_read(state, &version, &read, &n), EBADMSG);
	for (unsigned int i = 0; i < 300; i++) {
		fill(bytes, sizeof(bytes), i);
		ASSERT_OK(state_write(state, bytes, i));
		ASSERT(is_read(state, bytes, i));
		assert_kept(state, bytes, i);
	}
	state_free(state);
}

TEST(state_grows_and_shrinks_in_a_file_of_six_times_its_size)
{
	const size_t most = 1 << 20;
	unsigned char *bytes = malloc(most);
	struct state *state;
	struct stat st;

	ASSERT_OK(state_new(&state));
	for (size_t n = 1; n <= most; n = n * 3 / 2 + 1) {
		fill(bytes, n, (unsigned int)n);
		ASSERT_OK(state_write(state, bytes, n));
		assert_kept(state, bytes, n);
	}
	for (size_t n = most; n > 0; n /= 3) {
		fill(bytes, n, (unsigned int)n);
		ASSERT_OK(state_write(state, bytes, n));
		assert_kept(state, bytes, n);
	}
	ASSERT_OK(fstat(state_fd(state), &st));
	ASSERT_LE((size_t)st.st_size, 6 * most + 4 * 4096);
	ASSERT_ERR(state_write(state, bytes, STATE_MAX_BYTES + 1), EFBIG);
	assert_kept(state, bytes, 1);
	state_free(state);
	free(bytes);
}

/* ---- killed --------------------------------------------------------------------------------------------------------- */

/*
 * Several records, which change together: one comes, one goes, one changes, one becomes so large that it moves, and one stays.
 * A reader gets all of them, one behind the other.
 */
enum { COMES = 7, GOES = 5, CHANGES = 9, MOVES = 3, STAYS = 4, LARGE = 200, SMALL = 20 };

static size_t add(unsigned char *to, unsigned int seed, size_t n)
{
	fill(to, n, seed);
	return n;
}

static size_t records_before(unsigned char *all)
{
	size_t n = add(all, MOVES, SMALL);

	n += add(all + n, STAYS, SMALL);
	n += add(all + n, GOES, SMALL);
	return n + add(all + n, CHANGES, SMALL);
}

static size_t records_after(unsigned char *all)
{
	size_t n = add(all, MOVES + 100, LARGE);

	n += add(all + n, STAYS, SMALL);
	n += add(all + n, COMES, SMALL);
	return n + add(all + n, CHANGES + 100, SMALL);
}

static void put(struct state *state, uint64_t key, unsigned int seed, size_t n)
{
	unsigned char bytes[LARGE];

	fill(bytes, n, seed);
	state_put(state, key, bytes, n);
}

static void stage_before(struct state *state)
{
	put(state, MOVES, MOVES, SMALL);
	put(state, STAYS, STAYS, SMALL);
	put(state, GOES, GOES, SMALL);
	put(state, CHANGES, CHANGES, SMALL);
}

static void stage_after(struct state *state)
{
	put(state, CHANGES, CHANGES + 100, SMALL);
	put(state, STAYS, STAYS, SMALL);
	state_remove(state, GOES);
	put(state, COMES, COMES, SMALL);
	put(state, MOVES, MOVES + 100, LARGE);
}

/* In the child: a write that the parent walks through, one instruction at a time. NULL: all records above, or with n what is staged. */
static void __attribute__((noreturn)) write_traced(struct state *state, const void *bytes, size_t n)
{
	int r;

	if (!bytes && n == 0)
		stage_after(state);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(TEST_EXIT_SKIP);
	raise(SIGSTOP);
	r = bytes ? state_write(state, bytes, n) : state_commit(state);
	_exit(r == 0 ? 0 : 1);
}

/* A reader that comes now, as after a kill at this instruction: old or new, and never old again after new. */
static void look(struct state *state, const unsigned char *old, size_t n_old, const unsigned char *new, size_t n_new,
		 bool *is_new)
{
	struct state *again = open_again(state);

	if (is_read(again, new, n_new))
		*is_new = true;
	else if (*is_new || !is_read(again, old, n_old))
		test_fail(TEST_WHERE, "a cut write left neither the old state nor the new one");
	state_free(again);
}

/* Looks after every `stride` instructions. */
static unsigned int walk_by(unsigned int stride, pid_t pid, struct state *state, const unsigned char *old, size_t n_old,
			 const unsigned char *new, size_t n_new)
{
	unsigned int n_steps = 0;
	bool is_new = false;
	int status;

	for (;;) {
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			break;
		if (n_steps++ % stride == 0)
			look(state, old, n_old, new, n_new, &is_new);
		ASSERT_OK(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL));
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIP)
		test_skip("this process may not trace its children");
	ASSERT_EQ(status, 0);
	look(state, old, n_old, new, n_new, &is_new);
	ASSERT(is_new);
	return n_steps;
}

/* At any instruction; those of a sanitizer, between ours, change no file. */
static unsigned int walk(pid_t pid, struct state *state, const unsigned char *old, size_t n_old, const unsigned char *new,
			 size_t n_new)
{
	return walk_by(test_has_sanitizer() ? 7 : 1, pid, state, old, n_old, new, n_new);
}

static void cut_everywhere(size_t n_old, size_t n_new)
{
	unsigned char old[64], new[64];
	struct state *state;
	pid_t pid;

	if (test_emulator())
		test_skip("the emulator has no single steps");
	ASSERT_OK(state_new(&state));
	fill(new, sizeof(new), 1);
	ASSERT_OK(state_write(state, new, sizeof(new)));
	fill(old, sizeof(old), 2);
	ASSERT_OK(state_write(state, old, n_old));
	fill(new, sizeof(new), 3);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0)
		write_traced(state, new, n_new);
	ASSERT_GT(walk(pid, state, old, n_old, new, n_new), 100);
	state_free(state);
}

TEST(writer_killed_at_any_instruction_leaves_the_old_or_the_new_state)
{
	cut_everywhere(40, 40);
}

TEST(writer_killed_at_any_instruction_while_the_size_changes)
{
	cut_everywhere(33, 64);
	cut_everywhere(64, 0);
}

TEST(writer_killed_at_any_instruction_leaves_all_records_or_none_of_the_new_ones)
{
	unsigned char old[5 * LARGE], new[5 * LARGE];
	size_t n_old = records_before(old), n_new = records_after(new);
	struct state *state;
	pid_t pid;

	if (test_emulator())
		test_skip("the emulator has no single steps");
	ASSERT_OK(state_new(&state));
	stage_before(state);
	ASSERT_OK(state_commit(state));
	assert_kept(state, old, n_old);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0)
		write_traced(state, NULL, 0);
	ASSERT_GT(walk(pid, state, old, n_old, new, n_new), 1000);
	state_free(state);
}

/* The commit that makes most of the file free is followed by one that moves the records together. Each look copies megabytes. */
#if defined(__SANITIZE_THREAD__)
#define STRIDE 997u
#elif defined(__SANITIZE_ADDRESS__)
#define STRIDE 97u
#else
#define STRIDE 7u
#endif

TEST_TIMEOUT(writer_killed_while_records_move_together, 120)
{
	const size_t large = 1100u << 10;
	unsigned char *old = malloc(large + 5 * LARGE);
	unsigned char new[5 * LARGE];
	size_t n_new = records_before(new), n_old = n_new + large;
	struct state *state;
	pid_t pid;

	if (test_emulator())
		test_skip("the emulator has no single steps");
	ASSERT(old);
	memcpy(old, new, n_new);
	memset(old + n_new, 7, large);
	ASSERT_OK(state_new(&state));
	state_put(state, 99, old + n_new, large);
	stage_before(state);
	ASSERT_OK(state_commit(state));
	assert_kept(state, old, n_old);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		state_remove(state, 99);
		write_traced(state, NULL, 1);
	}
	ASSERT_GT(walk_by(STRIDE, pid, state, old, n_old, new, n_new), 1000);
	state_free(state);
	free(old);
}

#define MARK_AT 128u /* offset and bytes of the journal, its sum, a magic number */
#define COMMITTED UINT64_C(0x74696d6d6f436d68)

static void expect_bytes(const unsigned char *file, size_t n, const unsigned char *want, size_t n_want)
{
	struct state *again = open_bytes(file, n);

	ASSERT(is_read(again, want, n_want));
	state_free(again);
}

/* In a build with a sanitizer too: the journal is there, and its mark, and of what it brings about any part. */
TEST(commit_that_was_cut_is_finished_by_the_next_open)
{
	unsigned char old[5 * LARGE], new[5 * LARGE], *before, *after;
	size_t n_old = records_before(old), n_new = records_after(new), n, n_after;
	const uint64_t committed = COMMITTED;
	uint64_t journal;
	struct state *state;

	ASSERT_OK(state_new(&state));
	stage_before(state);
	ASSERT_OK(state_commit(state));
	before = copy_file(state, &n);
	stage_after(state);
	ASSERT_OK(state_commit(state));
	after = copy_file(state, &n_after);
	ASSERT_EQ(n_after, n);
	memcpy(&journal, after + MARK_AT, sizeof(journal));
	ASSERT(journal > 4096 && journal < n);
	/* The journal alone, then the mark. */
	memcpy(before + journal, after + journal, n - journal);
	expect_bytes(before, n, old, n_old);
	memcpy(before + MARK_AT, after + MARK_AT, 24);
	expect_bytes(before, n, old, n_old);
	memcpy(before + MARK_AT + 24, &committed, sizeof(committed));
	expect_bytes(before, n, new, n_new);
	/* The last byte of it first, too: what is applied does not depend on what was. */
	for (size_t i = journal; i-- > 0;) {
		if (after[i] == before[i] || (i >= MARK_AT && i < MARK_AT + 32))
			continue;
		before[i] = after[i];
		expect_bytes(before, n, new, n_new);
	}
	memcpy(before + MARK_AT, after + MARK_AT, 32);
	expect_bytes(before, n, new, n_new);
	free(before);
	free(after);
	state_free(state);
}

/* Records and head have sums, and the head knows the records: what is not as it was written is refused. */
TEST(state_in_which_any_byte_is_another_is_refused_or_the_same)
{
	unsigned char want[5 * LARGE], *file;
	size_t n_want = records_after(want), n, n_refused = 0;
	struct state *state;

	ASSERT_OK(state_new(&state));
	stage_before(state);
	ASSERT_OK(state_commit(state));
	stage_after(state);
	ASSERT_OK(state_commit(state));
	file = copy_file(state, &n);
	for (size_t i = 0; i < n; i++) {
		const void *bytes;
		struct state *again;
		uint32_t version;
		size_t size;

		file[i] ^= 0x10;
		again = open_bytes(file, n);
		if (state_read(again, &version, &bytes, &size) < 0)
			n_refused++;
		else
			ASSERT(size == n_want && memcmp(bytes, want, n_want) == 0);
		file[i] ^= 0x10;
		state_free(again);
	}
	/* The head, and of each record its own head and its bytes. */
	ASSERT_GT(n_refused, 56 + 4 * 40 + n_want - 8);
	free(file);
	state_free(state);
}

/* ---- many records --------------------------------------------------------------------------------------------------- */

#define MODEL 64u

static void expect_model(const struct state *state, const unsigned int *seeds, const size_t *sizes)
{
	static unsigned char want[MODEL * 4096];
	size_t n = 0;

	for (unsigned int i = 0; i < MODEL; i++)
		if (seeds[i])
			n += add(want + n, seeds[i], sizes[i]);
	assert_kept(state, want, n);
}

/* Random changes, several in each commit, and a writer that opens what another one left. */
TEST(records_are_what_was_put_last)
{
	static unsigned char bytes[4096];
	unsigned int seeds[MODEL] = {0};
	size_t sizes[MODEL] = {0};
	struct state *state, *again;
	struct stat st;

	srandom(3);
	ASSERT_OK(state_new(&state));
	ASSERT_OK(state_write(state, "", 0));
	for (unsigned int i = 1; i <= 3000; i++) {
		for (long k = random() % 4; k >= 0; k--) {
			unsigned int key = (unsigned int)random() % MODEL;

			seeds[key] = random() % 3 ? i : 0;
			sizes[key] = (size_t)random() % (random() % 8 ? 200 : sizeof(bytes));
			fill(bytes, sizes[key], i);
			if (seeds[key])
				state_put(state, key + 1, bytes, sizes[key]);
			else
				state_remove(state, key + 1);
		}
		ASSERT_OK(state_commit(state));
		if (i % 16 == 0)
			expect_model(state, seeds, sizes);
		if (i % 100 == 0) {
			ASSERT_OK(state_open(fcntl(state_fd(state), F_DUPFD_CLOEXEC, 3), &again));
			state_free(state);
			state = again;
		}
	}
	ASSERT_OK(fstat(state_fd(state), &st));
	ASSERT_LT(st.st_size, 4 << 20);
	state_free(state);
}

static void limit_files(rlim_t most)
{
	struct rlimit limit;

	ASSERT_OK(getrlimit(RLIMIT_FSIZE, &limit));
	limit.rlim_cur = most;
	ASSERT_OK(setrlimit(RLIMIT_FSIZE, &limit));
}

#define END_AT 24u /* where the extents end; behind them is nothing that a reader reads */

static bool has_equal_bytes(const struct state *state, const unsigned char *file, size_t n)
{
	size_t n_now;
	unsigned char *now = copy_file(state, &n_now);
	bool is_equal = n_now >= n && memcmp(now, file, n) == 0;

	free(now);
	return is_equal;
}

/* Random changes under a limit that lets many commits fail, some of them after they have chosen free extents. */
TEST(commit_that_finds_no_memory_changes_nothing)
{
	static unsigned char bytes[4096];
	unsigned int seeds[MODEL] = {0}, n_failed = 0;
	size_t sizes[MODEL] = {0}, n;
	struct state *state;

	signal(SIGXFSZ, SIG_IGN);
	srandom(5);
	ASSERT_OK(state_new(&state));
	ASSERT_OK(state_write(state, "", 0));
	for (unsigned int i = 1; i <= 3000; i++) {
		unsigned int seeds_before[MODEL];
		size_t sizes_before[MODEL];
		unsigned char *file = copy_file(state, &n);
		uint64_t end;
		int r;

		memcpy(&end, file + END_AT, sizeof(end));
		memcpy(seeds_before, seeds, sizeof(seeds));
		memcpy(sizes_before, sizes, sizeof(sizes));
		for (long k = random() % 8; k >= 0; k--) {
			unsigned int key = (unsigned int)random() % MODEL;

			seeds[key] = random() % 2 ? i : 0;
			sizes[key] = (size_t)random() % (random() % 4 ? 200 : sizeof(bytes));
			fill(bytes, sizes[key], i);
			if (seeds[key])
				state_put(state, key + 1, bytes, sizes[key]);
			else
				state_remove(state, key + 1);
		}
		limit_files(i % 500 ? 40000 : RLIM_INFINITY);
		r = state_commit(state);
		limit_files(RLIM_INFINITY);
		if (r < 0) {
			ASSERT_ERR(r, EFBIG);
			ASSERT(end <= n && has_equal_bytes(state, file, end));
			memcpy(seeds, seeds_before, sizeof(seeds));
			memcpy(sizes, sizes_before, sizeof(sizes));
			n_failed++;
		}
		if (i % 16 == 0)
			expect_model(state, seeds, sizes);
		free(file);
	}
	ASSERT(n_failed > 100 && n_failed < 2900);
	state_free(state);
}

static size_t memory_of(const struct state *state)
{
	struct stat st;

	ASSERT_OK(fstat(state_fd(state), &st));
	return (size_t)st.st_blocks * 512;
}

/* As of a client that makes objects of ever other sizes, and keeps one of each. */
TEST(file_is_small_again_when_most_of_it_is_free)
{
	static unsigned char bytes[1 << 16];
	struct state *state, *again;
	size_t most = 0, n_want = 0;
	unsigned char *want = malloc(1 << 22);

	ASSERT_OK(state_new(&state));
	for (unsigned int i = 0; i < 20; i++) {
		size_t n = i < 14 ? 60 * (i + 1) : 1000u << (i - 14);
		unsigned int n_records = (unsigned int)((1 << 20) / n);

		fill(bytes, n, i);
		for (unsigned int k = 0; k < n_records; k++)
			state_put(state, (uint64_t)i << 32 | k, bytes, n);
		ASSERT_OK(state_commit(state));
		for (unsigned int k = 0; k + 1 < n_records; k++)
			state_remove(state, (uint64_t)i << 32 | k);
		ASSERT_OK(state_commit(state));
		memcpy(want + n_want, bytes, n);
		n_want += n;
		assert_kept(state, want, n_want);
		most = memory_of(state) > most ? memory_of(state) : most;
		ASSERT_OK(state_open(fcntl(state_fd(state), F_DUPFD_CLOEXEC, 3), &again));
		state_free(state);
		state = again;
	}
	/* Twenty MiB went through the state, one after the other; a commit adds its journal. */
	ASSERT_LT(most, 8u << 20);
	ASSERT_LT(memory_of(state), 4u << 20);
	state_free(state);
	free(want);
}

TEST(commit_that_fails_changes_nothing)
{
	struct state *state;

	ASSERT_OK(state_new(&state));
	ASSERT_OK(state_write(state, "old", 3));
	state_put(state, 5, "new", 3);
	state_put(state, 6, "", STATE_MAX_BYTES + 1);
	ASSERT_ERR(state_commit(state), EFBIG);
	assert_kept(state, "old", 3);
	state_put(state, 5, "new", 3);
	state_remove(state, 5);
	state_remove(state, 77);
	ASSERT_OK(state_commit(state));
	assert_kept(state, "old", 3);
	state_put(state, 5, "new", 3);
	ASSERT_OK(state_commit(state));
	assert_kept(state, "oldnew", 6);
	ASSERT_OK(state_write(state, "all", 3));
	assert_kept(state, "all", 3);
	state_free(state);
}

/* ---- others' --------------------------------------------------------------------------------------------------------- */

TEST(another_version_is_reported_and_not_read)
{
	const char ours[] = "ours", theirs[] = "theirs";
	struct state *state, *again;
	const void *bytes = NULL;
	uint32_t version = 0;
	size_t n;

	ASSERT_OK(state_new(&state));
	ASSERT_OK(state_write(state, ours, sizeof(ours)));
	ASSERT_OK(state_write_version(state, STATE_VERSION + 7, theirs, sizeof(theirs)));
	again = open_again(state);
	ASSERT_ERR(state_read(again, &version, &bytes, &n), EPROTONOSUPPORT);
	ASSERT_EQ(version, STATE_VERSION + 7);
	ASSERT(!bytes);
	ASSERT_OK(state_write(again, ours, sizeof(ours)));
	assert_kept(again, ours, sizeof(ours));
	state_free(again);
	state_free(state);
}

static void refuse(int fd)
{
	struct state *state;

	ASSERT_GE(fd, 0);
	ASSERT_ERR(state_open(fd, &state), EBADMSG);
}

TEST(file_that_is_no_saved_state_is_refused)
{
	struct state *state;
	const void *bytes;
	uint32_t version;
	size_t n;

	refuse(open("/dev/null", O_RDWR | O_CLOEXEC));
	refuse(make_memfd(0, F_SEAL_SHRINK));
	refuse(make_memfd(100, F_SEAL_SHRINK));
	refuse(make_memfd(8192, 0));
	ASSERT_ERR(state_open(-1, &state), EBADF);
	ASSERT_OK(state_open(make_memfd(8192, F_SEAL_SHRINK), &state));
	ASSERT_ERR(state_read(state, &version, &bytes, &n), EBADMSG);
	state_free(state);
	ASSERT(!state_free(NULL));
}

/* As version 3 left it: whichever of its two heads was written last. */
TEST(state_of_the_version_before_is_recognized)
{
	const uint64_t magic = UINT64_C(0x6574617453646d68);
	const uint32_t three = 3;

	for (size_t at = 0; at <= 48; at += 48) {
		unsigned char file[8192] = {0};
		struct state *state;
		const void *bytes;
		uint32_t version;
		size_t n;

		memcpy(file + at, &magic, sizeof(magic));
		memcpy(file + at + 8, &three, sizeof(three));
		state = open_bytes(file, sizeof(file));
		ASSERT_ERR(state_read(state, &version, &bytes, &n), EPROTONOSUPPORT);
		ASSERT_EQ(version, 3);
		state_free(state);
	}
}

/* Whatever head and mark say, nothing beyond the file is read or written. */
TEST(random_heads_are_never_whole)
{
	const unsigned int n_heads = test_is_full() ? 20000 : 3000;
	int fd = make_memfd(8192, F_SEAL_SHRINK);
	unsigned char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const uint64_t magic = UINT64_C(0x6574617453646d68), committed = COMMITTED;
	const uint32_t ours = STATE_VERSION;
	struct state *state;
	const void *bytes;
	uint32_t version;
	size_t n;

	ASSERT_NE(map, MAP_FAILED);
	srandom(1);
	for (unsigned int i = 0; i < n_heads; i++) {
		for (unsigned int j = 0; j < 8192; j++)
			map[j] = j > 200 && j < 4096 ? 0 : (unsigned char)(random() % 3 ? 0 : random());
		memcpy(map, &magic, sizeof(magic));
		memcpy(map + 8, &ours, sizeof(ours));
		memset(map + 12, 0, 4);
		if (i % 2)
			memcpy(map + MARK_AT + 24, &committed, sizeof(committed));
		ASSERT_OK(state_open(fcntl(fd, F_DUPFD_CLOEXEC, 3), &state));
		ASSERT_ERR(state_read(state, &version, &bytes, &n), EBADMSG);
		state_free(state);
	}
	munmap(map, 8192);
	close(fd);
}
