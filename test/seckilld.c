/* The service under test. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "test/harness.h"

enum { READY_MS = 20000, STOP_MS = 30000, SAY_MS = 30000 };

static void start(struct seckilld *service, const char *program, const char *stop_at, int redis_port,
                  const char **options) {
    const char *const env[] = {"SECKILL_ADMIN_TOKEN=test-token", stop_at, NULL};
    const char *error =
        seckilld_server_start(service, harness_format("%s/%s", harness_build(), program), redis_port, options,
                              env, harness_format("%s.log", harness_path("seckilld")));
    harness_own(&service->proc);
    MUST(error);
}

void seckilld_start(struct seckilld *service, int redis_port, ...) {
    va_list args;
    va_start(args, redis_port);
    start(service, "seckilld", NULL, redis_port, harness_list(args));
    va_end(args);
}

void seckilld_start_ready(struct seckilld *service, int redis_port, ...) {
    va_list args;
    va_start(args, redis_port);
    start(service, "seckilld", NULL, redis_port, harness_list(args));
    va_end(args);
    seckilld_wait_ready(service, 200);
}

void seckilld_start_stopping(struct seckilld *service, const char *stop_at, int redis_port, ...) {
    va_list args;
    va_start(args, redis_port);
    start(service, "test/seckilld-stops", harness_format("STOP_AT=%s", stop_at), redis_port,
          harness_list(args));
    va_end(args);
}

void seckilld_restart(struct seckilld *service) {
    MUST(seckilld_server_restart(service));
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
    if (!harness_wait(is_wanted, &readiness, READY_MS))
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
    if (!harness_wait(is_whole, &readiness, READY_MS))
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
    MUST(proc_end(&service->proc, SIGKILL, STOP_MS));
}
