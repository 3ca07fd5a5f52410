/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMI-1 and PMI-2 over PMI_FD, as mpiexec.hydra, srun and others have them.
 *
 * A process says hello to its launcher once, at its first bootstrap, and goodbye when it ends: a launcher takes a process that ends without it for
 * one that failed. So the connection is one for all worlds of the process. A lock keeps it to one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/exchange.h"
#include "libclient/runtime/bootstrap/pmi.h"
#include "libclient/runtime/bootstrap/wire.h"
#include "proto/base/nsec.h"

static int put(void *arg, const char *key, const char *value, uint64_t deadline);
static int fence(void *arg, uint64_t deadline);
static int get(void *arg, const char *key, char *value, size_t bytes, uint64_t deadline);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	pid_t pid; /* 0: has not said hello */
	int rank;
	int size;
	bool is_broken; /* a reply did not come, so later ones would be taken for it */
	struct pmi pmi;
	char store[PMI_WORD_BYTES]; /* name of the key-value store, or the job */
	struct key_store keys;
} launcher = {.keys = {.put = put, .fence = fence, .get = get}};

static int call(const char *message, const char *expect, uint64_t deadline)
{
	int err = pmi_call(&launcher.pmi, message, expect, deadline);

	launcher.is_broken |= err && err != -EIO;
	return err;
}

static bool is_second(void)
{
	return launcher.pmi.version == 2;
}

static int put(void *arg, const char *key, const char *value, uint64_t deadline)
{
	char message[PMI_MOST_BYTES];

	if (is_second()) {
		snprintf(message, sizeof(message), "cmd=kvs-put;key=%s;value=%s;", key, value);
		return call(message, "kvs-put-response", deadline);
	}
	snprintf(message, sizeof(message), "cmd=put kvsname=%s key=%s value=%s", launcher.store, key, value);
	return call(message, "put_result", deadline);
}

static int fence(void *arg, uint64_t deadline)
{
	return is_second() ? call("cmd=kvs-fence;", "kvs-fence-response", deadline) : call("cmd=barrier_in", "barrier_out", deadline);
}

static int get(void *arg, const char *key, char *value, size_t bytes, uint64_t deadline)
{
	char message[PMI_MOST_BYTES];
	int err;

	if (is_second()) {
		snprintf(message, sizeof(message), "cmd=kvs-get;jobid=%s;srcid=-1;key=%s;", launcher.store, key);
		err = call(message, "kvs-get-response", deadline);
	} else {
		snprintf(message, sizeof(message), "cmd=get kvsname=%s key=%s", launcher.store, key);
		err = call(message, "get_result", deadline);
	}
	return err ? err : pmi_reply_value(&launcher.pmi, "value", value, bytes);
}

/* ---- hello and goodbye ------------------------------------------------------------------------------------------------------- */

static int hello_1(uint64_t deadline)
{
	int err = call("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);

	if (!err)
		err = call("cmd=get_my_kvsname", "my_kvsname", deadline);
	return err ? err : pmi_reply_value(&launcher.pmi, "kvsname", launcher.store, sizeof(launcher.store));
}

/* The first message has the form of PMI-1, the later ones have that of PMI-2. */
static int hello_2(const char *job, uint64_t deadline)
{
	char message[PMI_MOST_BYTES];
	int err = call("cmd=init pmi_version=2 pmi_subversion=0", "response_to_init", deadline);

	if (err)
		return err;
	launcher.pmi.version = 2;
	snprintf(message, sizeof(message), "cmd=fullinit;pmijobid=%.256s;pmirank=%d;threaded=FALSE;", job, launcher.rank);
	err = call(message, "fullinit-response", deadline);
	if (!err)
		err = call("cmd=job-getid;", "job-getid-response", deadline);
	return err ? err : pmi_reply_value(&launcher.pmi, "jobid", launcher.store, sizeof(launcher.store));
}

static int say_hello(const struct bootstrap_attr *attr, int version, uint64_t deadline)
{
	const char *job = attr->env("PMI_JOBID"), *name = version == 2 ? "pmi2" : "pmi1";
	int err = module_need_number(attr, name, "PMI_FD", 0, INT_MAX, &launcher.pmi.fd);

	if (!err)
		err = module_need_number(attr, name, "PMI_SIZE", 1, WIRE_MOST_RANKS, &launcher.size);
	if (!err)
		err = module_need_number(attr, name, "PMI_RANK", 0, launcher.size - 1, &launcher.rank);
	if (err)
		return err;
	if (fcntl(launcher.pmi.fd, F_GETFD) < 0)
		return shmd_error_set(-EINVAL, "PMI_FD is %d, and this process has no such descriptor open", launcher.pmi.fd);
	launcher.pmi.version = 1;
	launcher.pid = getpid();
	err = version == 2 ? hello_2(job ? job : "", deadline) : hello_1(deadline);
	launcher.is_broken |= err != 0;
	return err;
}

__attribute__((destructor)) static void say_goodbye(void)
{
	uint64_t deadline = nsec_now() + 2 * NSEC_PER_SEC;

	if (launcher.pid != getpid() || launcher.is_broken)
		return;
	launcher.is_broken = true;
	if (is_second())
		pmi_call(&launcher.pmi, "cmd=finalize;", "finalize-response", deadline);
	else
		pmi_call(&launcher.pmi, "cmd=finalize", "finalize_ack", deadline);
}

/* ---- the modules ------------------------------------------------------------------------------------------------------------- */

static int exchange(const struct bootstrap_attr *attr, int version, uint64_t deadline, struct shmd_uid *ret)
{
	int err = launcher.pid == getpid() ? 0 : say_hello(attr, version, deadline);

	if (err)
		return err;
	if (launcher.is_broken)
		return shmd_error_set(-EIO, "an earlier request to the launcher failed, and the connection (PMI_FD) is of no more use");
	if (version != launcher.pmi.version)
		return shmd_error_set(-EINVAL, "this process has spoken PMI-%d with its launcher, and cannot speak PMI-%d now",
				      launcher.pmi.version, version);
	return exchange_uid(attr, &launcher.keys, launcher.rank, deadline, ret);
}

static void end_job(int status, const char *why)
{
	char message[64];

	if (launcher.pid != getpid())
		return;
	/* Without the lock: a thread may hold it in a barrier that never ends. One write of a short message stays in one piece. */
	snprintf(message, sizeof(message), is_second() ? "cmd=abort;isworld=TRUE;msg=%d;" : "cmd=abort exitcode=%d", status);
	pmi_send(&launcher.pmi, message, nsec_now() + NSEC_PER_SEC);
}

static int open_pmi(const struct bootstrap_attr *attr, const char *name, int version, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = name, .node_rank = -1, .node_size = -1, .deadline = deadline, .abort = end_job};
	struct shmd_uid uid;
	int err;

	pthread_mutex_lock(&lock);
	err = exchange(attr, version, deadline, &uid);
	links.rank = launcher.rank;
	links.size = launcher.size;
	links.uid = &uid;
	pthread_mutex_unlock(&lock);
	return err ? err : links_open(attr, &links, ret);
}

static int open_pmi1(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	return open_pmi(attr, "pmi1", 1, deadline, ret);
}

static int open_pmi2(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	return open_pmi(attr, "pmi2", 2, deadline, ret);
}

/* Launchers of PMI-2 over PMI_FD speak PMI-1 there, too. */
static bool wants_pmi1(const struct bootstrap_attr *attr)
{
	return attr->env("PMI_FD");
}

const struct module module_pmi1 = {"pmi1", wants_pmi1, open_pmi1};
const struct module module_pmi2 = {"pmi2", NULL, open_pmi2};
