/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that have their numbers already: "uid" by arguments, "env" by variables (SHMD_RANK, SHMD_SIZE, SHMD_UID or SHMD_UID_FILE,
 * SHMD_NODE_RANK, SHMD_NODE_SIZE), "none" for a process that is alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/module.h"
#include "libclient/runtime/bootstrap/wire.h"
#include "proto/base/cleanup.h"

static bool wants_uid(const struct bootstrap_attr *attr)
{
	return attr->uid;
}

static int open_uid(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = "uid", .rank = attr->rank, .size = attr->size, .node_rank = -1, .node_size = -1,
				   .uid = attr->uid, .deadline = deadline};

	if (!attr->uid)
		return shmd_error_set(-EINVAL, "the bootstrap module uid needs a unique id, a rank and a size");
	return links_open(attr, &links, ret);
}

static bool wants_env(const struct bootstrap_attr *attr)
{
	/* shmemctl run sets SHMD_RANK as well, and is a PMI-1 server. */
	return attr->env("SHMD_RANK") && (attr->env("SHMD_UID") || attr->env("SHMD_UID_FILE") || !attr->env("PMI_FD"));
}

static int read_uid_file(const char *path, struct shmd_uid *ret)
{
	char text[BOOTSTRAP_UID_TEXT_BYTES + 2] = "";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return shmd_error_set(-errno, "cannot read %s, which SHMD_UID_FILE names: %m", path);
	return bootstrap_uid_from_text(text, ret);
}

static int find_uid(const struct bootstrap_attr *attr, struct shmd_uid *ret)
{
	const char *text = attr->env("SHMD_UID"), *path = attr->env("SHMD_UID_FILE");

	if (text && *text)
		return bootstrap_uid_from_text(text, ret);
	if (path && *path)
		return read_uid_file(path, ret);
	return shmd_error_set(-EINVAL, "the bootstrap module env needs the environment variable SHMD_UID or SHMD_UID_FILE");
}

static int open_env(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = "env", .node_rank = -1, .node_size = -1, .deadline = deadline};
	struct shmd_uid uid;
	int err = module_need_number(attr, "env", "SHMD_SIZE", 1, WIRE_MOST_RANKS, &links.size);

	if (!err)
		err = module_need_number(attr, "env", "SHMD_RANK", 0, links.size - 1, &links.rank);
	if (!err && module_number(attr, "SHMD_NODE_SIZE", 1, links.size, &links.node_size) == -EINVAL)
		return -EINVAL;
	if (!err && module_number(attr, "SHMD_NODE_RANK", 0, links.size - 1, &links.node_rank) == -EINVAL)
		return -EINVAL;
	if (!err && links.size > 1) {
		err = find_uid(attr, &uid);
		links.uid = &uid;
	}
	return err ? err : links_open(attr, &links, ret);
}

static int open_none(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	return links_open(attr, &(struct links_attr){.name = "none", .size = 1, .deadline = deadline}, ret);
}

const struct module module_uid = {"uid", wants_uid, open_uid};
const struct module module_env = {"env", wants_env, open_env};
const struct module module_none = {"none", NULL, open_none};
