/* SPDX-License-Identifier: Apache-2.0 */
/* Work for later is done, in order, by another thread; and there is a bound on what waits. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "proto/base/later.h"
#include "proto/base/list.h"
#include "tests/lib/test.h"

struct work {
	struct later later;
	unsigned int number;
};

static sem_t gate, at_gate;
static unsigned int n_done;
static pthread_t main_thread;

static void count(struct later *later)
{
	struct work *work = container_of(later, struct work, later);

	ASSERT(!pthread_equal(pthread_self(), main_thread));
	if (work->number == 0) {
		sem_post(&at_gate);
		sem_wait(&gate);
	}
	ASSERT_EQ(work->number, n_done);
	n_done++;
	free(work);
}

static int give(unsigned int number)
{
	struct work *work = malloc(sizeof(*work));
	int r;

	ASSERT(work);
	*work = (struct work){{.fn = count}, number};
	r = later_run(&work->later);
	if (r < 0)
		free(work);
	return r;
}

TEST(work_is_done_in_order_by_another_thread_and_what_waits_is_bounded)
{
	unsigned int n = 0;

	main_thread = pthread_self();
	ASSERT_OK(sem_init(&gate, 0, 0));
	ASSERT_OK(sem_init(&at_gate, 0, 0));
	for (int round = 0; round < 3; round++) {
		n_done = 0;
		/* The first is under way when the others come. */
		ASSERT_OK(give(0));
		ASSERT_OK(sem_wait(&at_gate));
		for (n = 1; n <= LATER_MAX + 1 && give(n) == 0; n++)
			;
		ASSERT_EQ(n, LATER_MAX + 1);
		ASSERT_EQ(give(n), -ENOBUFS);
		ASSERT_OK(sem_post(&gate));
		later_wait();
		ASSERT_EQ(n_done, n);
	}
	later_wait();
}
