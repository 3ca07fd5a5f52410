/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "pmix": libpmix.so.2, loaded at run time. Structs and numbers are those of the PMIx standard, version 4.
 *
 * The library counts its users, so an MPI library in the same process does not matter. It is initialised once and finalised when the process
 * ends: a launcher takes a process that ends without that for one that failed.
 *
 * PMIx has no time limits for its initialisation, commit, finalisation and abort, which talk to the launcher's daemon on this node. So a thread makes
 * these calls (limited.h): the first two have the bootstrap's time limit, the others this and 5 s at most.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/ending.h"
#include "libclient/runtime/bootstrap/exchange.h"
#include "libclient/runtime/bootstrap/last-words.h"
#include "libclient/runtime/bootstrap/library.h"
#include "libclient/runtime/bootstrap/limited.h"
#include "libclient/runtime/bootstrap/wire.h"
#include "proto/base/nsec.h"

#define RANK_WILDCARD (UINT32_MAX - 1)
#define SCOPE_GLOBAL 3

enum { TYPE_STRING = 3, TYPE_UINT32 = 14 };

/* Already done, without a callback. */
enum { STATUS_DONE_ALREADY = -157, STATUS_NO_MEMORY = -32 };

struct proc {
	char nspace[256];
	uint32_t rank;
};

struct value {
	uint16_t type;
	union {
		char *string;
		uint32_t uint32;
		uint64_t room[3];
	} data;
};

static int put(void *arg, const char *key, const char *value, uint64_t deadline);
static int fence(void *arg, uint64_t deadline);
static int get(void *arg, const char *key, char *value, size_t bytes, uint64_t deadline);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int (*init)(struct proc *me, void *info, size_t n_info), (*finalize)(const void *info, size_t n_info);
	int (*put)(uint8_t scope, const char *key, struct value *value), (*commit)(void);
	int (*get)(const struct proc *proc, const char *key, const void *info, size_t n_info,
		   void (*done)(int status, struct value *value, void *arg), void *arg);
	int (*fence)(const struct proc *procs, size_t n_procs, const void *info, size_t n_info, void (*done)(int status, void *arg), void *arg);
	int (*abort)(int status, const char *why, struct proc *procs, size_t n_procs);
	const char *(*text)(int status);
	pid_t pid; /* that has initialised it; 0: none */
	uint64_t end_nsec; /* for calls while this process ends */
	bool is_stuck; /* a thread is in a call of the library, perhaps for ever */
	struct proc me;
	struct key_store keys;
} pmix = {.keys = {.put = put, .fence = fence, .get = get}};

static int find_functions(void)
{
	static const char *const files[] = {"libpmix.so.2", NULL};
	const struct library_symbol symbols[] = {
		{"PMIx_Init", (void **)&pmix.init}, {"PMIx_Finalize", (void **)&pmix.finalize}, {"PMIx_Put", (void **)&pmix.put},
		{"PMIx_Commit", (void **)&pmix.commit}, {"PMIx_Get_nb", (void **)&pmix.get}, {"PMIx_Fence_nb", (void **)&pmix.fence},
		{"PMIx_Abort", (void **)&pmix.abort}, {"PMIx_Error_string", (void **)&pmix.text}, {NULL, NULL},
	};

	return library_find("libpmix.so.2", files, 1, symbols);
}

static int failed(const char *what, int status)
{
	return shmd_error_set(-EIO, "%s: %s", what, pmix.text(status));
}

/* With the module's lock. */
static int limited(const char *what, void (*fn)(void *arg), void *arg, uint64_t deadline)
{
	int err = limited_call(what, fn, arg, deadline);

	pmix.is_stuck = err == -ETIMEDOUT;
	return err;
}

struct pair {
	char *key, *text;
	int put_status, commit_status;
};

static void free_pair(struct pair *pair)
{
	free(pair->key);
	free(pair->text);
	free(pair);
}

static void put_pair(void *arg)
{
	struct pair *pair = arg;
	struct value value = {.type = TYPE_STRING, .data = {.string = pair->text}};

	pair->put_status = pmix.put(SCOPE_GLOBAL, pair->key, &value);
	pair->commit_status = pair->put_status ? 0 : pmix.commit();
}

static int put(void *arg, const char *key, const char *text, uint64_t deadline)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	int err;

	if (!pair)
		return shmd_error_set(-ENOMEM, "no memory for a value of PMIx");
	pair->key = strdup(key);
	pair->text = strdup(text);
	if (pair->key && pair->text)
		err = limited("PMIx_Put and PMIx_Commit", put_pair, pair, deadline);
	else
		err = shmd_error_set(-ENOMEM, "no memory for a value of PMIx");
	if (!err && pair->put_status)
		err = failed("PMIx_Put", pair->put_status);
	else if (!err && pair->commit_status)
		err = failed("PMIx_Commit", pair->commit_status);
	if (err != -ETIMEDOUT)
		free_pair(pair);
	return err;
}

/* ---- requests: PMIx reports their end on a thread of its own, perhaps after our time limit --------------------------------------- */

struct request {
	struct ending ending;
	int status;
	struct value value; /* of a get; a string is a copy */
};

static void free_request(struct request *request)
{
	if (request->value.type == TYPE_STRING)
		free(request->value.data.string);
	ending_deinit(&request->ending);
	free(request);
}

/* The value is PMIx's. */
static void copy_value(struct request *request, const struct value *value)
{
	request->value = *value;
	if (value->type != TYPE_STRING)
		return;
	request->value.data.string = value->data.string ? strdup(value->data.string) : NULL;
	if (!request->value.data.string)
		request->status = STATUS_NO_MEMORY;
}

static void got(int status, struct value *value, void *arg)
{
	struct request *request = arg;

	request->status = status;
	if (!status && value)
		copy_value(request, value);
	if (ending_end(&request->ending))
		free_request(request);
}

static void fence_ended(int status, void *arg)
{
	got(status, NULL, arg);
}

static struct request *new_request(void)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request) {
		shmd_error_set(-ENOMEM, "no memory for a request to PMIx");
		return NULL;
	}
	ending_init(&request->ending);
	return request;
}

static int fence(void *arg, uint64_t deadline)
{
	struct proc all = pmix.me;
	struct request *request = new_request();
	int status;

	if (!request)
		return -ENOMEM;
	all.rank = RANK_WILDCARD;
	status = pmix.fence(&all, 1, NULL, 0, fence_ended, request);
	if (!status && !ending_wait(&request->ending, deadline))
		return shmd_error_set(-ETIMEDOUT, "not all ranks of the job opened the bootstrap within the time limit; PMIx does not say which did not");
	if (!status)
		status = request->status;
	free_request(request);
	return status && status != STATUS_DONE_ALREADY ? failed("PMIx_Fence_nb", status) : 0;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static int take_value(struct request *request, const char *key, uint16_t type, struct value *ret)
{
	if (request->status)
		return failed(key, request->status);
	if (request->value.type != type)
		return shmd_error_set(-EPROTO, "PMIx has a value of type %u for %s, not %u", request->value.type, key, type);
	*ret = request->value;
	request->value.type = 0;
	return 0;
}

/* A string is the caller's. */
static int get_value(uint32_t rank, const char *key, uint16_t type, uint64_t deadline, struct value *ret)
{
	struct proc proc = pmix.me;
	struct request *request = new_request();
	int err;

	if (!request)
		return -ENOMEM;
	proc.rank = rank;
	err = pmix.get(&proc, key, NULL, 0, got, request);
	if (!err && !ending_wait(&request->ending, deadline))
		return shmd_error_set(-ETIMEDOUT, "PMIx did not answer within the time limit (%s)", key);
	err = err ? failed(key, err) : take_value(request, key, type, ret);
	free_request(request);
	return err;
}

static int get(void *arg, const char *key, char *text, size_t bytes, uint64_t deadline)
{
	struct value value;
	int err = get_value(0, key, TYPE_STRING, deadline, &value), n;

	if (err)
		return err;
	n = snprintf(text, bytes, "%s", value.data.string);
	free(value.data.string);
	return (size_t)n < bytes ? 0 : shmd_error_set(-EPROTO, "PMIx has another text for %s than rank 0 put there", key);
}

static void finalize_pmix(void *arg)
{
	pmix.finalize(NULL, 0);
}

static void finalize(void)
{
	if (pmix.pid == getpid() && limited_call("PMIx_Finalize", finalize_pmix, NULL, nsec_now() + pmix.end_nsec))
		last_words("shmemd: %s\n", shmd_error_text());
}

struct hello {
	struct proc me;
	int status;
};

static void init_pmix(void *arg)
{
	struct hello *hello = arg;

	hello->status = pmix.init(&hello->me, NULL, 0);
}

/* `hello` is PMIx's at -ETIMEDOUT. */
static int init(struct hello *hello, uint64_t deadline)
{
	int err = limited("PMIx_Init", init_pmix, hello, deadline);

	if (err)
		return err;
	if (hello->status)
		return failed("PMIx_Init", hello->status);
	pmix.me = hello->me;
	pmix.me.nspace[sizeof(pmix.me.nspace) - 1] = 0;
	pmix.pid = getpid();
	atexit(finalize);
	return 0;
}

static int init_once(uint64_t deadline)
{
	int err = pmix.pid == getpid() ? 0 : find_functions();
	struct hello *hello;

	if (err || pmix.pid == getpid())
		return err;
	hello = calloc(1, sizeof(*hello));
	if (!hello)
		return shmd_error_set(-ENOMEM, "no memory to initialise PMIx");
	err = init(hello, deadline);
	if (err != -ETIMEDOUT)
		free(hello);
	return err;
}

static int find_ranks(uint64_t deadline, struct links_attr *links)
{
	struct value value;
	int err = get_value(RANK_WILDCARD, "pmix.job.size", TYPE_UINT32, deadline, &value);

	if (err)
		return err;
	if (pmix.me.rank > WIRE_MOST_RANKS || value.data.uint32 > WIRE_MOST_RANKS)
		return shmd_error_set(-EINVAL, "PMIx says that this is rank %u of %u; %d ranks are possible", pmix.me.rank, value.data.uint32,
				      WIRE_MOST_RANKS);
	links->rank = (int)pmix.me.rank;
	links->size = (int)value.data.uint32;
	return 0;
}

struct last {
	int status;
	char why[256];
};

static void abort_pmix(void *arg)
{
	const struct last *last = arg;

	pmix.abort(last->status, last->why, NULL, 0);
}

/* The process ends right after this, so `last` is left to it. */
static void end_job(int status, const char *why)
{
	struct last *last = calloc(1, sizeof(*last));

	if (!last || pmix.pid != getpid())
		return;
	last->status = status;
	snprintf(last->why, sizeof(last->why), "%s", why ? why : "");
	limited_call("PMIx_Abort", abort_pmix, last, nsec_now() + pmix.end_nsec);
}

static bool wants_pmix(const struct bootstrap_attr *attr)
{
	return attr->env("PMIX_NAMESPACE");
}

static int open_pmix(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = "pmix", .node_rank = -1, .node_size = -1, .deadline = deadline, .abort = end_job};
	struct shmd_uid uid;
	int err;

	pthread_mutex_lock(&lock);
	pmix.end_nsec = attr->timeout_nsec < LIMITED_END_NSEC ? attr->timeout_nsec : LIMITED_END_NSEC;
	err = pmix.is_stuck ? shmd_error_set(-ETIMEDOUT, "an earlier call of PMIx has not returned yet") : init_once(deadline);
	if (!err)
		err = find_ranks(deadline, &links);
	if (!err)
		err = exchange_uid(attr, &pmix.keys, links.rank, deadline, &uid);
	links.uid = &uid;
	pthread_mutex_unlock(&lock);
	return err ? err : links_open(attr, &links, ret);
}

const struct module module_pmix = {"pmix", wants_pmix, open_pmix};
