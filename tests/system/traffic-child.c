/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/traffic-child.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"

#define SLACK_PAGES 98u /* what a hundred deaths leave, a page each, is more */

void traffic_read(struct traffic *traffic)
{
	ssize_t n = read(traffic->out, traffic->text + traffic->bytes, sizeof(traffic->text) - 1 - traffic->bytes);

	traffic->bytes += n > 0 ? (size_t)n : 0;
	traffic->text[traffic->bytes] = 0;
	if (n == 0)
		test_fail(TEST_WHERE, "the traffic ended by itself%s%s: %s", traffic->at ? " after " : "",
			  traffic->at ? traffic->at : "", traffic->text);
}

/* Its output so far. */
static void read_all(struct traffic *traffic)
{
	struct pollfd said = {.fd = traffic->out, .events = POLLIN};

	while (poll(&said, 1, 0) > 0)
		traffic_read(traffic);
}

static void run_child(int out, const char *socket)
{
	char patience[32];
	char *const args[] = {(char *)SHMD_TEST_TRAFFIC, patience, (char *)"--pause-msec=1", NULL};

	snprintf(patience, sizeof(patience), "--patience=%u", (unsigned int)(test_patience_nsec() / NSEC_PER_SEC));
	setenv("SHMEMD_SOCKET", socket, 1);
	unsetenv("SHMEMD_FAULT");
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execv(args[0], args);
	_exit(127);
}

void traffic_start(struct traffic *traffic, const char *socket)
{
	int pipes[2];

	*traffic = (struct traffic){0};
	ASSERT_OK(pipe2(pipes, O_CLOEXEC));
	traffic->pid = fork();
	ASSERT_GE(traffic->pid, 0);
	if (traffic->pid == 0)
		run_child(pipes[1], socket);
	close(pipes[1]);
	traffic->out = pipes[0];
	while (!strstr(traffic->text, "running\n"))
		traffic_read(traffic);
}

void traffic_stop(struct traffic *traffic)
{
	int status;

	ASSERT_OK(kill(traffic->pid, SIGTERM));
	while (!strstr(traffic->text, "]}\n"))
		traffic_read(traffic);
	ASSERT_EQ(waitpid(traffic->pid, &status, 0), traffic->pid);
	ASSERT_EQ(status, 0);
	close(traffic->out);
}

/* An answer to a former question is not one to this. */
void traffic_ask(struct traffic *traffic)
{
	read_all(traffic);
	traffic->asked_at = traffic->bytes;
	ASSERT_OK(kill(traffic->pid, SIGUSR1));
}

static const char *find_answer(const struct traffic *traffic)
{
	const char *answer = strstr(traffic->text + traffic->asked_at, "at ");

	return answer && strchr(answer, '\n') ? answer : NULL;
}

bool traffic_has_gone_on(struct traffic *traffic)
{
	read_all(traffic);
	return find_answer(traffic);
}

uint64_t traffic_await(struct traffic *traffic)
{
	uint64_t unknown;

	traffic_ask(traffic);
	while (!find_answer(traffic))
		traffic_read(traffic);
	ASSERT_EQ(sscanf(find_answer(traffic), "at %*u, %" SCNu64 " unknown", &unknown), 1);
	return unknown;
}

uint64_t traffic_number(const struct traffic *traffic, const char *key)
{
	char quoted[32];
	const char *at;

	snprintf(quoted, sizeof(quoted), "\"%s\": ", key);
	at = strstr(traffic->text, quoted);
	ASSERT(at);
	return strtoull(at + strlen(quoted), NULL, 10);
}

/* ---- what it holds ---------------------------------------------------------------------------------------------------- */

void traffic_look(const struct traffic *traffic, struct traffic_usage *ret)
{
	*ret = (struct traffic_usage){.n_fds = daemon_n_fds(traffic->pid),
				      .n_maps = daemon_n_maps(traffic->pid),
				      .kib = daemon_own_kib(traffic->pid)};
}

/* A sanitizer keeps what was freed, and maps memory for its own ends. */
static bool is_within(const struct traffic_usage *now, const struct traffic_usage *most)
{
	uint64_t slack_kib = (uint64_t)sysconf(_SC_PAGESIZE) / 1024 * SLACK_PAGES;

	return now->n_fds <= most->n_fds &&
	       (test_has_sanitizer() || (now->n_maps <= most->n_maps && now->kib <= most->kib + slack_kib));
}

void traffic_expect_usage(const struct traffic *traffic, const struct traffic_usage *most)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	struct traffic_usage now;

	for (traffic_look(traffic, &now); !is_within(&now, most); traffic_look(traffic, &now)) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE,
				  "the client holds %u descriptors, %u mappings and %llu KiB; before %u, %u and %llu",
				  now.n_fds, now.n_maps, (unsigned long long)now.kib, most->n_fds, most->n_maps,
				  (unsigned long long)most->kib);
		nanosleep(&(struct timespec){.tv_nsec = NSEC_PER_MSEC}, NULL);
	}
	printf("client: %u descriptors, %u mappings, %llu KiB, before %u, %u, %llu\n", now.n_fds, now.n_maps,
	       (unsigned long long)now.kib, most->n_fds, most->n_maps, (unsigned long long)most->kib);
}
