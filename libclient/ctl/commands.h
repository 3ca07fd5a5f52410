/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of shmemctl, the top floor: words and options of each, its help, its function. */
#ifndef SHMEMD_CTL_COMMANDS_H
#define SHMEMD_CTL_COMMANDS_H

#include "libclient/ctl/args.h"

extern const struct args_command ctl_commands[]; /* ends with a NULL name */
/* The same names in the same order, for the word behind "help"; ends with NULL. */
extern const char *const ctl_command_names[];

#endif
