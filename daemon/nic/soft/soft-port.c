/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port that goes down and up by request.
 *
 * Down is a pulled cable: packets to and from the port are dropped, also those of a NIC to itself, and nothing else
 * changes. Requests wait, are sent again as their QP's time-out and retries say, and go on or fail by that alone.
 *
 * The flag is read by every thread that sends, and changes on the data thread where there is one: when soft_port_set() returns,
 * no packet that lay at the port is received any more. Two things are not like a cable. A request that its QP had taken in
 * before may still be carried out. And a sender that read the flag and was preempted may put a packet there that arrives when
 * the port is up again. Both are packets that were late, which the QP's sequence numbers order or drop. Control thread.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>

struct port_call {
	struct soft_call call;
	bool down;
};

bool soft_port_is_down(const struct soft_port *port)
{
	return __atomic_load_n(&port->down, __ATOMIC_RELAXED);
}

static bool run_port_set(struct soft_nic *nic, struct soft_call *base)
{
	const struct port_call *call = container_of(base, struct port_call, call);

	soft_thread_drop_packets(nic);
	nic->page->port_is_down = call->down;
	__atomic_store_n(&nic->port->down, call->down, __ATOMIC_RELAXED);
	return true;
}

int soft_port_set(struct nic *base, enum nic_port_state state)
{
	struct port_call call = {.call.run = run_port_set, .down = state == NIC_PORT_DOWN};
	struct soft_nic *nic = soft_nic(base);

	if (state != NIC_PORT_DOWN && state != NIC_PORT_ACTIVE)
		return -EINVAL;
	if (soft_port_is_down(nic->port) == call.down)
		return 0;
	if (soft_thread_is_started(nic))
		soft_call(nic, &call.call);
	else
		__atomic_store_n(&nic->port->down, call.down, __ATOMIC_RELAXED);
	soft_event_port(nic, state);
	return 0;
}
