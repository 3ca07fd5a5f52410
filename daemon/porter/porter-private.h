/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of the daemon's side of the porters. Only files of this folder include it. */
#ifndef SHMEMD_PORTER_PORTER_PRIVATE_H
#define SHMEMD_PORTER_PORTER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/porter/foreign-account.h"
#include "daemon/porter/held.h"
#include "daemon/porter/message.h"
#include "daemon/porter/porter.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"
#include "proto/base/nsec.h"

#define PORTER_IDLE_NSEC (10 * NSEC_PER_SEC)
#define PORTER_PATIENCE_NSEC (5 * NSEC_PER_SEC) /* after that requests end if no porter can be started for them */

struct porter {
	struct porters *porters;
	struct list link;
	uint32_t uid;
	int channel; /* owned; -1: no process runs now */
	bool is_running; /* the process has reported that it runs */
	void *watch;
	struct list slots; /* struct porter_slot.link */
	struct list holds; /* struct held.link */
	struct list pending_slots, pending_holds;
	struct list waiting; /* struct porter_slot.waiting: the loop reports to these sessions that their slot is ready */
	uint64_t started_nsec;
	uint64_t gone_nsec; /* since when no process runs, unless is_running */
	uint64_t idle_nsec; /* since when it has no slot and no hold; 0: it has */
};

struct porter_slot {
	struct porter *porter;
	struct list link, pending, waiting;
	uint32_t id;
	int sock; /* borrowed; owned once the slot has ended */
	struct foreign_account *account; /* owned */
	porter_packet_fn packet; /* NULL once the session has ended, or its request has */
	porter_ready_fn ready;
	porter_told_fn told; /* NULL once the session has ended */
	struct attaching *attaching; /* owned: not sent yet, or to be sent to the next porter as well */
	void *arg;
	struct held *next; /* owned, while the porter is to read a packet: the packet's descriptors become this hold */
	bool is_there; /* the present process has the socket */
	bool is_asked; /* and has the order to read a packet */
	int words_fd; /* owned: a duplicate of the health page that its porter is to write to, until it has; or -1 */
	struct words words; /* for it */
	bool has_words; /* the present process has that order */
	bool is_kept, told_kept;
	bool wants_drain;
	bool is_ended, told_ended;
	unsigned int n_attached; /* descriptors that its porter closes together with the slot */
};

struct attaching {
	struct attaching *next;
	uint32_t op; /* PORTER_ATTACH or PORTER_FOLLOW */
	int fd; /* owned: a duplicate */
	bool is_lasting; /* the daemon goes on using it, so the next porter gets it, too */
	bool is_there; /* the present process has it */
};

/* Exists before its packet is read, and until its porter has closed all of it. */
struct held {
	uint64_t id;
	struct porter *porter;
	unsigned int refs; /* descriptors of the daemon's table, and those of held_ref() */
	unsigned int n_fds; /* that its porter holds */
	struct inspect_info info;
	struct foreign_account *account; /* owned: counts the descriptors from the drop on */
	struct list link; /* the porter's: all of its holds */
	struct list pending; /* linked: the porter has to get it, or the order to drop it */
	int fd; /* one of its descriptors here; -1: not known */
	int left; /* owned: the last one, until its porter has got it; or -1 */
	bool is_there; /* its porter has it */
	bool is_dropped; /* the daemon has no descriptor of it, but `left` */
};

struct porters {
	struct porters_attr attr;
	int lifeline; /* owned, or -1 */
	bool tells_taken; /* porters of former daemons have not heard yet */
	int fork_error; /* that the zygote reported last, or 0 */
	bool is_over; /* the zygote has ended */
	struct list all; /* struct porter.link */
	struct hash by_uid; /* struct porter */
	struct hash slots, holds; /* by number */
	uint32_t last_slot;
	uint64_t last_hold;
	uint64_t alarm_nsec; /* when porters_tick() is due; 0: it is not */
	uint8_t *packet; /* FRAMING_MAX_PACKET_BYTES */
};

/* alarm.c */
void porters_alarm(struct porters *porters, uint64_t nsec); /* the earliest one that is due counts */
void porter_look_idle(struct porter *porter);

/* held-table.c */
struct held *held_by_fd(int fd); /* NULL: none */
struct held *held_alloc(struct porter *porter, uint64_t id, struct foreign_account *account); /* NULL: no memory */
void held_dealloc(struct held *held);
int held_reserve(void); /* room for one more number. -ENOMEM */
void held_add(struct held *held, int fd); /* fd becomes one of its descriptors. Room is reserved */
void held_remove(struct held *held, int fd);
/* A descriptor of it that is open here, or -1. May walk over the table: for the death of a porter. */
int held_find(struct held *held);

/* orders.c */
bool porter_slot_is_ready(const struct porter_slot *slot); /* its porter runs and has the socket */
int porter_send_op(struct porter_slot *slot, enum porter_op op, uint32_t value, int fd); /* 0, or -EAGAIN: not now */
void attaching_free(struct attaching **at); /* closes it, and unlinks it from the list that *at is in */
bool porter_is_behind(const struct porter *porter);
bool porter_is_overdue(const struct porter *porter, uint64_t now); /* none runs, and none could be started for a while */
void porter_flush(struct porter *porter); /* sends what there is room for */
void porter_want_slot(struct porter_slot *slot); /* has orders to be sent */
void porter_want_held(struct held *held);

/* held.c */
struct held *held_new(struct porter_slot *slot); /* NULL: no memory */
void held_free(struct held *held);
void held_drop(struct held *held); /* nothing refers to it any more. May free it */

/* slot.c */
struct porter_slot *slot_new(struct porter *porter, const struct porter_slot_attr *attr); /* NULL: no memory */
void slot_free(struct porter_slot *slot);
void slot_told(struct porter_slot *slot, bool are_written);

/* news.c */
int porter_read_news(struct porter *porter); /* 0 or -EAGAIN; any other error ends this porter */

#endif
