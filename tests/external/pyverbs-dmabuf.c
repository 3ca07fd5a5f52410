/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into rdma-core's tests: pyverbs asks a GPU for dmabufs by these functions, which its builds without DRM have
 * only as stubs. Here they give memfds, which mlx5sim --memfd-dmabuf takes for dmabufs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct dmabuf {
	int fd;
};

#define EXPORTED __attribute__((visibility("default")))

struct dmabuf *dmabuf_alloc(uint64_t bytes, int gpu, int gtt);
void dmabuf_free(struct dmabuf *dmabuf);
int dmabuf_get_drm_fd(struct dmabuf *dmabuf);
int dmabuf_get_fd(struct dmabuf *dmabuf);
uint64_t dmabuf_get_offset(struct dmabuf *dmabuf);

EXPORTED struct dmabuf *dmabuf_alloc(uint64_t bytes, int gpu, int gtt)
{
	struct dmabuf *dmabuf = malloc(sizeof(*dmabuf));

	if (!dmabuf)
		return NULL;
	dmabuf->fd = memfd_create("dmabuf", MFD_CLOEXEC);
	if (dmabuf->fd >= 0 && ftruncate(dmabuf->fd, (off_t)bytes) == 0)
		return dmabuf;
	if (dmabuf->fd >= 0)
		close(dmabuf->fd);
	free(dmabuf);
	return NULL;
}

EXPORTED void dmabuf_free(struct dmabuf *dmabuf)
{
	close(dmabuf->fd);
	free(dmabuf);
}

/* The descriptor that is mapped, and the one that is registered. */
EXPORTED int dmabuf_get_drm_fd(struct dmabuf *dmabuf)
{
	return dmabuf->fd;
}

EXPORTED int dmabuf_get_fd(struct dmabuf *dmabuf)
{
	return dmabuf->fd;
}

EXPORTED uint64_t dmabuf_get_offset(struct dmabuf *dmabuf)
{
	return 0;
}
