/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mapper: its start, its requests, its end.
 *
 * It ends when the daemon dies or lets go of it. Until the daemon has died it holds the command descriptors, so that the last
 * close of a context, which unpins the memory of clients, is not the daemon's. The first thread carries out requests and may stand still in the kernel;
 * the death of the daemon ends the process without its help.
 */
#include "daemon/nic/mlx5/mlx5-mapper.h"

#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/sandbox.h"
#include "proto/base/thread.h"

#define STACK_BYTES (256u << 10)
#define DEATH_MSEC 1000 /* of a daemon whose channel has ended */

static int daemon_died_fd;

static void *watch_daemon(void *arg)
{
	struct pollfd pfd = {.fd = daemon_died_fd, .events = POLLIN};

	(void)arg;
	while (poll(&pfd, 1, -1) <= 0)
		;
	kill(getpid(), SIGKILL);
	return NULL;
}

/* Pinning beyond RLIMIT_MEMLOCK needs a capability, as in the daemon. */
static void drop_privileges(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct keeps[2] = {{.effective = 1u << CAP_IPC_LOCK, .permitted = 1u << CAP_IPC_LOCK}};
	const struct __user_cap_data_struct none[2] = {{0}};

	sandbox_enter(false);
	/* Refused if the daemon has not got it. */
	if (syscall(SYS_capset, &header, keeps) < 0)
		syscall(SYS_capset, &header, none);
}

/* The mapper's own duplicates of descriptors that came with a request are in its tables. */
static int answer_one(struct mapper_side *side, int sock)
{
	struct mapper_request request;
	struct mapper_answer answer;
	struct mapper_fds fds = {0};
	size_t bytes;
	int r = mapper_recv(sock, &request, sizeof(request), &bytes, &fds);

	if (r < 0 || bytes != sizeof(request) || (request.op == MAPPER_READ && request.bytes > MAPPER_DATA_BYTES))
		return -1;
	mapper_serve(side, &request, &fds, &answer);
	r = mapper_send(sock, &answer, mapper_answer_bytes(&request), NULL);
	mapper_fds_close(&fds);
	return r;
}

static int init(struct mapper_side *side, int sock)
{
	struct mapper_request request;
	struct mapper_answer answer = {0};
	struct mapper_fds fds = {0};
	char name[32];
	pthread_t thread;
	size_t bytes;

	if (mapper_recv(sock, &request, sizeof(request), &bytes, &fds) < 0 || bytes != sizeof(request) ||
	    request.op != MAPPER_INIT)
		return -1;
	snprintf(name, sizeof(name), "mapper %u", request.uid);
	prctl(PR_SET_NAME, name);
	drop_privileges();
	request.name[sizeof(request.name) - 1] = 0;
	mapper_side_init(side, &(struct bells_attr){.name = strdup(request.name),
						    .gpu_poll_usec = request.gpu_poll_usec,
						    .spin_usec = request.spin_usec});
	if (daemon_died_fd >= 0)
		answer.result = thread_start(&thread, STACK_BYTES, "shmd-watch", watch_daemon, NULL);
	return mapper_send(sock, &answer, mapper_answer_bytes(&request), NULL);
}

void nic_mlx5_serve(int channel, int daemon_pidfd)
{
	struct pollfd pfd = {.fd = daemon_pidfd, .events = POLLIN};
	static struct mapper_side side;

	daemon_died_fd = daemon_pidfd;
	if (init(&side, channel) == 0)
		while (answer_one(&side, channel) == 0)
			;
	if (daemon_pidfd >= 0 && mapper_side_has_ctxs(&side))
		poll(&pfd, 1, DEATH_MSEC);
	_exit(EXIT_SUCCESS);
}
