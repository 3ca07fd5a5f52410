/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_MEDIAN_H
#define SHMD_TESTS_LIB_MEDIAN_H

#include <stdlib.h>

static inline int median_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them. */
static inline double median(double *values, unsigned int n)
{
	qsort(values, n, sizeof(*values), median_compare);
	return values[n / 2];
}

#endif
