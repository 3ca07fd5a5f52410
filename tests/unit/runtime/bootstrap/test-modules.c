/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that read the environment, and the choice among all: each rank has an environment of its own here. */
#include "tests/lib/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <shmemclient.h>

#include "proto/base/nsec.h"
#include "tests/unit/runtime/bootstrap/job.h"

#define MOST_VARIABLES 16

static _Thread_local struct {
	char name[32];
	char value[BOOTSTRAP_UID_TEXT_BYTES];
} variables[MOST_VARIABLES];

static void set(const char *name, const char *value)
{
	int i = 0;

	while (variables[i].name[0] && strcmp(variables[i].name, name))
		i++;
	ASSERT_LT(i, MOST_VARIABLES);
	snprintf(variables[i].name, sizeof(variables[i].name), "%s", name);
	snprintf(variables[i].value, sizeof(variables[i].value), "%s", value);
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	set(name, text);
}

static char *get(const char *name)
{
	for (int i = 0; i < MOST_VARIABLES; i++)
		if (!strcmp(variables[i].name, name))
			return variables[i].value;
	return NULL;
}

static int open_auto(struct shmd_bootstrap *ret)
{
	struct bootstrap_attr attr = {.env = get, .timeout_nsec = test_patience_nsec()};

	return bootstrap_open(&attr, ret);
}

static void refuse(const char *text)
{
	struct shmd_bootstrap b;

	ASSERT_ERR(open_auto(&b), EINVAL);
	ASSERT_STREQ(shmd_error_text(), text);
}

static void ring_once(struct shmd_bootstrap *b, int rank, const char *name)
{
	int all[8], mine = rank * 3;

	ASSERT_STREQ(b->ops->name, name);
	ASSERT_EQ(b->rank, rank);
	ASSERT_OK(b->ops->allgather(b, &mine, all, sizeof(mine)));
	for (int i = 0; i < b->size; i++)
		ASSERT_EQ(all[i], i * 3);
}

TEST(a_process_without_a_launcher_is_alone)
{
	uint64_t mine = 7, all = 0;
	struct shmd_bootstrap b;

	ASSERT_OK(open_auto(&b));
	ASSERT_STREQ(b.ops->name, "none");
	ASSERT(b.rank == 0 && b.size == 1 && b.node_rank == 0 && b.node_size == 1);
	ASSERT_OK(b.ops->allgather(&b, &mine, &all, sizeof(mine)));
	ASSERT_EQ(all, 7);
	mine = 8;
	ASSERT_OK(b.ops->alltoall(&b, &mine, &all, sizeof(mine)));
	ASSERT_EQ(all, 8);
	ASSERT_OK(b.ops->barrier(&b));
	ASSERT_OK(b.ops->watch(&b, NULL, NULL));
	b.ops->close(&b);
}

TEST(an_unknown_module_is_refused)
{
	struct bootstrap_attr attr = {.module = "envy", .env = get};
	struct shmd_bootstrap b;

	ASSERT_ERR(bootstrap_open(&attr, &b), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "there is no bootstrap module envy");
}

static void open_by_env(struct job *job, int rank)
{
	char text[BOOTSTRAP_UID_TEXT_BYTES];
	struct shmd_bootstrap b;

	bootstrap_uid_text(&job->uid, text);
	set_number("SHMD_RANK", rank);
	set_number("SHMD_SIZE", job->size);
	set("SHMD_UID", text);
	/* The environment counts before that of torchrun. */
	set("RANK", "5");
	set("WORLD_SIZE", "6");
	set("MASTER_ADDR", "localhost");
	set("MASTER_PORT", "1");
	set_number("SHMD_NODE_RANK", rank / 2);
	set_number("SHMD_NODE_SIZE", 2);
	ASSERT_OK(open_auto(&b));
	ring_once(&b, rank, "env");
	ASSERT_EQ(b.node_rank, rank / 2);
	ASSERT_EQ(b.node_size, 2);
	b.ops->close(&b);
}

TEST(ranks_meet_by_the_variables_of_a_launcher)
{
	struct job job;

	job_init(&job, 4, open_by_env);
	job_run_threads(&job, 0, 3);
}

static void open_by_file(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	set_number("SHMD_RANK", rank);
	set_number("SHMD_SIZE", job->size);
	set("SHMD_UID_FILE", job->arg);
	ASSERT_OK(open_auto(&b));
	ring_once(&b, rank, "env");
	ASSERT_EQ(b.node_size, job->size);
	b.ops->close(&b);
}

TEST(ranks_meet_by_a_file_with_the_id)
{
	char path[64], text[BOOTSTRAP_UID_TEXT_BYTES];
	struct job job;
	FILE *file;

	job_init(&job, 3, open_by_file);
	test_make_file(path, sizeof(path), "uid");
	bootstrap_uid_text(&job.uid, text);
	file = fopen(path, "w");
	ASSERT(file);
	fprintf(file, "%s\n", text);
	fclose(file);
	job.arg = path;
	job_run_threads(&job, 0, 2);
	unlink(path);
}

TEST(wrong_variables_of_a_launcher_are_named)
{
	set("SHMD_RANK", "1");
	refuse("the bootstrap module env needs the environment variable SHMD_SIZE");
	set("SHMD_SIZE", "two");
	refuse("the environment variable SHMD_SIZE is two; it must be a number from 1 to 1048576");
	set("SHMD_SIZE", "1");
	refuse("the environment variable SHMD_RANK is 1; it must be a number from 0 to 0");
	set("SHMD_SIZE", "2");
	refuse("the bootstrap module env needs the environment variable SHMD_UID or SHMD_UID_FILE");
	set("SHMD_UID", "shmd-12");
	refuse("this is not a unique id of this library");
	set("SHMD_NODE_SIZE", "3");
	refuse("the environment variable SHMD_NODE_SIZE is 3; it must be a number from 1 to 2");
}

/* A port with free ones behind it, as torchrun's store might have. */
static int take_port(int *ret_fd)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(at);

	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(bind(*ret_fd, (struct sockaddr *)&at, sizeof(at)));
	ASSERT_OK(listen(*ret_fd, 16));
	ASSERT_OK(getsockname(*ret_fd, (struct sockaddr *)&at, &bytes));
	return ntohs(at.sin_port);
}

static void open_by_torchrun(struct job *job, int rank)
{
	struct bootstrap_attr attr = {.env = get, .timeout_nsec = test_patience_nsec(), .family = AF_INET};
	struct shmd_bootstrap first, second;

	set_number("RANK", rank);
	set_number("WORLD_SIZE", job->size);
	set_number("LOCAL_RANK", rank);
	set_number("LOCAL_WORLD_SIZE", job->size);
	set("MASTER_ADDR", "127.0.0.1");
	set_number("MASTER_PORT", *(const int *)job->arg);
	set("TORCHELASTIC_RUN_ID", "a run");
	ASSERT_OK(bootstrap_open(&attr, &first));
	ring_once(&first, rank, "torchrun");
	attr.number = 1;
	ASSERT_OK(bootstrap_open(&attr, &second));
	ring_once(&second, rank, "torchrun");
	ring_once(&first, rank, "torchrun");
	first.ops->close(&first);
	second.ops->close(&second);
}

TEST_WAITS(ranks_meet_by_the_variables_of_torchrun_beside_a_port_that_is_taken, 60)
{
	struct sockaddr_in next = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct job job = {.size = 4, .rank = open_by_torchrun};
	int fd, other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = take_port(&fd);

	/* A stranger that accepts and says nothing; if the port is taken already, all the better. */
	next.sin_port = htons((uint16_t)(port + 1));
	if (!bind(other, (struct sockaddr *)&next, sizeof(next)))
		ASSERT_OK(listen(other, 16));
	job.arg = &port;
	job_run_threads(&job, 0, 3);
	close(other);
	close(fd);
}
