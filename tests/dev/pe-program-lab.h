/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_DEV_PE_PROGRAM_LAB_H
#define SHMD_TESTS_DEV_PE_PROGRAM_LAB_H

#include <pthread.h>

#include "tests/dev/pe-lab.h"
#include "tests/dev/pe-program.h"

/* The program in a world made by hand: in n_threads threads of each PE. */

struct pe_lab_meeting {
	pthread_barrier_t of_pe[LAB_PES]; /* the threads of one PE */
	uint32_t n_threads;
};

static void pe_lab_meet(struct pe_home *home, int is_barrier)
{
	const struct lab_thread *me = (const struct lab_thread *)home->arg;
	struct pe_lab_meeting *meeting = (struct pe_lab_meeting *)me->arg;
	struct shmd_dev_team *team = &me->lab->pes[me->pe].team;

	pthread_barrier_wait(&meeting->of_pe[me->pe]);
	if (!me->thread)
		ASSERT_EQ(is_barrier ? shmd_dev_team_barrier(me->ctx, team) : shmd_dev_team_sync(me->ctx, team), SHMD_DEV_OK);
	pthread_barrier_wait(&meeting->of_pe[me->pe]);
}

static void pe_lab_program_thread(const struct lab_thread *me)
{
	struct pe_home home = {
		.calls = &pe_calls_dev,
		.ctx = me->ctx,
		.room = pe_lab_memory(me->lab, me->pe),
		.slot_bytes = PE_PROGRAM_SLOT_BYTES,
		.pe = me->pe,
		.n_pes = me->lab->n_pes,
		.thread = me->thread,
		.n_threads = ((const struct pe_lab_meeting *)me->arg)->n_threads,
		.meet = pe_lab_meet,
		.arg = (void *)(uintptr_t)me,
	};

	ASSERT_LE(pe_program_bytes(pe_n_lanes(&home), home.n_threads, home.slot_bytes), LAB_MEMORY_BYTES);
	pe_program_run(&home);
}

static void pe_lab_program(struct pe_lab *lab, uint32_t n_threads)
{
	struct pe_lab_meeting meeting = {.n_threads = n_threads};

	for (uint32_t pe = 0; pe < lab->n_pes; pe++)
		ASSERT_OK(pthread_barrier_init(&meeting.of_pe[pe], NULL, n_threads));
	pe_lab_run(lab, n_threads, pe_lab_program_thread, &meeting);
	for (uint32_t pe = 0; pe < lab->n_pes; pe++)
		ASSERT_OK(pthread_barrier_destroy(&meeting.of_pe[pe]));
}

#endif
