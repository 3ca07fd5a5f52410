/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stable status numbers of the control protocol, with a sentence each.
 *
 * A number never changes its meaning and is never used again. The wire carries these, never errno. The X-macro
 * is the single list: name, number, the negative errno the client library returns, and the sentence a person
 * reads. A sentence says what happened; the text of ErrorRep adds the facts of the case.
 */
#ifndef SHMEMD_PROTO_STATUS_H
#define SHMEMD_PROTO_STATUS_H

#include <errno.h>

/* clang-format off */
#define SHMD_STATUS_LIST(X) \
	X(OK,               0, 0,            "success") \
	X(INTERNAL,         1, -EIO,         "shmemd failed inside; its log says why") \
	X(PROTOCOL,         2, -EPROTO,      "the client broke the protocol; the session has ended") \
	X(VERSION,          3, -EPROTONOSUPPORT, "client and daemon speak no common protocol version") \
	X(UNKNOWN_REQUEST,  4, -ENOSYS,      "the daemon does not know this request") \
	X(INVALID,          5, -EINVAL,      "an argument is outside its range") \
	X(PERMISSION,       6, -EPERM,       "not allowed for this user") \
	X(NOT_FOUND,        7, -ENOENT,      "no such object") \
	X(BUSY,             8, -EBUSY,       "the object is still in use") \
	X(EXISTS,           9, -EEXIST,      "there is one already") \
	X(NO_MEMORY,       10, -ENOMEM,      "the daemon is out of memory") \
	X(QUOTA_SESSIONS,  16, -EDQUOT,      "limit reached: max-sessions") \
	X(QUOTA_QPS,       17, -EDQUOT,      "limit reached: max-qps") \
	X(QUOTA_CQS,       18, -EDQUOT,      "limit reached: max-cqs") \
	X(QUOTA_BYTES,     19, -EDQUOT,      "limit reached: max-registered-bytes") \
	X(QUOTA_FDS,       20, -EDQUOT,      "limit reached: max-fds") \
	X(QUOTA_MRS,       21, -EDQUOT,      "limit reached: max-mrs") \
	X(QUOTA_PUBLISHED, 22, -EDQUOT,      "limit reached: max-published") \
	X(LIMIT_REQUEST,   23, -E2BIG,       "too much in one request; see the limits of Hello") \
	X(NIC_LIMIT,       24, -ENOSPC,      "the NIC has no room for more") \
	X(QUOTA_MAPS,      25, -EDQUOT,      "limit reached: max-mappings") \
	X(QUOTA_PES,       26, -EDQUOT,      "limit reached: PEs that a session reports") \
	X(NO_NIC,          32, -ENODEV,      "no such NIC, or none that can be used") \
	X(NIC_LOST,        33, -ENODEV,      "the NIC is gone") \
	X(DOORBELL,        34, -EOPNOTSUPP,  "this NIC cannot offer the doorbell mode asked for") \
	X(UNREACHABLE,     35, -EHOSTUNREACH, "the endpoint address leads nowhere from this NIC") \
	X(QP_STATE,        36, -EINVAL,      "the QP is not in a state that allows this") \
	X(BACKEND,         37, -EOPNOTSUPP,  "the NIC's backend does not offer this") \
	X(MEM_KIND,        48, -EOPNOTSUPP,  "the NIC does not accept this kind of memory") \
	X(MEM_SEALS,       49, -EPERM,       "the memfd is not sealed against shrinking (F_SEAL_SHRINK)") \
	X(MEM_RANGE,       50, -ERANGE,      "the range lies outside the descriptor") \
	X(MEM_FD,          51, -EBADF,       "the descriptor is not what its kind says") \
	X(FDS,             52, -EBADF,       "wrong number of descriptors in the packet") \
	X(NOT_PUBLISHED,   53, -ENOENT,      "nothing is published there") \
	X(DRAINING,        64, -ESHUTDOWN,   "the daemon is being drained of sessions") \
	X(SHUTDOWN,        65, -ESHUTDOWN,   "the daemon is stopping") \
	X(KILLED,          66, -ECANCELED,   "an administrator ended the session")
/* clang-format on */

enum shmd_status {
#define X(name, number, err, text) SHMD_STATUS_##name = number,
	SHMD_STATUS_LIST(X)
#undef X
};

const char *status_name(unsigned int status); /* "MEM_SEALS"; "UNKNOWN" for a number we do not know */
const char *status_text(unsigned int status); /* the sentence; never NULL */
int status_to_errno(unsigned int status); /* negative errno; -EIO for a number we do not know */

#endif
