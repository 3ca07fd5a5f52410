/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WQEs and CQEs in words, for logs, test failures and shmemctl. Never fails: unknown bytes are shown as hex.
 * Output is always terminated; the return value is what snprintf would return.
 */
#ifndef SHMD_HOST_WQE_DUMP_H
#define SHMD_HOST_WQE_DUMP_H

#include <stddef.h>

const char *wqe_opcode_name(unsigned int opcode); /* "rdma-write", or "opcode-0x2f" style "unknown" */
const char *cqe_opcode_name(unsigned int opcode);
const char *cqe_syndrome_name(unsigned int syndrome); /* "remote access error" */

/*
 * For eyes that may not see everything WQE_HIDE_KEYS leaves out lkeys and rkeys, WQE_HIDE_DATA every byte that would be shown as
 * hex: inline data and what is not understood.
 */
#define WQE_HIDE_KEYS 0x1u
#define WQE_HIDE_DATA 0x2u
#define WQE_HAS_AV 0x4u /* of a DCI: an address vector follows the control segment; its key is one of those hidden */
int wqe_dump(char *buf, size_t size, const void *wqe, size_t bytes, unsigned int hide);
int wqe_dump_recv(char *buf, size_t size, const void *wqe, size_t bytes, unsigned int hide);
int cqe_dump(char *buf, size_t size, const void *cqe);

#endif
