/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that check the OpenSHMEM library as a user's program does: by its headers alone.
 *
 * Each runs under `shmemctl run` with some PEs, prints nothing if all is right, and ends the job at the first wrong value.
 */
#ifndef OSH_H
#define OSH_H

#include <shmem.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: PE %d: %s\n", __FILE__, __LINE__, shmem_my_pe(), #condition); \
			shmem_global_exit(1); \
		} \
	} while (0)

/* The types of the specification: tables of section 9.6 (RMA), 9.7 (AMO, extended AMO, bitwise AMO), as X(name, type). */
#define STANDARD_AMO_TYPES(X) \
	X(int, int) X(long, long) X(longlong, long long) X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long) \
	X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t) X(ptrdiff, ptrdiff_t)
#define EXTENDED_AMO_TYPES(X) X(float, float) X(double, double) STANDARD_AMO_TYPES(X)
#define BITWISE_AMO_TYPES(X) \
	X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long) X(int32, int32_t) X(int64, int64_t) \
	X(uint32, uint32_t) X(uint64, uint64_t)
#define STANDARD_RMA_TYPES(X) \
	EXTENDED_AMO_TYPES(X) X(longdouble, long double) X(char, char) X(schar, signed char) X(short, short) X(uchar, unsigned char) \
	X(ushort, unsigned short) X(int8, int8_t) X(int16, int16_t) X(uint8, uint8_t) X(uint16, uint16_t)

static inline int next_pe(void)
{
	return (shmem_my_pe() + 1) % shmem_n_pes();
}

static inline int previous_pe(void)
{
	return (shmem_my_pe() + shmem_n_pes() - 1) % shmem_n_pes();
}

#endif
