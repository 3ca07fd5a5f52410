/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: how control operations reach the data thread, which alone touches queues.
 *
 * The caller's call lies on its stack; the data thread posts `done` last and never looks at it again.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>

#include "proto/base/assert.h"

int soft_call(struct soft_nic *nic, struct soft_call *call)
{
	assert_bug(__atomic_load_n(&nic->port->running, __ATOMIC_ACQUIRE));
	sem_init(&call->done, 0, 0);
	call->result = 0;
	soft_port_push(nic->port, &nic->port->calls, &call->link);
	while (sem_wait(&call->done) < 0)
		assert_bug(errno == EINTR);
	sem_destroy(&call->done);
	return call->result;
}

unsigned int soft_calls_run(struct soft_nic *nic)
{
	struct soft_call *call, *next;
	unsigned int n = 0;

	soft_port_take(&nic->port->calls, &nic->calls);
	list_for_each_entry_safe(call, next, &nic->calls, link) {
		n++;
		if (!call->run(nic, call))
			continue;
		list_del(&call->link);
		sem_post(&call->done);
	}
	return n;
}
