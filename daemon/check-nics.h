/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemd --check-nics: what ConnectX NICs need on this host, and what of it is there. Without a daemon and without
 * privileges; nothing is changed.
 */
#ifndef SHMEMD_CHECK_NICS_H
#define SHMEMD_CHECK_NICS_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/nic/nic.h"

/* A need for people, or as a JSON object. */
void check_nics_put_text(const struct nic_need *need, FILE *to);
void check_nics_put_json(const struct nic_need *need, FILE *to);

/* Prints all; false: something that is needed is not there. */
bool check_nics(bool as_json, FILE *to);

#endif
