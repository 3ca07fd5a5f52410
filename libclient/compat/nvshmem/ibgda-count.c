/* SPDX-License-Identifier: Apache-2.0 */
/* How many queues there are to each PE. See ibgda.h. */
#include "libclient/compat/nvshmem/ibgda.h"

#include <errno.h>
#include <stdlib.h>

#define MOST_RC 512

/* NVSHMEM's own variable. Only these queues need it, so no row of the runtime's settings has it. */
int nvs_ibgda_count(struct nvs_ibgda *ibgda)
{
	const char *text = getenv("NVSHMEM_IBGDA_NUM_RC_PER_PE");
	long n = 1;
	char *end;

	if (text && *text) {
		errno = 0;
		n = strtol(text, &end, 0);
		if (*end || errno || n < 1 || n > MOST_RC)
			return shmd_error_set(-EINVAL, "NVSHMEM_IBGDA_NUM_RC_PER_PE is '%s', and not a number from 1 to %d", text, MOST_RC);
	}
	ibgda->n_rc = (uint32_t)n;
	ibgda->n_to_each = ibgda->n_rc * nvs_ibgda_orders(ibgda->n_rc);
	return 0;
}

int nvs_ibgda_tell_count(const struct nvs_client *client)
{
	struct nvs_ibgda asked = {.n_rc = 0};
	const char *text = getenv("NVSHMEM_IBGDA_NUM_RC_PER_PE");

	if (!client->transport || !text || !*text)
		return 0;
	/* It has no queues, so a wrong number is no reason to fail. */
	return nvs_ibgda_count(&asked) ? 0 : device_write_word(nvs.device, client->transport + offsetof(struct nvs_ibgda_state, num_rc_per_pe), asked.n_rc, sizeof(uint32_t));
}
