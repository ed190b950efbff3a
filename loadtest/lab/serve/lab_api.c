/* The API of the page: routes, runs and faults, and the report of recorded plays. */
#include "loadtest/lab/serve/page_server.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/version.h"
#include "loadtest/lab/lesson_report.h"

#define JSON_TYPE "application/json"
#define RUNS      "/api/runs/"

/* ---- answers ---- */

/* Consumes `json`. */
static void answer_json(struct lab_api_answer *answer, int status, json_t *json) {
    *answer = (struct lab_api_answer){.status = status, .type = JSON_TYPE};
    answer->body = json ? json_dumps(json, JSON_COMPACT) : NULL;
    answer->length = answer->body ? strlen(answer->body) : 0;
    json_decref(json);
}

void lab_api_fail(struct lab_api_answer *answer, int status, const char *title, const char *detail) {
    answer_json(answer, status, json_pack("{s:s, s:s}", "title", title, "detail", detail));
}

static json_t *write_run(const struct lab_run *run) {
    const struct run_order *order = &run->order;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "run", run->id, "kind",
                     run_order_kind_name(order->kind), "name", run_order_name(order), "play",
                     order->kind != RUN_SCENARIO ? "live"
                     : order->broken             ? "broken"
                                                 : "fixed",
                     "state", run->ended ? "ended" : "playing", "options", run_order_write(order));
}

/* Answers an order of the page with the status of run control; `why` belongs to RUN_REFUSED. */
static void answer_run_status(struct lab_api_answer *answer, enum run_status status, const char *why) {
    switch (status) {
    case RUN_OK: answer_json(answer, 202, json_object()); break;
    case RUN_BUSY:
        lab_api_fail(answer, 409, "a run is going on",
                     "One run at a time: watch it, stop it, or wait for its end.");
        break;
    case RUN_UNKNOWN:
        lab_api_fail(answer, 404, "no such run", "The lab keeps the newest runs, until it ends.");
        break;
    case RUN_ENDED: lab_api_fail(answer, 409, "the run has ended", "Begin a new one."); break;
    case RUN_REFUSED: lab_api_fail(answer, 409, "not now", why); break;
    case RUN_TIMED_OUT:
        lab_api_fail(answer, 503, "not done in time", "The lab is busy with the fault before it. Try again.");
        break;
    }
}

/* Returns the body as a JSON object, or NULL with the error in `answer`. */
static json_t *read_body(const struct lab_api_request *request, struct lab_api_answer *answer) {
    json_error_t wrong;
    json_t *json =
        json_loadb(request->body ? request->body : "", request->length, JSON_REJECT_DUPLICATES, &wrong);
    if (json_is_object(json))
        return json;
    json_decref(json);
    lab_api_fail(answer, 400, "no JSON object", json ? "The body must be a JSON object." : wrong.text);
    return NULL;
}

/* ---- runs ---- */

static void get_lab(const struct lab_api *api, struct lab_api_answer *answer) {
    struct lab_run run;
    json_t *newest = run_control_find(api->control, NULL, &run) ? write_run(&run) : json_null();
    json_t *lab = json_pack("{s:s, s:s, s:s}", "version", SECKILL_VERSION, "session", api->session, "token",
                            api->token);
    json_object_update_new(lab, run_orders_catalogue());
    json_object_set_new(lab, "run", newest);
    answer_json(answer, 200, lab);
}

static void begin_run(const struct lab_api *api, json_t *json, struct lab_api_answer *answer) {
    struct run_order order;
    struct lab_run run;
    char error[RUN_ORDER_ERROR_SIZE];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!run_order_read(json, now.tv_sec % 1000000, &order, error)) {
        lab_api_fail(answer, 400, "no order that can be played", error);
        return;
    }
    enum run_status status = run_control_begin(api->control, &order, &run);
    if (status == RUN_OK)
        answer_json(answer, 201, write_run(&run));
    else
        answer_run_status(answer, status, NULL);
}

static void get_run(const struct lab_api *api, const char *id, struct lab_api_answer *answer) {
    struct lab_run run;
    if (run_control_find(api->control, id, &run))
        answer_json(answer, 200, write_run(&run));
    else
        answer_run_status(answer, RUN_UNKNOWN, NULL);
}

static void inject_fault(const struct lab_api *api, const char *id, json_t *json,
                         struct lab_api_answer *answer) {
    struct run_injection what;
    struct lab_run run;
    char text[RUN_ORDER_ERROR_SIZE], why[RUN_WHY_SIZE] = "";
    if (!run_order_read_injection(json, &what, text))
        lab_api_fail(answer, 400, "no fault", text);
    else if (run_control_find(api->control, id, &run) && run.order.kind != RUN_LOCK)
        lab_api_fail(answer, 409, "not this run", "Only a lock run can be broken by hand.");
    else
        answer_run_status(answer, run_control_inject(api->control, id, &what, why), why);
}

static void stop_run(const struct lab_api *api, const char *id, struct lab_api_answer *answer) {
    struct lab_run run;
    if (run_control_find(api->control, id, &run) && run.order.kind == RUN_SCENARIO && !run.ended)
        lab_api_fail(answer, 409, "not this run", "A scenario ends by itself within seconds.");
    else
        answer_run_status(answer, run_control_stop(api->control, id), NULL);
}

/* ---- the report ---- */

/* Returns false, and the reason in `error`, if it is no recording. */
static bool read_recording(json_t *recording, struct judged_play *play, char *error, size_t error_size) {
    size_t length = json_string_length(recording);
    FILE *in = length > 0 ? fmemopen((char *)(uintptr_t)json_string_value(recording), length, "r") : NULL;
    if (!in) {
        snprintf(error, error_size, "A recording is the text of a file of events.");
        return false;
    }
    bool good = judged_play_read(in, play, error, error_size);
    fclose(in);
    return good;
}

static void draw_report(const struct judged_play plays[], int count, struct lab_api_answer *answer) {
    *answer =
        (struct lab_api_answer){.status = 200, .type = "text/html; charset=utf-8", .file = "report.html"};
    FILE *out = open_memstream(&answer->body, &answer->length);
    bool good = out && lesson_draw(out, plays, count);
    good = out && fclose(out) == 0 && good;
    if (!good) {
        free(answer->body);
        answer->body = NULL;
    }
}

static void make_report(json_t *json, struct lab_api_answer *answer) {
    struct judged_play plays[LESSON_PLAYS];
    char error[300] = "Send {\"recordings\": [...]} with one play or two of one scenario.";
    json_t *list = NULL;
    int count = 0;
    bool good = json_unpack(json, "{s:o !}", "recordings", &list) == 0 && json_array_size(list) >= 1 &&
                json_array_size(list) <= LESSON_PLAYS;
    while (good && count < (int)json_array_size(list)) {
        good = read_recording(json_array_get(list, (size_t)count), &plays[count], error, sizeof error);
        count += good;
    }
    if (good && !lesson_order(plays, count)) {
        snprintf(error, sizeof error, "These are not the broken and the fixed play of one scenario.");
        good = false;
    }
    if (good)
        draw_report(plays, count, answer);
    else
        lab_api_fail(answer, 400, "no recording", error);
    while (count > 0)
        judged_play_free(&plays[--count]);
}

/* ---- routes ---- */

/* Returns true, and the id, if the path is "/api/runs/ID" and `end`. */
static bool is_run_path(const char *path, const char *end, char id[RUN_ID_SIZE]) {
    size_t length = strlen(path), from = sizeof RUNS - 1, behind = strlen(end);
    if (strncmp(path, RUNS, from) != 0 || length <= from + behind || length - from - behind >= RUN_ID_SIZE ||
        strcmp(path + length - behind, end) != 0)
        return false;
    snprintf(id, RUN_ID_SIZE, "%.*s", (int)(length - from - behind), path + from);
    return !strchr(id, '/');
}

bool lab_api_events_of(const char *path, char id[RUN_ID_SIZE]) {
    return is_run_path(path, "/events", id);
}

size_t lab_api_body_max(const char *path) {
    return strcmp(path, "/api/report") == 0 ? LAB_API_REPORT_SIZE : LAB_API_ORDER_SIZE;
}

static void handle_post(const struct lab_api *api, const struct lab_api_request *request, json_t *json,
                        struct lab_api_answer *answer) {
    char id[RUN_ID_SIZE];
    if (strcmp(request->path, "/api/runs") == 0)
        begin_run(api, json, answer);
    else if (strcmp(request->path, "/api/report") == 0)
        make_report(json, answer);
    else if (is_run_path(request->path, "/faults", id))
        inject_fault(api, id, json, answer);
    else if (is_run_path(request->path, "/stop", id))
        stop_run(api, id, answer);
}

static bool is_post_path(const char *path) {
    char id[RUN_ID_SIZE];
    return strcmp(path, "/api/runs") == 0 || strcmp(path, "/api/report") == 0 ||
           is_run_path(path, "/faults", id) || is_run_path(path, "/stop", id);
}

void lab_api_handle(const struct lab_api *api, const struct lab_api_request *request,
                    struct lab_api_answer *answer) {
    char id[RUN_ID_SIZE];
    bool posts = strcmp(request->method, "POST") == 0, lab = strcmp(request->path, "/api/lab") == 0;
    bool run = is_run_path(request->path, "", id);
    if (is_post_path(request->path) && posts) {
        json_t *json = read_body(request, answer);
        if (json)
            handle_post(api, request, json, answer);
        json_decref(json);
    } else if (lab && !posts) {
        get_lab(api, answer);
    } else if (run && !posts) {
        get_run(api, id, answer);
    } else if (posts && (lab || run || lab_api_events_of(request->path, id))) {
        lab_api_fail(answer, 405, "no such method", "This can only be read: use GET.");
    } else if (is_post_path(request->path)) {
        lab_api_fail(answer, 405, "no such method", "This changes something: use POST.");
    } else {
        lab_api_fail(answer, 404, "no such address", "The page is at /, what it asks for is below /api/.");
    }
}
