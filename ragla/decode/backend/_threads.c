/* Sharing work out among a few threads that nobody has to wait for.

   A pass has some hundred and fifty short pieces of work. In a team of OpenMP all threads must arrive at the
   end of each, also those that had nothing left to do: where another program keeps a core busy, every piece
   waits until the system gives the late thread a turn. Here a thread that comes late finds the work done.
   Only units that were begun are waited for. */

#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* sigset_t */
#endif

#include "_kernels.h"

#if !defined(_WIN32) && (defined(__GNUC__) || defined(__clang__))

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum {
    MOST_THREADS = 64,
    SPINS = 4000 /* of a worker before it sleeps: longer than the gaps within a pass, some 50 µs */
};

/* `ticket`: the number of the job in the upper half and the next unit in the lower. Nobody takes units but by
   raising the ticket he has read. While the fields of a job change the ticket is closed, so who has raised
   it has read the fields of that very job; and these stay until all its units are done. */
#define CLOSED 0xffffffffu

static struct {
    uint64_t ticket;
    Work work;
    void *context;
    uint32_t units, done;
    int threads;
} job = {.ticket = CLOSED};

static pthread_mutex_t one_job = PTHREAD_MUTEX_INITIALIZER; /* for threads of Python that come at once */
static pthread_mutex_t sleeping = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int sleepers, workers;

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

#define READ(place) __atomic_load_n(&(place), __ATOMIC_SEQ_CST)
#define WRITE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_SEQ_CST)

/* How many units to take at once: fewer and fewer, so that threads end together, and yet a thread reads on where it
   has been reading. */
static uint32_t some_of(uint32_t left, int threads) {
    uint32_t some = left / (2 * (uint32_t)threads);
    return some > 0 ? some : 1;
}

/* Do units of the job that is open until there are none. */
static void do_units(int thread) {
    for (;;) {
        uint64_t ticket = READ(job.ticket);
        uint32_t unit = (uint32_t)ticket, units = READ(job.units);
        int threads = READ(job.threads);
        if (unit == CLOSED || unit >= units || thread >= threads) {
            return;
        }
        Work work = READ(job.work);
        void *context = READ(job.context);
        uint32_t some = some_of(units - unit, threads);
        if (__atomic_compare_exchange_n(&job.ticket, &ticket, ticket + some, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            for (uint32_t i = 0; i < some; i++) {
                work(context, unit + i, thread);
            }
            __atomic_fetch_add(&job.done, some, __ATOMIC_SEQ_CST);
        }
    }
}

static uint64_t number_of(uint64_t ticket) { return ticket >> 32; }

static int is_new(uint64_t ticket, uint64_t seen) {
    return (uint32_t)ticket != CLOSED && number_of(ticket) != seen;
}

/* Wait for a job other than `seen`, awake for a while, then asleep; returns its number. */
static uint64_t await_job(uint64_t seen) {
    uint64_t ticket = READ(job.ticket);
    for (int spin = 0; spin < SPINS && !is_new(ticket, seen); spin++) {
        PAUSE();
        ticket = READ(job.ticket);
    }
    if (is_new(ticket, seen)) {
        return number_of(ticket);
    }
    pthread_mutex_lock(&sleeping);
    __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
    while (ticket = READ(job.ticket), !is_new(ticket, seen)) {
        pthread_cond_wait(&wake, &sleeping);
    }
    __atomic_fetch_sub(&sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&sleeping);
    return number_of(ticket);
}

static void *live(void *argument) {
    int thread = (int)(intptr_t)argument;
    for (uint64_t seen = 0;;) {
        seen = await_job(seen);
        do_units(thread);
    }
    return NULL;
}

/* A fork has the memory but not the threads. */
static void forget(void) {
    pthread_mutex_init(&one_job, NULL);
    pthread_mutex_init(&sleeping, NULL);
    pthread_cond_init(&wake, NULL);
    sleepers = workers = 0;
    job.ticket |= CLOSED;
}

/* Have threads - 1 workers, or as many as the system grants. Signals are for Python's threads. */
static void hire(int threads) {
    static int registered;
    sigset_t every, before;
    if (!registered) {
        registered = 1;
        pthread_atfork(NULL, NULL, forget);
    }
    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, &before);
    while (workers < threads - 1) {
        pthread_t worker;
        if (pthread_create(&worker, NULL, live, (void *)(intptr_t)(workers + 1)) != 0) {
            break;
        }
        pthread_detach(worker);
        workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void open_job(Work work, void *context, uint32_t units, int threads) {
    uint64_t number = number_of(READ(job.ticket)) + 1;
    WRITE(job.ticket, number << 32 | CLOSED);
    WRITE(job.work, work);
    WRITE(job.context, context);
    WRITE(job.units, units);
    WRITE(job.threads, threads);
    WRITE(job.done, 0);
    WRITE(job.ticket, number << 32);
    if (READ(sleepers)) {
        pthread_mutex_lock(&sleeping);
        pthread_cond_broadcast(&wake);
        pthread_mutex_unlock(&sleeping);
    }
}

void share_out(Work work, void *context, ptrdiff_t units, int threads) {
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    if (threads < 2 || units < 2 || units >= (ptrdiff_t)CLOSED || pthread_mutex_trylock(&one_job) != 0) {
        for (ptrdiff_t unit = 0; unit < units; unit++) {
            work(context, unit, 0);
        }
        return;
    }
    hire(threads);
    open_job(work, context, (uint32_t)units, threads);
    do_units(0);
    for (int spin = 0; READ(job.done) < (uint32_t)units; spin++) {
        if (spin < SPINS) {
            PAUSE();
        } else {
            sched_yield(); /* who has begun a unit may have lost his core */
        }
    }
    pthread_mutex_unlock(&one_job);
}

#else

void share_out(Work work, void *context, ptrdiff_t units, int threads) {
    (void)threads;
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        work(context, unit, 0);
    }
}

#endif
