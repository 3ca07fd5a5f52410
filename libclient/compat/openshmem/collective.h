/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the collective functions of many types, on teams and on active sets. name: of the function, for errors. */
#ifndef SHMD_OPENSHMEM_COLLECTIVE_H
#define SHMD_OPENSHMEM_COLLECTIVE_H

#include "libclient/compat/openshmem/typed.h"

/* The runtime's type of T, by its size: the same arithmetic. */
#define OSH_INTEGER(T) \
	((enum shmd_type)((OSH_IS_SIGNED(T) ? SHMD_TYPE_INT8 : SHMD_TYPE_UINT8) + \
			  (sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3)))
#define OSH_TYPE(T) _Generic((T)0, \
	float: SHMD_TYPE_FLOAT, \
	double: SHMD_TYPE_DOUBLE, \
	long double: SHMD_TYPE_LONG_DOUBLE, \
	float _Complex: SHMD_TYPE_COMPLEX_FLOAT, \
	double _Complex: SHMD_TYPE_COMPLEX_DOUBLE, \
	default: OSH_INTEGER(__typeof__(_Generic((T)0, float _Complex: 0, double _Complex: 0, default: (T)0))))

/* ---- on teams: nonzero after a failure, and for the invalid team */

#define OSH_ON_TEAM(name, team, call) (osh_runtime_team(team) ? osh_status(name, call) : 1)

static inline int osh_alltoall(const char *name, shmem_team_t team, void *dest, const void *source, size_t bytes)
{
	return OSH_ON_TEAM(name, team, shmd_alltoall(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), bytes));
}

static inline int osh_alltoalls(const char *name, shmem_team_t team, void *dest, const void *source, struct osh_blocks blocks)
{
	struct shmd_stride stride = osh_stride(blocks);

	return OSH_ON_TEAM(name, team, shmd_alltoalls(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), &stride));
}

static inline int osh_broadcast(const char *name, shmem_team_t team, void *dest, const void *source, size_t bytes, int root)
{
	return OSH_ON_TEAM(name, team, shmd_broadcast(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), bytes, root));
}

static inline int osh_collect(const char *name, shmem_team_t team, void *dest, const void *source, size_t bytes)
{
	return OSH_ON_TEAM(name, team, shmd_collect(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), bytes));
}

static inline int osh_fcollect(const char *name, shmem_team_t team, void *dest, const void *source, size_t bytes)
{
	return OSH_ON_TEAM(name, team, shmd_fcollect(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), bytes));
}

static inline int osh_reduce(const char *name, shmem_team_t team, void *dest, const void *source, size_t n, enum shmd_type type,
			     enum shmd_reduce_op op)
{
	return OSH_ON_TEAM(name, team, shmd_reduce(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), n, type, op));
}

static inline int osh_scan_inclusive(const char *name, shmem_team_t team, void *dest, const void *source, size_t n, enum shmd_type type,
				     enum shmd_reduce_op op)
{
	return OSH_ON_TEAM(name, team, shmd_scan_inclusive(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), n, type, op));
}

static inline int osh_scan_exclusive(const char *name, shmem_team_t team, void *dest, const void *source, size_t n, enum shmd_type type,
				     enum shmd_reduce_op op)
{
	return OSH_ON_TEAM(name, team, shmd_scan_exclusive(osh_runtime_team(team), osh_symmetric(dest), osh_symmetric(source), n, type, op));
}

/* ---- on active sets: a failure ends the job */

/* The call is one on `team`. */
#define OSH_ON_SET(name, set, call) \
	do { \
		struct osh_use use = osh_set_begin(name, set); \
		struct shmd_team *team = use.team; \
\
		osh_check(name, call); \
		osh_set_end(name, use); \
	} while (0)

static inline void osh_alltoall_set(const char *name, struct osh_set set, void *dest, const void *source, size_t bytes)
{
	OSH_ON_SET(name, set, shmd_alltoall(team, osh_symmetric(dest), osh_symmetric(source), bytes));
}

static inline void osh_alltoalls_set(const char *name, struct osh_set set, void *dest, const void *source, struct osh_blocks blocks)
{
	struct shmd_stride stride = osh_stride(blocks);

	OSH_ON_SET(name, set, shmd_alltoalls(team, osh_symmetric(dest), osh_symmetric(source), &stride));
}

void osh_broadcast_set(const char *name, struct osh_set set, void *dest, const void *source, size_t bytes, int root);

static inline void osh_collect_set(const char *name, struct osh_set set, void *dest, const void *source, size_t bytes)
{
	OSH_ON_SET(name, set, shmd_collect(team, osh_symmetric(dest), osh_symmetric(source), bytes));
}

static inline void osh_fcollect_set(const char *name, struct osh_set set, void *dest, const void *source, size_t bytes)
{
	OSH_ON_SET(name, set, shmd_fcollect(team, osh_symmetric(dest), osh_symmetric(source), bytes));
}

static inline void osh_reduce_set(const char *name, struct osh_set set, void *dest, const void *source, int n, enum shmd_type type,
				  enum shmd_reduce_op op)
{
	size_t count = n > 0 ? (size_t)n : 0;

	OSH_ON_SET(name, set, shmd_reduce(team, osh_symmetric(dest), osh_symmetric(source), count, type, op));
}

#endif
