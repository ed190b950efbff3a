/* The program waits for an audit that takes long. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "loadtest/judge/fetch_books.h"
#include "loadtest/test/seller.h"
#include "test/harness.h"

enum { SLOW_S = 3000, READINGS = 20 };

static _Atomic uint64_t ahead_ns, readings;

/* Replaces libuv's clock in the program; the test turns it. */
uint64_t uv_hrtime(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_fetch_add(&readings, 1);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + atomic_load(&ahead_ns);
}

static bool has_come(void *arg) {
    return atomic_load(&readings) >= *(const uint64_t *)arg;
}

/* Waits until the clock was read some times, and so deadlines were checked. */
static bool wait_readings(void) {
    uint64_t wanted = atomic_load(&readings) + READINGS;
    return harness_wait(has_come, &wanted, 10000);
}

static bool waited;

/* Fifty minutes after the request the seller, which is stopped, goes on, and answers. */
static void *continue_late(void *seller) {
    waited = wait_readings();
    atomic_fetch_add(&ahead_ns, SLOW_S * UINT64_C(1000000000));
    waited = wait_readings() && waited;
    kill(((struct seller *)seller)->proc.pid, SIGCONT);
    return NULL;
}

/* The text on the terminal meanwhile. */
static const char *take_progress(FILE *file) {
    char *text = harness_alloc(4096);
    rewind(file);
    text[fread(text, 1, 4095, file)] = '\0';
    fclose(file);
    return text;
}

static void slow_seller(void) {
    pthread_t thread;
    struct target target = {.host = "127.0.0.1"};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct options options = {.item = "demo", .token = "test-token"};
    struct progress progress = {.on = true};
    struct books books;
    struct seller *seller = seller_start("", 7);
    address.sin_port = htons((uint16_t)seller->port);
    memcpy(&target.address, &address, sizeof address);
    proc_kill(&seller->proc, SIGSTOP);
    FILE *terminal = tmpfile();
    int stderr_fd = dup(STDERR_FILENO);
    CHECK(terminal && stderr_fd >= 0 && dup2(fileno(terminal), STDERR_FILENO) >= 0);
    CHECK_INT(pthread_create(&thread, NULL, continue_late, seller), 0);
    struct connection_pool *pool = connection_pool_open(&target, 1, 1, 1);
    enum fetch_status status = fetch_books(pool, &options, 1000000000, &progress, &books);
    connection_pool_close(pool);
    dup2(stderr_fd, STDERR_FILENO);
    close(stderr_fd);
    pthread_join(thread, NULL);
    CHECK_STR(fetch_text(status), fetch_text(FETCH_OK));
    CHECK(waited);
    CHECK_INT(books.stock, 7);
    CHECK_HAS(take_progress(terminal), "waiting for the audits: 0 of 1 items, 300");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("audit: waits for one that takes fifty minutes", slow_seller);
    return harness_finish();
}
