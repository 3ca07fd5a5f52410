/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_UNIT_NIC_FDS_H
#define SHMD_TESTS_UNIT_NIC_FDS_H

/* Descriptors that one process passes to another. */

#define FDS_MOST 16u

/* One packet, or one byte of a stream, with n descriptors. */
void send_fds(int sock, const int *fds, unsigned int n);
/* How many came, at most `most`, close-on-exec; 0: the other end is closed. */
unsigned int receive_fds(int sock, int *ret_fds, unsigned int most);

#endif
