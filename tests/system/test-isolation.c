/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
TEST(x)
{
}
