/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a kernel: counted, or the end of it. Such a kernel stops at the first status that is not SHMD_DEV_OK. */
#ifndef SHMD_CUDA_STEP_H
#define SHMD_CUDA_STEP_H

#define STEP(call)                                                                                 \
	do {                                                                                       \
		int status_ = (call);                                                              \
                                                                                                   \
		if (status_)                                                                       \
			return status_;                                                            \
		++*n_done;                                                                         \
	} while (0)

#endif
