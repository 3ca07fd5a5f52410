/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/world/process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* The number of no process: the first call comes to process_is_slow(), and every other too where no page is zeroed by fork. */
static const int32_t no_process;
const int32_t *process_number = &no_process;
static int32_t *page;
static pthread_once_t page_once = PTHREAD_ONCE_INIT;

static void make_page(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	if (madvise(p, bytes, MADV_WIPEONFORK) < 0) {
		munmap(p, bytes);
		return;
	}
	page = p;
	__atomic_store_n(&process_number, page, __ATOMIC_RELEASE);
}

bool process_is_slow(pid_t pid)
{
	pthread_once(&page_once, make_page);
	if (page)
		__atomic_store_n(page, (int32_t)getpid(), __ATOMIC_RELAXED);
	return pid == getpid();
}
