#include "loadtest/lab/serve/catalogue.h"

#include "loadtest/lab/serve/live.h"

/* ---- scenarios ---- */

static json_t *write_answers(const struct report_text *text) {
    json_t *list = json_array();
    for (int i = 0; i < REPORT_ANSWERS; i++)
        json_array_append_new(list, json_string(text->answers[i]));
    return list;
}

/* A 0 ends them. */
static json_t *write_lines(const int *lines) {
    json_t *list = json_array();
    for (int i = 0; i < REPORT_LINES && lines[i] != 0; i++)
        json_array_append_new(list, json_integer(lines[i]));
    return list;
}

json_t *catalogue_scenarios(void) {
    json_t *list = json_array();
    for (int i = 0; scenarios[i] != NULL; i++) {
        const struct report_text *text = &scenarios[i]->text;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o, s:i, s:s, s:s, s:s, s:o, s:o}", "name", scenarios[i]->name,
                            "title", text->title, "question", text->question, "answers", write_answers(text),
                            "right", text->right, "story", text->story, "broken_code", text->broken_code,
                            "fixed_code", text->fixed_code, "broken_lines", write_lines(text->broken_lines),
                            "fixed_lines", write_lines(text->fixed_lines)));
    }
    return list;
}

/* ---- sales ---- */

json_t *catalogue_ways(void) {
    json_t *list = json_array();
    for (const struct live_way *way = live_ways; way->id != NULL; way++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "id", way->id, "name", way->name,
                                              "about", way->about, "safe", way->safe));
    return list;
}

json_t *catalogue_limits(void) {
    return json_pack("{s:i, s:i, s:i}", "stock", LIVE_STOCK_MAX, "buyers", LIVE_BUYERS_MAX, "seconds",
                     LIVE_SECONDS_MAX);
}

/* ---- locks ---- */

static void add_fault(json_t *list, enum desk_fault fault, const char *target) {
    json_array_append_new(list, json_pack("{s:s, s:s}", "fault", desk_fault_names[fault], "target", target));
}

static json_t *write_faults(const struct live_lock *lock) {
    static const enum desk_fault of_clients[] = {DESK_PAUSE, DESK_RESUME, DESK_KILL, DESK_REVIVE};
    json_t *list = json_array();
    for (int i = 0; live_clients[i] != NULL; i++) {
        for (size_t k = 0; k < sizeof of_clients / sizeof of_clients[0]; k++)
            add_fault(list, of_clients[k], live_clients[i]);
    }
    for (int i = 0; lock->servers[i] != NULL; i++) {
        add_fault(list, DESK_CUT, lock->servers[i]);
        add_fault(list, DESK_HEAL, lock->servers[i]);
        if (lock->clock)
            add_fault(list, DESK_JUMP, lock->servers[i]);
    }
    if (lock->master != NULL)
        add_fault(list, DESK_KILL_MASTER, lock->master);
    return list;
}

json_t *catalogue_locks(void) {
    json_t *list = json_array();
    for (const struct live_lock *lock = live_locks; lock->id != NULL; lock++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o}", "id", lock->id, "name", lock->name,
                                              "about", lock->about, "fence", lock->fence, "faults",
                                              write_faults(lock)));
    return list;
}
