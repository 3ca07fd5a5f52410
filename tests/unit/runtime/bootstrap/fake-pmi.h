/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher that speaks PMI-1 and PMI-2 with processes that the test forks: a thread over one socket for each rank. */
#ifndef SHMD_TESTS_FAKE_PMI_H
#define SHMD_TESTS_FAKE_PMI_H

#define FAKE_PMI_MOST_RANKS 8

struct fake_pmi;

struct fake_pmi *fake_pmi_start(int size);
/* The other end of a rank's socket, for PMI_FD. */
int fake_pmi_fd(const struct fake_pmi *pmi, int rank);
/* The answer to the next request of rank 0, whatever that is; NULL: the right one again. */
void fake_pmi_answer(struct fake_pmi *pmi, const char *answer);
/* How many ranks said goodbye, and the status of an abort, -1: none. Ends the thread. */
void fake_pmi_stop(struct fake_pmi *pmi, int *ret_finalized, int *ret_aborted);

#endif
