/* The report of lock-bench: the table, row by row, and the same as JSON. */
#include "lock/bench/bench.h"

#include <inttypes.h>
#include <jansson.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { DIGITS = 9 };

struct bench_machine bench_machine_read(void) {
    struct bench_machine machine = {.cores = (int)sysconf(_SC_NPROCESSORS_ONLN), .cpu = "unknown"};
    struct utsname names;
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "model name : %127[^\n]", machine.cpu) != 1)
        ;
    if (file)
        fclose(file);
    if (uname(&names) == 0)
        snprintf(machine.kernel, sizeof machine.kernel, "%s %s", names.sysname, names.release);
    return machine;
}

void bench_print_machine(FILE *out, const struct bench_machine *machine) {
    fprintf(out, "%d cores of %s, %s\n", machine->cores, machine->cpu, machine->kernel);
}

void bench_print_head(FILE *out, const char *url) {
    char name[BENCH_NAME_SIZE];
    bench_name(url, name);
    fprintf(out, "\n%s\n", name);
    fprintf(out, "  %-6s %9s %10s  %10s %10s  %28s  %15s  %11s  %11s\n", "", "", "", "", "",
            "waiting, us        ", "requests a", "share", "of process");
    fprintf(out, "  %-6s %9s %10s  %10s %10s  %8s %9s %9s  %6s %8s  %5s %5s  %5s %5s  %s\n", "keys",
            "processes", "contenders", "pairs/s", "handover/s", "p50", "p99", "max", "pair", "handover",
            "least", "most", "least", "most", "wrong");
}

static void print_quotient(FILE *out, int width, uint64_t requests, uint64_t count) {
    if (requests > 0 && count > 0)
        fprintf(out, " %*.2f", width, (double)requests / (double)count);
    else
        fprintf(out, " %*s", width, "-");
}

void bench_print_row(FILE *out, const struct bench_row *row) {
    const struct bench_case *what = &row->what;
    fprintf(out, "  %-6s %9u %10u  %10.0f ", what->shared ? "shared" : "own", what->processes,
            what->contenders, (double)row->pairs / row->seconds);
    if (what->shared)
        fprintf(out, "%10.0f", (double)row->handovers / row->seconds);
    else
        fprintf(out, "%10s", "-");
    fprintf(out, "  %8.1f %9.1f %9.1f ", row->wait_p50_us, row->wait_p99_us, row->wait_max_us);
    print_quotient(out, 6, row->requests, row->pairs);
    print_quotient(out, 8, row->requests, row->handovers);
    fprintf(out, "  %5.2f %5.2f  %5.2f %5.2f  %" PRIu64 "\n", row->of_contender.least, row->of_contender.most,
            row->of_process.least, row->of_process.most, bench_wrong(row));
    fflush(out);
}

static void print_where(FILE *out, const char *word, const struct bench_row *row) {
    char name[BENCH_NAME_SIZE];
    bench_name(row->what.url, name);
    fprintf(out, "%s  %s, %s, processes %u, contenders %u: ", word, name,
            row->what.shared ? "shared key" : "own keys", row->what.processes, row->what.contenders);
}

void bench_print_faults(FILE *out, const struct bench_report *report) {
    for (unsigned i = 0; i < report->count; i++) {
        const struct bench_row *row = &report->rows[i];
        if (bench_wrong(row) > 0) {
            print_where(out, "WRONG", row);
            fprintf(out,
                    "%" PRIu64 " times two holders at once, %" PRIu64 " updates lost, %" PRIu64
                    " fences that did not grow, %" PRIu64 " grants lost before their time\n",
                    row->two_holders, row->lost_updates, row->old_fences, row->lost_grants);
        }
        if (row->errors > 0) {
            print_where(out, "FAILED", row);
            fprintf(out, "%" PRIu64 " calls, the first: %s%s%s\n", row->errors, lock_status_text(row->error),
                    row->why[0] ? ", " : "", row->why);
        }
    }
}

/* ---- JSON ---- */

/* null: the value is not known. */
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
