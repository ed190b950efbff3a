/* The report as JSON. */
#include <jansson.h>

#include "lock/bench/report.h"

enum { DIGITS = 9 };

static json_t *known(bool is_known, double value) {
    return is_known ? json_real(value) : json_null();
}

static json_t *write_requests(const struct bench_row *row) {
    const double requests = (double)row->requests;
    return json_pack(
        "{s:o, s:o}", "per_pair", known(row->requests > 0 && row->pairs > 0, requests / (double)row->pairs),
        "per_handover", known(row->requests > 0 && row->handovers > 0, requests / (double)row->handovers));
}

static json_t *write_share(const struct bench_share *share) {
    return json_pack("{s:f, s:f}", "least", share->least, "most", share->most);
}

static json_t *write_wrong(const struct bench_row *row) {
    return json_pack("{s:I, s:I, s:I, s:I}", "two_holders", (json_int_t)row->two_holders, "lost_updates",
                     (json_int_t)row->lost_updates, "old_fences", (json_int_t)row->old_fences, "lost_grants",
                     (json_int_t)row->lost_grants);
}

static json_t *write_wait(const struct bench_row *row) {
    return json_pack("{s:f, s:f, s:f}", "p50", row->wait_p50_us, "p99", row->wait_p99_us, "max",
                     row->wait_max_us);
}

static json_t *write_row(const struct bench_row *row) {
    const struct bench_case *what = &row->what;
    char name[BENCH_NAME_SIZE];
    bench_name(what->url, name);
    json_t *json =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:I, s:f}", "url", name, "keys",
                  what->shared ? "shared" : "own", "processes", (int)what->processes, "contenders",
                  (int)what->contenders, "hold_us", (int)what->hold_us, "seconds", row->seconds, "pairs",
                  (json_int_t)row->pairs, "pairs_per_second", (double)row->pairs / row->seconds);
    json_t *rest = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "handovers",
        what->shared ? json_integer((json_int_t)row->handovers) : json_null(), "handovers_per_second",
        known(what->shared, (double)row->handovers / row->seconds), "wait_us", write_wait(row), "requests",
        write_requests(row), "contender_share", write_share(&row->of_contender), "process_share",
        write_share(&row->of_process), "wrong", write_wrong(row), "errors", (json_int_t)row->errors,
        "first_error", row->errors > 0 ? json_string(lock_status_text(row->error)) : json_null());
    json_object_update(json, rest);
    json_decref(rest);
    return json;
}

bool bench_write_json(FILE *out, const struct bench_report *report) {
    const struct bench_machine *machine = &report->machine;
    json_t *rows = json_array();
    for (unsigned i = 0; i < report->count; i++)
        json_array_append_new(rows, write_row(&report->rows[i]));
    json_t *json =
        json_pack("{s:{s:i, s:s, s:s}, s:b, s:o}", "machine", "cores", machine->cores, "cpu", machine->cpu,
                  "kernel", machine->kernel, "interrupted", report->interrupted, "rows", rows);
    bool good = json && json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS)) == 0 &&
                fputc('\n', out) != EOF && fflush(out) == 0;
    json_decref(json);
    return good;
}
