/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets between executors of different users: as bytes, through channels (soft-ring.h).
 *
 * An executor opens a channel when it has its first request for an executor of another user, and answers to requests go back through
 * the channel that they came by. A packet is back in the sender's pool when it is written. If there is no room it is kept back,
 * the way is jammed, and QPs that would send there wait without packets (struct engine_jam); other peers of their session go on.
 *
 * A writer rings the bell of the peer's lane once per round. The bell also announces that there is room again, that a channel is new,
 * and that a side has left.
 *
 * Memory: SOFT_MAX_CHANNELS of half a MiB for each executor, touched as they are used; the least recently used one that is empty
 * makes room for another. Refuses (drops) packets to one peer more than that. A channel ends with the executor at either side.
 *
 * Data thread, but for stock, reap and what follows the end of a thread. Mapping and unmapping may wait for the memory of other users,
 * so the data thread does both only when there is no stock: what is over is kept for a thread that may wait.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>

#define STOCK_MOST 8u
#define POSITION_BITS 26 /* of positions in units of SOFT_RECORD_ALIGN */

_Static_assert(SOFT_STAMP_MASK >> POSITION_BITS, "a position has room in a stamp");

/* ---- channels in advance ---------------------------------------------------------------------------------------------------- */

/*
 * Another user's executor must not touch the sender's memory. The memory of the fault point cannot be read at once, so its packets
 * have to refer to it.
 */
bool soft_is_foreign(const struct soft_exec *exec, const struct soft_lane *lane)
{
	uint32_t uid = __atomic_load_n(&lane->owner->uid, __ATOMIC_RELAXED);

	if (soft_lane_is_remote(lane))
		return true;
	return lane != exec->lane && exec->nic->fault.kind != SOFT_FAULT_DELAY_MEMORY &&
	       (uid == SOFT_UID_SEVERAL || uid != __atomic_load_n(&exec->lane->owner->uid, __ATOMIC_RELAXED));
}

void soft_foreign_stock(struct soft_exec *exec, unsigned int n)
{
	struct soft_end *end;

	soft_ends_reap(exec->nic->fabric);
	if (soft_fabric_is_view(exec->nic->fabric))
		return;
	while (__atomic_load_n(&exec->n_stock, __ATOMIC_RELAXED) < (n < STOCK_MOST ? n : STOCK_MOST)) {
		end = soft_end_new_pair(exec->nic->fabric);
		if (!end)
			return;
		soft_stack_push(&exec->stock, &end->link);
		__atomic_fetch_add(&exec->n_stock, 1, __ATOMIC_RELAXED);
	}
}

static bool is_foreign_addr(const struct soft_exec *exec, const struct nic_addr *addr)
{
	const struct soft_lane *lane;
	struct soft_port *port;
	bool is_foreign;

	if (addr->link != NIC_LINK_ETHERNET || soft_fabric_find(exec->nic->fabric, addr->gid, &port) < 0)
		return false;
	lane = soft_port_find_lane(port, addr->qpn);
	is_foreign = lane && soft_is_foreign(exec, lane);
	soft_port_unref(port);
	return is_foreign;
}

/* A few of them stand for all. */
void soft_foreign_expect(struct soft_exec *exec, unsigned int n, const struct nic_addr *(*peer)(const void *peers, unsigned int i),
			 const void *peers)
{
	unsigned int n_foreign = 0;

	for (unsigned int i = 0; i < n && i < STOCK_MOST; i++)
		n_foreign += is_foreign_addr(exec, peer(peers, i));
	if (n_foreign > 0)
		soft_foreign_stock(exec, n_foreign);
}

static struct soft_end *take_stock(struct soft_exec *exec)
{
	struct list *link = soft_stack_pop(&exec->stock);

	if (!link)
		return NULL;
	__atomic_fetch_sub(&exec->n_stock, 1, __ATOMIC_RELAXED);
	return container_of(link, struct soft_end, link);
}

/* ---- the ends of an executor ---------------------------------------------------------------------------------------------------------- */

static uint64_t key_of(bool is_opener, uint32_t port, uint32_t exec)
{
	return (uint64_t)is_opener << 32 | port << 16 | exec;
}

static struct soft_end *find_end(const struct soft_exec *exec, const struct soft_lane *lane, bool is_opener)
{
	return hash_get(&exec->ends_by_peer, key_of(is_opener, lane->port, lane->exec));
}

static uint32_t epoch_of(const struct soft_lane *lane)
{
	return __atomic_load_n(&lane->owner->epoch, __ATOMIC_ACQUIRE);
}

/* Its peer has gone, and perhaps another has taken its place. */
static bool is_stale(const struct soft_end *end)
{
	if (epoch_of(end->lane) != end->epoch || (end->channel && __atomic_load_n(&end->channel->shared->is_over, __ATOMIC_ACQUIRE)))
		return true;
	return end->is_remote && !__atomic_load_n(&end->lane->owner->is_there, __ATOMIC_ACQUIRE);
}

/*
 * To a peer in another process by the channel's own bell, which that one clears before it looks, and by the channel's eventfd: nobody
 * but the two can write either. A bell that is up already has woken the peer, or kept it awake.
 */
static void ring_remote(struct soft_end *end)
{
	const struct soft_shared_lane *thread = soft_lane_thread(end->fabric, end->lane);

	if (!end->channel)
		return;
	__sync_synchronize();
	if (__atomic_load_n(&end->bells[1]->rings, __ATOMIC_RELAXED))
		return;
	__atomic_exchange_n(&end->bells[1]->rings, 1, __ATOMIC_SEQ_CST);
	if (!thread || __atomic_load_n(&thread->asleep, __ATOMIC_SEQ_CST))
		doorbell_wake(end->wake_fds[1]);
}

static void ring(struct soft_end *end)
{
	if (end->is_remote)
		ring_remote(end);
	else
		soft_lane_ring(end->lane);
}

static void drop_held(struct soft_end *end)
{
	while (!list_empty(&end->held)) {
		struct list *link = end->held.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	end->held_bytes = 0;
}

static void jam_begin(struct soft_end *end)
{
	struct soft_exec *exec = end->exec;

	if (!list_empty(&end->jam_link))
		return;
	list_add_tail(&exec->jams, &end->jam_link);
	__atomic_store_n(&end->out.way->is_jammed, 1, __ATOMIC_RELEASE);
	engine_set_jams(exec->engine, ++exec->n_jams);
}

static void jam_end(struct soft_end *end)
{
	struct soft_exec *exec = end->exec;

	while (engine_jam_wake(&end->jam))
		;
	if (list_empty(&end->jam_link))
		return;
	list_del(&end->jam_link);
	__atomic_store_n(&end->out.way->is_jammed, 0, __ATOMIC_RELEASE);
	exec->n_jams--;
	if (exec->engine)
		engine_set_jams(exec->engine, exec->n_jams);
}

static void end_is_unused(struct soft_reader *reader)
{
	soft_end_bury(container_of(reader, struct soft_end, in));
}

/* This executor has it no more. Records that the engine still uses stay until it does not. */
static void leave(struct soft_end *end)
{
	struct soft_exec *exec = end->exec;

	hash_remove(&exec->ends_by_peer, key_of(end->is_opener, end->port_id, end->exec_id));
	list_del(&end->link);
	list_del(&end->news_link);
	drop_held(end);
	jam_end(end);
	exec->n_ends--;
	exec->n_opened -= end->is_opener;
	exec->n_remote -= end->is_remote;
	if (end->channel)
		__atomic_store_n(&end->channel->shared->is_over, 1, __ATOMIC_RELEASE);
	ring(end);
	/* The peer has it too, so closing it would not end the watch. */
	if (end->wake_fds[0] >= 0)
		doorbell_poll_unwatch(&exec->poll, end->wake_fds[0]);
	end->port = soft_port_unref(end->port);
	end->in.has_news = NULL;
	if (end->in.n_used > 0)
		end->in.unused = end_is_unused;
	else
		soft_end_bury(end);
}

/* -EEXIST, -ENOMEM. Takes the reference of the port. */
static int enter(struct soft_exec *exec, struct soft_end *end, struct soft_port *port, struct soft_lane *lane)
{
	uint64_t key = key_of(end->is_opener, lane->port, lane->exec);
	int r = hash_add(&exec->ends_by_peer, key, end);

	if (r == 0 && end->wake_fds[0] >= 0) {
		r = doorbell_poll_watch(&exec->poll, end->wake_fds[0]);
		if (r < 0)
			hash_remove(&exec->ends_by_peer, key);
	}
	if (r < 0) {
		soft_port_unref(port);
		return r;
	}
	end->exec = exec;
	end->port = port;
	end->lane = lane;
	end->in.has_news = &exec->ends_have_more;
	list_init(&end->link);
	list_add_tail(&exec->ends, &end->link);
	exec->n_ends++;
	exec->n_opened += end->is_opener;
	exec->n_remote += end->is_remote;
	return 0;
}

static void say_where(struct soft_end *end, const struct soft_lane *lane)
{
	end->port_id = lane->port;
	end->exec_id = lane->exec;
	end->epoch = epoch_of(lane);
}

/* The one that was not used for longest, and has nothing on its way. */
static bool leave_idlest(struct soft_exec *exec)
{
	struct soft_end *end, *idlest = NULL;

	list_for_each_entry(end, &exec->ends, link)
		if (end->is_opener && list_empty(&end->held) && soft_writer_is_done(&end->out) &&
		    !soft_reader_has_more(&end->in) && (!idlest || end->used_nsec < idlest->used_nsec))
			idlest = end;
	if (idlest)
		leave(idlest);
	return idlest;
}

static int want_channel(struct soft_exec *exec, const struct soft_lane *lane)
{
	struct soft_fabric *fabric = exec->nic->fabric;
	struct soft_want *want = calloc(1, sizeof(*want));

	if (!want)
		return -ENOMEM;
	want->port = exec->lane->port;
	want->peer_port = lane->port;
	want->peer_exec = lane->exec;
	soft_stack_push(&fabric->wants, &want->link);
	doorbell_wake(fabric->want_fd);
	return 0;
}

/* The daemon makes the channel; what is sent meanwhile is kept back, as if the way were full. */
static struct soft_end *open_pending(struct soft_exec *exec, struct soft_port *port, struct soft_lane *lane)
{
	struct soft_end *end = soft_end_new_pending(exec->nic->fabric);

	if (!end)
		return NULL;
	say_where(end, lane);
	end->used_nsec = exec->poll.now_nsec;
	__atomic_fetch_add(&port->refs, 1, __ATOMIC_RELAXED);
	if (enter(exec, end, port, lane) < 0) {
		soft_end_bury(end);
		return NULL;
	}
	if (want_channel(exec, lane) == 0)
		return end;
	leave(end);
	return NULL;
}

static struct soft_end *open_end(struct soft_exec *exec, struct soft_port *port, struct soft_lane *lane)
{
	struct soft_end *end, *other;

	if (exec->n_opened >= SOFT_MAX_CHANNELS && !leave_idlest(exec))
		return NULL;
	if (soft_lane_is_remote(lane))
		return open_pending(exec, port, lane);
	end = take_stock(exec);
	if (!end)
		soft_ends_reap(exec->nic->fabric);
	if (!end && !(end = soft_end_new_pair(exec->nic->fabric)))
		return NULL;
	other = end->other;
	say_where(end, lane);
	say_where(other, exec->lane);
	__atomic_fetch_add(&port->refs, 1, __ATOMIC_RELAXED);
	if (enter(exec, end, port, lane) < 0) {
		soft_end_bury_pair(end);
		return NULL;
	}
	soft_stack_push(&lane->ends, &other->link);
	soft_lane_ring(lane);
	return end;
}

void soft_foreign_prepare(struct soft_exec *exec, const struct nic_addr *peer)
{
	struct soft_lane *lane;
	struct soft_port *port;

	if (!soft_fabric_is_view(exec->nic->fabric) || soft_fabric_find(exec->nic->fabric, peer->gid, &port) < 0)
		return;
	lane = soft_port_find_lane(port, peer->qpn);
	if (lane && soft_lane_is_remote(lane) && exec->n_opened < SOFT_MAX_CHANNELS && !find_end(exec, lane, true))
		open_pending(exec, port, lane);
	soft_port_unref(port);
}

/* A channel that this executor wanted to another process, if it still does. */
static void take_wanted(struct soft_exec *exec, const struct soft_lane *lane, struct soft_end *come)
{
	struct soft_end *end = lane ? find_end(exec, lane, true) : NULL;

	if (!end || end->channel || !come->channel || doorbell_poll_watch(&exec->poll, come->wake_fds[0]) < 0) {
		/* Refused, so packets are lost. */
		if (end && !end->channel)
			leave(end);
		soft_end_refuse(come);
		return;
	}
	soft_end_take_over(end, come);
	end->in.has_news = &exec->ends_have_more;
	__atomic_store_n(&end->out.way->is_jammed, !list_empty(&end->jam_link), __ATOMIC_RELEASE);
	soft_end_bury(come);
}

/* One that another executor has opened to this one. It names itself by its place, which is looked up here. */
static void take_opened(struct soft_exec *exec, struct soft_port *port, struct soft_lane *lane, struct soft_end *end)
{
	struct soft_end *former = find_end(exec, lane, false);

	if (former)
		leave(former);
	__atomic_fetch_add(&port->refs, 1, __ATOMIC_RELAXED);
	if (enter(exec, end, port, lane) < 0)
		soft_end_refuse(end);
}

static void take_end(struct soft_exec *exec, struct soft_end *end)
{
	struct soft_lane *lane = NULL;
	struct soft_port *port = NULL;

	if (soft_fabric_find_id(exec->nic->fabric, end->port_id, &port) == 0)
		lane = soft_port_exec_lane(port, end->exec_id);
	if (end->is_opener)
		take_wanted(exec, lane, end);
	else if (lane && end->channel)
		take_opened(exec, port, lane, end);
	else
		soft_end_refuse(end);
	soft_port_unref(port);
}

static void take_ends(struct soft_exec *exec)
{
	struct list *link;

	while ((link = soft_stack_pop(&exec->lane->ends)))
		take_end(exec, container_of(link, struct soft_end, link));
}

/* ---- sending --------------------------------------------------------------------------------------------------------------- */

/* It is the engine's again. -EAGAIN, -EMSGSIZE, -EBADMSG: it is not. */
static int write_packet(struct soft_end *end, struct engine_packet *pkt, uint32_t bytes)
{
	struct soft_exec *exec = end->exec;
	struct engine_piece pieces[2];
	int r = soft_writer_begin(&end->out, bytes, pieces);

	if (r < 0)
		return r;
	engine_packet_write(exec->engine, pkt, exec->nic->port->id, pieces);
	soft_writer_commit(&end->out, bytes);
	engine_packet_put(exec->engine, pkt);
	if (list_empty(&end->news_link))
		list_add_tail(&exec->ends_with_news, &end->news_link);
	return 0;
}

/* Sends the packets that were kept back, as far as there is room. -EMSGSIZE, -EBADMSG. */
static int flush(struct soft_end *end)
{
	const struct soft_exec *exec = end->exec;

	if (exec->is_mute || soft_port_is_down(exec->nic->port) || soft_port_is_down(end->port))
		drop_held(end);
	while (!list_empty(&end->held)) {
		struct list *link = end->held.next;
		struct engine_packet *pkt = engine_packet_from_link(link);
		/* bounded: it was counted before. */
		uint32_t bytes = (uint32_t)engine_packet_bytes(pkt);
		int r;

		list_del(link);
		r = write_packet(end, pkt, bytes);
		if (r == 0) {
			end->held_bytes -= soft_record_bytes(bytes);
			continue;
		}
		list_add_head(&end->held, link);
		if (r != -EAGAIN)
			return r;
		if (!soft_writer_wants_room(&end->out))
			break;
	}
	return 0;
}

static int hold(struct soft_end *end, struct engine_packet *pkt, uint32_t bytes)
{
	list_add_tail(&end->held, engine_packet_link(pkt));
	end->held_bytes += soft_record_bytes(bytes);
	jam_begin(end);
	return flush(end);
}

static int send_by(struct soft_end *end, struct engine_packet *pkt, uint32_t bytes)
{
	int r = list_empty(&end->held) ? write_packet(end, pkt, bytes) : -EAGAIN;

	end->used_nsec = end->exec->poll.now_nsec;
	if (r == -EAGAIN)
		r = hold(end, pkt, bytes);
	else if (r < 0)
		engine_packet_free(pkt);
	if (r < 0)
		leave(end);
	return r < 0 ? -EHOSTUNREACH : 0;
}

int soft_foreign_send(struct soft_exec *exec, struct soft_lane *lane, struct soft_port *port, struct engine_packet *pkt)
{
	bool is_request = engine_packet_is_request(pkt);
	/* Memory of that fault point is not read at once. */
	int bytes = exec->nic->fault.kind == SOFT_FAULT_DELAY_MEMORY ? -EOPNOTSUPP : engine_packet_bytes(pkt);
	struct soft_end *end = find_end(exec, lane, is_request);

	if (end && is_stale(end)) {
		leave(end);
		end = NULL;
	}
	if (!end && is_request && bytes >= 0)
		end = open_end(exec, port, lane);
	if (end && bytes >= 0)
		return send_by(end, pkt, (uint32_t)bytes);
	engine_packet_free(pkt);
	return bytes < 0 && exec->nic->fault.kind != SOFT_FAULT_DELAY_MEMORY ? -EOPNOTSUPP : -EHOSTUNREACH;
}

struct engine_jam *soft_foreign_jam(const struct soft_exec *exec, const struct soft_lane *lane, bool is_answer)
{
	struct soft_end *end = find_end(exec, lane, !is_answer);

	return end && !list_empty(&end->held) && !is_stale(end) ? &end->jam : NULL;
}

void soft_foreign_tell(struct soft_exec *exec)
{
	while (!list_empty(&exec->ends_with_news)) {
		struct soft_end *end = list_first_entry(&exec->ends_with_news, struct soft_end, news_link);

		list_del(&end->news_link);
		ring(end);
	}
}

static uint32_t position(uint32_t bytes)
{
	return bytes / SOFT_RECORD_ALIGN;
}

bool soft_foreign_is_behind(const struct soft_exec *exec, const struct soft_lane *lane, uint32_t *stamp)
{
	const struct soft_end *end = find_end(exec, lane, true);
	uint32_t tail, passed;

	/* It is being made, by others. */
	if (end && !end->channel && !is_stale(end))
		return true;
	if (end && __atomic_load_n(&end->in.way->is_jammed, __ATOMIC_ACQUIRE) && !is_stale(end))
		return true;
	if (!end || is_stale(end) || (*stamp && !(*stamp & SOFT_STAMP_WAY))) {
		*stamp = *stamp & SOFT_STAMP_WAY ? 0 : *stamp;
		return false;
	}
	if (!*stamp && soft_writer_is_done(&end->out) && list_empty(&end->held))
		return false;
	if (!*stamp)
		*stamp = position(end->out.head + end->held_bytes) | SOFT_STAMP_SET | SOFT_STAMP_WAY;
	tail = position(__atomic_load_n(&end->out.way->tail, __ATOMIC_ACQUIRE));
	passed = (tail - *stamp) << (32 - POSITION_BITS);
	if (passed > INT32_MAX)
		return true;
	*stamp = 0;
	return false;
}

/* ---- receiving ------------------------------------------------------------------------------------------------------------- */

/* Does the packet come from the executor that it names? A free number may be that of a QP that has just gone. */
static bool is_credible(const struct soft_end *end, uint32_t source, const struct engine_packet *pkt)
{
	int exec = soft_shared_number_exec(&end->port->shared->qpns, engine_packet_src_qpn(pkt));

	return source == end->port_id && engine_packet_is_request(pkt) != end->is_opener &&
	       (exec < 0 || exec == end->exec_id);
}

/* 1: a packet; 0: none, or none now; -EBADMSG. */
static int read_packet(struct soft_end *end, struct engine_packet **ret_pkt)
{
	struct engine_piece pieces[2];
	struct soft_ring_record *record;
	uint32_t source;
	int r = soft_reader_next(&end->in, pieces, &record);

	if (r > 0) {
		r = engine_packet_read(end->packets, pieces, &record->mem, &source, ret_pkt);
		if (r == 0) {
			soft_reader_pass(&end->in, record);
			if (is_credible(end, source, *ret_pkt))
				return 1;
			engine_packet_free(*ret_pkt);
			r = -EBADMSG;
		}
	}
	if (r == -EAGAIN || r == -ENOBUFS) {
		end->exec->ends_have_more = true;
		return 0;
	}
	return r;
}

struct budget {
	unsigned int packets;
	uint64_t bytes;
};

static int receive(struct soft_end *end, struct budget *budget, unsigned int *n)
{
	struct engine_packet *pkt;
	int r;

	for (r = 1; r > 0 && budget->packets > 0 && budget->bytes > 0;) {
		uint32_t bytes;

		r = read_packet(end, &pkt);
		if (r <= 0)
			break;
		bytes = engine_packet_payload_bytes(pkt);
		budget->packets--;
		budget->bytes -= bytes < budget->bytes ? bytes : budget->bytes;
		engine_packet_set_source(pkt, end->port);
		engine_input(end->exec->engine, pkt);
		++*n;
	}
	end->exec->ends_have_more |= r > 0;
	return r < 0 ? r : 0;
}

/* The peer may have gone since, but its lane has not. */
static void release(struct soft_end *end)
{
	if (soft_reader_release(&end->in))
		ring(end);
}

static unsigned int run_end(struct soft_end *end, struct budget *budget)
{
	unsigned int n = 0;

	if (is_stale(end)) {
		leave(end);
		return 1;
	}
	release(end);
	if (flush(end) < 0 || receive(end, budget, &n) < 0) {
		leave(end);
		return n + 1;
	}
	release(end);
	return n;
}

/* In turn, so that an end with much does not keep others waiting. */
static unsigned int run_ends(struct soft_exec *exec, struct budget *budget)
{
	unsigned int n = 0;

	for (unsigned int i = exec->n_ends; i > 0 && !list_empty(&exec->ends); i--) {
		struct soft_end *end = list_first_entry(&exec->ends, struct soft_end, link);

		if (budget->packets == 0 || budget->bytes == 0) {
			exec->ends_have_more = true;
			break;
		}
		list_del(&end->link);
		list_add_tail(&exec->ends, &end->link);
		n += run_end(end, budget);
	}
	return n;
}

/* Ways that are free again: those who waited try, some at a time. The jam ends when the last of them had a chance to. */
static unsigned int run_jams(struct soft_exec *exec)
{
	struct soft_end *end, *next;
	unsigned int n = 0;

	list_for_each_entry_safe(end, next, &exec->jams, jam_link) {
		/* A process that was killed tells nobody. */
		if (end->is_remote && is_stale(end)) {
			leave(end);
			n++;
			continue;
		}
		if (!list_empty(&end->held))
			continue;
		if (list_empty(&end->jam.waiters))
			jam_end(end);
		else
			engine_jam_wake(&end->jam);
		n++;
	}
	return n;
}

/* Bells of peers in other processes. */
static bool take_bells(struct soft_exec *exec)
{
	const struct soft_end *end;
	bool any = false;

	list_for_each_entry(end, &exec->ends, link)
		if (end->is_remote && end->channel && __atomic_load_n(&end->bells[0]->rings, __ATOMIC_RELAXED))
			any |= __atomic_exchange_n(&end->bells[0]->rings, 0, __ATOMIC_SEQ_CST) != 0;
	return any;
}

bool soft_foreign_has_news(const struct soft_exec *exec)
{
	const struct soft_end *end;

	if (exec->n_remote == 0)
		return false;
	list_for_each_entry(end, &exec->ends, link)
		if (end->is_remote && end->channel && __atomic_load_n(&end->bells[0]->rings, __ATOMIC_SEQ_CST))
			return true;
	return false;
}

bool soft_foreign_has_rung(const struct soft_exec *exec, const struct soft_lane *lane)
{
	const struct soft_end *end = find_end(exec, lane, true);

	return end && end->channel && __atomic_load_n(&end->bells[1]->rings, __ATOMIC_ACQUIRE);
}

/*
 * Whether a bell rang. After this the executor sees all that others wrote before they rang: an exchange alone does not keep later
 * loads behind its store.
 */
static bool take_news(struct soft_exec *exec)
{
	uint32_t *bell = &exec->lane->shared->bell;
	bool rings = __atomic_load_n(bell, __ATOMIC_RELAXED);

	if (rings) {
		__atomic_exchange_n(bell, 0, __ATOMIC_SEQ_CST);
		__sync_synchronize();
		take_ends(exec);
	}
	/* New ends may have rung before they were here. */
	if (exec->n_remote > 0 && take_bells(exec)) {
		__sync_synchronize();
		rings = true;
	}
	return rings;
}

unsigned int soft_foreign_run(struct soft_exec *exec, unsigned int max_packets, uint64_t max_bytes)
{
	struct budget budget = {max_packets, max_bytes};
	bool rings = take_news(exec);
	unsigned int n = 0;

	if (rings || exec->ends_have_more) {
		exec->ends_have_more = false;
		n = run_ends(exec, &budget);
	}
	return exec->n_jams > 0 ? n + run_jams(exec) : n;
}

static bool can_go_on(const struct soft_end *end)
{
	const struct soft_reader *in = &end->in;

	return soft_reader_can_release(in) || (soft_reader_has_more(in) && engine_packets_left(end->packets) &&
					       in->behind - in->first < SOFT_MAX_RECORDS);
}

bool soft_foreign_is_pending(struct soft_exec *exec)
{
	const struct soft_end *end;

	if (__atomic_load_n(&exec->lane->shared->bell, __ATOMIC_SEQ_CST) || soft_foreign_has_news(exec))
		return true;
	list_for_each_entry(end, &exec->jams, jam_link)
		if (list_empty(&end->held))
			return true;
	if (!exec->ends_have_more)
		return false;
	list_for_each_entry(end, &exec->ends, link)
		if (can_go_on(end))
			return true;
	return false;
}

/* ---- begin and end ------------------------------------------------------------------------------------------------------------ */

static void drop_all_of(struct soft_end *end)
{
	drop_held(end);
	if (is_stale(end) || soft_reader_skip(&end->in) < 0)
		leave(end);
	else
		release(end);
}

/* Takes the news, too: an executor that left them would not sleep. */
void soft_foreign_drop(struct soft_exec *exec)
{
	struct soft_end *end, *next;

	take_news(exec);
	exec->ends_have_more = false;
	list_for_each_entry_safe(end, next, &exec->ends, link)
		drop_all_of(end);
	run_jams(exec);
}

int soft_foreign_init(struct soft_exec *exec)
{
	list_init(&exec->ends);
	list_init(&exec->ends_with_news);
	list_init(&exec->jams);
	hash_init(&exec->ends_by_peer);
	return hash_reserve(&exec->ends_by_peer, SOFT_MAX_CHANNELS);
}

void soft_foreign_deinit(struct soft_exec *exec)
{
	struct soft_end *end;

	while (!list_empty(&exec->ends))
		leave(list_first_entry(&exec->ends, struct soft_end, link));
	soft_ends_forget(exec->lane);
	while ((end = take_stock(exec)))
		soft_end_bury_pair(end);
	hash_deinit(&exec->ends_by_peer);
	soft_ends_reap(exec->nic->fabric);
}
