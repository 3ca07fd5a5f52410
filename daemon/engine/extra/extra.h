/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services beyond RC and DC, for engine_attr.extension: UC, UD, XRC and raw packet QPs, memory windows, indirect keys,
 * streams of DCIs. With it come the calls of engine.h on their objects, and engine_cq_resize().
 */
#ifndef SHMEMD_ENGINE_EXTRA_H
#define SHMEMD_ENGINE_EXTRA_H

#include "daemon/engine/engine.h"

extern const struct engine_extension engine_extra;

#endif
