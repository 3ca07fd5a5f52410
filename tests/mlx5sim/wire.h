/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the preloaded shim and the simulator.
 *
 * A client's command fd is one end of a SOCK_SEQPACKET connection to the simulator. For each ioctl or mmap the shim
 * sends one struct sim_request on it, with one end of a fresh socket pair attached. On that pair the simulator asks for
 * what a kernel would take from the calling process itself (struct sim_upcall: memory, descriptors, pages), each
 * answered by one struct sim_answer, until SIM_DONE ends the call. So the shim knows no command and no structure, and
 * any number of threads and processes may use one command fd.
 *
 * Both sides are built together: there is no version. Every message starts with its struct; payload follows it.
 */
#ifndef SHMEMD_TESTS_MLX5SIM_WIRE_H
#define SHMEMD_TESTS_MLX5SIM_WIRE_H

#include <stdint.h>

/* Set by mlx5sim for its children: the folder with sys/, dev/ and the listening sockets nic0.sock, nic1.sock... */
#define SIM_ENV_ROOT "MLX5SIM_ROOT"

#define SIM_CHAR_MAJOR 231
#define SIM_CHAR_MINOR 192

/* Name of the memfds that replace pinned private pages; the shim finds its own pages again by it. */
#define SIM_PIN_NAME "mlx5sim-pin"

#define SIM_PAYLOAD_MAX 65536u
#define SIM_SEGMENTS_MAX 128u

enum sim_request_kind {
	SIM_REQUEST_IOCTL = 1, /* args: request, argument pointer */
	SIM_REQUEST_MMAP, /* args: offset, length, prot */
};

struct sim_request {
	uint32_t kind;
	uint32_t pid;
	uint64_t args[3];
};

enum sim_upcall_kind {
	SIM_PEEK = 1, /* answer: `bytes` bytes of memory at addr */
	SIM_POKE, /* payload: bytes to write at addr */
	SIM_GET_FD, /* answer: descriptor number addr, attached */
	SIM_PUT_FD, /* attached descriptor; answer: its number in the client */
	/*
	 * Make the pages of [addr, addr + bytes) shared memory. Answer: struct sim_segment[], and the memfds of those
	 * whose fd_index is not -1. With flags & SIM_PIN_AFRESH pages that were pinned before are pinned anew.
	 */
	SIM_PIN,
	SIM_DONE, /* result is the call's return value, or a negative errno; of mmap: the memory attached */
};

#define SIM_PIN_AFRESH 1u

struct sim_upcall {
	uint32_t kind;
	uint32_t flags;
	uint64_t addr;
	uint64_t bytes;
	int64_t result;
};

struct sim_answer {
	int64_t result; /* 0 or a number; negative errno */
};

/* Consecutive pages. The first starts at the page of addr. */
struct sim_segment {
	uint64_t bytes;
	uint64_t offset; /* in the memfd */
	uint64_t dev; /* names a memfd the simulator may know already */
	uint64_t ino;
	int32_t fd_index;
	uint32_t writable;
};

#endif
