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
    static const struct {
        int status;
        const char *title, *detail;
    } answers[] = {
        [RUN_BUSY] = {409, "a run is going on", "One run at a time: watch it, stop it, or wait for its end."},
        [RUN_UNKNOWN] = {404, "no such run", "The lab keeps the newest runs, until it ends."},
        [RUN_ENDED] = {409, "the run has ended", "Begin a new one."},
        [RUN_REFUSED] = {409, "not now", NULL},
        [RUN_TIMED_OUT] = {503, "not done in time", "The lab is busy with the fault before it. Try again."},
    };
    if (status == RUN_OK)
        answer_json(answer, 202, json_object());
    else
        lab_api_fail(answer, answers[status].status, answers[status].title,
                     status == RUN_REFUSED ? why : answers[status].detail);
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

/* A request whose route was found. */
struct api_call {
    const struct lab_api *api;
    const char *id; /* of the run */
    json_t *json;   /* the body of a POST */
    struct lab_api_answer *answer;
};

/* ---- runs ---- */

static void get_lab(const struct api_call *call) {
    struct lab_run run;
    json_t *newest = run_control_find(call->api->control, NULL, &run) ? write_run(&run) : json_null();
    json_t *lab = json_pack("{s:s, s:s, s:s}", "version", SECKILL_VERSION, "session", call->api->session,
                            "token", call->api->token);
    json_object_update_new(lab, run_orders_catalogue());
    json_object_set_new(lab, "run", newest);
    answer_json(call->answer, 200, lab);
}

static void begin_run(const struct api_call *call) {
    struct run_order order;
    struct lab_run run;
    char error[RUN_ORDER_ERROR_SIZE];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!run_order_read(call->json, now.tv_sec % 1000000, &order, error)) {
        lab_api_fail(call->answer, 400, "no order that can be played", error);
        return;
    }
    enum run_status status = run_control_begin(call->api->control, &order, &run);
    if (status == RUN_OK)
        answer_json(call->answer, 201, write_run(&run));
    else
        answer_run_status(call->answer, status, NULL);
}

static void get_run(const struct api_call *call) {
    struct lab_run run;
    if (run_control_find(call->api->control, call->id, &run))
        answer_json(call->answer, 200, write_run(&run));
    else
        answer_run_status(call->answer, RUN_UNKNOWN, NULL);
}

static void inject_fault(const struct api_call *call) {
    struct run_injection what;
    struct lab_run run;
    char text[RUN_ORDER_ERROR_SIZE], why[RUN_WHY_SIZE] = "";
    if (!run_order_read_injection(call->json, &what, text))
        lab_api_fail(call->answer, 400, "no fault", text);
    else if (run_control_find(call->api->control, call->id, &run) && run.order.kind != RUN_LOCK)
        lab_api_fail(call->answer, 409, "not this run", "Only a lock run can be broken by hand.");
    else
        answer_run_status(call->answer, run_control_inject(call->api->control, call->id, &what, why), why);
}

static void stop_run(const struct api_call *call) {
    struct lab_run run;
    if (run_control_find(call->api->control, call->id, &run) && run.order.kind == RUN_SCENARIO && !run.ended)
        lab_api_fail(call->answer, 409, "not this run", "A scenario ends by itself within seconds.");
    else
        answer_run_status(call->answer, run_control_stop(call->api->control, call->id), NULL);
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

static void make_report(const struct api_call *call) {
    struct judged_play plays[LESSON_PLAYS];
    char error[300] = "Send {\"recordings\": [...]} with one play or two of one scenario.";
    json_t *list = NULL;
    int count = 0;
    bool good = json_unpack(call->json, "{s:o !}", "recordings", &list) == 0 && json_array_size(list) >= 1 &&
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
        draw_report(plays, count, call->answer);
    else
        lab_api_fail(call->answer, 400, "no recording", error);
    while (count > 0)
        judged_play_free(&plays[--count]);
}

/* ---- routes ---- */

static const struct route {
    const char *path;                            /* up to the id of a run, if it has `end` */
    const char *end;                             /* what follows the id; NULL: the path has no id */
    bool posts;                                  /* POST; otherwise GET and HEAD */
    void (*handle)(const struct api_call *call); /* NULL: the page server answers a GET itself */
} routes[] = {
    {"/api/lab", NULL, false, get_lab}, /* what can be run, and the newest run */
    {"/api/runs", NULL, true, begin_run},
    {"/api/report", NULL, true, make_report},
    {RUNS, "", false, get_run},
    {RUNS, "/events", false, NULL}, /* an event stream */
    {RUNS, "/faults", true, inject_fault},
    {RUNS, "/stop", true, stop_run},
};

static bool route_fits(const struct route *route, const char *path, char id[RUN_ID_SIZE]) {
    if (!route->end)
        return strcmp(path, route->path) == 0;
    size_t length = strlen(path), from = strlen(route->path), behind = strlen(route->end);
    if (strncmp(path, route->path, from) != 0 || length <= from + behind ||
        length - from - behind >= RUN_ID_SIZE || strcmp(path + length - behind, route->end) != 0)
        return false;
    snprintf(id, RUN_ID_SIZE, "%.*s", (int)(length - from - behind), path + from);
    return !strchr(id, '/');
}

/* Returns the route of a path, and the id of the run in `id`; NULL: there is none. */
static const struct route *route_find(const char *path, char id[RUN_ID_SIZE]) {
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (route_fits(&routes[i], path, id))
            return &routes[i];
    }
    return NULL;
}

bool lab_api_events_of(const char *path, char id[RUN_ID_SIZE]) {
    const struct route *route = route_find(path, id);
    return route && !route->handle;
}

size_t lab_api_body_max(const char *path) {
    return strcmp(path, "/api/report") == 0 ? LAB_API_REPORT_SIZE : LAB_API_ORDER_SIZE;
}

void lab_api_handle(const struct lab_api *api, const struct lab_api_request *request,
                    struct lab_api_answer *answer) {
    char id[RUN_ID_SIZE] = "";
    bool posts = strcmp(request->method, "POST") == 0;
    const struct route *route = route_find(request->path, id);
    if (!route || !(route->handle || posts)) {
        lab_api_fail(answer, 404, "no such address", "The page is at /, what it asks for is below /api/.");
    } else if (!route->handle || route->posts != posts) {
        lab_api_fail(answer, 405, "no such method",
                     posts ? "This can only be read: use GET." : "This changes something: use POST.");
    } else {
        json_t *json = posts ? read_body(request, answer) : NULL;
        if (json || !posts)
            route->handle(&(struct api_call){api, id, json, answer});
        json_decref(json);
    }
}
