/* SPDX-License-Identifier: Apache-2.0 */
/* Tells clients at the service manager's socket that the daemon cannot start because its settings are wrong. */
#ifndef SHMEMD_CLIENTS_REFUSE_CLIENTS_H
#define SHMEMD_CLIENTS_REFUSE_CLIENTS_H

/*
 * Blocks for half a second to ten seconds and answers each client with an error of this text. A manager starts the daemon again as
 * long as a client waits, and gives the socket up when that happens too often. listener: fdstore_copy_listener(); -1: returns at
 * once.
 */
void refuse_clients(int listener, const char *text);

#endif
