/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few functions of OpenSHMEM that the bootstrap uses, over a file that all PEs map: FAKE_SHMEM_FILE, FAKE_SHMEM_RANK, FAKE_SHMEM_SIZE.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PE_BYTES 4096
#define MOST_PES 8
#define EXPORT __attribute__((visibility("default")))

struct heap {
	int arrived, round;
	char pes[MOST_PES][PE_BYTES];
};

static struct heap *heap;
static int rank, size;
static size_t used;

EXPORT void shmem_init(void);
EXPORT void shmem_finalize(void);
EXPORT int shmem_my_pe(void);
EXPORT int shmem_n_pes(void);
EXPORT void *shmem_malloc(size_t bytes);
EXPORT void shmem_free(void *at);
EXPORT void shmem_putmem(void *to, const void *from, size_t bytes, int pe);
EXPORT void shmem_barrier_all(void);
EXPORT void shmem_global_exit(int status);

void shmem_init(void)
{
	int fd = open(getenv("FAKE_SHMEM_FILE"), O_RDWR | O_CLOEXEC);

	rank = atoi(getenv("FAKE_SHMEM_RANK"));
	size = atoi(getenv("FAKE_SHMEM_SIZE"));
	heap = mmap(NULL, sizeof(*heap), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (heap == MAP_FAILED || size > MOST_PES)
		abort();
}

void shmem_finalize(void)
{
	munmap(heap, sizeof(*heap));
}

int shmem_my_pe(void)
{
	return rank;
}

int shmem_n_pes(void)
{
	return size;
}

void shmem_barrier_all(void)
{
	int round = __atomic_load_n(&heap->round, __ATOMIC_SEQ_CST);

	if (__atomic_add_fetch(&heap->arrived, 1, __ATOMIC_SEQ_CST) == size) {
		__atomic_store_n(&heap->arrived, 0, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&heap->round, 1, __ATOMIC_SEQ_CST);
	}
	while (__atomic_load_n(&heap->round, __ATOMIC_SEQ_CST) == round)
		usleep(100);
}

void *shmem_malloc(size_t bytes)
{
	void *at = heap->pes[rank] + used;

	used += (bytes + 15) / 16 * 16;
	shmem_barrier_all();
	return used <= PE_BYTES ? at : NULL;
}

void shmem_free(void *at)
{
	memset(at, 0xaa, 1);
	shmem_barrier_all();
}

void shmem_putmem(void *to, const void *from, size_t bytes, int pe)
{
	memcpy(heap->pes[pe] + ((char *)to - heap->pes[rank]), from, bytes);
}

void shmem_global_exit(int status)
{
	_exit(status);
}
