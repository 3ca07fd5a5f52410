/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client for the cases of the VM lab: puts a word to itself, says so, and waits for another one that no peer sends.
 * Says when (CLOCK_MONOTONIC) and why the wait ended, and why the session did. Takes the name of a NIC, or the best.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "vm-client.h"

#define WAIT_NSEC (600 * VM_SEC)

static double now_sec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void say_why(struct shmd_client *client, int status)
{
	struct shmd_event event;
	double ended = now_sec();
	int r;

	printf("wait ended at %.3f: %s\n", ended, shmd_dev_status_text(status));
	printf("health: %s\n", shmd_health_text(shmd_client_health(client)));
	while ((r = shmd_event_next(client, 10 * VM_SEC, &event)) >= 0)
		printf("event: %s\n", event.text);
	printf("session: %s\n", shmd_error_text());
}

int main(int argc, char **argv)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};
	const unsigned int itself = 0;
	struct shmd_dev_qp *qp;
	struct vm_client c;

	vm_client_open(&c, argc > 1 ? argv[1] : NULL);
	qp = shmd_queues_dev_qp(vm_client_queues(&c, &attr, &itself), 0);
	vm_client_check(&c, qp);
	printf("session %" PRIu64 " waits\n", shmd_client_session(c.client));
	say_why(c.client, shmd_dev_qp_wait_until64(qp, &c.memory->silent, SHMD_DEV_CMP_EQ, 1, WAIT_NSEC));
	shmd_client_close(c.client);
	return 0;
}
