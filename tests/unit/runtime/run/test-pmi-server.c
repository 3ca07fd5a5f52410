/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's PMI-1 server without a socket: what it answers, refuses and reports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/run/pmi-server.h"
#include "tests/lib/test.h"

#define N_PES 3u
#define INIT "cmd=init pmi_version=1 pmi_subversion=1\n"
#define INIT_DONE "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"

struct lab {
	struct pmi_server *server;
	char got[N_PES][8192]; /* since the last look */
	char broken[N_PES][256];
	int aborted;
	unsigned int n_stuck, waiting, gone;
};

static void take_reply(void *owner, unsigned int rank, const char *text, size_t bytes)
{
	struct lab *lab = owner;
	size_t n = strlen(lab->got[rank]);

	ASSERT_LT(n + bytes, sizeof(lab->got[rank]));
	memcpy(lab->got[rank] + n, text, bytes);
	lab->got[rank][n + bytes] = 0;
}

static void take_broken(void *owner, unsigned int rank, const char *why)
{
	struct lab *lab = owner;

	ASSERT(!*lab->broken[rank]);
	snprintf(lab->broken[rank], sizeof(lab->broken[rank]), "%s", why);
}

static void take_abort(void *owner, unsigned int rank, int status)
{
	((struct lab *)owner)->aborted = status;
}

static void take_stuck(void *owner, unsigned int waiting, unsigned int gone)
{
	struct lab *lab = owner;

	lab->n_stuck++;
	lab->waiting = waiting;
	lab->gone = gone;
}

static void say(struct lab *lab, unsigned int rank, const char *text)
{
	pmi_server_input(lab->server, rank, text, strlen(text));
}

/* Answers since the last call. */
static const char *heard(struct lab *lab, unsigned int rank)
{
	static char copy[8192];

	strcpy(copy, lab->got[rank]);
	lab->got[rank][0] = 0;
	return copy;
}

static struct lab *begin(void)
{
	static const struct pmi_server_ops ops = {take_reply, take_broken, take_abort, take_stuck};
	struct lab *lab = calloc(1, sizeof(*lab));

	ASSERT(lab);
	ASSERT_OK(pmi_server_new(N_PES, "job1", &ops, lab, &lab->server));
	return lab;
}

static struct lab *begin_ready(void)
{
	struct lab *lab = begin();

	for (unsigned int i = 0; i < N_PES; i++) {
		say(lab, i, INIT);
		ASSERT_STREQ(heard(lab, i), INIT_DONE);
	}
	return lab;
}

static void end(struct lab *lab)
{
	pmi_server_free(lab->server);
	free(lab);
}

static void assert_broken(const char *text, const char *why)
{
	struct lab *lab = begin_ready();

	say(lab, 1, text);
	ASSERT_STREQ(lab->broken[1], why);
	ASSERT_STREQ(heard(lab, 1), "");
	say(lab, 1, "cmd=get_appnum\n");
	ASSERT_STREQ(heard(lab, 1), "");
	say(lab, 0, "cmd=get_appnum\n");
	ASSERT_STREQ(heard(lab, 0), "cmd=appnum appnum=0\n");
	end(lab);
}

TEST(questions_are_answered)
{
	struct lab *lab = begin_ready();

	say(lab, 1, "cmd=get_maxes\ncmd=get_universe_size\ncmd=get_my_kvsname\n");
	ASSERT_STREQ(heard(lab, 1), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
				    "cmd=universe_size size=3\ncmd=my_kvsname kvsname=shmd_job1\n");
	say(lab, 1, "cmd=get kvsname=shmd_job1 key=PMI_process_mapping\n");
	ASSERT_STREQ(heard(lab, 1), "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))\n");
	say(lab, 1, "cmd=lookup_name service=a\nmcmd=spawn\nnprocs=1\nendcmd\n");
	ASSERT_STREQ(heard(lab, 1), "cmd=lookup_result rc=-1 info=not_supported msg=not_supported\ncmd=spawn_result rc=-1 errmsg=not_supported\n");
	end(lab);
}

TEST(values_come_back_whole_and_keys_are_put_once)
{
	struct lab *lab = begin_ready();

	say(lab, 0, "cmd=put kvsname=shmd_job1 key=a value=b c=d \n");
	ASSERT_STREQ(heard(lab, 0), "cmd=put_result rc=0 msg=success\n");
	say(lab, 2, "cmd=get kvsname=shmd_job1 key=a\n");
	ASSERT_STREQ(heard(lab, 2), "cmd=get_result rc=0 msg=success value=b c=d \n");
	say(lab, 1, "cmd=put kvsname=shmd_job1 key=a value=e\n");
	ASSERT_STREQ(heard(lab, 1), "cmd=put_result rc=-1 msg=duplicate_key\n");
	say(lab, 1, "cmd=put kvsname=other key=b value=e\n");
	ASSERT_STREQ(heard(lab, 1), "cmd=put_result rc=-1 msg=unknown_kvs\n");
	say(lab, 1, "cmd=get kvsname=shmd_job1 key=b\n");
	ASSERT_STREQ(heard(lab, 1), "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
	end(lab);
}

TEST(bytes_may_come_in_any_pieces)
{
	struct lab *lab = begin();

	for (const char *c = INIT "cmd=get_appnum\n"; *c; c++)
		pmi_server_input(lab->server, 0, c, 1);
	ASSERT_STREQ(heard(lab, 0), INIT_DONE "cmd=appnum appnum=0\n");
	end(lab);
}

TEST(barrier_ends_when_all_are_in_it_again_and_again)
{
	struct lab *lab = begin_ready();

	for (unsigned int round = 0; round < 3; round++) {
		say(lab, round % 3, "cmd=barrier_in\n");
		say(lab, (round + 1) % 3, "cmd=barrier_in\n");
		ASSERT_STREQ(heard(lab, round % 3), "");
		say(lab, (round + 2) % 3, "cmd=barrier_in\n");
		for (unsigned int i = 0; i < N_PES; i++)
			ASSERT_STREQ(heard(lab, i), "cmd=barrier_out\n");
	}
	ASSERT_EQ(lab->n_stuck, 0u);
	end(lab);
}

TEST(barrier_that_cannot_end_is_reported_for_each_that_waits)
{
	struct lab *lab = begin_ready();

	say(lab, 0, "cmd=barrier_in\n");
	say(lab, 2, "cmd=finalize\n");
	ASSERT_EQ(lab->n_stuck, 1u);
	ASSERT_EQ(lab->waiting, 0u);
	ASSERT_EQ(lab->gone, 2u);
	say(lab, 1, "cmd=barrier_in\n");
	ASSERT_EQ(lab->n_stuck, 2u);
	ASSERT_EQ(lab->waiting, 1u);
	end(lab);
	lab = begin_ready();
	say(lab, 0, "cmd=barrier_in\n");
	say(lab, 1, "nonsense\n");
	ASSERT_EQ(lab->n_stuck, 1u);
	ASSERT_EQ(lab->gone, 1u);
	end(lab);
}

TEST(abort_is_a_success_with_status_0_alone)
{
	struct lab *lab = begin_ready();

	say(lab, 0, "cmd=abort exitcode=7\n");
	ASSERT_EQ(lab->aborted, 7);
	say(lab, 0, "cmd=abort exitcode=0\n");
	ASSERT_EQ(lab->aborted, 0);
	say(lab, 0, "cmd=abort exitcode=256\n");
	ASSERT_EQ(lab->aborted, 1);
	end(lab);
}

TEST(another_version_is_refused_and_may_try_again)
{
	struct lab *lab = begin();

	say(lab, 0, "cmd=init pmi_version=2 pmi_subversion=0\n");
	ASSERT_STREQ(heard(lab, 0), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
	ASSERT_EQ(pmi_server_state(lab->server, 0), PMI_NEW);
	say(lab, 0, INIT);
	ASSERT_STREQ(heard(lab, 0), INIT_DONE);
	end(lab);
}

TEST(client_that_breaks_a_rule_is_reported_once_and_alone)
{
	char text[PMI_LINE_BYTES + 3];

	assert_broken("hello\n", "sent a line that is not PMI-1: \"hello\"");
	assert_broken("cmd=\n", "sent a line that is not PMI-1: \"cmd=\"");
	assert_broken("cmd=a\tb\n", "sent a line that is not PMI-1: \"cmd=a\\x09b\"");
	assert_broken("cmd=dance\n", "sent a PMI-1 command that this launcher does not have: \"dance\"");
	assert_broken(INIT, "sent init twice");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	assert_broken(text, "sent a line that is too long");
}
