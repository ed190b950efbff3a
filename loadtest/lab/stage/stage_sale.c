#include "loadtest/lab/stage/stage_sale.h"

#include <jansson.h>
#include <signal.h>

#include "base/version.h"

enum { ANSWER_SIZE = 2048, PATIENCE_MS = 60000, LINE_SIZE = 300 };

/* ---- seckilld ---- */

struct server *stage_start_seckilld(struct stage *stage, const char *name, int redis_port,
                                    const char *const options[]) {
    static const char *const env[] = {"SECKILL_ADMIN_TOKEN=" SECKILLD_ADMIN_TOKEN, NULL};
    struct server *server = server_new(stage, name, SERVER_SECKILLD);
    char program[SERVER_PATH_SIZE], path[SERVER_PATH_SIZE], log[SERVER_PATH_SIZE + 8];
    server_path(server, path);
    snprintf(log, sizeof log, "%s.log", path);
    snprintf(program, sizeof program, "%s/seckilld", stage_options(stage)->programs);
    if (stage_failed(stage))
        return server;
    const char *error = seckilld_server_start(&server->seckilld, program, redis_port, options, env, log);
    if (!error)
        error = seckilld_server_await_ready(&server->seckilld);
    server_started(server, &server->seckilld.proc, server->seckilld.port, error);
    stage_add_version(stage, "seckilld", SECKILL_VERSION);
    return server;
}

int server_call(const struct server *server, const char *method, const char *path, const char *key,
                const char *body, char *answer, size_t size) {
    char headers[200];
    snprintf(headers, sizeof headers, "Authorization: Bearer " SECKILLD_ADMIN_TOKEN "\r\n%s%s%s",
             key ? "Idempotency-Key: " : "", key ? key : "", key ? "\r\n" : "");
    return seckilld_server_call(&server->seckilld, method, path, headers, body, answer, size);
}

void server_put_item(const struct server *server, const char *item, const char *terms) {
    char path[100];
    snprintf(path, sizeof path, "/v1/items/%s", item);
    if (!stage_failed(server->stage) && server_call(server, "PUT", path, NULL, terms, NULL, 0) != 201)
        stage_fail(server->stage, "%s does not make the item %s", server->name, item);
}

static bool server_read_stock(const struct server *server, const char *item, const char *of,
                              struct seckilld_audit *audit) {
    char path[100], answer[ANSWER_SIZE];
    snprintf(path, sizeof path, "/v1/items/%s%s", item, of);
    if (stage_failed(server->stage) ||
        server_call(server, "GET", path, NULL, NULL, answer, sizeof answer) != 200)
        return false;
    json_t *json = json_loads(answer, 0, NULL);
    struct seckilld_audit said;
    bool good = json_unpack(json, "{s:I, s:I, s:I}", "stock", &said.stock, "available", &said.available,
                            "sold", &said.sold) == 0;
    if (good)
        *audit = said;
    json_decref(json);
    return good;
}

bool server_read_audit(const struct server *server, const char *item, struct seckilld_audit *audit) {
    return server_read_stock(server, item, "/audit", audit);
}

bool server_read_item(const struct server *server, const char *item, struct seckilld_audit *audit) {
    return server_read_stock(server, item, "", audit);
}

/* ---- the crowd ---- */

static void crowd_end(void *record) {
    proc_free(record);
}

void crowd_start(struct crowd *crowd, const struct server *service, const struct crowd_options *o) {
    struct stage *stage = service->stage;
    char program[SERVER_PATH_SIZE], log[SERVER_PATH_SIZE], flags[7][SERVER_PATH_SIZE + 16];
    *crowd = (struct crowd){.service = service, .item = o->item};
    if (stage_failed(stage))
        return;
    snprintf(program, sizeof program, "%s/seckill-load", stage_options(stage)->programs);
    snprintf(log, sizeof log, "%s/load.log", stage_options(stage)->directory);
    snprintf(crowd->json, sizeof crowd->json, "%s/%s.json", stage_options(stage)->directory, o->item);
    snprintf(crowd->progress, sizeof crowd->progress, "%s/%s.progress", stage_options(stage)->directory,
             o->item);
    snprintf(flags[0], sizeof flags[0], "--url=http://127.0.0.1:%d", service->port);
    snprintf(flags[1], sizeof flags[1], "--item=%s", o->item);
    snprintf(flags[2], sizeof flags[2], "--users=%lld", (long long)o->users);
    snprintf(flags[3], sizeof flags[3], o->requests != 0 ? "--requests=%lld" : "--duration=%llds",
             (long long)(o->requests != 0 ? o->requests : o->seconds));
    snprintf(flags[4], sizeof flags[4], "--connections=%lld", (long long)o->connections);
    snprintf(flags[5], sizeof flags[5], "--json=%s", crowd->json);
    snprintf(flags[6], sizeof flags[6], "--progress=%s", crowd->progress);
    const char *argv[] = {program,  flags[0], flags[1], flags[2], flags[3],
                          flags[4], flags[5], flags[6], NULL};
    const char *env[] = {"SECKILL_ADMIN_TOKEN=" SECKILLD_ADMIN_TOKEN, NULL};
    const char *error = proc_start(&crowd->proc, argv, env, log);
    stage_add(stage, crowd_end, crowd->proc.record);
    if (error)
        stage_fail(stage, "%s", error);
}

static bool crowd_read_line(const char *line, struct crowd_progress *progress) {
    json_t *json = json_loads(line, 0, NULL);
    bool good =
        json_unpack(json, "{s:F, s:I, s:I, s:I, s:I, s:I}", "seconds", &progress->seconds, "accepted",
                    &progress->accepted, "rejected", &progress->rejected, "unknown", &progress->unknown,
                    "p50_us", &progress->p50_us, "p99_us", &progress->p99_us) == 0;
    json_decref(json);
    return good;
}

/* Each line is written in one piece. */
bool crowd_read_progress(struct crowd *crowd, struct crowd_progress *progress) {
    char line[LINE_SIZE];
    bool any = false;
    if (!crowd->lines)
        crowd->lines = fopen(crowd->progress, "re");
    if (!crowd->lines)
        return false;
    clearerr(crowd->lines);
    while (fgets(line, sizeof line, crowd->lines))
        any = crowd_read_line(line, progress) || any;
    return any;
}

void crowd_stop(const struct crowd *crowd) {
    proc_signal(&crowd->proc, SIGINT);
}

bool crowd_has_ended(struct crowd *crowd) {
    return !proc_running(&crowd->proc);
}

/* Its exit status is not read: it says whether the sale oversold, and the audit says that, too. */
static bool crowd_read_result(struct crowd *crowd, struct crowd_result *result) {
    int status;
    bool ended = proc_wait(&crowd->proc, PATIENCE_MS, &status);
    json_t *json = ended ? json_load_file(crowd->json, 0, NULL) : NULL;
    bool good = json_unpack(json, "{s:I, s:F, s:{s:F}}", "accepted", &result->accepted, "accepted_per_second",
                            &result->per_second, "latency_ms", "p99", &result->p99_ms) == 0;
    json_decref(json);
    if (crowd->lines)
        fclose(crowd->lines);
    crowd->lines = NULL;
    return good;
}

bool crowd_finish(struct crowd *crowd, uint64_t op, struct crowd_result *result) {
    struct stage *stage = crowd->service->stage;
    struct seckilld_audit *audit = &result->audit;
    if (stage_failed(stage))
        return false;
    if (!crowd_read_result(crowd, result)) {
        stage_fail(stage, "the sale of %s has no result: see load.log", crowd->item);
        return false;
    }
    bool audited = false;
    for (int64_t deadline_ns = stage_in_ms(PATIENCE_MS); !audited && stage_patience(stage, deadline_ns);)
        audited = server_read_audit(crowd->service, crowd->item, audit);
    if (!audited) {
        stage_fail(stage, "%s does not audit %s", crowd->service->name, crowd->item);
        return false;
    }
    struct event event = {.kind = EVENT_WRITE_SENT,
                          .who = "seckill-load",
                          .op = op,
                          .item = crowd->item,
                          .quantity = result->accepted};
    stage_record(stage, &event);
    event.kind = EVENT_WRITE_ACCEPTED;
    stage_record(stage, &event);
    stage_record_stock(stage, crowd->item, audit->stock, audit->available, audit->sold);
    return true;
}
