/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PE for tests of shmemctl run: does what its arguments say, in their order. "1:WORD" is for rank 1 only. MARK=... does nothing; a
 * test finds processes by it.
 *
 * A small client of PMI-1, independent of the library's: init, put=KEY=VALUE, get=KEY, barrier, finalize, abort=N, raw=TEXT,
 * ask=TEXT (prints the answer).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static char kvsname[256];

static void fail(const char *what)
{
	fprintf(stderr, "run-pe: %s: %s\n", what, strerror(errno));
	exit(99);
}

static int pmi_fd(void)
{
	const char *fd = getenv("PMI_FD");

	return fd ? atoi(fd) : -1;
}

static void pmi_send(const char *text)
{
	if (write(pmi_fd(), text, strlen(text)) != (ssize_t)strlen(text) || write(pmi_fd(), "\n", 1) != 1)
		fail("write to PMI_FD");
}

static char *pmi_answer(void)
{
	static char line[4096];
	size_t n = 0;

	/* Nothing is under way behind the answer. */
	do {
		ssize_t got = read(pmi_fd(), line + n, sizeof(line) - 1 - n);

		if (got <= 0)
			fail("no answer from PMI_FD");
		n += (size_t)got;
	} while (line[n - 1] != '\n');
	line[n - 1] = 0;
	return line;
}

static char *pmi_ask(const char *text, const char *begin)
{
	char *line;

	pmi_send(text);
	line = pmi_answer();
	if (strncmp(line, begin, strlen(begin))) {
		fprintf(stderr, "run-pe: %s: %s\n", text, line);
		exit(98);
	}
	return line + strlen(begin);
}

static void pmi_init(void)
{
	pmi_ask("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
	snprintf(kvsname, sizeof(kvsname), "%s", pmi_ask("cmd=get_my_kvsname", "cmd=my_kvsname kvsname="));
}

static void pmi_put(char *pair)
{
	char text[4096], *value = strchr(pair, '=');

	snprintf(text, sizeof(text), "cmd=put kvsname=%s key=%.*s value=%s", kvsname, (int)(value - pair), pair, value + 1);
	pmi_ask(text, "cmd=put_result rc=0");
}

static void pmi_get(const char *key)
{
	char text[4096];

	snprintf(text, sizeof(text), "cmd=get kvsname=%s key=%s", kvsname, key);
	printf("%s\n", pmi_ask(text, "cmd=get_result rc=0 msg=success value="));
}

/* Its rank for all, and the sum of all ranks back. */
static void pmi_sum(int rank, int size)
{
	char text[4096];
	int sum = 0;

	snprintf(text, sizeof(text), "cmd=put kvsname=%s key=r%d value=%d", kvsname, rank, rank);
	pmi_ask(text, "cmd=put_result rc=0");
	pmi_ask("cmd=barrier_in", "cmd=barrier_out");
	for (int i = 0; i < size; i++) {
		snprintf(text, sizeof(text), "cmd=get kvsname=%s key=r%d", kvsname, i);
		sum += atoi(pmi_ask(text, "cmd=get_result rc=0 msg=success value="));
	}
	printf("sum %d\n", sum);
}

static void pause_for_ever(void)
{
	for (;;)
		pause();
}

/* A child that ignores what can be ignored; in the group of the PE, or in a session of its own and without a parent. */
static void leave_child(bool is_detached)
{
	pid_t pid = fork();

	if (pid)
		return;
	if (is_detached) {
		setsid();
		if (fork())
			_exit(0);
	}
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	pause_for_ever();
}

static void print_lines(const char *how)
{
	unsigned int n, bytes;

	if (sscanf(how, "%ux%u", &n, &bytes) != 2)
		fail(how);
	for (unsigned int i = 0; i < n; i++) {
		printf("%08u", i);
		for (unsigned int at = 8; at < bytes; at++)
			putchar('a' + (int)((i + at) % 26));
		putchar('\n');
	}
}

static void print_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		fail("sched_getaffinity");
	printf("cpus");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			printf(" %d", cpu);
	printf("\n");
}

static void print_fds(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	printf("limit %llu\n", (unsigned long long)limit.rlim_cur);
	for (int fd = 0; fd < 256; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("fd %d%s\n", fd, fd == pmi_fd() ? " pmi" : "");
}

static void copy_input(void)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0) {
		fwrite(buf, 1, (size_t)n, stdout);
		fflush(stdout);
	}
	printf("end of input%s\n", n < 0 ? " by an error" : "");
}

static volatile sig_atomic_t is_noted[65];

static void note_signal(int signo)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "got %d\n", signo);

	(void)!write(STDOUT_FILENO, text, (size_t)n);
	is_noted[signo] = 1;
}

static void wait_noted(int signo)
{
	struct timespec pause = {.tv_nsec = 2000000};

	while (!is_noted[signo])
		nanosleep(&pause, NULL);
}

static void wait_for(const char *path)
{
	struct timespec pause = {.tv_nsec = 2000000};

	while (access(path, F_OK))
		nanosleep(&pause, NULL);
}

static void sleep_msec(int msec)
{
	struct timespec pause = {msec / 1000, msec % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

/* A flat table of words without a value. */
static bool do_word(const char *word, int rank, int size)
{
	if (!strcmp(word, "init"))
		pmi_init();
	else if (!strcmp(word, "barrier"))
		pmi_ask("cmd=barrier_in", "cmd=barrier_out");
	else if (!strcmp(word, "finalize"))
		pmi_ask("cmd=finalize", "cmd=finalize_ack");
	else if (!strcmp(word, "sum"))
		pmi_sum(rank, size);
	else if (!strcmp(word, "sleep"))
		pause_for_ever();
	else if (!strcmp(word, "fork"))
		leave_child(false);
	else if (!strcmp(word, "detach"))
		leave_child(true);
	else if (!strcmp(word, "cat"))
		copy_input();
	else if (!strcmp(word, "cpus"))
		print_cpus();
	else if (!strcmp(word, "fds"))
		print_fds();
	else if (!strcmp(word, "cwd"))
		printf("%s\n", getcwd((char[4096]){0}, 4096));
	else
		return false;
	return true;
}

/* A flat table of words with a value. */
static void do_value(const char *word, char *value)
{
	size_t n = strcspn(word, "=");

	if (!strncmp(word, "print", n))
		printf("%s\n", value);
	else if (!strncmp(word, "write", n))
		printf("%s", value);
	else if (!strncmp(word, "error", n))
		fprintf(stderr, "%s\n", value);
	else if (!strncmp(word, "env", n))
		printf("%s=%s\n", value, getenv(value) ? getenv(value) : "(none)");
	else if (!strncmp(word, "put", n))
		pmi_put(value);
	else if (!strncmp(word, "get", n))
		pmi_get(value);
	else if (!strncmp(word, "raw", n))
		pmi_send(value);
	else if (!strncmp(word, "ask", n))
		printf("%s\n", pmi_ask(value, ""));
	else if (!strncmp(word, "abort", n))
		dprintf(pmi_fd(), "cmd=abort exitcode=%s\n", value);
	else if (!strncmp(word, "exit", n))
		exit(atoi(value));
	else if (!strncmp(word, "signal", n))
		raise(atoi(value));
	else if (!strncmp(word, "ignore", n))
		signal(atoi(value), SIG_IGN);
	else if (!strncmp(word, "note", n))
		signal(atoi(value), note_signal);
	else if (!strncmp(word, "await", n))
		wait_noted(atoi(value));
	else if (!strncmp(word, "lines", n))
		print_lines(value);
	else if (!strncmp(word, "file", n))
		wait_for(value);
	else if (!strncmp(word, "msec", n))
		sleep_msec(atoi(value));
	else if (strncmp(word, "MARK", n))
		fail(word);
}

int main(int argc, char **argv)
{
	int rank = getenv("SHMD_RANK") ? atoi(getenv("SHMD_RANK")) : 0, size = getenv("SHMD_SIZE") ? atoi(getenv("SHMD_SIZE")) : 1;

	for (int i = 1; i < argc; i++) {
		char *word = argv[i], *colon = strchr(word, ':');

		if (colon && strspn(word, "0123456789") == (size_t)(colon - word)) {
			if (atoi(word) != rank)
				continue;
			word = colon + 1;
		}
		if (!do_word(word, rank, size))
			do_value(word, strchr(word, '=') ? strchr(word, '=') + 1 : (char *)"");
		/* Several lines come in pieces of the C library's buffer else. */
		fflush(stdout);
	}
	return 0;
}
