/* SPDX-License-Identifier: Apache-2.0 */
/* Ends all children of this process, also those that it got as a subreaper. */
#ifndef SHMD_RUN_SWEEP_H
#define SHMD_RUN_SWEEP_H

/* Waits up to grace_msec for them, then kills. Returns how many it killed. Gives up after ten seconds more. */
int sweep_children(unsigned int grace_msec);

#endif
