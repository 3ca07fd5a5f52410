/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on the tree. A bootstrap of one rank has no tree and no thread.
 *
 * The first call on a tree carries a name of each rank's node, so that every rank knows its place among those of its node.
 */
#include "libclient/runtime/bootstrap/links.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/keyed-hash.h"
#include "libclient/runtime/bootstrap/last-words.h"
#include "libclient/runtime/bootstrap/meet.h"
#include "libclient/runtime/settings/log.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

struct links {
	struct shmd_bootstrap_ops ops; /* with the module's name */
	struct tree *tree; /* NULL for one rank */
	unsigned int size;
	uint64_t timeout_nsec;
	void (*abort)(int status, const char *why);
};

static int fail(struct shmd_bootstrap *bootstrap, int err)
{
	struct tree_blame blame = tree_blame(((struct links *)bootstrap->state)->tree);

	bootstrap->failed_rank = (int)blame.rank;
	bootstrap->n_failed = (int)blame.n;
	return err;
}

static int call(struct shmd_bootstrap *bootstrap, uint8_t kind, const void *share, size_t bytes, size_t each, void *ret, size_t ret_bytes)
{
	struct links *links = bootstrap->state;
	_cleanup_free_ uint8_t *all = NULL;
	uint32_t got = 0;
	int err;

	err = tree_call(links->tree, kind, share, (uint32_t)bytes, (uint32_t)each, nsec_add(nsec_now(), links->timeout_nsec), &all, &got);
	if (err)
		return fail(bootstrap, err);
	if (got != ret_bytes)
		return shmd_error_set(-EPROTO, "the result of a collective call has %u bytes, not %zu", got, ret_bytes);
	if (got && ret)
		memcpy(ret, all, got);
	return 0;
}

/* A frame holds a result, and rank 0 holds the shares of all ranks: `each` is how many pieces of `bytes` that are. */
static int check_bytes(const struct links *links, size_t bytes, uint64_t each)
{
	if (bytes <= LINK_MOST_BYTES / each)
		return 0;
	return shmd_error_set(-EMSGSIZE, "%zu bytes for each of %u ranks are too many for one call of the bootstrap; at most %u", bytes,
			      links->size, (unsigned int)(LINK_MOST_BYTES / each));
}

static int links_allgather(struct shmd_bootstrap *bootstrap, const void *mine, void *all, size_t bytes)
{
	struct links *links = bootstrap->state;
	int err = check_bytes(links, bytes, links->size);

	if (err)
		return err;
	if (links->tree)
		return call(bootstrap, COLLECT_GATHER, mine, bytes, bytes, all, bytes * links->size);
	if (bytes)
		memmove(all, mine, bytes);
	return 0;
}

static int links_alltoall(struct shmd_bootstrap *bootstrap, const void *to, void *from, size_t bytes)
{
	struct links *links = bootstrap->state;
	int err = check_bytes(links, bytes, (uint64_t)links->size * links->size);

	if (err)
		return err;
	if (links->tree)
		return call(bootstrap, COLLECT_ALLTOALL, to, bytes * links->size, bytes, from, bytes * links->size);
	if (bytes)
		memmove(from, to, bytes);
	return 0;
}

static int links_barrier(struct shmd_bootstrap *bootstrap)
{
	struct links *links = bootstrap->state;

	return links->tree ? call(bootstrap, COLLECT_BARRIER, NULL, 0, 0, NULL, 0) : 0;
}

static int links_watch(struct shmd_bootstrap *bootstrap, shmd_bootstrap_gone_fn gone, void *arg)
{
	struct links *links = bootstrap->state;

	if (links->tree)
		tree_watch(links->tree, gone, arg);
	return 0;
}

static void links_abort(struct shmd_bootstrap *bootstrap, int status, const char *why)
{
	struct links *links = bootstrap->state;

	if (links->tree)
		tree_abort(links->tree, status, why);
	last_words("shmemd: rank %d ends the job: %s\n", bootstrap->rank, why ? why : "no reason given");
	if (links->abort)
		links->abort(status, why);
	_exit(status);
}

static void links_close(struct shmd_bootstrap *bootstrap)
{
	struct links *links = bootstrap->state;

	if (!links)
		return;
	if (links->tree)
		tree_free(links->tree);
	free(links);
	bootstrap->state = NULL;
}

static const struct shmd_bootstrap_ops links_ops = {
	.version = SHMD_BOOTSTRAP_VERSION,
	.allgather = links_allgather,
	.alltoall = links_alltoall,
	.barrier = links_barrier,
	.watch = links_watch,
	.abort = links_abort,
	.close = links_close,
};

void bootstrap_limit(struct shmd_bootstrap *bootstrap, uint64_t timeout_nsec)
{
	struct links *links = bootstrap->state;

	if (bootstrap->ops->barrier != links_barrier || !timeout_nsec || timeout_nsec >= links->timeout_nsec)
		return;
	links->timeout_nsec = timeout_nsec;
	if (links->tree)
		tree_limit(links->tree, timeout_nsec);
}

/* ---- opening ----------------------------------------------------------------------------------------------------------------- */

/* The same for all processes of one kernel. */
static void name_of_node(uint8_t name[KEYED_HASH_BYTES])
{
	static const uint8_t key[16] = "shmd node name";
	char text[256] = "";
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (n <= 0) {
		gethostname(text, sizeof(text) - 1);
		n = (ssize_t)strlen(text);
	}
	keyed_hash(key, text, (size_t)n, name);
}

static void find_node(const uint8_t *names, struct shmd_bootstrap *bootstrap)
{
	const uint8_t *mine = names + (size_t)bootstrap->rank * KEYED_HASH_BYTES;
	int before = 0, all = 0;

	for (int rank = 0; rank < bootstrap->size; rank++) {
		bool is_here = !memcmp(names + (size_t)rank * KEYED_HASH_BYTES, mine, KEYED_HASH_BYTES);

		all += is_here;
		before += is_here && rank < bootstrap->rank;
	}
	bootstrap->node_rank = before;
	bootstrap->node_size = all;
}

static int greet_all(struct links *links, uint64_t deadline, struct shmd_bootstrap *bootstrap)
{
	uint8_t mine[KEYED_HASH_BYTES];
	_cleanup_free_ uint8_t *names = NULL;
	uint32_t bytes = 0;
	int err;

	name_of_node(mine);
	err = tree_call(links->tree, COLLECT_OPEN, mine, sizeof(mine), sizeof(mine), deadline, &names, &bytes);
	if (err)
		return err;
	if (bytes != sizeof(mine) * links->size)
		return shmd_error_set(-EPROTO, "rank 0 sent names of nodes in %u bytes for %u ranks", bytes, links->size);
	if (bootstrap->node_rank < 0 || bootstrap->node_size < 1)
		find_node(names, bootstrap);
	return 0;
}

static int connect_all(const struct bootstrap_attr *how, const struct links_attr *attr, struct links *links,
		       struct shmd_bootstrap *bootstrap)
{
	struct meet meeting = {.rank = (unsigned int)attr->rank, .size = (unsigned int)attr->size, .uid = attr->uid, .number = how->number,
			       .interface = how->interface, .timeout_nsec = links->timeout_nsec, .lost_nsec = how->lost_nsec,
			       .has_launcher = attr->abort,
			       .deadline = attr->deadline,
			       .version = shmd_version()};
	uint64_t begin = nsec_now();
	int err = meet(&meeting, &links->tree);

	if (err)
		return err;
	err = greet_all(links, attr->deadline, bootstrap);
	if (err)
		tree_free(links->tree);
	else
		runtime_log(BOOTSTRAP, INFO, "rank %d of %d met the others by %s within %.3f s, on a node with %d ranks", attr->rank, attr->size,
			    attr->name, (double)(nsec_now() - begin) / (double)NSEC_PER_SEC, bootstrap->node_size);
	return err;
}

static int check_ranks(const struct links_attr *attr)
{
	if (attr->size < 1 || attr->size > WIRE_MOST_RANKS)
		return shmd_error_set(-EINVAL, "%s says that the job has %d ranks; 1 to %d are possible", attr->name, attr->size,
				      WIRE_MOST_RANKS);
	if (attr->rank < 0 || attr->rank >= attr->size)
		return shmd_error_set(-EINVAL, "%s says that this is rank %d, of a job with %d ranks", attr->name, attr->rank, attr->size);
	return 0;
}

int links_open(const struct bootstrap_attr *how, const struct links_attr *attr, struct shmd_bootstrap *ret)
{
	_cleanup_free_ struct links *links = NULL;
	struct shmd_bootstrap bootstrap = {.rank = attr->rank, .size = attr->size, .node_rank = attr->node_rank,
					   .node_size = attr->node_size};
	int err = check_ranks(attr);

	if (err)
		return err;
	links = calloc(1, sizeof(*links));
	if (!links)
		return shmd_error_set(-ENOMEM, "no memory for the bootstrap");
	*links = (struct links){.ops = links_ops, .size = (unsigned int)attr->size, .timeout_nsec = how->timeout_nsec, .abort = attr->abort};
	links->ops.name = attr->name;
	if (attr->size > 1) {
		err = connect_all(how, attr, links, &bootstrap);
	} else {
		bootstrap.node_rank = 0;
		bootstrap.node_size = 1;
		if (attr->uid)
			bootstrap_uid_drop(attr->uid);
	}
	if (err)
		return err;
	bootstrap.ops = &links->ops;
	bootstrap.state = take_ptr(links);
	*ret = bootstrap;
	return 0;
}
