/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells in shared memory, and the thread that looks at them: for backends whose queues a thread of the daemon drains or
 * rings.
 *
 * A doorbell page belongs to one context. Its word serves all queues of the context, so a second doorbell may overwrite the
 * first before the thread sees it: any doorbell makes the thread look at the dbrec of every queue of that page, some in each
 * turn, the named queue first. Clients write the word and the dbrecs and nothing else. A number that names no queue of the page
 * rings nothing.
 *
 * A thread that finds nothing to do spins, yields, and after spin_usec sleeps: it announces that on the NIC page, looks at
 * everything once more, and waits in epoll. The wait has a limit while a GPU, which wakes nobody, drives a queue.
 *
 * Callbacks run on the poller's thread. Functions of attached pages run there too, or while the backend keeps the thread out of
 * doorbell_poll_look() by a lock of its own.
 */
#ifndef SHMEMD_NIC_DOORBELL_POLL_H
#define SHMEMD_NIC_DOORBELL_POLL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/nic-page.h"
#include "daemon/nic/nic.h"
#include "proto/base/list.h"

struct doorbell_poll;

/* ---- pages and their queues -------------------------------------------------------------------------------------- */

/* Before it is added the backend sets number, word and flag; the word stays mapped until the queue is removed. */
struct doorbell_queue {
	struct list link; /* page->queues */
	const uint32_t *snd_be; /* send word of the dbrec, client-written */
	uint32_t seen_be; /* the word when the thread last saw it change; 0 after a reset, when indexes begin again */
	uint32_t qpn;
	bool is_gpu_driven;
};

struct doorbell_page {
	struct list link; /* poll->pages */
	struct doorbell_poll *poll;
	struct list queues; /* rotates while it is scanned */
	uint32_t n_queues;
	uint32_t n_scan; /* queues still to be looked at since the last doorbell */
	uint64_t *word; /* client-written */
	bool is_silent;
	void *map; /* owned, as are the descriptors */
	int fd, wake_fd;
};

/* Before everything else; deinit is the last, with the page detached, also when it was neither created nor adopted. */
void doorbell_page_init(struct doorbell_page *page, struct doorbell_poll *poll);
void doorbell_page_deinit(struct doorbell_page *page);
/* Fills *doorbell but its reason; the descriptors there stay the page's. */
int doorbell_page_create(struct doorbell_page *page, struct nic_doorbell *doorbell);
/* A page that a client of a former process goes on to ring; the descriptors are borrowed. -EBADF they are no such page. */
int doorbell_page_adopt(struct doorbell_page *page, int fd, int wake_fd, struct nic_doorbell *doorbell);

/* From here on the thread polls the page. */
int doorbell_page_attach(struct doorbell_page *page);
void doorbell_page_detach(struct doorbell_page *page); /* harmless if it is not attached */
/* Polls it no more, and rings nothing that was found before. */
void doorbell_page_silence(struct doorbell_page *page);
/* Every queue is looked at, as after a doorbell. */
void doorbell_page_scan(struct doorbell_page *page);
void doorbell_page_add(struct doorbell_page *page, struct doorbell_queue *queue);
void doorbell_page_remove(struct doorbell_page *page, struct doorbell_queue *queue);
/* Whether the dbrec has changed since it was last seen; it counts as seen now. */
bool doorbell_queue_has_moved(struct doorbell_queue *queue);

/* ---- the thread -------------------------------------------------------------------------------------------------- */

struct doorbell_ops {
	/* A bounded amount of everything, doorbell_poll_look() included. Returns whether there was anything to do. */
	bool (*turn)(struct doorbell_poll *poll);
	/* The look at everything after others can see that the thread is asleep. True: it does not sleep. */
	bool (*last_look)(struct doorbell_poll *poll);
	/* When a sleep ends at the latest, UINT64_MAX: never. NULL: never. */
	uint64_t (*deadline)(struct doorbell_poll *poll);
	/* The queue of this page that has the number, or NULL. */
	struct doorbell_queue *(*find)(struct doorbell_page *page, uint32_t qpn);
	/* A doorbell named the queue, or its dbrec has changed. */
	void (*ring)(struct doorbell_page *page, struct doorbell_queue *queue);
};

struct doorbell_poll_attr {
	const struct doorbell_ops *ops;
	const struct nic_page *nic_page; /* borrowed, as is all that follows */
	uint32_t *asleep; /* atomic: for threads of the daemon, set and cleared with the NIC page's; or NULL */
	int wake_fd; /* eventfd that ends a sleep; watched edge-triggered and never read */
	uint32_t spin_usec; /* how long an idle thread spins and yields before it sleeps */
	uint32_t gpu_poll_usec; /* how long it sleeps at most while a GPU drives a queue */
};

enum doorbell_wait { DOORBELL_SPIN, DOORBELL_YIELD, DOORBELL_SLEEP };

struct doorbell_poll {
	struct doorbell_poll_attr attr;
	uint32_t n_queues, n_gpu_queues; /* atomic, of attached pages and others */

	/* the thread and its callbacks */
	struct list pages; /* struct doorbell_page.link */
	uint64_t now_nsec; /* when the thread or a callback last read the clock */
	bool is_resting; /* set by turn: queues are left alone, so the thread sleeps at once and until it is woken */

	/* private */
	pthread_t thread;
	bool has_thread;
	pid_t tid; /* atomic; of the thread once it runs */
	bool stop; /* atomic */
	int epoll_fd;
	uint32_t n_turns;
	uint64_t idle_since_nsec; /* 0: not idle */
	enum doorbell_wait wait;
};

void doorbell_poll_init(struct doorbell_poll *poll, const struct doorbell_poll_attr *attr);
/* Starts the thread, which sleeps while there is no queue. */
int doorbell_poll_start(struct doorbell_poll *poll, const char *name);
/* Ends and joins the thread; harmless if there is none. */
void doorbell_poll_stop(struct doorbell_poll *poll);
/* Looks at the word of every page, and at some queues of those that were rung. Returns whether there was anything. */
bool doorbell_poll_look(struct doorbell_poll *poll);
/* Its thread: an eventfd that somebody else has, too, wakes it from now on; or does not any more. */
int doorbell_poll_watch(struct doorbell_poll *poll, int fd);
void doorbell_poll_unwatch(struct doorbell_poll *poll, int fd);
/* Any thread: wakes who sleeps with this eventfd. */
void doorbell_wake(int wake_fd);

/* Pure. How a thread waits that has found nothing to do for `idle_nsec`. */
enum doorbell_wait doorbell_wait(uint64_t idle_nsec, uint64_t spin_nsec);
/* Pure. How long a sleep may last: until the deadline, and `most_nsec`; UINT64_MAX: without a limit. */
uint64_t doorbell_sleep_nsec(uint64_t now_nsec, uint64_t deadline_nsec, uint64_t most_nsec);

#endif
