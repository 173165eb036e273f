/* Sharing work out among the threads that torch already has.

   torch loads GNU OpenMP for the whole process. Asking the dynamic linker for it gives the same library and
   so the same threads; a pool of our own would compete with them for the cores. Where there is none the
   calling thread does everything. */

#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "_kernels.h"

#if !defined(_WIN32) && (defined(__GNUC__) || defined(__clang__))

#include <dlfcn.h>
#include <string.h>

typedef void (*Parallel)(void (*body)(void *), void *argument, unsigned threads, unsigned flags);

typedef struct {
    Work work;
    void *context;
    ptrdiff_t units, next;
    int threads;
} Shared;

static Parallel parallel(void) {
    static Parallel found;
    static int asked;
    if (!asked) {
        void *symbol = dlsym(RTLD_DEFAULT, "GOMP_parallel");
        memcpy(&found, &symbol, sizeof(symbol)); /* ISO C has no cast from an object to a function */
        asked = 1;
    }
    return found;
}

/* Units are taken one by one, so that a thread that lost its core does not hold up the others. */
static void body(void *argument) {
    Shared *shared = argument;
    int thread = __atomic_fetch_add(&shared->threads, 1, __ATOMIC_RELAXED);
    for (;;) {
        ptrdiff_t unit = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED);
        if (unit >= shared->units) {
            return;
        }
        shared->work(shared->context, unit, thread);
    }
}

void share_out(Work work, void *context, ptrdiff_t units, int threads) {
    Shared shared = {work, context, units, 0, 0};
    Parallel run = threads > 1 && units > 1 ? parallel() : NULL;
    if (run == NULL) {
        body(&shared);
    } else {
        run(body, &shared, (unsigned)(units < threads ? units : threads), 0);
    }
}

#else

void share_out(Work work, void *context, ptrdiff_t units, int threads) {
    (void)threads;
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        work(context, unit, 0);
    }
}

#endif
