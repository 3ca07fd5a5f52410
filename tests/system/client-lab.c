/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/client-lab.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

uint64_t lab_now_nsec(void)
{
	return shmd_dev_host_now_nsec();
}

static const char *daemon_binary(void)
{
	const char *path = getenv("SHMEMD_BINARY");

	return path && *path ? path : SHMEMD_BUILD_BINARY;
}

static void run_daemon(const struct lab_daemon *daemon, const char *option, const char *value)
	__attribute__((noreturn));
static void run_daemon(const struct lab_daemon *daemon, const char *option, const char *value)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* SHMEMD_SOCKET would override the path. */
	unsetenv("SHMEMD_SOCKET");
	execl(daemon_binary(), "shmemd", "--config", "/dev/null", "--socket", daemon->socket, "--backend", "soft",
	      "--log-level", "warning", option, value, (char *)NULL);
	fprintf(stderr, "cannot run %s: %s\n", daemon_binary(), strerror(errno));
	_exit(127);
}

static void await_daemon(const struct lab_daemon *daemon)
{
	struct shmd_client_attr attr = {.socket_path = daemon->socket, .role = SHMD_ROLE_CONTROL};
	uint64_t end = lab_now_nsec() + 15 * LAB_SEC;
	struct shmd_client *client;
	int r;

	do {
		usleep(2000);
		r = shmd_client_open(&attr, &client);
		if (waitpid(daemon->pid, NULL, WNOHANG))
			test_fail(TEST_WHERE, "the daemon ended at its start");
	} while (r < 0 && lab_now_nsec() < end);
	if (r < 0)
		test_fail(TEST_WHERE, "no daemon: %s", shmd_error_text());
	shmd_client_close(client);
}

void lab_daemon_start_with(struct lab_daemon *daemon, const char *option, const char *value)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(daemon->folder, sizeof(daemon->folder), "%s/shmemd-test-XXXXXX", tmp ? tmp : "/tmp");
	ASSERT(mkdtemp(daemon->folder));
	snprintf(daemon->socket, sizeof(daemon->socket), "%s/sock", daemon->folder);
	daemon->pid = fork();
	ASSERT_GE(daemon->pid, 0);
	if (!daemon->pid)
		run_daemon(daemon, option, value);
	await_daemon(daemon);
}

void lab_daemon_start(struct lab_daemon *daemon)
{
	lab_daemon_start_with(daemon, "--soft-nics", "2");
}

static int end_daemon(struct lab_daemon *daemon, int signal)
{
	int status;

	ASSERT_OK(kill(daemon->pid, signal));
	ASSERT_EQ(waitpid(daemon->pid, &status, 0), daemon->pid);
	unlink(daemon->socket);
	rmdir(daemon->folder);
	return status;
}

void lab_daemon_stop(struct lab_daemon *daemon)
{
	int status = end_daemon(daemon, SIGTERM);

	if (!WIFEXITED(status) || WEXITSTATUS(status))
		test_fail(TEST_WHERE, "the daemon ended with wait status 0x%x", status);
}

void lab_daemon_kill(struct lab_daemon *daemon)
{
	ASSERT_EQ(end_daemon(daemon, SIGKILL), SIGKILL);
}

/* ---- sides */

static void must(int r, const char *what)
{
	if (r < 0)
		test_fail(TEST_WHERE, "%s: %s", what, shmd_error_text());
}

struct shmd_client *lab_client(const struct lab_daemon *daemon)
{
	struct shmd_client_attr attr = {.socket_path = daemon->socket};
	struct shmd_client *client;

	must(shmd_client_open(&attr, &client), "client");
	return client;
}

void lab_side_open(struct lab_side *side, const struct lab_daemon *daemon, const struct shmd_queues_attr *attr)
{
	side->client = lab_client(daemon);
	must(shmd_nic_open(side->client, NULL, &side->nic), "nic");
	must(shmd_mem_alloc(side->client, LAB_MEM_BYTES, &side->mem), "mem");
	must(shmd_mr_reg_mem(side->nic, side->mem, SHMD_ACCESS_ALL, &side->mr), "mr");
	must(shmd_queues_create(side->nic, attr, &side->queues), "queues");
}

void lab_side_close(struct lab_side *side)
{
	must(shmd_queues_destroy(side->queues), "queues");
	must(shmd_mr_dereg(side->mr), "mr");
	shmd_mem_free(side->mem);
	must(shmd_nic_close(side->nic), "nic");
	shmd_client_close(side->client);
}

void lab_connect(struct lab_side *a, unsigned int i, struct lab_side *b, unsigned int k)
{
	struct shmd_addr of_a, of_b;

	must(shmd_queues_addr(a->queues, i, &of_a), "addr");
	must(shmd_queues_addr(b->queues, k, &of_b), "addr");
	must(shmd_queues_connect(a->queues, i, 1, &of_b, NULL, NULL), "connect");
	if (a != b || i != k)
		must(shmd_queues_connect(b->queues, k, 1, &of_a, NULL, NULL), "connect");
}

uint8_t *lab_byte(const struct lab_side *side, size_t offset)
{
	return (uint8_t *)shmd_mem_addr(side->mem) + offset;
}

struct shmd_dev_addr lab_local(const struct lab_side *side, size_t offset)
{
	return shmd_dev_addr_of((uintptr_t)lab_byte(side, offset), shmd_mr_lkey_be(side->mr));
}

struct shmd_dev_addr lab_remote(const struct lab_side *side, size_t offset)
{
	return shmd_dev_addr_of((uintptr_t)lab_byte(side, offset), shmd_mr_rkey_be(side->mr));
}
