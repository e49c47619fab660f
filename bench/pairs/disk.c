/*
 * Preloaded into the processes of the paired bench: counts what they write to files, for any checkout and any store.
 * fsync and fdatasync; calls and bytes of positioned writes (pwrite, pwritev), by which SQLite and ring files write.
 * The counts are in a file named after the process id, in the directory STATIC_DISK_COUNTS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static struct { uint64_t syncs, writes, bytes; } nowhere, *counts = &nowhere;

__attribute__((constructor)) static void start(void) {
  const char *directory = getenv("STATIC_DISK_COUNTS");
  char path[4096];
  if (!directory || snprintf(path, sizeof path, "%s/%d", directory, getpid()) >= (int)sizeof path) return;
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  void *map = MAP_FAILED;
  if (ftruncate(fd, sizeof *counts) == 0) map = mmap(0, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map != MAP_FAILED) counts = map;
  close(fd);
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define ADD(field, amount) __atomic_fetch_add(&counts->field, (amount), __ATOMIC_RELAXED)

static ssize_t wrote(ssize_t bytes) {
  ADD(writes, 1);
  if (bytes > 0) ADD(bytes, bytes);
  return bytes;
}

int fsync(int fd) {
  REAL(fsync);
  ADD(syncs, 1);
  return real(fd);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  ADD(syncs, 1);
  return real(fd);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
  REAL(pwrite);
  return wrote(real(fd, data, length, at));
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
  REAL(pwrite64);
  return wrote(real(fd, data, length, at));
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  REAL(pwritev);
  return wrote(real(fd, parts, count, at));
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
  REAL(pwritev64);
  return wrote(real(fd, parts, count, at));
}
