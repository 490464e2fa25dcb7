/* Shifts the real-time clock of the server that this is preloaded into by the nanoseconds in a file, at any moment. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SERVER_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
        shift = mapped == MAP_FAILED ? NULL : mapped;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t all = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + *shift;
        time->tv_sec = all / 1000000000;
        time->tv_nsec = all % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *also) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (also) *also = now.tv_sec;
    return now.tv_sec;
}
