/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that cannot start, since its settings are wrong, says so to who waits at the service manager's socket. */
#ifndef SHMEMD_CLIENTS_REFUSE_CLIENTS_H
#define SHMEMD_CLIENTS_REFUSE_CLIENTS_H

/*
 * Stays for a moment and answers whoever comes with an error of this text: a manager starts the daemon again as long as somebody waits,
 * and gives the socket up when that happens too often. listener: fdstore_copy_listener; -1: nobody is waited for.
 */
void refuse_clients(int listener, const char *text);

#endif
