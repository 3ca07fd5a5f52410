/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a build without nvcc: there are no kernels. */
#include "libclient/runtime/stream/kernels.h"

const unsigned char stream_image[] = {0};
const size_t stream_image_bytes = 0;
