/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words on streams of the program: values, signals and waits.
 *
 * The driver's own memory operations set a signal of a PE that is mapped, and wait for one that grows. All else is a kernel of the
 * runtime, which compares exactly and sees PEs that end. Streams are those of the caller's context.
 */
#include <errno.h>

#include "libclient/compat/nvshmem/rma.h"

static struct shmd_ctx *ctx(void)
{
	return shmd_world_ctx(nvs.world);
}

/* ---- values */

void nvs_p_on(const char *name, void *dest, uint64_t value, uint32_t bytes, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	if (!r)
		r = nvs_need_kernels();
	(void)nvs_result(name, r ? r : shmd_p_on_stream(ctx(), dest, value, bytes, pe, stream));
}

static int wait_for(cuda_stream stream)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	cuda_result result = cuda->stream_sync(stream);

	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "wait for a value");
}

/* The value is for the caller, who waits for the stream. No kernel writes to its stack, so by queues the host gets it behind the stream. */
static int g_on(void *value, const void *source, size_t bytes, int pe, cuda_stream stream)
{
	void *at = nvs.ibgda ? NULL : nvs_at(source, pe);
	int r;

	if (nvs.ibgda) {
		r = wait_for(stream);
		return r ? r : shmd_get(ctx(), value, source, bytes, pe);
	}
	r = at ? nvs_copy_on(stream, value, at, bytes) : -EINVAL;
	return r ? r : wait_for(stream);
}

void nvs_g_on(const char *name, void *value, const void *source, size_t bytes, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	(void)nvs_result(name, r ? r : g_on(value, source, bytes, pe, stream));
}

/* ---- signals */

/* Before there is a put. */
static int check_signal(const struct nvs_signal *signal)
{
	if (signal->op != NVS_SIGNAL_SET && signal->op != NVS_SIGNAL_ADD)
		return shmd_error_set(-EINVAL, "signal operations are SET (%d) and ADD (%d), not %d", NVS_SIGNAL_SET, NVS_SIGNAL_ADD, signal->op);
	if (signal->op == NVS_SIGNAL_ADD || nvs.ibgda)
		return nvs_need_kernels();
	return nvs.device->cuda->stream_write8 ? 0 : nvs_lacks("cuStreamWriteValue64");
}

static enum shmd_signal_op op_of(const struct nvs_signal *signal)
{
	return signal->op == NVS_SIGNAL_ADD ? SHMD_SIGNAL_ADD : SHMD_SIGNAL_SET;
}

/* The write of the word comes after what is before it in the stream, for all who look. */
static int set_by_driver(struct nvs_signal signal, int pe, cuda_stream stream)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	void *at = nvs_at(signal.word, pe);
	cuda_result result;

	if (!at)
		return -EINVAL;
	result = cuda->stream_write8(stream, nvs_address(at), signal.value, 0);
	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "write a signal");
}

static int signal_on(struct nvs_signal signal, int pe, cuda_stream stream)
{
	int r = check_signal(&signal);

	if (r < 0)
		return r;
	if (signal.op == NVS_SIGNAL_ADD || nvs.ibgda)
		return shmd_signal_on_stream(ctx(), signal.word, signal.value, op_of(&signal), pe, stream);
	return set_by_driver(signal, pe, stream);
}

static int put_signal_on(void *dest, const void *source, size_t bytes, struct nvs_signal signal, int pe, cuda_stream stream)
{
	void *at = nvs.ibgda ? NULL : nvs_at(dest, pe);
	int r = nvs.ibgda || (at && nvs_at(signal.word, pe)) ? check_signal(&signal) : -EINVAL;

	if (r < 0)
		return r;
	if (nvs.ibgda)
		return shmd_put_signal_on_stream(ctx(), dest, source, bytes, signal.word, signal.value, op_of(&signal), pe, stream);
	r = nvs_copy_on(stream, at, source, bytes);
	return r ? r : signal_on(signal, pe, stream);
}

void nvs_put_signal_on(const char *name, void *dest, const void *source, size_t bytes, struct nvs_signal signal, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	(void)nvs_result(name, r ? r : put_signal_on(dest, source, bytes, signal, pe, stream));
}

NVS_API void nvshmemx_signal_op_on_stream(uint64_t *word, uint64_t value, int op, int pe, cuda_stream stream);
void nvshmemx_signal_op_on_stream(uint64_t *word, uint64_t value, int op, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmemx_signal_op_on_stream", r ? r : signal_on((struct nvs_signal){word, value, op}, pe, stream));
}

/* The program's own word. */
NVS_API void nvshmemx_signal_counted_reset(uint64_t *word);
void nvshmemx_signal_counted_reset(uint64_t *word)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmemx_signal_counted_reset", r ? r : device_write_word(nvs.device, nvs_address(word), 0, sizeof(*word)));
}

/* ---- waits */

static int find_cmp(int cmp, uint32_t *ret_cmp)
{
	static const uint32_t cmps[] = {[NVS_CMP_EQ] = SHMD_CMP_EQ, [NVS_CMP_NE] = SHMD_CMP_NE, [NVS_CMP_GT] = SHMD_CMP_GT,
					[NVS_CMP_LE] = SHMD_CMP_LE, [NVS_CMP_LT] = SHMD_CMP_LT, [NVS_CMP_GE] = SHMD_CMP_GE};

	if (cmp < 0 || cmp > NVS_CMP_GE)
		return shmd_error_set(-EINVAL, "%d is no comparison", cmp);
	*ret_cmp = cmps[cmp];
	return 0;
}

void nvs_wait_on(const char *name, struct shmd_wait wait, int cmp, bool is_signed, cuda_stream stream)
{
	int r = nvs_ready();

	if (!r)
		r = nvs_need_kernels();
	if (!r)
		r = find_cmp(cmp, &wait.cmp);
	if (is_signed)
		wait.cmp |= SHMD_CMP_SIGNED;
	(void)nvs_result(name, r ? r : shmd_wait_until_all_on_stream(ctx(), &wait, stream));
}

/*
 * The driver compares numbers as if they were on a circle, which is the same for signals that grow from 0 to less than 2^63. If eight streams wait by the
 * driver, CUDA carries out no writes of other streams, so the signals for which they wait cannot come by the memory agent: by queues kernels wait.
 */
static bool driver_can(int cmp, uint64_t value)
{
	if (!nvs.device->cuda->stream_wait8 || (nvs.ibgda && nvs.has_kernels))
		return false;
	return cmp == NVS_CMP_EQ || ((cmp == NVS_CMP_GE || cmp == NVS_CMP_GT) && value < INT64_MAX);
}

static int wait_by_driver(const uint64_t *word, int cmp, uint64_t value, cuda_stream stream)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	cuda_result result = cuda->stream_wait8(stream, nvs_address(word), value + (cmp == NVS_CMP_GT),
						cmp == NVS_CMP_EQ ? CUDA_WAIT_EQUAL : CUDA_WAIT_AT_LEAST);

	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "wait for a signal");
}

static int wait_on(const uint64_t *word, int cmp, uint64_t value, cuda_stream stream)
{
	uint32_t exact = 0;
	int r = find_cmp(cmp, &exact);

	if (r < 0)
		return r;
	if (driver_can(cmp, value))
		return wait_by_driver(word, cmp, value, stream);
	r = nvs_need_kernels();
	return r ? r : shmd_wait_until_on_stream(ctx(), word, sizeof(*word), exact, value, stream);
}

NVS_API void nvshmemx_signal_wait_until_on_stream(uint64_t *word, int cmp, uint64_t value, cuda_stream stream);
void nvshmemx_signal_wait_until_on_stream(uint64_t *word, int cmp, uint64_t value, cuda_stream stream)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmemx_signal_wait_until_on_stream", r ? r : wait_on(word, cmp, value, stream));
}

/* A stream completes what it has begun before it goes on. */
NVS_API void nvshmemx_quiet_on_stream(cuda_stream stream);
void nvshmemx_quiet_on_stream(cuda_stream stream)
{
	(void)stream;
	(void)nvs_result("nvshmemx_quiet_on_stream", nvs_ready());
}

NVS_API void nvshmemx_flush_on_stream(cuda_stream stream);
void nvshmemx_flush_on_stream(cuda_stream stream)
{
	(void)stream;
	(void)nvs_result("nvshmemx_flush_on_stream", nvs_ready());
}
