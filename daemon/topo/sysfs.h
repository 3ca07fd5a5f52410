/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of the kernel below a folder: read whole, bounded, or not at all. */
#ifndef SHMEMD_TOPO_SYSFS_H
#define SHMEMD_TOPO_SYSFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#define SYSFS_TEXT_BYTES 128
#define SYSFS_PATH_BYTES 512

void sysfs_close_dir(DIR **dir);
DIR *sysfs_open_dir(int at, const char *path); /* NULL: there is none */
/* The first line; empty, and false, when there is no such file, or it is longer. */
bool sysfs_text(int at, const char *path, char text[SYSFS_TEXT_BYTES]);
uint64_t sysfs_number(int at, const char *path, int base, uint64_t max); /* that it begins with, else 0 */
bool sysfs_link(int at, const char *path, char target[SYSFS_PATH_BYTES]);
/* The part behind the last slash of what a link names; empty without. */
void sysfs_link_name(int at, const char *path, char name[SYSFS_PATH_BYTES]);

#endif
