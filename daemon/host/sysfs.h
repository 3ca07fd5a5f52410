/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of the kernel below a folder, read whole, bounded, or not at all; and texts as the kernel writes them. */
#ifndef SHMEMD_HOST_SYSFS_H
#define SHMEMD_HOST_SYSFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYSFS_TEXT_BYTES 128
#define SYSFS_PATH_BYTES 512

void sysfs_close_dir(DIR **dir);
DIR *sysfs_open_dir(int at, const char *path); /* NULL: there is none */
/* The first line; empty, and false, where there is no such file or it is longer. */
bool sysfs_text(int at, const char *path, char text[SYSFS_TEXT_BYTES]);
uint64_t sysfs_number(int at, const char *path, int base, uint64_t max); /* that it begins with, else 0 */
bool sysfs_link(int at, const char *path, char target[SYSFS_PATH_BYTES]);
/* The part behind the last slash of what a link names; empty without. */
void sysfs_link_name(int at, const char *path, char name[SYSFS_PATH_BYTES]);

/* Texts, pure. */

/* Others' text reaches terminals: what is not printable ASCII becomes '?', what is too long is cut. */
void host_copy_text(char *to, size_t size, const char *text);
/* Letters, digits and "_-.", neither empty nor hidden, in less than `size` bytes. */
bool host_is_name(const char *text, size_t size);
/* The number that a text begins with, 0 without; never more than max. */
uint64_t host_number(const char *text, int base, uint64_t max);
/* "16.0 GT/s PCIe", "8 GT/s": millions per second; 0 for anything else. */
uint32_t host_mtps(const char *text);
/* The bandwidth of a PCIe link in one direction, without its line code. mtps: millions of transfers a second. 0: unknown. */
uint32_t host_link_mbps(uint32_t mtps, uint32_t width);
/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)": 0 for anything else. ret_lanes may be NULL; 0: unknown. */
uint64_t host_parse_rate(const char *text, uint32_t *ret_lanes);
#define SYSFS_MAX_GROUPS 8u /* of a GID */
/* Groups of four hex digits, "0002:c903:00ab:cdef", most significant first; the whole text. Writes nothing on failure. */
bool host_parse_groups(const char *text, unsigned int n_groups, uint8_t *ret_bytes);

#endif
