/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: names of what the manager has, counted here because the manager does not answer.
 *
 * Two of its rules lose descriptors without a word. It keeps an open file once, whatever the names: memfds are opened
 * again, so that each entry has an open file of its own; of what cannot be opened again and has no inode of its own a
 * duplicate stays here, to compare with. And all names go into one variable of the next daemon's environment, which the
 * kernel limits: with too long ones no daemon would start any more.
 *
 * A manager takes longer for a descriptor the more it has. So the store puts memory into carriers (store-carriers.h) once the manager
 * has many other entries, or gives it to the manager itself if that fails.
 *
 * Descriptors may be a client's, also those that are claimed: the file itself is asked nothing, since its file system may not
 * answer. The kernel names its kind by the link in /proc. Control thread.
 */
#include "daemon/restart/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/porter/porter.h"
#include "daemon/restart/store-carriers.h"
#include "daemon/service/fdstore.h"
#include "proto/base/cleanup.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"

/* A string of the environment may have 32 pages, of 4 KiB where they are smallest: less "LISTEN_FDNAMES=" and the manager's own. */
#define MAX_NAME_BYTES (32u * 4096u - 1024u)

#define USUAL_NAME_BYTES 16u /* "s1f-q10000", with what stands between two */

/* The manager has so many entries before memory goes into carriers: it compares these in 30 us, and removing is cheaper than there. */
#define MANY_ENTRIES 64u

#define FILE_BYTES 32u /* "socket:[4294967295]" is not cut */

struct entry {
	struct list link;
	char name[FDSTORE_NAME_BYTES];
	int claimed; /* not taken yet; -1: taken, or put by us */
	int same; /* owned; to compare with; -1: no other entry can have this open file */
	char file[FILE_BYTES]; /* what the kernel says it is, cut; "socket:[7]" is one file only */
	struct carried *carried; /* the manager has it in a carrier; NULL: under its name */
	bool is_direct; /* it has it under its name */
};

struct manager_store {
	struct list entries; /* struct entry.link, owned */
	struct hash by_name; /* of name_key() */
	struct carriers carriers;
	unsigned int n, n_direct, max; /* entries; those that the manager has under their names */
	size_t name_bytes; /* of those */
	uint64_t mark; /* of fdstore.h: the manager has what was put last */
	int claim_error;
	struct porters *porters; /* borrowed, or NULL */
};

DEFINE_CLEANUP(struct manager_store *, manager_store_free);

/* Names are few and none is a client's choice: two with one key are refused as one. */
static uint64_t name_key(const char *name)
{
	uint64_t key = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		key = (key ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return key;
}

static struct entry *find(const struct manager_store *store, const char *name)
{
	struct entry *entry = hash_get(&store->by_name, name_key(name));

	return entry && strcmp(entry->name, name) == 0 ? entry : NULL;
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

/* A path begins with a slash. */
static bool is_socket(const char *file)
{
	return strncmp(file, "socket:[", 8) == 0;
}

/* The socket of a session that does not go on may hold unread descriptors. */
static void close_claimed(struct manager_store *store, const struct entry *entry)
{
	if (entry->claimed >= 0 && is_socket(entry->file))
		porters_discard(store->porters, entry->claimed);
	else
		safe_close(entry->claimed);
}

static void entry_free(struct manager_store *store, struct entry *entry)
{
	hash_remove(&store->by_name, name_key(entry->name));
	list_del(&entry->link);
	store->n--;
	if (entry->is_direct) {
		store->n_direct--;
		store->name_bytes -= strlen(entry->name) + 1;
	}
	if (entry->carried)
		carriers_remove(&store->carriers, entry->carried);
	close_claimed(store, entry);
	safe_close(entry->same);
	free(entry);
}

static bool is_memfd(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

static int read_file(int fd, char file[FILE_BYTES])
{
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, file, FILE_BYTES - 1);
	if (n < 0)
		return errno == ENOENT ? -EBADF : -errno;
	file[n] = '\0';
	return 0;
}

/* Sockets have an inode each, and memfds were opened again: the others are compared by the file itself. */
static int open_to_compare(int fd, const char *file, int *ret_fd)
{
	*ret_fd = -1;
	if (is_socket(file) || is_memfd(fd))
		return 0;
	*ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return *ret_fd < 0 ? -errno : 0;
}

static void count_direct(struct manager_store *store, struct entry *entry)
{
	entry->is_direct = true;
	store->n_direct++;
	store->name_bytes += strlen(entry->name) + 1;
}

static int add_entry(struct manager_store *store, const char *name, int fd, struct entry **ret)
{
	_cleanup_free_ struct entry *entry = calloc(1, sizeof(*entry));
	_cleanup_close_ int same = -1;
	int r;

	if (!entry)
		return -ENOMEM;
	r = read_file(fd, entry->file);
	if (r == 0)
		r = open_to_compare(fd, entry->file, &same);
	if (r < 0)
		return r;
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	entry->claimed = -1;
	r = hash_add(&store->by_name, name_key(name), entry);
	if (r < 0)
		return r;
	entry->same = take_fd(&same);
	store->n++;
	list_add_tail(&store->entries, &entry->link);
	*ret = take_ptr(entry);
	return 0;
}

/* ---- one open file once ----------------------------------------------------------------------------------------- */

static bool is_same(const struct entry *entry, int fd, const char *file)
{
	pid_t self = getpid();

	if (strcmp(entry->file, file) != 0)
		return false;
	return is_socket(file) ||
	       (entry->same >= 0 && syscall(SYS_kcmp, self, self, KCMP_FILE, entry->same, fd) == 0);
}

static bool is_kept(const struct manager_store *store, int fd)
{
	char file[FILE_BYTES];
	struct entry *entry;

	if (read_file(fd, file) < 0)
		return false;
	list_for_each_entry(entry, &store->entries, link)
		if (is_same(entry, fd, file))
			return true;
	return false;
}

/*
 * A memfd with the same rights, as an open file of its own. A client may have made it one that cannot be opened; or taken a
 * lease on it (fcntl(2)), for whose end an open would wait: -EAGAIN.
 */
static int open_again(int fd)
{
	_cleanup_close_ int again = -1;
	int flags = fcntl(fd, F_GETFL);
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, (flags & O_ACCMODE) | O_NONBLOCK | O_CLOEXEC);
	if (again < 0 || fcntl(again, F_SETFL, flags) < 0)
		return -errno;
	return take_fd(&again);
}

/* The manager counts these. */
static unsigned int n_kept(const struct manager_store *store)
{
	return store->n_direct + store->carriers.n * CARRIERS_NAMES;
}

static int keep_direct(struct manager_store *store, struct entry *entry, int fd)
{
	int r = fdstore_keep(entry->name, fd);

	if (r < 0)
		return r;
	count_direct(store, entry);
	store->mark = fdstore_mark();
	return 0;
}

static int carry(struct manager_store *store, struct entry *entry, int memfd)
{
	int r = carriers_put(&store->carriers, entry->name, memfd, &entry->carried);

	if (r != -ENOSPC || n_kept(store) + CARRIERS_NAMES > store->max)
		return r;
	r = carriers_grow(&store->carriers);
	return r < 0 ? r : carriers_put(&store->carriers, entry->name, memfd, &entry->carried);
}

static int put(struct manager_store *store, const char *name, int fd, bool may_be_carried)
{
	_cleanup_close_ int again = -1;
	struct entry *entry;
	int r;

	if (!store)
		return 0;
	if (!fdstore_is_name(name))
		return -EINVAL;
	if (hash_get(&store->by_name, name_key(name)))
		return -EEXIST;
	if (manager_store_room(store) == 0)
		return -ENOSPC;
	if (is_memfd(fd)) {
		again = open_again(fd);
		if (again < 0)
			return again;
	} else if (is_kept(store, fd)) {
		return -EBUSY;
	}
	r = add_entry(store, name, fd, &entry);
	if (r < 0)
		return r;
	if (may_be_carried && again >= 0 && store->n_direct >= MANY_ENTRIES && carry(store, entry, again) == 0) {
		store->mark = carriers_mark(entry->carried);
		return 0;
	}
	r = keep_direct(store, entry, again >= 0 ? again : fd);
	if (r < 0)
		entry_free(store, entry);
	return r;
}

int manager_store_put(struct manager_store *store, const char *name, int fd)
{
	return put(store, name, fd, false);
}

int manager_store_put_memory(struct manager_store *store, const char *name, int fd)
{
	return put(store, name, fd, true);
}

uint64_t manager_store_mark(const struct manager_store *store)
{
	return store ? store->mark : 0;
}

static void remove_entry(struct manager_store *store, struct entry *entry)
{
	if (entry->is_direct)
		fdstore_drop(entry->name);
	entry_free(store, entry);
}

void manager_store_remove(struct manager_store *store, const char *name)
{
	struct entry *entry = store ? find(store, name) : NULL;

	if (entry)
		remove_entry(store, entry);
}

void manager_store_settle(struct manager_store *store)
{
	if (store)
		carriers_settle(&store->carriers, store->n_direct >= MANY_ENTRIES);
}

static unsigned int room_for(const struct manager_store *store, size_t name_bytes)
{
	unsigned int used = store ? n_kept(store) : 0;
	size_t bytes, by_bytes;

	if (!store)
		return 0;
	/* A carrier that has few is more for the manager than for us. */
	used = used > store->n ? used : store->n;
	bytes = store->name_bytes + store->carriers.name_bytes;
	if (used >= store->max || bytes >= MAX_NAME_BYTES)
		return 0;
	by_bytes = (MAX_NAME_BYTES - bytes) / name_bytes;
	return by_bytes < store->max - used ? (unsigned int)by_bytes : store->max - used;
}

unsigned int manager_store_room(const struct manager_store *store)
{
	return room_for(store, FDSTORE_NAME_BYTES);
}

unsigned int manager_store_usual_room(const struct manager_store *store)
{
	return manager_store_room(store) == 0 ? 0 : room_for(store, USUAL_NAME_BYTES);
}

/* ---- claims ----------------------------------------------------------------------------------------------------- */

static void on_claim(void *arg, const char *name, int fd)
{
	struct manager_store *store = arg;
	struct entry *entry;
	int r;

	if (carriers_is_name(name)) {
		r = carriers_claim(&store->carriers, name, fd);
		store->claim_error = r < 0 ? r : store->claim_error;
		return;
	}
	r = add_entry(store, name, fd, &entry);
	if (r == 0) {
		entry->claimed = fd;
		count_direct(store, entry);
		return;
	}
	/* A second one under a name: whoever takes the first does without it. The manager has it, too. */
	safe_close(fd);
	if (r != -EEXIST)
		store->claim_error = r;
}

/* A second one under a name has the same memory: its daemon was killed while it passed that one on. */
static bool on_carried(void *arg, struct carried *carried, const char *name, int fd)
{
	struct manager_store *store = arg;
	struct entry *entry;
	int r = fdstore_is_name(name) ? add_entry(store, name, fd, &entry) : -EINVAL;

	if (r == -ENOMEM)
		store->claim_error = r;
	if (r < 0)
		return false;
	entry->claimed = fd;
	entry->carried = carried;
	return true;
}

static int claim_all(struct manager_store *store)
{
	int r;

	fdstore_claim(on_claim, store);
	r = carriers_claimed(&store->carriers, on_carried, store);
	return store->claim_error < 0 ? store->claim_error : r;
}

int manager_store_take(struct manager_store *store, const char *name)
{
	struct entry *entry = store ? find(store, name) : NULL;

	return entry && entry->claimed >= 0 ? take_fd(&entry->claimed) : -ENOENT;
}

void manager_store_each_left(struct manager_store *store, void (*fn)(void *arg, const char *name), void *arg)
{
	struct entry *entry;

	if (!store)
		return;
	list_for_each_entry(entry, &store->entries, link)
		if (entry->claimed >= 0)
			fn(arg, entry->name);
}

unsigned int manager_store_discard_left(struct manager_store *store)
{
	struct entry *entry, *tmp;
	unsigned int n = 0;

	if (!store)
		return 0;
	list_for_each_entry_safe(entry, tmp, &store->entries, link) {
		if (entry->claimed < 0)
			continue;
		remove_entry(store, entry);
		n++;
	}
	manager_store_settle(store);
	return n;
}

static int make_lifeline(struct manager_store *store, int *ret_writing)
{
	_cleanup_close_ int reading = -1;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	reading = fds[0];
	*ret_writing = fds[1];
	r = manager_store_put(store, FDSTORE_LIFELINE, fds[1]);
	return r < 0 ? r : take_fd(&reading);
}

int manager_store_lifeline(struct manager_store *store)
{
	_cleanup_close_ int writing = store ? manager_store_take(store, FDSTORE_LIFELINE) : -ENOENT;
	char path[40];
	int fd;

	if (!store)
		return -ENOENT;
	if (writing < 0)
		return make_lifeline(store, &writing);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", writing);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void manager_store_set_porters(struct manager_store *store, struct porters *porters)
{
	if (store)
		store->porters = porters;
}

/* ---- birth and death -------------------------------------------------------------------------------------------- */

int manager_store_new(unsigned int max_fds, struct manager_store **ret)
{
	_cleanup_(manager_store_freep) struct manager_store *store = calloc(1, sizeof(*store));
	unsigned int most = fdstore_max();
	int r;

	if (!store)
		return -ENOMEM;
	list_init(&store->entries);
	hash_init(&store->by_name);
	carriers_init(&store->carriers);
	/* One is the listener's. */
	store->max = max_fds < most ? max_fds : most - (most > 0);
	r = claim_all(store);
	if (r < 0)
		return r;
	if (store->max == 0) {
		manager_store_discard_left(store);
		*ret = NULL;
		return 0;
	}
	*ret = take_ptr(store);
	return 0;
}

struct manager_store *manager_store_free(struct manager_store *store)
{
	struct entry *entry, *tmp;

	if (!store)
		return NULL;
	/* They may be gone by now; and the manager has what is closed here. */
	store->porters = NULL;
	list_for_each_entry_safe(entry, tmp, &store->entries, link)
		entry_free(store, entry);
	carriers_deinit(&store->carriers);
	hash_deinit(&store->by_name);
	free(store);
	return NULL;
}
