/* The disk of the server that this is preloaded into is full while the first byte of a file is not 0: no file grows. What
   a file has may be written over, as on a real disk. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile char *full;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FULL_DISK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
        full = mapped == MAP_FAILED ? NULL : mapped;
        close(file);
    }
}

static int refused(int file, off_t from, size_t bytes) {
    struct stat about;
    if (!full || !*full || file == STDERR_FILENO || fstat(file, &about) || !S_ISREG(about.st_mode)) return 0;
    if (from < 0) from = fcntl(file, F_GETFL) & O_APPEND ? about.st_size : lseek(file, 0, SEEK_CUR);
    if (from + (off_t)bytes <= about.st_size) return 0;
    errno = ENOSPC;
    return 1;
}

static size_t total(const struct iovec *parts, int number) {
    size_t bytes = 0;
    for (int i = 0; i < number; i++) bytes += parts[i].iov_len;
    return bytes;
}

ssize_t write(int file, const void *data, size_t bytes) {
    return refused(file, -1, bytes) ? -1 : syscall(SYS_write, file, data, bytes);
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t from) {
    return refused(file, from, bytes) ? -1 : syscall(SYS_pwrite64, file, data, bytes, from);
}

ssize_t writev(int file, const struct iovec *parts, int number) {
    return refused(file, -1, total(parts, number)) ? -1 : syscall(SYS_writev, file, parts, number);
}

ssize_t pwritev(int file, const struct iovec *parts, int number, off_t from) {
    if (refused(file, from, total(parts, number))) return -1;
    return syscall(SYS_pwritev, file, parts, number, (unsigned long)from, (unsigned long)((uint64_t)from >> 32));
}

int fallocate(int file, int mode, off_t from, off_t bytes) {
    return refused(file, from, bytes) ? -1 : syscall(SYS_fallocate, file, mode, from, bytes);
}

int posix_fallocate(int file, off_t from, off_t bytes) {
    if (refused(file, from, bytes)) return ENOSPC;
    return syscall(SYS_fallocate, file, 0, from, bytes) ? errno : 0;
}

ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off_t) __attribute__((alias("pwritev")));
int fallocate64(int, int, off_t, off_t) __attribute__((alias("fallocate")));
int posix_fallocate64(int, off_t, off_t) __attribute__((alias("posix_fallocate")));
