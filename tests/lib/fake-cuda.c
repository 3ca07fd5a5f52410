/* SPDX-License-Identifier: Apache-2.0 */
/* See fake-cuda.h. */
#include "tests/lib/fake-cuda.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	OK = 0,
	INVALID_VALUE = 1,
	NOT_INITIALISED = 3,
	INVALID_GPU = 101,
	INVALID_CONTEXT = 201,
	ALREADY = 712,
	NOT_READY = 600,
	NOT_REGISTERED = 713,
	NOT_SUPPORTED = 801,
};

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
};

#define MAX_WORK 4096
struct stream {
	struct context *context;
	struct work *work; /* MAX_WORK; NULL while nothing was put off */
	int n_work, n_polls;
};

#define MAX_RANGES 64
static struct context contexts[FAKE_CUDA_GPUS] = {{0, 0}, {1, 0}};
static struct range ranges[MAX_RANGES];
static struct fake_cuda_counts counts;
static int is_initialised;
static pid_t process; /* that initialised it */
static _Thread_local struct context *stack[8];
static _Thread_local int depth;
static char fail_symbol[64];
static int fail_result, n_fails, n_good;
static int n_polls_before; /* 0: nothing is put off */
static int lacks_values;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int take_lock(void)
{
	return pthread_mutex_lock(&lock);
}

static void drop_lock(int *taken)
{
	pthread_mutex_unlock(&lock);
}

#define LOCKED __attribute__((cleanup(drop_lock), unused)) int taken_ = take_lock()

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

int fake_cuda_failed(void)
{
	LOCKED;
	return !fail_symbol[0];
}

struct fake_cuda_counts fake_cuda_counts(void)
{
	struct fake_cuda_counts now;
	LOCKED;

	now = counts;
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

static int enter(const char *symbol, int needs_context)
{
	if (!strcmp(symbol, fail_symbol) && n_good-- < 1) {
		if (--n_fails < 1)
			fail_symbol[0] = 0;
		return fail_result;
	}
	if (!is_initialised)
		return NOT_INITIALISED;
	counts.in_children += process != getpid();
	return needs_context && !current() ? INVALID_CONTEXT : OK;
}

/* Every call begins with it and holds the lock to its end. */
#define ENTER(needs_context)                                                                                  \
	LOCKED;                                                                                               \
	int result_ = enter(__func__, needs_context);                                                         \
                                                                                                              \
	if (result_)                                                                                          \
	return result_

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
	counts.streams++;
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
	memcpy(work->to, work->from ? work->from : (const char *)&work->value, work->bytes);
}

static void stream_flush(struct stream *stream)
{
	for (int i = 0; i < stream->n_work; i++)
		work_do(&stream->work[i]);
	counts.put_off -= stream->n_work;
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
	counts.put_off++;
	stream->n_polls = 0;
}

EXPORT int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream)
{
	ENTER(1);
	counts.streams--;
	stream_flush(stream);
	free(((struct stream *)stream)->work);
	free(stream);
	return OK;
}

static int check_stream(const struct stream *stream)
{
	return stream && stream->context == current() ? OK : INVALID_CONTEXT;
}

EXPORT int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream)
{
	ENTER(1);
	stream_flush(stream);
	return check_stream(stream);
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
	counts.registered++;
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
	counts.registered--;
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
	/* As dirty as a GPU's. */
	memset(allocation->addr, 0xa5, bytes);
	counts.allocations++;
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
	counts.allocations--;
	munmap(allocation->addr, allocation->bytes);
	close(allocation->fd);
	*allocation = (struct allocation){0};
	return OK;
}

/* Whole pages from the start of an allocation. */
EXPORT int cuMemGetHandleForAddressRange(void *handle, uint64_t addr, size_t bytes, int kind, unsigned long long flags);
int cuMemGetHandleForAddressRange(void *handle, uint64_t addr, size_t bytes, int kind, unsigned long long flags)
{
	const struct allocation *allocation;

	ENTER(1);
	allocation = addr ? allocation_at((const char *)(uintptr_t)addr) : NULL;
	if (!allocation || !bytes || bytes % 4096 || bytes > allocation->bytes || kind != 1 || flags)
		return INVALID_VALUE;
	*(int *)handle = fcntl(allocation->fd, F_DUPFD_CLOEXEC, 3);
	return OK;
}

#define MAX_RESERVED 64
#define MAX_MAPPED 256

/* A range of addresses of the GPU's: reserved, or one in which memory is mapped. */
struct span {
	uint64_t addr;
	size_t bytes; /* 0: unused */
	int fd; /* of what is mapped there, until it is accessible; -1 */
};

static struct span reserved[MAX_RESERVED], mapped[MAX_MAPPED];

static int holds(const char *addr, size_t size, const char *at, size_t bytes)
{
	return addr && at >= addr && bytes <= size && (size_t)(at - addr) <= size - bytes;
}

static int is_mapped(const void *at, size_t bytes)
{
	int found = 0;

	for (int i = 0; i < MAX_MAPPED && !found; i++)
		found = holds((const char *)(uintptr_t)mapped[i].addr, mapped[i].bytes, at, bytes);
	return found;
}

/* On the GPU: in an allocation, in memory that was mapped, or where a GPU sees registered memory. */
static int is_on_gpu(const void *at, size_t bytes)
{
	int found = is_mapped(at, bytes);

	for (int i = 0; i < MAX_ALLOCATIONS && !found; i++)
		found = holds(allocations[i].addr, allocations[i].bytes, at, bytes);
	for (int i = 0; i < MAX_RANGES && !found; i++)
		for (int gpu = 0; gpu < FAKE_CUDA_GPUS && !found; gpu++)
			found = ranges[i].addr && holds(ranges[i].alias[gpu], ranges[i].bytes, at, bytes);
	return found;
}

/* CUDA's memory lies here in the same space as the program's, but a program must not name it as its own. */
static int is_allocated(const void *at)
{
	for (int i = 0; i < MAX_ALLOCATIONS; i++)
		if (holds(allocations[i].addr, allocations[i].bytes, at, 1))
			return 1;
	return is_mapped(at, 1);
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
	ENTER(1);
	if (check_stream(stream))
		return INVALID_CONTEXT;
	if (!is_on_gpu((void *)(uintptr_t)src, bytes) || is_allocated(dst))
		return INVALID_VALUE;
	stream_put(stream, &(struct work){.to = dst, .from = (const char *)(uintptr_t)src, .bytes = bytes});
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

EXPORT int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n)
{
	ENTER(0);
	*n = FAKE_CUDA_GPUS;
	return OK;
}

/* ---- memory apart from addresses: a handle is a memfd, whose duplicate an export gives out */

#define STEP (2u << 20)

struct memory_attr {
	int kind, handle_kinds, place_kind, gpu;
	void *unused;
	unsigned char flags[8];
};

struct memory_access {
	int place_kind, gpu, flags;
};

static struct span *span_free(struct span *spans, int n)
{
	for (int i = 0; i < n; i++)
		if (!spans[i].bytes)
			return &spans[i];
	abort();
}

static struct span *span_at(struct span *spans, int n, uint64_t addr, size_t bytes)
{
	for (int i = 0; i < n; i++)
		if (spans[i].bytes && spans[i].addr == addr && spans[i].bytes == bytes)
			return &spans[i];
	return NULL;
}

static int overlaps(const struct span *spans, int n, uint64_t addr, size_t bytes)
{
	for (int i = 0; i < n; i++)
		if (spans[i].bytes && addr < spans[i].addr + spans[i].bytes && spans[i].addr < addr + bytes)
			return 1;
	return 0;
}

static int memory_check(const struct memory_attr *attr)
{
	return attr->kind == 1 && attr->handle_kinds == 1 && attr->place_kind == 1 && attr->gpu >= 0 && attr->gpu < FAKE_CUDA_GPUS ?
		       OK : INVALID_VALUE;
}

EXPORT int cuMemGetAllocationGranularity(size_t *bytes, const struct memory_attr *attr, int which);
int cuMemGetAllocationGranularity(size_t *bytes, const struct memory_attr *attr, int which)
{
	ENTER(0);
	*bytes = STEP;
	return which ? INVALID_VALUE : memory_check(attr);
}

EXPORT int cuMemCreate(unsigned long long *memory, size_t bytes, const struct memory_attr *attr, unsigned long long flags);
int cuMemCreate(unsigned long long *memory, size_t bytes, const struct memory_attr *attr, unsigned long long flags)
{
	int fd;

	ENTER(0);
	if (flags || !bytes || bytes % STEP || memory_check(attr))
		return INVALID_VALUE;
	fd = memfd_create("fake-cuda-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		abort();
	/* As dirty as a GPU's. */
	if (pwrite(fd, "\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5", 8, 0) != 8)
		abort();
	counts.memories++;
	*memory = (unsigned long long)fd;
	return OK;
}

EXPORT int cuMemRelease(unsigned long long memory);
int cuMemRelease(unsigned long long memory)
{
	ENTER(0);
	if (close((int)memory))
		return INVALID_VALUE;
	counts.memories--;
	return OK;
}

EXPORT int cuMemExportToShareableHandle(void *handle, unsigned long long memory, int kind, unsigned long long flags);
int cuMemExportToShareableHandle(void *handle, unsigned long long memory, int kind, unsigned long long flags)
{
	ENTER(0);
	if (kind != 1 || flags)
		return INVALID_VALUE;
	*(int *)handle = fcntl((int)memory, F_DUPFD_CLOEXEC, 3);
	return OK;
}

EXPORT int cuMemImportFromShareableHandle(unsigned long long *memory, void *handle, int kind);
int cuMemImportFromShareableHandle(unsigned long long *memory, void *handle, int kind)
{
	int fd;

	ENTER(0);
	fd = kind == 1 ? fcntl((int)(uintptr_t)handle, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd < 0)
		return INVALID_VALUE;
	counts.memories++;
	*memory = (unsigned long long)fd;
	return OK;
}

EXPORT int cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align, uint64_t wish, unsigned long long flags);
int cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align, uint64_t wish, unsigned long long flags)
{
	uint64_t at;
	char *all;

	ENTER(0);
	if (!bytes || bytes % STEP || align > STEP || wish || flags)
		return INVALID_VALUE;
	all = mmap(NULL, bytes + STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return 2;
	at = ((uintptr_t)all + STEP - 1) / STEP * STEP;
	if (at > (uintptr_t)all)
		munmap(all, at - (uintptr_t)all);
	munmap((void *)(uintptr_t)(at + bytes), (uintptr_t)all + STEP - at);
	*span_free(reserved, MAX_RESERVED) = (struct span){at, bytes, -1};
	counts.reserved++;
	*addr = at;
	return OK;
}

EXPORT int cuMemAddressFree(uint64_t addr, size_t bytes);
int cuMemAddressFree(uint64_t addr, size_t bytes)
{
	struct span *span;

	ENTER(0);
	span = span_at(reserved, MAX_RESERVED, addr, bytes);
	if (!span || overlaps(mapped, MAX_MAPPED, addr, bytes))
		return INVALID_VALUE;
	munmap((void *)(uintptr_t)addr, bytes);
	span->bytes = 0;
	counts.reserved--;
	return OK;
}

static int is_reserved(uint64_t addr, size_t bytes)
{
	for (int i = 0; i < MAX_RESERVED; i++)
		if (reserved[i].bytes && addr >= reserved[i].addr && addr + bytes <= reserved[i].addr + reserved[i].bytes)
			return 1;
	return 0;
}

EXPORT int cuMemMap(uint64_t addr, size_t bytes, size_t offset, unsigned long long memory, unsigned long long flags);
int cuMemMap(uint64_t addr, size_t bytes, size_t offset, unsigned long long memory, unsigned long long flags)
{
	ENTER(0);
	if (offset || flags || !bytes || bytes % STEP || addr % STEP || !is_reserved(addr, bytes) ||
	    overlaps(mapped, MAX_MAPPED, addr, bytes) || lseek((int)memory, 0, SEEK_END) < (off_t)bytes)
		return INVALID_VALUE;
	*span_free(mapped, MAX_MAPPED) = (struct span){addr, bytes, fcntl((int)memory, F_DUPFD_CLOEXEC, 3)};
	counts.mapped++;
	return OK;
}

EXPORT int cuMemSetAccess(uint64_t addr, size_t bytes, const struct memory_access *access, size_t n);
int cuMemSetAccess(uint64_t addr, size_t bytes, const struct memory_access *access, size_t n)
{
	struct span *span;

	ENTER(0);
	span = span_at(mapped, MAX_MAPPED, addr, bytes);
	if (!span || n != 1 || access->place_kind != 1 || access->flags != 3)
		return INVALID_VALUE;
	if (mmap((void *)(uintptr_t)addr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, span->fd, 0) == MAP_FAILED)
		abort();
	return OK;
}

EXPORT int cuMemUnmap(uint64_t addr, size_t bytes);
int cuMemUnmap(uint64_t addr, size_t bytes)
{
	struct span *span;

	ENTER(0);
	span = span_at(mapped, MAX_MAPPED, addr, bytes);
	if (!span)
		return INVALID_VALUE;
	if (mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	close(span->fd);
	span->bytes = 0;
	counts.mapped--;
	return OK;
}
