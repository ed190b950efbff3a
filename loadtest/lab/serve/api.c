#include "loadtest/lab/serve/api.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/version.h"
#include "loadtest/lab/report.h"
#include "loadtest/lab/serve/catalogue.h"
#include "loadtest/lab/serve/order.h"

#define JSON_TYPE "application/json"
#define RUNS      "/api/runs/"

/* ---- answers ---- */

/* Takes `json` over. */
static void answer_json(struct api_answer *answer, int status, json_t *json) {
    *answer = (struct api_answer){.status = status, .type = JSON_TYPE};
    answer->body = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    answer->length = answer->body != NULL ? strlen(answer->body) : 0;
    json_decref(json);
}

void api_fail(struct api_answer *answer, int status, const char *title, const char *detail) {
    answer_json(answer, status, json_pack("{s:s, s:s}", "title", title, "detail", detail));
}

static json_t *write_run(const struct desk_run *run) {
    const struct desk_order *order = &run->order;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "run", run->id, "kind", order_kind_name(order->kind),
                     "name", order_name(order), "play",
                     order->kind != DESK_SCENARIO ? "live"
                     : order->broken              ? "broken"
                                                  : "fixed",
                     "state", run->ended ? "ended" : "playing", "options", order_write(order));
}

/* An order was not carried out. */
static void answer_outcome(struct api_answer *answer, enum desk_status status, const char *why) {
    switch (status) {
    case DESK_OK: answer_json(answer, 202, json_object()); break;
    case DESK_BUSY:
        api_fail(answer, 409, "a run is going on",
                 "One run at a time: watch it, stop it, or wait for its end.");
        break;
    case DESK_UNKNOWN:
        api_fail(answer, 404, "no such run", "The lab keeps the newest runs, until it ends.");
        break;
    case DESK_ENDED: api_fail(answer, 409, "the run has ended", "Begin a new one."); break;
    case DESK_REFUSED: api_fail(answer, 409, "not now", why); break;
    case DESK_TIMED_OUT:
        api_fail(answer, 503, "not done in time", "The lab is busy with the fault before it. Try again.");
        break;
    }
}

/* The body as a JSON object; NULL, and answered: it is none. */
static json_t *read_body(const struct api_request *request, struct api_answer *answer) {
    json_error_t wrong;
    json_t *json = json_loadb(request->body != NULL ? request->body : "", request->length,
                              JSON_REJECT_DUPLICATES, &wrong);
    if (json_is_object(json))
        return json;
    json_decref(json);
    api_fail(answer, 400, "no JSON object", json == NULL ? wrong.text : "The body must be a JSON object.");
    return NULL;
}

/* ---- runs ---- */

static void get_lab(const struct api *api, struct api_answer *answer) {
    struct desk_run run;
    json_t *newest = desk_find(api->desk, NULL, &run) ? write_run(&run) : json_null();
    answer_json(answer, 200,
                json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "version", SECKILL_VERSION, "session",
                          api->session, "token", api->token, "scenarios", catalogue_scenarios(), "ways",
                          catalogue_ways(), "locks", catalogue_locks(), "limits", catalogue_limits(), "run",
                          newest));
}

static void begin_run(const struct api *api, json_t *json, struct api_answer *answer) {
    struct desk_order order;
    struct desk_run run;
    char error[ORDER_ERROR_SIZE];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!order_read(json, now.tv_sec % 1000000, &order, error)) {
        api_fail(answer, 400, "no order that can be played", error);
        return;
    }
    enum desk_status status = desk_begin(api->desk, &order, &run);
    if (status == DESK_OK)
        answer_json(answer, 201, write_run(&run));
    else
        answer_outcome(answer, status, NULL);
}

static void get_run(const struct api *api, const char *id, struct api_answer *answer) {
    struct desk_run run;
    if (desk_find(api->desk, id, &run))
        answer_json(answer, 200, write_run(&run));
    else
        answer_outcome(answer, DESK_UNKNOWN, NULL);
}

static void break_run(const struct api *api, const char *id, json_t *json, struct api_answer *answer) {
    struct desk_break what;
    struct desk_run run;
    char text[ORDER_ERROR_SIZE], why[DESK_WHY_SIZE] = "";
    if (!order_read_break(json, &what, text))
        api_fail(answer, 400, "no fault", text);
    else if (desk_find(api->desk, id, &run) && run.order.kind != DESK_LOCK)
        api_fail(answer, 409, "not this run", "Only a lock run can be broken by hand.");
    else
        answer_outcome(answer, desk_break(api->desk, id, &what, why), why);
}

static void stop_run(const struct api *api, const char *id, struct api_answer *answer) {
    struct desk_run run;
    if (desk_find(api->desk, id, &run) && run.order.kind == DESK_SCENARIO && !run.ended)
        api_fail(answer, 409, "not this run", "A scenario ends by itself within seconds.");
    else
        answer_outcome(answer, desk_stop(api->desk, id), NULL);
}

/* ---- the report ---- */

/* False: `error` says why. */
static bool read_play(json_t *recording, struct judged_play *play, char *error, size_t error_size) {
    size_t length = json_string_length(recording);
    FILE *in = length > 0 ? fmemopen((char *)(uintptr_t)json_string_value(recording), length, "r") : NULL;
    if (in == NULL) {
        snprintf(error, error_size, "A recording is the text of a file of events.");
        return false;
    }
    bool good = judged_play_read(in, play, error, error_size);
    fclose(in);
    return good;
}

static void draw_report(const struct judged_play plays[], int count, struct api_answer *answer) {
    *answer = (struct api_answer){.status = 200, .type = "text/html; charset=utf-8", .file = "report.html"};
    FILE *out = open_memstream(&answer->body, &answer->length);
    bool good = out != NULL && report_draw(out, plays, count);
    good = out != NULL && fclose(out) == 0 && good;
    if (!good) {
        free(answer->body);
        answer->body = NULL;
    }
}

static void make_report(json_t *json, struct api_answer *answer) {
    struct judged_play plays[REPORT_PLAYS];
    char error[300] = "Send {\"recordings\": [...]} with one play or two of one scenario.";
    json_t *list = NULL;
    int count = 0;
    bool good = json_unpack(json, "{s:o !}", "recordings", &list) == 0 && json_array_size(list) >= 1 &&
                json_array_size(list) <= REPORT_PLAYS;
    while (good && count < (int)json_array_size(list)) {
        good = read_play(json_array_get(list, (size_t)count), &plays[count], error, sizeof error);
        count += good;
    }
    if (good && !report_order(plays, count)) {
        snprintf(error, sizeof error, "These are not the broken and the fixed play of one scenario.");
        good = false;
    }
    if (good)
        draw_report(plays, count, answer);
    else
        api_fail(answer, 400, "no recording", error);
    while (count > 0)
        judged_play_free(&plays[--count]);
}

/* ---- routes ---- */

/* "/api/runs/ID" and `end`. */
static bool is_run(const char *path, const char *end, char id[DESK_ID_SIZE]) {
    size_t length = strlen(path), from = sizeof RUNS - 1, behind = strlen(end);
    if (strncmp(path, RUNS, from) != 0 || length <= from + behind || length - from - behind >= DESK_ID_SIZE ||
        strcmp(path + length - behind, end) != 0)
        return false;
    snprintf(id, DESK_ID_SIZE, "%.*s", (int)(length - from - behind), path + from);
    return strchr(id, '/') == NULL;
}

bool api_events_of(const char *path, char id[DESK_ID_SIZE]) {
    return is_run(path, "/events", id);
}

size_t api_body_max(const char *path) {
    return strcmp(path, "/api/report") == 0 ? API_REPORT_SIZE : API_ORDER_SIZE;
}

static void post(const struct api *api, const struct api_request *request, json_t *json,
                 struct api_answer *answer) {
    char id[DESK_ID_SIZE];
    if (strcmp(request->path, "/api/runs") == 0)
        begin_run(api, json, answer);
    else if (strcmp(request->path, "/api/report") == 0)
        make_report(json, answer);
    else if (is_run(request->path, "/faults", id))
        break_run(api, id, json, answer);
    else if (is_run(request->path, "/stop", id))
        stop_run(api, id, answer);
}

static bool is_post(const char *path) {
    char id[DESK_ID_SIZE];
    return strcmp(path, "/api/runs") == 0 || strcmp(path, "/api/report") == 0 ||
           is_run(path, "/faults", id) || is_run(path, "/stop", id);
}

void api_handle(const struct api *api, const struct api_request *request, struct api_answer *answer) {
    char id[DESK_ID_SIZE];
    bool posts = strcmp(request->method, "POST") == 0, lab = strcmp(request->path, "/api/lab") == 0;
    bool run = is_run(request->path, "", id);
    if (is_post(request->path) && posts) {
        json_t *json = read_body(request, answer);
        if (json != NULL)
            post(api, request, json, answer);
        json_decref(json);
    } else if (lab && !posts) {
        get_lab(api, answer);
    } else if (run && !posts) {
        get_run(api, id, answer);
    } else if (posts && (lab || run || api_events_of(request->path, id))) {
        api_fail(answer, 405, "no such method", "This can only be read: use GET.");
    } else if (is_post(request->path)) {
        api_fail(answer, 405, "no such method", "This changes something: use POST.");
    } else {
        api_fail(answer, 404, "no such address", "The page is at /, what it asks for is below /api/.");
    }
}
