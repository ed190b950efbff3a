#include "loadtest/lab/stage/crowd.h"

#include <jansson.h>
#include <signal.h>

enum { PATIENCE_MS = 60000, LINE_SIZE = 300 };

void crowd_start(struct crowd *crowd, const struct server *service, const struct crowd_options *o) {
    struct stage *stage = service->stage;
    char program[SERVER_PATH_SIZE], url[64], log[SERVER_PATH_SIZE];
    char connections[24], users[24], amount[24];
    *crowd = (struct crowd){.service = service, .item = o->item};
    if (stage_failed(stage))
        return;
    snprintf(program, sizeof program, "%s/seckill-load", stage_programs(stage));
    snprintf(url, sizeof url, "http://127.0.0.1:%d", service->port);
    snprintf(log, sizeof log, "%s/load.log", stage_directory(stage));
    snprintf(crowd->json, sizeof crowd->json, "%s/%s.json", stage_directory(stage), o->item);
    snprintf(crowd->progress, sizeof crowd->progress, "%s/%s.progress", stage_directory(stage), o->item);
    snprintf(connections, sizeof connections, "%lld", (long long)o->connections);
    snprintf(users, sizeof users, "%lld", (long long)o->users);
    snprintf(amount, sizeof amount, o->requests != 0 ? "%lld" : "%llds",
             (long long)(o->requests != 0 ? o->requests : o->seconds));
    const char *argv[] = {program,
                          "--url",
                          url,
                          "--item",
                          o->item,
                          "--users",
                          users,
                          o->requests != 0 ? "--requests" : "--duration",
                          amount,
                          "--connections",
                          connections,
                          "--json",
                          crowd->json,
                          "--progress",
                          crowd->progress,
                          NULL};
    const char *env[] = {"SECKILL_ADMIN_TOKEN=" SECKILLD_ADMIN_TOKEN, NULL};
    if (!process_start(&crowd->process, argv, env, log, -1, -1))
        stage_fail(stage, "seckill-load cannot be started");
}

static bool read_line(const char *line, struct crowd_progress *progress) {
    json_t *json = json_loads(line, 0, NULL);
    json_int_t accepted, rejected, unknown, p50_us, p99_us;
    bool good = json_unpack(json, "{s:F, s:I, s:I, s:I, s:I, s:I}", "seconds", &progress->seconds, "accepted",
                            &accepted, "rejected", &rejected, "unknown", &unknown, "p50_us", &p50_us,
                            "p99_us", &p99_us) == 0;
    if (good) {
        progress->accepted = accepted;
        progress->rejected = rejected;
        progress->unknown = unknown;
        progress->p50_us = p50_us;
        progress->p99_us = p99_us;
    }
    json_decref(json);
    return good;
}

/* Each line is written in one piece. */
bool crowd_read_progress(struct crowd *crowd, struct crowd_progress *progress) {
    char line[LINE_SIZE];
    bool any = false;
    if (crowd->lines == NULL && (crowd->lines = fopen(crowd->progress, "re")) == NULL)
        return false;
    clearerr(crowd->lines);
    while (fgets(line, sizeof line, crowd->lines) != NULL)
        any = read_line(line, progress) || any;
    return any;
}

void crowd_stop(const struct crowd *crowd) {
    if (crowd->process.pid != 0)
        kill(crowd->process.pid, SIGINT);
}

bool crowd_has_ended(struct crowd *crowd) {
    return !process_runs(&crowd->process);
}

/* A status of its own says that it oversold; that is what the books are asked for. */
bool crowd_finish(struct crowd *crowd, struct crowd_result *result) {
    struct stage *stage = crowd->service->stage;
    json_int_t accepted;
    int status;
    if (stage_failed(stage))
        return false;
    bool ended = process_wait(&crowd->process, stage_in_ms(PATIENCE_MS), &status);
    json_t *json = ended ? json_load_file(crowd->json, 0, NULL) : NULL;
    bool good = json_unpack(json, "{s:I, s:F, s:{s:F}}", "accepted", &accepted, "accepted_per_second",
                            &result->per_second, "latency_ms", "p99", &result->p99_ms) == 0;
    if (good)
        result->accepted = accepted;
    else
        stage_fail(stage, "the sale of %s has no result: see load.log", crowd->item);
    json_decref(json);
    if (crowd->lines != NULL)
        fclose(crowd->lines);
    crowd->lines = NULL;
    return good;
}

bool crowd_record(const struct crowd *crowd, const struct crowd_result *result, uint64_t op,
                  struct seckilld_audit *audit) {
    struct stage *stage = crowd->service->stage;
    struct event event = {.kind = EVENT_WRITE_SENT,
                          .who = "seckill-load",
                          .op = op,
                          .item = crowd->item,
                          .quantity = result->accepted};
    bool audited = false;
    for (int64_t deadline_ns = stage_in_ms(PATIENCE_MS); !audited && stage_patience(stage, deadline_ns);)
        audited = seckilld_server_audit(crowd->service, crowd->item, audit);
    if (!audited) {
        stage_fail(stage, "%s does not audit %s", crowd->service->name, crowd->item);
        return false;
    }
    stage_record(stage, &event);
    event.kind = EVENT_WRITE_ACCEPTED;
    stage_record(stage, &event);
    stage_record_stock(stage, crowd->item, audit->stock, audit->available, audit->sold);
    return true;
}
