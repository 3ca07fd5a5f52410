/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port that goes down and up by request.
 *
 * Down is a pulled cable: packets to and from the port are dropped, also those of a NIC to itself, and nothing else
 * changes. Requests wait, are sent again as their QP's time-out and retries say, and go on or fail by that alone.
 *
 * The flag is read by every thread that sends. An executor drops what lies at it when it sees that the port is down or was down
 * since it looked last, and when soft_port_set() returns every executor has, except one that sleeps at its user's memory: that
 * one does so before it receives anything else. Two things are not like a cable. A request that its QP had taken in
 * before may still be carried out. And a sender that read the flag and was preempted may put a packet there that arrives when
 * the port is up again. Both are packets that were late, which the QP's sequence numbers order or drop. Control thread.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>

static bool run_drop(struct soft_exec *exec, struct soft_call *call)
{
	soft_thread_drop_packets(exec);
	return true;
}

static void drop_one(struct soft_exec *exec, void *arg)
{
	struct soft_call *call = calloc(1, sizeof(*call));

	if (!call)
		return;
	call->run = run_drop;
	if (soft_call_brief(exec, call) == 0)
		free(call);
}

static void note_one(struct soft_exec *exec, void *is_down)
{
	__atomic_store_n(&exec->page->port_is_down, *(const bool *)is_down, __ATOMIC_RELAXED);
}

static bool change(struct soft_shared_port *port, bool is_down)
{
	if (port->down == is_down)
		return false;
	__atomic_store_n(&port->down, is_down, __ATOMIC_RELEASE);
	if (is_down)
		__atomic_fetch_add(&port->n_downs, 1, __ATOMIC_RELEASE);
	return true;
}

/* Where the table is another process's, that one has changed it. */
int soft_port_set(struct nic *base, enum nic_port_state state)
{
	struct soft_nic *nic = soft_nic(base);
	bool is_down = state == NIC_PORT_DOWN;

	if (state != NIC_PORT_DOWN && state != NIC_PORT_ACTIVE)
		return -EINVAL;
	if (!soft_fabric_is_view(nic->fabric) && !change(nic->port->shared, is_down))
		return 0;
	soft_execs_each(nic, note_one, &is_down);
	if (is_down)
		soft_execs_each(nic, drop_one, NULL);
	soft_event_port(nic, state);
	return 0;
}
