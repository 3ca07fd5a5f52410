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

/* What the next daemon would read. */
static struct state *open_again(const struct state *state)
{
	struct state *again;
	int fd = fcntl(state_fd(state), F_DUPFD_CLOEXEC, 3);

	ASSERT_GE(fd, 0);
	ASSERT_OK(state_open(fd, &again));
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

TEST(last_write_is_read_by_whoever_opens_it)
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

TEST(state_grows_and_shrinks_in_a_file_of_three_times_its_size)
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
	ASSERT_LE((size_t)st.st_size, 3 * most + 4 * 4096);
	ASSERT_ERR(state_write(state, bytes, STATE_MAX_BYTES + 1), EFBIG);
	assert_kept(state, bytes, 1);
	state_free(state);
	free(bytes);
}

/* ---- killed --------------------------------------------------------------------------------------------------------- */

/* In the child: a write that the parent walks through, one instruction at a time. */
static void __attribute__((noreturn)) write_traced(struct state *state, const void *bytes, size_t n)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(TEST_EXIT_SKIP);
	raise(SIGSTOP);
	_exit(state_write(state, bytes, n) == 0 ? 0 : 1);
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

static unsigned int walk(pid_t pid, struct state *state, const unsigned char *old, size_t n_old,
			 const unsigned char *new, size_t n_new)
{
	unsigned int n_steps = 0;
	bool is_new = false;
	int status;

	for (;;) {
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			break;
		look(state, old, n_old, new, n_new, &is_new);
		n_steps++;
		ASSERT_OK(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL));
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIP)
		test_skip("this process may not trace its children");
	ASSERT_EQ(status, 0);
	ASSERT(is_new);
	return n_steps;
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

/* In a build with a sanitizer too: each byte of the last write is missing in turn. */
TEST(write_that_lacks_any_byte_leaves_the_old_state)
{
	unsigned char old[100], new[100], *before, *after, *map;
	struct state *state;
	struct stat st;
	size_t n;

	ASSERT_OK(state_new(&state));
	fill(old, sizeof(old), 1);
	fill(new, sizeof(new), 2);
	ASSERT_OK(state_write(state, old, sizeof(old)));
	ASSERT_OK(fstat(state_fd(state), &st));
	n = (size_t)st.st_size;
	map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, state_fd(state), 0);
	ASSERT_NE(map, MAP_FAILED);
	before = malloc(n);
	after = malloc(n);
	memcpy(before, map, n);
	ASSERT_OK(state_write(state, new, sizeof(new)));
	assert_kept(state, new, sizeof(new));
	ASSERT_OK(fstat(state_fd(state), &st));
	if ((size_t)st.st_size > n) {
		/* It has grown; what was there before is all of the old one. */
		map = mremap(map, n, (size_t)st.st_size, MREMAP_MAYMOVE);
		ASSERT_NE(map, MAP_FAILED);
		before = realloc(before, (size_t)st.st_size);
		after = realloc(after, (size_t)st.st_size);
		memset(before + n, 0, (size_t)st.st_size - n);
		n = (size_t)st.st_size;
	}
	memcpy(after, map, n);
	for (size_t i = 0; i < n; i++) {
		if (after[i] == before[i])
			continue;
		map[i] = before[i];
		assert_kept(state, old, sizeof(old));
		map[i] = after[i];
	}
	assert_kept(state, new, sizeof(new));
	munmap(map, n);
	free(before);
	free(after);
	state_free(state);
}

/* ---- others' --------------------------------------------------------------------------------------------------------- */

TEST(another_version_is_told_and_not_read)
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
	assert_kept(state, ours, sizeof(ours));
	state_free(again);
	state_free(state);
}

static void refuse(int fd)
{
	struct state *state;

	ASSERT_GE(fd, 0);
	ASSERT_ERR(state_open(fd, &state), EBADMSG);
}

static int make_memfd(size_t n, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_OK(ftruncate(fd, (off_t)n));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

TEST(what_is_no_saved_state_is_refused)
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

/* Whatever the heads say, nothing beyond the file is read. */
TEST(random_heads_are_never_whole)
{
	int fd = make_memfd(8192, F_SEAL_SHRINK);
	unsigned char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const uint64_t magic = UINT64_C(0x6574617453646d68);
	struct state *state;
	const void *bytes;
	uint32_t version;
	size_t n;

	ASSERT_NE(map, MAP_FAILED);
	ASSERT_OK(state_open(fd, &state));
	srandom(1);
	for (unsigned int i = 0; i < 20000; i++) {
		for (unsigned int j = 0; j < 128; j++)
			map[j] = (unsigned char)(random() % 3 ? 0 : random());
		memcpy(map, &magic, sizeof(magic));
		memset(map + 12, 0, 4);
		ASSERT_ERR(state_read(state, &version, &bytes, &n), EBADMSG);
	}
	munmap(map, 8192);
	state_free(state);
}
