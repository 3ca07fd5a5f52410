/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that the program asks for: so many more to each PE, for device code that names a queue by its handle. A handle is the place of a row of queues,
 * one to each PE, in the array of the versions that have handles (3.5 and later); these rows stand behind those that every job has. In a job
 * without queues a handle stands for the way that there is.
 */
#include <errno.h>
#include <stdlib.h>

#include "libclient/compat/nvshmem/ibgda.h"
#include "proto/base/cleanup.h"

#define HANDLE_DEFAULT 1

/* If the numbers differ, at least one PE sees that its own is not their mean. */
static int check_number(const struct nvs_ibgda *ibgda, uint32_t n)
{
	uint64_t sum = 0;
	int r = nvs_agree_on(n, &sum);

	if (!r && sum != (uint64_t)n * (uint64_t)nvs.facts.npes)
		r = shmd_error_set(-EINVAL, "PE %d asks for %u queues, and other PEs for another number", nvs.facts.mype, n);
	if (!r && (ibgda->n_created + n > NVS_IBGDA_CREATED || ibgda->n_batches == NVS_IBGDA_BATCHES))
		r = shmd_error_set(-ENOSPC, "%u queues to each PE were created in %u calls, and there is no room for %u more (%u, in %u calls)", ibgda->n_created,
				   ibgda->n_batches - 1, n, NVS_IBGDA_CREATED, NVS_IBGDA_BATCHES - 1);
	return nvs_agree(r);
}

/*
 * Collective, in a job with queues. Kernels see the queues once all PEs have made them. A batch that failed stays in the session until the job ends. An
 * error is that of all PEs.
 */
static int create_queues(uint32_t n, int32_t *ret_handles)
{
	struct nvs_ibgda *ibgda = nvs.ibgda;
	struct nvs_ibgda_batch *batch;
	int r = check_number(ibgda, n);

	if (r < 0)
		return r;
	batch = &ibgda->batches[ibgda->n_batches];
	*batch = (struct nvs_ibgda_batch){.n_to_each = n, .first_row = ibgda->n_created};
	r = nvs_ibgda_batch_make(ibgda, batch);
	if (!r)
		r = nvs_agree(nvs_ibgda_batch_write(ibgda, batch));
	if (r < 0) {
		nvs_ibgda_batch_drop(batch);
		return r;
	}
	ibgda->n_created += n;
	__atomic_store_n(&ibgda->n_batches, ibgda->n_batches + 1, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < n; i++)
		ret_handles[i] = (int32_t)((ibgda->n_rc + batch->first_row + i) * (uint32_t)nvs.facts.npes);
	return nvs_agree(nvs_clients_show_queues());
}

/* handles: NULL if there was no memory for them. */
static int create(int n, bool has_place, int32_t *handles)
{
	int r = 0;

	if (n <= 0 || !has_place)
		r = shmd_error_set(-EINVAL, has_place ? "%d is no number of queues" : "there is no place for the handles of %d queues", n);
	else if (!handles)
		r = shmd_error_set(-ENOMEM, "no memory for handles of %d queues", n);
	r = nvs_agree(r);
	if (!r && nvs.ibgda)
		return create_queues((uint32_t)n, handles);
	for (int i = 0; !r && i < n; i++)
		handles[i] = HANDLE_DEFAULT;
	return r;
}

/* Collective. The program frees the array. */
NVS_API int nvshmemx_qp_create(int n, int32_t **ret_handles);
int nvshmemx_qp_create(int n, int32_t **ret_handles)
{
	_cleanup_free_ int32_t *handles = n > 0 ? calloc((size_t)n, sizeof(*handles)) : NULL;
	int r = nvs_ready();

	if (!r) {
		pthread_mutex_lock(&nvs.lock);
		r = create(n, ret_handles != NULL, handles);
		pthread_mutex_unlock(&nvs.lock);
	}
	if (!r)
		*ret_handles = take_ptr(handles);
	return nvs_result("nvshmemx_qp_create", r);
}
