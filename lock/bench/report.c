#include "lock/bench/report.h"

#include <inttypes.h>
#include <sys/utsname.h>
#include <unistd.h>

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
