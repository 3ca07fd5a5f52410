/* SPDX-License-Identifier: Apache-2.0 */
/* The top floor: a client on a socket that is connected already. Tests open one on a socketpair. */
#ifndef SHMD_CLIENT_OPEN_H
#define SHMD_CLIENT_OPEN_H

#include <shmemclient.h>

/* Opens a session; takes sock in every case. */
int client_open_on_fd(int sock, const struct shmd_client_attr *attr, struct shmd_client **ret_client);

#endif
