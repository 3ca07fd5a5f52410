/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that a stranger sent, as `shmemctl topology --from` reads it: XML of hwloc, of NCCL, or our own. Before a form feed, where there
 * is one, stands what an administrator wants of that machine, as lines of shmemd.conf. A refusal must say why; an accepted file must give
 * a machine whose promises hold, whose map follows from it, and which is the same when it is dumped and read again.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "tests/fuzz/fuzz-topology.h"
#include "tests/fuzz/fuzz.h"

#define SEPARATOR '\f'

static struct topo_policy policy;
static struct topo_map map;

/* By a path, since lines are the file's. False: it was refused, and has no effect. */
static bool read_policy(const uint8_t *bytes, size_t n)
{
	_cleanup_close_ int fd = memfd_create("policy", MFD_CLOEXEC);
	char why[TOPO_POLICY_WHY_BYTES], path[64];
	int r;

	assert_bug(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	memset(&policy, 0, sizeof(policy));
	memset(why, 0xff, sizeof(why));
	r = topo_policy_read(&policy, path, why);
	assert_bug(r == 0 || r == -EINVAL);
	if (r < 0)
		judge_words(why, sizeof(why));
	return r == 0;
}

/* Names that nothing has are a number and a sentence, or neither. */
static void judge_doubts(const struct topo *topo)
{
	char text[TOPO_DOUBTS_BYTES];
	unsigned int n;

	memset(text, 0xff, sizeof(text));
	n = topo_policy_doubts(&policy, topo, NULL, 0, text);
	assert_bug(memchr(text, 0, sizeof(text)) && (n > 0) == (text[0] != 0));
	if (n > 0)
		judge_words(text, sizeof(text));
}

static bool check_policy(const struct topo *topo)
{
	char why[TOPO_POLICY_WHY_BYTES];
	int r;

	memset(why, 0xff, sizeof(why));
	r = topo_policy_check(&policy, topo, why);
	assert_bug(r == 0 || r == -EINVAL || r == -ENETDOWN);
	if (r < 0)
		judge_words(why, sizeof(why));
	judge_doubts(topo);
	return r == 0;
}

/* In a heap block with one byte to spare, as it wants. NULL: it is refused. */
static struct topo *read_machine(const uint8_t *bytes, size_t n)
{
	_cleanup_free_ char *text = malloc(n + 1);
	char why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;
	int r;

	assert_bug(text);
	if (n)
		memcpy(text, bytes, n);
	memset(why, 0xff, sizeof(why));
	r = topo_parse(text, n, &topo, why);
	assert_bug(r == 0 || r == -EBADMSG || r == -E2BIG);
	assert_bug((r == 0) == (topo != NULL));
	if (r < 0)
		judge_words(why, sizeof(why));
	return topo;
}

static void judge_all(const struct topo *topo, const struct topo_policy *wanted, bool is_followed)
{
	topo_assign(topo, wanted, &map);
	judge_map(topo, wanted, is_followed, &map);
	judge_reasons(topo, &map);
	judge_views(topo, &map);
	judge_dump(topo, wanted, &map);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const uint8_t *separator = n ? memchr(bytes, SEPARATOR, n) : NULL;
	size_t n_policy = separator ? (size_t)(separator - bytes) : 0;
	bool has_policy = separator && read_policy(bytes, n_policy);
	struct topo *topo;

	if (separator) {
		bytes = separator + 1;
		n -= n_policy + 1;
	}
	topo = read_machine(bytes, n);
	if (!topo)
		return 0;
	judge_machine(topo);
	if (has_policy)
		judge_all(topo, &policy, check_policy(topo));
	else
		judge_all(topo, NULL, true);
	topo_free(topo);
	return 0;
}
