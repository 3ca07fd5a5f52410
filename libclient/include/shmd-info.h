/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library about itself: how it was built, and the settings of the runtime that the environment gives it.
 *
 * For shmemctl info and programs like it. The functions need no world and no daemon. Lists are read by index, from 0 until -ENOENT.
 *
 * Threads	any number; the environment must not change meanwhile
 * Blocks	never
 */
#ifndef SHMD_INFO_H
#define SHMD_INFO_H

#include <shmemclient.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHMD_INFO_TEXT_BYTES 512

/* An option of the build: "compiler", "gcc 12.2.0". */
struct shmd_build_info {
	const char *name; /* constant */
	char value[64];
};

struct shmd_setting_info {
	const char *name; /* "SHMD_TIMEOUT"; this, source, def and text are constant */
	const char *source; /* "default", or the name of the environment variable that counts */
	const char *def; /* the default */
	const char *text; /* sentences */
	int is_default; /* 1: the value is the default, wherever it comes from */
	char value[SHMD_INFO_TEXT_BYTES]; /* in the form in which a variable may have it; the variable's own text if it is refused */
	char allowed[SHMD_INFO_TEXT_BYTES]; /* "on or off" */
	char error[SHMD_INFO_TEXT_BYTES]; /* the reason why the value is refused, with which no world opens; or "" */
};

/*
 * shmd_info_build, shmd_info_setting, shmd_info_warning - read the entry with this index
 *
 * shmd_info_warning() writes a sentence about a variable SHMD_*, NVSHMEM_* or SHMEM_* that is set, but that nothing reads.
 *
 * Errors	-ENOENT there is no such entry
 */
SHMD_EXPORT int shmd_info_build(unsigned int index, struct shmd_build_info *ret_info);
SHMD_EXPORT int shmd_info_setting(unsigned int index, struct shmd_setting_info *ret_info);
SHMD_EXPORT int shmd_info_warning(unsigned int index, char ret_text[SHMD_INFO_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
