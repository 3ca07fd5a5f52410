/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a build without nvcc: nothing, which CUDA refuses to load. It looks at some bytes to know what it is. */
#include "libclient/agent-kernel.h"

const unsigned char agent_image[64] = {0};
const size_t agent_image_bytes = 0;
