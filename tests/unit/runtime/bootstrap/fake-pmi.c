/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/runtime/bootstrap/fake-pmi.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/pmi.h"
#include "tests/lib/test.h"

#define MOST_KEYS 32

struct rank {
	int ours, theirs, version, waits;
};

struct fake_pmi {
	int size, n_waiting, n_keys, finalized, aborted, stop;
	const char *answer;
	pthread_t thread;
	struct rank ranks[FAKE_PMI_MOST_RANKS];
	char keys[MOST_KEYS][64], values[MOST_KEYS][PMI_WORD_BYTES];
};

static void answer(struct fake_pmi *pmi, struct rank *rank, const char *text)
{
	char bytes[PMI_MOST_BYTES];
	const char *planned = rank == &pmi->ranks[0] ? __atomic_exchange_n(&pmi->answer, NULL, __ATOMIC_SEQ_CST) : NULL;
	int n;

	if (planned)
		n = snprintf(bytes, sizeof(bytes), "%s", planned);
	else if (rank->version == 2)
		n = snprintf(bytes, sizeof(bytes), "%6zu%s", strlen(text), text);
	else
		n = snprintf(bytes, sizeof(bytes), "%s\n", text);
	if (write(rank->ours, bytes, (size_t)n) != n)
		close(rank->ours);
}

static void release_all(struct fake_pmi *pmi)
{
	for (int i = 0; i < pmi->size; i++) {
		pmi->ranks[i].waits = 0;
		answer(pmi, &pmi->ranks[i], pmi->ranks[i].version == 2 ? "cmd=kvs-fence-response;rc=0;" : "cmd=barrier_out");
	}
	pmi->n_waiting = 0;
}

static void put(struct fake_pmi *pmi, const char *message, char separator)
{
	ASSERT_LT(pmi->n_keys, MOST_KEYS);
	ASSERT_OK(pmi_value(message, separator, "key", pmi->keys[pmi->n_keys], sizeof(pmi->keys[0])));
	ASSERT_OK(pmi_value(message, separator, "value", pmi->values[pmi->n_keys++], sizeof(pmi->values[0])));
}

static void get(struct fake_pmi *pmi, struct rank *rank, const char *message, char separator)
{
	char key[64], text[PMI_MOST_BYTES];

	ASSERT_OK(pmi_value(message, separator, "key", key, sizeof(key)));
	for (int i = 0; i < pmi->n_keys; i++) {
		if (strcmp(pmi->keys[i], key))
			continue;
		snprintf(text, sizeof(text), rank->version == 2 ? "cmd=kvs-get-response;flag=TRUE;value=%s;rc=0;" :
			 "cmd=get_result rc=0 msg=success value=%s", pmi->values[i]);
		answer(pmi, rank, text);
		return;
	}
	answer(pmi, rank, rank->version == 2 ? "cmd=kvs-get-response;flag=FALSE;rc=1;" : "cmd=get_result rc=-1 msg=unknown");
}

static void wait_all(struct fake_pmi *pmi, struct rank *rank)
{
	rank->waits = 1;
	if (++pmi->n_waiting == pmi->size)
		release_all(pmi);
}

static void take(struct fake_pmi *pmi, struct rank *rank, const char *message)
{
	char separator = rank->version == 2 ? ';' : ' ', cmd[64], word[64];

	ASSERT_OK(pmi_value(message, separator, "cmd", cmd, sizeof(cmd)));
	if (!strcmp(cmd, "init")) {
		int version = !!strstr(message, "pmi_version=2") + 1;

		snprintf(word, sizeof(word), "cmd=response_to_init pmi_version=%d pmi_subversion=0 rc=0", version);
		answer(pmi, rank, word);
		rank->version = version;
	} else if (!strcmp(cmd, "get_my_kvsname")) {
		answer(pmi, rank, "cmd=my_kvsname kvsname=kvs_7");
	} else if (!strcmp(cmd, "fullinit")) {
		answer(pmi, rank, "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;rc=0;");
	} else if (!strcmp(cmd, "job-getid")) {
		answer(pmi, rank, "cmd=job-getid-response;jobid=kvs_7;rc=0;");
	} else if (!strcmp(cmd, "put") || !strcmp(cmd, "kvs-put")) {
		put(pmi, message, separator);
		answer(pmi, rank, separator == ';' ? "cmd=kvs-put-response;rc=0;" : "cmd=put_result rc=0 msg=success");
	} else if (!strcmp(cmd, "get") || !strcmp(cmd, "kvs-get")) {
		get(pmi, rank, message, separator);
	} else if (!strcmp(cmd, "barrier_in") || !strcmp(cmd, "kvs-fence")) {
		wait_all(pmi, rank);
	} else if (!strcmp(cmd, "finalize")) {
		pmi->finalized++;
		answer(pmi, rank, separator == ';' ? "cmd=finalize-response;rc=0;" : "cmd=finalize_ack");
	} else if (!strcmp(cmd, "abort")) {
		pmi->aborted = pmi_value(message, separator, separator == ';' ? "msg" : "exitcode", word, sizeof(word)) ? -2 : atoi(word);
	} else {
		test_fail(TEST_WHERE, "the launcher does not know %s", message);
	}
}

/* One request at a time comes from a rank, so a read is one message. */
static int read_message(struct fake_pmi *pmi, struct rank *rank)
{
	char bytes[PMI_MOST_BYTES];
	ssize_t n = read(rank->ours, bytes, sizeof(bytes) - 1);

	if (n <= 0)
		return 0;
	bytes[n] = 0;
	take(pmi, rank, rank->version == 2 ? bytes + 6 : bytes);
	return 1;
}

static void *serve(void *arg)
{
	struct fake_pmi *pmi = arg;
	struct pollfd fds[FAKE_PMI_MOST_RANKS];

	for (int i = 0; i < pmi->size; i++)
		fds[i] = (struct pollfd){.fd = pmi->ranks[i].ours, .events = POLLIN};
	while (!__atomic_load_n(&pmi->stop, __ATOMIC_SEQ_CST)) {
		poll(fds, (nfds_t)pmi->size, 10);
		for (int i = 0; i < pmi->size; i++)
			if (fds[i].revents && !read_message(pmi, &pmi->ranks[i]))
				fds[i].fd = -1;
	}
	return NULL;
}

struct fake_pmi *fake_pmi_start(int size)
{
	struct fake_pmi *pmi = calloc(1, sizeof(*pmi));

	ASSERT(pmi);
	pmi->size = size;
	pmi->aborted = -1;
	for (int i = 0; i < size; i++) {
		int fds[2];

		ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
		pmi->ranks[i] = (struct rank){.ours = fds[0], .theirs = fds[1], .version = 1};
	}
	ASSERT_OK(pthread_create(&pmi->thread, NULL, serve, pmi));
	return pmi;
}

int fake_pmi_fd(const struct fake_pmi *pmi, int rank)
{
	return pmi->ranks[rank].theirs;
}

void fake_pmi_answer(struct fake_pmi *pmi, const char *text)
{
	__atomic_store_n(&pmi->answer, text, __ATOMIC_SEQ_CST);
}

void fake_pmi_stop(struct fake_pmi *pmi, int *ret_finalized, int *ret_aborted)
{
	__atomic_store_n(&pmi->stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(pmi->thread, NULL);
	*ret_finalized = pmi->finalized;
	*ret_aborted = pmi->aborted;
	for (int i = 0; i < pmi->size; i++) {
		close(pmi->ranks[i].ours);
		close(pmi->ranks[i].theirs);
	}
	free(pmi);
}
