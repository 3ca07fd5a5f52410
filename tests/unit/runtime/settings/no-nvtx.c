/* SPDX-License-Identifier: Apache-2.0 */
/* A library that has nothing of NVTX. */
int no_nvtx(void);

int no_nvtx(void)
{
	return 0;
}
