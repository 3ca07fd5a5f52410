/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_SIM_NIC_H
#define SHMD_TESTS_LIB_SIM_NIC_H

/*
 * A test's commands to the simulated ConnectX that it runs on (tests/mlx5sim). Without one the test is skipped: a test
 * cannot pull out a real NIC, count its commands, or make it kill its user.
 */

#include <stdbool.h>
#include <stdint.h>

/* "fatal 0", "port-down 1": a moment later it is so. tests/mlx5sim/README.md has the words. */
void sim_nic_happen(const char *what);

/* Commands that the firmware of this device was asked so far. */
uint64_t sim_nic_commands(unsigned int nic);

/* SIGKILL for the process that sends the n-th one from now on, once it is carried out; 0: for none. */
void sim_nic_kill_after(unsigned int nic, uint64_t n);
/* The same, but a mapper that sends it is killed itself, not its daemon. */
void sim_nic_kill_sender_after(unsigned int nic, uint64_t n);
/* Cancels that. True: a process was killed already, or is this moment. */
bool sim_nic_kill_over(unsigned int nic);

/* Waits until so many contexts of this device are open: those of a process that was killed go a moment later. */
void sim_nic_wait_contexts(unsigned int nic, uint64_t n);

/* Objects that all contexts of this device have. */
uint64_t sim_nic_objects(unsigned int nic);
/* Waits until there are so many: what a closed context leaves goes a moment later. */
void sim_nic_wait_objects(unsigned int nic, uint64_t n);

/* A file of the tree that the simulator makes; real ones are left alone. */
const char *sim_nic_path(char path[256], const char *name);

#endif
