/* Fails, cuts short or dies at the k-th call by which a process changes files below one folder.
 *
 * Loaded by LD_PRELOAD, so that it sees the calls of SQLite and of Python alike. It does nothing until
 * faults_arm is called. Calls on other files (pipes, the terminal) are neither counted nor touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { COUNT, FAIL_ONCE, FAIL_FROM, KILL, TORN };

#define LOGGED 65536
static char folder[PATH_MAX], log_of_calls[LOGGED];
static long calls, chosen;
static int action, number;

void faults_arm(const char *watched, int how, long which, int error) {
    snprintf(folder, sizeof folder, "%s", watched);
    memset(log_of_calls, 0, sizeof log_of_calls);
    calls = 0, chosen = which, number = error;
    action = how;
}

void faults_disarm(void) { folder[0] = 0; }

/* One letter for each call so far: w(rite), s(ync), r(ename), t(runcate), u(nlink). */
const char *faults_log(void) { return log_of_calls; }

static int is_watched(const char *path) {
    size_t length = strlen(folder);
    return length && strncmp(path, folder, length) == 0;
}

static int is_watched_file(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_watched(path);
}

/* What is to be done with this call: 0 go on, 1 fail, 2 do half of it and die. */
static int verdict(char kind) {
    if (calls < LOGGED - 1) log_of_calls[calls] = kind;
    long now = ++calls;
    if (action == FAIL_ONCE && now == chosen) return 1;
    if (action == FAIL_FROM && now >= chosen) return 1;
    if (now == chosen && (action == KILL || action == TORN)) {
        if (action == TORN && kind == 'w') return 2;
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    return 0;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

#define ON_FILE(name, kind, parameters, values)                                    \
    int name parameters {                                                         \
        static int(*real) parameters;                                             \
        if (!real) real = (int(*) parameters)dlsym(RTLD_NEXT, #name);              \
        if (is_watched_file(descriptor) && verdict(kind)) { errno = number; return -1; } \
        return real values;                                                       \
    }

ON_FILE(fsync, 's', (int descriptor), (descriptor))
ON_FILE(fdatasync, 's', (int descriptor), (descriptor))
ON_FILE(ftruncate, 't', (int descriptor, off_t length), (descriptor, length))
ON_FILE(ftruncate64, 't', (int descriptor, off64_t length), (descriptor, length))

#define WRITES(name, parameters, values, half)                                     \
    ssize_t name parameters {                                                     \
        static ssize_t(*real) parameters;                                         \
        if (!real) real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);          \
        if (is_watched_file(descriptor)) {                                        \
            int what = verdict('w');                                              \
            if (what == 1) { errno = number; return -1; }                         \
            if (what == 2) { (void)!real half; die(); }                           \
        }                                                                         \
        return real values;                                                       \
    }

WRITES(write, (int descriptor, const void *bytes, size_t length), (descriptor, bytes, length),
       (descriptor, bytes, length / 2))
WRITES(pwrite, (int descriptor, const void *bytes, size_t length, off_t at),
       (descriptor, bytes, length, at), (descriptor, bytes, length / 2, at))
WRITES(pwrite64, (int descriptor, const void *bytes, size_t length, off64_t at),
       (descriptor, bytes, length, at), (descriptor, bytes, length / 2, at))

#define ON_PATH(name, kind, parameters, values)                                    \
    int name parameters {                                                         \
        static int(*real) parameters;                                             \
        if (!real) real = (int(*) parameters)dlsym(RTLD_NEXT, #name);              \
        if (is_watched(path) && verdict(kind)) { errno = number; return -1; }      \
        return real values;                                                       \
    }

ON_PATH(rename, 'r', (const char *path, const char *to), (path, to))
ON_PATH(unlink, 'u', (const char *path), (path))
