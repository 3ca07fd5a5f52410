/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the structures and enums of <shmd.h> that the Python package repeats, as lines "name number". */
#include <stddef.h>
#include <stdio.h>

#include <shmd.h>

#define SIZE(type) printf("sizeof %s %zu\n", #type, sizeof(struct type))
#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(struct type, field))
#define NUMBER(name) printf("%s %d\n", #name, (int)(name))

static void structures(void)
{
	SIZE(shmd_uid);
	SIZE(shmd_world_attr);
	FIELD(shmd_world_attr, bootstrap);
	FIELD(shmd_world_attr, uid);
	FIELD(shmd_world_attr, rank);
	FIELD(shmd_world_attr, size);
	FIELD(shmd_world_attr, mpi_comm);
	FIELD(shmd_world_attr, socket_path);
	FIELD(shmd_world_attr, heap_bytes);
	FIELD(shmd_world_attr, paths);
	FIELD(shmd_world_attr, threads);
	FIELD(shmd_world_attr, timeout_nsec);
	FIELD(shmd_world_attr, gpu);
	FIELD(shmd_world_attr, gpu_heap_bytes);
	SIZE(shmd_atomic);
	FIELD(shmd_atomic, op);
	FIELD(shmd_atomic, bytes);
	FIELD(shmd_atomic, value);
	FIELD(shmd_atomic, compare);
}

static void operations(void)
{
	NUMBER(SHMD_SIGNAL_SET);
	NUMBER(SHMD_SIGNAL_ADD);
	NUMBER(SHMD_CMP_EQ);
	NUMBER(SHMD_CMP_NE);
	NUMBER(SHMD_CMP_GT);
	NUMBER(SHMD_CMP_GE);
	NUMBER(SHMD_CMP_LT);
	NUMBER(SHMD_CMP_LE);
	NUMBER(SHMD_CMP_SIGNED);
	NUMBER(SHMD_ATOMIC_FETCH);
	NUMBER(SHMD_ATOMIC_ADD);
	NUMBER(SHMD_ATOMIC_AND);
	NUMBER(SHMD_ATOMIC_OR);
	NUMBER(SHMD_ATOMIC_XOR);
	NUMBER(SHMD_ATOMIC_SWAP);
	NUMBER(SHMD_ATOMIC_COMPARE_SWAP);
	NUMBER(SHMD_ATOMIC_ADD_FLOAT);
}

static void reductions(void)
{
	NUMBER(SHMD_TYPE_INT8);
	NUMBER(SHMD_TYPE_INT16);
	NUMBER(SHMD_TYPE_INT32);
	NUMBER(SHMD_TYPE_INT64);
	NUMBER(SHMD_TYPE_UINT8);
	NUMBER(SHMD_TYPE_UINT16);
	NUMBER(SHMD_TYPE_UINT32);
	NUMBER(SHMD_TYPE_UINT64);
	NUMBER(SHMD_TYPE_FLOAT);
	NUMBER(SHMD_TYPE_DOUBLE);
	NUMBER(SHMD_TYPE_HALF);
	NUMBER(SHMD_TYPE_BFLOAT16);
	NUMBER(SHMD_REDUCE_SUM);
	NUMBER(SHMD_REDUCE_PROD);
	NUMBER(SHMD_REDUCE_MIN);
	NUMBER(SHMD_REDUCE_MAX);
	NUMBER(SHMD_REDUCE_AND);
	NUMBER(SHMD_REDUCE_OR);
	NUMBER(SHMD_REDUCE_XOR);
}

int main(void)
{
	structures();
	operations();
	reductions();
	NUMBER(SHMD_HINT_ATOMICS);
	NUMBER(SHMD_HINT_SIGNALS);
	NUMBER(SHMD_HINT_GPU);
	NUMBER(SHMD_ALLOW_MAPPED);
	NUMBER(SHMD_ALLOW_QUEUE);
	return 0;
}
