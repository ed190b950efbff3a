/* The service under test. */
#include "test/harness.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { START_MS = 20000, STOP_MS = 30000, SAY_MS = 30000, MAX_ARGS = 64 };

static bool live_or_dead(void *arg) {
    struct seckilld *service = arg;
    return web_call(service->port, "GET", "/livez", NULL, NULL, NULL) == 200 || !proc_running(&service->proc);
}

static void wait_live(struct seckilld *service) {
    if (!harness_wait(live_or_dead, service, START_MS) || !proc_running(&service->proc))
        FAIL("seckilld on port %d does not answer", service->port);
}

static void start(struct seckilld *service, const char *program, const char *stop_at, int redis_port,
                  va_list args) {
    service->port = harness_free_port();
    const char *argv[MAX_ARGS] = {harness_format("%s/%s", harness_build(), program), "--listen",
                                  harness_format("127.0.0.1:%d", service->port), "--redis",
                                  harness_format("redis://127.0.0.1:%d", redis_port)};
    const char *env[] = {"SECKILL_ADMIN_TOKEN=test-token", stop_at, NULL};
    size_t n = 5;
    for (const char *arg; (arg = va_arg(args, const char *));) {
        CHECK(n < MAX_ARGS - 1);
        argv[n++] = arg;
    }
    proc_spawn(&service->proc, argv, env, harness_format("%s/seckilld-%d.log", harness_dir(), service->port));
    wait_live(service);
}

void seckilld_start(struct seckilld *service, int redis_port, ...) {
    va_list args;
    va_start(args, redis_port);
    start(service, "seckilld", NULL, redis_port, args);
    va_end(args);
}

void seckilld_start_stopping(struct seckilld *service, const char *stop_at, int redis_port, ...) {
    va_list args;
    va_start(args, redis_port);
    start(service, "test/seckilld-stops", harness_format("STOP_AT=%s", stop_at), redis_port, args);
    va_end(args);
}

void seckilld_restart(struct seckilld *service) {
    proc_respawn(&service->proc);
    wait_live(service);
}

struct readiness {
    struct seckilld *service;
    int wanted;
    int last;
};

static bool is_wanted(void *arg) {
    struct readiness *readiness = arg;
    readiness->last = web_call(readiness->service->port, "GET", "/readyz", NULL, NULL, NULL);
    return readiness->last == readiness->wanted;
}

void seckilld_wait_ready(struct seckilld *service, int status) {
    struct readiness readiness = {.service = service, .wanted = status};
    if (!harness_wait(is_wanted, &readiness, START_MS))
        FAIL("/readyz of port %d answers %d, not %d", service->port, readiness.last, status);
}

static bool is_whole(void *arg) {
    struct readiness *readiness = arg;
    struct web_response response;
    readiness->last = web_call(readiness->service->port, "GET", "/readyz", NULL, NULL, &response);
    return readiness->last == 200 && strstr(response.body, "\"reason\":null");
}

void seckilld_wait_whole(struct seckilld *service) {
    struct readiness readiness = {.service = service};
    if (!harness_wait(is_whole, &readiness, START_MS))
        FAIL("/readyz of port %d answers %d, or with a reason", service->port, readiness.last);
}

struct saying {
    const struct seckilld *service;
    const char *text;
};

static bool has_said(void *arg) {
    const struct saying *saying = arg;
    return strstr(proc_output(&saying->service->proc), saying->text);
}

void seckilld_wait_log(const struct seckilld *service, const char *text) {
    struct saying saying = {service, text};
    if (!harness_wait(has_said, &saying, SAY_MS))
        FAIL("the log does not say: %s", text);
}

int seckilld_stop(struct seckilld *service) {
    int status;
    proc_kill(&service->proc, SIGTERM);
    if (!proc_wait(&service->proc, STOP_MS, &status))
        FAIL("seckilld still runs %d s after SIGTERM", STOP_MS / 1000);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void seckilld_kill(struct seckilld *service) {
    int status;
    proc_kill(&service->proc, SIGKILL);
    CHECK(proc_wait(&service->proc, STOP_MS, &status));
}
