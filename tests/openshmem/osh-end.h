/* SPDX-License-Identifier: Apache-2.0 */
/* Ways of osh-end that need threads. Each returns the status of the program. */
#ifndef OSH_END_H
#define OSH_END_H

int way_threads(void);
int way_sets_of_threads(void);
int way_exit_of_thread(void);
int way_no_ptrace(void);

#endif
