/* SPDX-License-Identifier: Apache-2.0 */
/* See fake-cuda.h. */
#include "tests/lib/fake-cuda-private.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct context {
	int gpu;
	int n_retained;
};

struct range {
	char *addr;
	size_t bytes;
	char *alias[FAKE_CUDA_GPUS];
	struct context *context; /* it lives with the context that registered it */
};

/* A copy or a write that a stream has still to do. */
struct work {
	char *to;
	const char *from; /* or NULL: value */
	size_t bytes;
	uint64_t value;
	int is_read; /* of GPU memory */
};

#define MAX_WORK 4096
struct stream {
	struct context *context;
	struct work *work; /* MAX_WORK; NULL while nothing was put off */
	int n_work, n_polls;
	int is_running; /* a kernel, in the thread that launched it */
};

#define MAX_RANGES 256
static struct context contexts[FAKE_CUDA_GPUS] = {{0, 0}, {1, 0}};
static struct range ranges[MAX_RANGES];
struct fake_cuda_counts fake_cuda_counted;
static int is_initialised;
static pid_t process; /* that initialised it */
static _Thread_local struct context *stack[8];
static _Thread_local int depth;
static char fail_symbol[64];
static int fail_result, n_fails, n_good;
static int n_polls_before; /* 0: nothing is put off */
static int lacks_values;
static int hangs, n_hanging;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_run = PTHREAD_COND_INITIALIZER;

int fake_cuda_lock(void)
{
	return pthread_mutex_lock(&lock);
}

void fake_cuda_unlock(int *taken)
{
	pthread_mutex_unlock(&lock);
}

void fake_cuda_fail_after(const char *symbol, int result, int n_before, int n)
{
	LOCKED;
	snprintf(fail_symbol, sizeof(fail_symbol), "%s", symbol);
	fail_result = result;
	n_good = n_before;
	n_fails = n;
}

void fake_cuda_fail_times(const char *symbol, int result, int n)
{
	fake_cuda_fail_after(symbol, result, 0, n);
}

void fake_cuda_fail(const char *symbol, int result)
{
	fake_cuda_fail_times(symbol, result, 1);
}

void fake_cuda_put_off(int n_polls)
{
	__atomic_store_n(&n_polls_before, n_polls, __ATOMIC_RELEASE);
}

void fake_cuda_lack_values(int lacks)
{
	__atomic_store_n(&lacks_values, lacks, __ATOMIC_RELEASE);
}

void fake_cuda_hang(int does)
{
	__atomic_store_n(&hangs, does, __ATOMIC_RELEASE);
}

int fake_cuda_hanging(void)
{
	return __atomic_load_n(&n_hanging, __ATOMIC_ACQUIRE);
}

static void hang(void)
{
	__atomic_fetch_add(&n_hanging, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&hangs, __ATOMIC_ACQUIRE))
		usleep(1000);
	__atomic_fetch_sub(&n_hanging, 1, __ATOMIC_ACQ_REL);
}

int fake_cuda_failed(void)
{
	LOCKED;
	return !fail_symbol[0];
}

struct fake_cuda_counts fake_cuda_counts(void)
{
	struct fake_cuda_counts now;
	LOCKED;

	now = fake_cuda_counted;
	now.contexts = contexts[0].n_retained + contexts[1].n_retained;
	now.pushed = depth;
	return now;
}

void fake_cuda_set_current(int ordinal)
{
	depth = ordinal >= 0;
	stack[0] = ordinal >= 0 ? &contexts[ordinal] : NULL;
}

static struct context *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

int fake_cuda_enter(const char *symbol, int needs_context)
{
	if (!strcmp(symbol, fail_symbol) && n_good-- < 1) {
		if (--n_fails < 1)
			fail_symbol[0] = 0;
		return fail_result;
	}
	if (!is_initialised)
		return NOT_INITIALISED;
	fake_cuda_counted.in_children += process != getpid();
	return needs_context && !current() ? INVALID_CONTEXT : OK;
}

/* ---- GPUs and contexts */

EXPORT int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	process = getpid();
	__atomic_store_n(&is_initialised, 1, __ATOMIC_RELEASE);
	ENTER(0);
	return flags ? INVALID_VALUE : OK;
}

EXPORT int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text)
{
	*text = error == OK ? "no error" : "an error made for a test";
	return OK;
}

EXPORT int cuDeviceGet(int *gpu, int ordinal);
int cuDeviceGet(int *gpu, int ordinal)
{
	ENTER(0);
	if (ordinal < 0 || ordinal >= FAKE_CUDA_GPUS)
		return INVALID_GPU;
	*gpu = ordinal;
	return OK;
}

EXPORT int cuDeviceGetName(char *name, int bytes, int gpu);
int cuDeviceGetName(char *name, int bytes, int gpu)
{
	ENTER(0);
	snprintf(name, (size_t)bytes, "Fake %d", gpu);
	return OK;
}

EXPORT int cuDeviceGetPCIBusId(char *pci, int bytes, int gpu);
int cuDeviceGetPCIBusId(char *pci, int bytes, int gpu)
{
	ENTER(0);
	snprintf(pci, (size_t)bytes, "0000:%02x:00.0", 0x17 + gpu);
	return OK;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int gpu);
int cuDeviceGetAttribute(int *value, int attribute, int gpu)
{
	ENTER(0);
	*value = attribute == 110 ? 1 : attribute == 16 ? FAKE_CUDA_MULTIPROCESSORS : 0;
	return gpu < 0 || gpu >= FAKE_CUDA_GPUS ? INVALID_GPU : OK;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int gpu);
int cuDevicePrimaryCtxRetain(void **context, int gpu)
{
	ENTER(0);
	contexts[gpu].n_retained++;
	*context = &contexts[gpu];
	return OK;
}

/* Registrations and allocations of a context end with it; here that is a mistake of the caller. */
EXPORT int cuDevicePrimaryCtxRelease_v2(int gpu);
int cuDevicePrimaryCtxRelease_v2(int gpu)
{
	ENTER(0);
	if (contexts[gpu].n_retained < 1)
		abort();
	contexts[gpu].n_retained--;
	for (int i = 0; i < MAX_RANGES && !contexts[gpu].n_retained; i++)
		if (ranges[i].context == &contexts[gpu])
			abort();
	return OK;
}

EXPORT int cuCtxGetCurrent(void **context);
int cuCtxGetCurrent(void **context)
{
	ENTER(0);
	*context = current();
	return OK;
}

EXPORT int cuCtxGetDevice(int *gpu);
int cuCtxGetDevice(int *gpu)
{
	ENTER(1);
	*gpu = current()->gpu;
	return OK;
}

EXPORT int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context)
{
	ENTER(0);
	if (depth == 8)
		abort();
	stack[depth++] = context;
	return OK;
}

EXPORT int cuCtxPopCurrent_v2(void **context);
int cuCtxPopCurrent_v2(void **context)
{
	ENTER(1);
	*context = stack[--depth];
	return OK;
}

static void *make_stream(unsigned int flags)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s || flags != 1)
		abort();
	s->context = current();
	fake_cuda_counted.streams++;
	return s;
}

EXPORT int cuStreamCreate(void **stream, unsigned int flags);
int cuStreamCreate(void **stream, unsigned int flags)
{
	ENTER(1);
	*stream = make_stream(flags);
	return OK;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest);
int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	ENTER(1);
	*least = 0;
	*greatest = -5;
	return OK;
}

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority);
int cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority)
{
	ENTER(1);
	if (priority < -5 || priority > 0)
		return INVALID_VALUE;
	*stream = make_stream(flags);
	return OK;
}

static void work_do(const struct work *work)
{
	if (work->is_read)
		fake_cuda_copy_out(work->to, work->from, work->bytes);
	else
		fake_cuda_copy_in(work->to, work->from ? work->from : (const char *)&work->value, work->bytes);
}

static void stream_flush(struct stream *stream)
{
	for (int i = 0; i < stream->n_work; i++)
		work_do(&stream->work[i]);
	fake_cuda_counted.put_off -= stream->n_work;
	stream->n_work = stream->n_polls = 0;
}

/* Now, or once the stream was polled. */
static void stream_put(struct stream *stream, const struct work *work)
{
	if (!__atomic_load_n(&n_polls_before, __ATOMIC_ACQUIRE) && !stream->n_work) {
		work_do(work);
		return;
	}
	if (!stream->work)
		stream->work = calloc(MAX_WORK, sizeof(*work));
	if (!stream->work || stream->n_work == MAX_WORK)
		abort();
	stream->work[stream->n_work++] = *work;
	fake_cuda_counted.put_off++;
	stream->n_polls = 0;
}

EXPORT int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream)
{
	ENTER(1);
	fake_cuda_counted.streams--;
	stream_flush(stream);
	free(((struct stream *)stream)->work);
	free(stream);
	return OK;
}

static int check_stream(const struct stream *stream)
{
	return stream && stream->context == current() ? OK : INVALID_CONTEXT;
}

/* All that is behind a kernel in a stream waits for it. Gives the lock away meanwhile. */
static void wait_for_kernel(const struct stream *stream)
{
	while (stream->is_running)
		pthread_cond_wait(&has_run, &lock);
}

int fake_cuda_stream_begin(void *stream)
{
	struct stream *s = stream;

	if (check_stream(s))
		return INVALID_CONTEXT;
	wait_for_kernel(s);
	stream_flush(s);
	s->is_running = 1;
	return OK;
}

void fake_cuda_stream_end(void *stream)
{
	LOCKED;
	((struct stream *)stream)->is_running = 0;
	pthread_cond_broadcast(&has_run);
}

EXPORT int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream)
{
	ENTER(1);
	if (fake_cuda_forbids())
		return UNDER_CAPTURE;
	if (check_stream(stream))
		return INVALID_CONTEXT;
	wait_for_kernel(stream);
	stream_flush(stream);
	return OK;
}

EXPORT int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream)
{
	struct stream *s = stream;

	ENTER(1);
	if (check_stream(s))
		return INVALID_CONTEXT;
	if (s->n_work && s->n_polls++ < __atomic_load_n(&n_polls_before, __ATOMIC_ACQUIRE))
		return NOT_READY;
	stream_flush(s);
	return OK;
}

/* ---- registered memory: a second mapping of the same pages for each GPU */

static struct range *range_at(const char *addr)
{
	for (int i = 0; i < MAX_RANGES; i++)
		if (ranges[i].addr && addr >= ranges[i].addr && addr < ranges[i].addr + ranges[i].bytes)
			return &ranges[i];
	return NULL;
}

EXPORT int cuMemHostRegister_v2(void *addr, size_t bytes, unsigned int flags);
int cuMemHostRegister_v2(void *addr, size_t bytes, unsigned int flags)
{
	struct range *range = NULL;

	ENTER(1);
	/* I/O memory is refused for ordinary memory, as CUDA does. */
	if (flags != 3)
		return INVALID_VALUE;
	if (range_at(addr))
		return ALREADY;
	for (int i = 0; i < MAX_RANGES && !range; i++)
		range = ranges[i].addr ? NULL : &ranges[i];
	if (!range)
		abort();
	*range = (struct range){.addr = addr, .bytes = bytes, .context = current()};
	for (int i = 0; i < FAKE_CUDA_GPUS; i++) {
		range->alias[i] = mremap(addr, 0, bytes, MREMAP_MAYMOVE);
		/* An emulated kernel maps nothing twice: there GPUs use the host's address. */
		if (range->alias[i] == MAP_FAILED && getenv("SHMEMD_TEST_EMULATOR"))
			range->alias[i] = addr;
		if (range->alias[i] == MAP_FAILED)
			abort();
	}
	fake_cuda_counted.registered++;
	return OK;
}

EXPORT int cuMemHostUnregister(void *addr);
int cuMemHostUnregister(void *addr)
{
	struct range *range;

	ENTER(1);
	range = range_at(addr);
	if (!range || range->addr != addr)
		return NOT_REGISTERED;
	for (int i = 0; i < FAKE_CUDA_GPUS; i++)
		if (range->alias[i] != range->addr)
			munmap(range->alias[i], range->bytes);
	memset(range, 0, sizeof(*range));
	fake_cuda_counted.registered--;
	return OK;
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *gpu, void *addr, unsigned int flags);
int cuMemHostGetDevicePointer_v2(uint64_t *gpu, void *addr, unsigned int flags)
{
	struct range *range;

	ENTER(1);
	range = range_at(addr);
	if (!range || flags)
		return INVALID_VALUE;
	*gpu = (uintptr_t)(range->alias[current()->gpu] + ((char *)addr - range->addr));
	return OK;
}

/* ---- GPU memory */

/* Memory of a memfd, which an export gives out. */
struct allocation {
	char *addr;
	size_t bytes;
	int fd;
};

#define MAX_ALLOCATIONS 256
#define DIRTY_BYTES ((size_t)64 << 20)
static struct allocation allocations[MAX_ALLOCATIONS];

static struct allocation *allocation_at(const char *addr)
{
	for (int i = 0; i < MAX_ALLOCATIONS; i++)
		if (allocations[i].addr == addr)
			return &allocations[i];
	return NULL;
}

EXPORT int cuMemAlloc_v2(uint64_t *addr, size_t bytes);
int cuMemAlloc_v2(uint64_t *addr, size_t bytes)
{
	struct allocation *allocation;

	ENTER(1);
	if (fake_cuda_forbids())
		return UNDER_CAPTURE;
	allocation = allocation_at(NULL);
	if (!allocation)
		abort();
	allocation->bytes = (bytes + 4095) & ~(size_t)4095;
	allocation->fd = memfd_create("fake-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (allocation->fd < 0 || ftruncate(allocation->fd, (off_t)allocation->bytes) < 0)
		abort();
	allocation->addr = mmap(NULL, allocation->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation->fd, 0);
	if (allocation->addr == MAP_FAILED)
		abort();
	/* As dirty as a GPU's. The end of a large one costs much, and is seldom used. */
	memset(allocation->addr, 0xa5, bytes < DIRTY_BYTES ? bytes : DIRTY_BYTES);
	fake_cuda_counted.allocations++;
	*addr = (uintptr_t)allocation->addr;
	return OK;
}

EXPORT int cuMemFree_v2(uint64_t addr);
int cuMemFree_v2(uint64_t addr)
{
	struct allocation *allocation;

	ENTER(1);
	allocation = addr ? allocation_at((const char *)(uintptr_t)addr) : NULL;
	if (!allocation)
		return INVALID_VALUE;
	fake_cuda_counted.allocations--;
	munmap(allocation->addr, allocation->bytes);
	close(allocation->fd);
	*allocation = (struct allocation){0};
	return OK;
}

/* Whole pages from the start of an allocation, or of memory that is mapped. */
EXPORT int cuMemGetHandleForAddressRange(void *handle, uint64_t addr, size_t bytes, int kind, unsigned long long flags);
int cuMemGetHandleForAddressRange(void *handle, uint64_t addr, size_t bytes, int kind, unsigned long long flags)
{
	const struct allocation *allocation;
	int fd;

	ENTER(1);
	allocation = addr ? allocation_at((const char *)(uintptr_t)addr) : NULL;
	fd = allocation && bytes <= allocation->bytes ? allocation->fd : fake_cuda_fd_of_mapped((const char *)(uintptr_t)addr, bytes);
	if (fd < 0 || !bytes || bytes % 4096 || kind != 1 || flags)
		return INVALID_VALUE;
	*(int *)handle = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return OK;
}

/* On the GPU: in an allocation, in memory that was mapped, or where a GPU sees registered memory. */
static int is_on_gpu(const void *at, size_t bytes)
{
	int found = fake_cuda_is_mapped(at, bytes);

	for (int i = 0; i < MAX_ALLOCATIONS && !found; i++)
		found = fake_cuda_holds(allocations[i].addr, allocations[i].bytes, at, bytes);
	for (int i = 0; i < MAX_RANGES && !found; i++)
		for (int gpu = 0; gpu < FAKE_CUDA_GPUS && !found; gpu++)
			found = ranges[i].addr && fake_cuda_holds(ranges[i].alias[gpu], ranges[i].bytes, at, bytes);
	return found;
}

/* CUDA's memory lies here in the same space as the program's, but a program must not name it as its own. */
static int is_allocated(const void *at)
{
	for (int i = 0; i < MAX_ALLOCATIONS; i++)
		if (fake_cuda_holds(allocations[i].addr, allocations[i].bytes, at, 1))
			return 1;
	return fake_cuda_is_mapped(at, 1);
}

int fake_cuda_find_allocation(const void *at, uint64_t *begin, size_t *bytes)
{
	for (int i = 0; i < MAX_ALLOCATIONS; i++)
		if (fake_cuda_holds(allocations[i].addr, allocations[i].bytes, at, 1)) {
			*begin = (uintptr_t)allocations[i].addr;
			*bytes = allocations[i].bytes;
			return 1;
		}
	return 0;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream)
{
	ENTER(1);
	if (check_stream(stream))
		return INVALID_CONTEXT;
	if (!is_on_gpu((void *)(uintptr_t)dst, bytes) || is_allocated(src))
		return INVALID_VALUE;
	stream_put(stream, &(struct work){.to = (char *)(uintptr_t)dst, .from = src, .bytes = bytes});
	return OK;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream)
{
	hang();
	ENTER(1);
	if (check_stream(stream))
		return INVALID_CONTEXT;
	if (!is_on_gpu((void *)(uintptr_t)src, bytes) || is_allocated(dst))
		return INVALID_VALUE;
	stream_put(stream, &(struct work){.to = dst, .from = (const char *)(uintptr_t)src, .bytes = bytes, .is_read = 1});
	return OK;
}

/* As the driver has it: 48 bytes for each operation. */
struct memop {
	int kind, flags_of_barrier;
	uint64_t addr, value;
	unsigned int flags;
	uint64_t unused[2];
};

static int check_memop(const struct memop *op)
{
	size_t bytes = op->kind == 2 ? 4 : 8;

	if ((op->kind != 2 && op->kind != 5) || op->flags || op->addr % bytes)
		return INVALID_VALUE;
	return is_on_gpu((void *)(uintptr_t)op->addr, bytes) ? OK : INVALID_VALUE;
}

/* All of them or, if it refuses one, none. */
EXPORT int cuStreamBatchMemOp_v2(void *stream, unsigned int n, const struct memop *ops, unsigned int flags);
int cuStreamBatchMemOp_v2(void *stream, unsigned int n, const struct memop *ops, unsigned int flags)
{
	ENTER(1);
	if (__atomic_load_n(&lacks_values, __ATOMIC_ACQUIRE))
		return NOT_SUPPORTED;
	if (check_stream(stream))
		return INVALID_CONTEXT;
	if (n < 1 || n > 255 || flags)
		return INVALID_VALUE;
	for (unsigned int i = 0; i < n; i++)
		if (check_memop(&ops[i]))
			return INVALID_VALUE;
	fake_cuda_counted.batches++;
	for (unsigned int i = 0; i < n; i++)
		stream_put(stream, &(struct work){.to = (char *)(uintptr_t)ops[i].addr, .bytes = ops[i].kind == 2 ? 4 : 8, .value = ops[i].value});
	return OK;
}

static int write_value(struct stream *stream, uint64_t addr, uint64_t value, size_t bytes, unsigned int flags)
{
	if (__atomic_load_n(&lacks_values, __ATOMIC_ACQUIRE))
		return NOT_SUPPORTED;
	if (check_stream(stream))
		return INVALID_CONTEXT;
	if (flags || addr % bytes || !is_on_gpu((void *)(uintptr_t)addr, bytes))
		return INVALID_VALUE;
	stream_put(stream, &(struct work){.to = (char *)(uintptr_t)addr, .bytes = bytes, .value = value});
	return OK;
}

EXPORT int cuStreamWriteValue32_v2(void *stream, uint64_t addr, uint32_t value, unsigned int flags);
int cuStreamWriteValue32_v2(void *stream, uint64_t addr, uint32_t value, unsigned int flags)
{
	ENTER(1);
	return write_value(stream, addr, value, 4, flags);
}

EXPORT int cuStreamWriteValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned int flags);
int cuStreamWriteValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned int flags)
{
	ENTER(1);
	return write_value(stream, addr, value, 8, flags);
}

static int check_wait(struct stream *stream, uint64_t addr, unsigned int flags)
{
	LOCKED;
	int result = fake_cuda_enter("cuStreamWaitValue64_v2", 1);

	if (result)
		return result;
	if (check_stream(stream))
		return INVALID_CONTEXT;
	stream_flush(stream);
	return flags > 1 || addr % 8 || !is_on_gpu((void *)(uintptr_t)addr, 8) ? INVALID_VALUE : OK;
}

/* Here the caller waits, and not the stream. Flags: 0 at least, 1 equal. */
EXPORT int cuStreamWaitValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned int flags);
int cuStreamWaitValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned int flags)
{
	const uint64_t *word = (const uint64_t *)(uintptr_t)addr;
	int result = check_wait(stream, addr, flags);

	while (!result && (flags ? __atomic_load_n(word, __ATOMIC_ACQUIRE) != value : (int64_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0))
		usleep(50);
	return result;
}

/* 1: all kernels of a module when it is loaded; 2: each at its first launch. As the real driver's variable says. */
EXPORT int cuModuleGetLoadingMode(int *ret_mode);
int cuModuleGetLoadingMode(int *ret_mode)
{
	const char *text = getenv("CUDA_MODULE_LOADING");

	ENTER(0);
	*ret_mode = text && !strcmp(text, "EAGER") ? 1 : 2;
	return OK;
}

EXPORT int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t bytes, void *stream);
int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t bytes, void *stream)
{
	ENTER(1);
	if (!is_on_gpu((void *)(uintptr_t)dst, bytes))
		return INVALID_VALUE;
	memset((void *)(uintptr_t)dst, value, bytes);
	return check_stream(stream);
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, void *stream)
{
	ENTER(1);
	if (dst < src + bytes && src < dst + bytes)
		return INVALID_VALUE;
	memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	return check_stream(stream);
}

EXPORT int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t bytes, void *stream);
int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t bytes, void *stream)
{
	ENTER(1);
	if (check_stream(stream))
		return INVALID_CONTEXT;
	stream_put(stream, &(struct work){.to = (char *)(uintptr_t)dst, .from = (const char *)(uintptr_t)src, .bytes = bytes});
	return OK;
}

/*
 * Host memory that is registered, by its own address or by that of a GPU's alias. Attribute 4 is its own address; 11 and 12 are where the range begins
 * that the address names, and its bytes.
 */
static int find_registered(int attribute, const char *at, uint64_t *ret)
{
	for (int i = 0; i < MAX_RANGES; i++)
		for (int gpu = -1; gpu < FAKE_CUDA_GPUS; gpu++) {
			const char *start = gpu < 0 ? ranges[i].addr : ranges[i].alias[gpu];

			if (!ranges[i].addr || !fake_cuda_holds(start, ranges[i].bytes, at, 1))
				continue;
			*ret = attribute == 4 ? (uintptr_t)(ranges[i].addr + (at - start)) : attribute == 11 ? (uintptr_t)start : ranges[i].bytes;
			return OK;
		}
	*ret = 0;
	return INVALID_VALUE;
}

/* GPU memory has an address and a GPU, registered memory an address of the host. */
EXPORT int cuPointerGetAttribute(void *ret, int attribute, uint64_t addr);
int cuPointerGetAttribute(void *ret, int attribute, uint64_t addr)
{
	ENTER(1);
	if (attribute == 4 || attribute == 11 || attribute == 12)
		return find_registered(attribute, (const char *)(uintptr_t)addr, ret);
	if ((attribute != 3 && attribute != 9) || !(fake_cuda_is_mapped((const void *)(uintptr_t)addr, 1) || is_allocated((const void *)(uintptr_t)addr)))
		return INVALID_VALUE;
	/* 9: the GPU; that of the context, since memory here has none of its own. */
	if (attribute == 9)
		*(int *)ret = (int)(current() - contexts);
	else
		memcpy(ret, &addr, sizeof(addr));
	return OK;
}

EXPORT int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n)
{
	ENTER(0);
	*n = FAKE_CUDA_GPUS;
	return OK;
}
