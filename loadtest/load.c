#include "loadtest/load.h"
#include "base/random.h"
#include "loadtest/judge/outcome.h"

#define MAX_TRIES 10

void load_init(struct load *load, const struct demand *demand, const struct target *targets, const char *run,
               struct request_log *log, struct progress *progress, const volatile sig_atomic_t *stop) {
    const struct options *options = demand->options;
    load->demand = demand;
    load->targets = targets;
    load->log = log;
    load->progress = progress;
    load->stop = stop;
    load->random = options->seed;
    for (unsigned i = 0; i < options->urls.count; i++) {
        for (int kind = 0; kind < DEMAND_KINDS; kind++)
            request_form_init(&load->forms[i][kind], (enum demand_kind)kind, targets[i].host, options, run);
    }
}

/* Half of the duplicates repeat one of the latest requests, most of which are still in flight. */
static const struct log_line *pick_earlier(struct load *load) {
    size_t count = load->log->line_count;
    size_t span = random_next(&load->random) % 2 == 0 ? load->demand->options->connections : count;
    if (span > count)
        span = count;
    return &load->log->lines[count - 1 - random_next(&load->random) % span];
}

static bool next_request(void *self, uint64_t now_ns, uint64_t *job) {
    struct load *load = self;
    struct request_log *log = load->log;
    uint64_t count = log->line_count;
    if (load->demand->options->requests != 0 && count >= load->demand->options->requests)
        return false;
    uint32_t key = log->key_count;
    bool duplicate = count > 0 && random_next(&load->random) % 100 < load->demand->options->duplicates;
    if (duplicate)
        key = pick_earlier(load)->key;
    struct log_line *line = request_log_add(log);
    if (line == NULL) {
        load->out_of_memory = true;
        return false;
    }
    log->key_count += !duplicate;
    line->key = key;
    line->user = key % load->demand->options->users;
    line->duplicate = duplicate;
    line->intended_ns = now_ns;
    *job = count;
    return true;
}

static size_t render(void *self, uint64_t job, const struct target *target, char *request) {
    const struct load *load = self;
    const struct log_line *line = &load->log->lines[job];
    struct wish wish;
    demand_of_key(load->demand, line->key, &wish);
    return request_render(&load->forms[target - load->targets][wish.kind], line->key, line->user, &wish,
                          request);
}

static bool answered_request(void *self, const struct pool_answer *answer) {
    struct load *load = self;
    struct log_line *line = &load->log->lines[answer->job];
    if (outcome_record(load->demand, load->log, line, answer))
        load->ended_ns = answer->answered_ns;
    else if (load->demand->options->retries && answer->tries < MAX_TRIES)
        return false;
    load->answered++;
    load->outcomes[line->outcome]++;
    progress_answered(load->progress, answer->answered_ns - line->intended_ns);
    return true;
}

static void write_progress(const struct load *load, uint64_t now_ns, bool last) {
    const struct progress_counts counts = {.accepted = load->outcomes[OUTCOME_ACCEPTED],
                                           .rejected = load->outcomes[OUTCOME_REJECTED],
                                           .unknown = load->outcomes[OUTCOME_UNKNOWN]};
    progress_write(load->progress, now_ns, now_ns - load->started_ns, &counts, last);
}

static void show_load(void *self, uint64_t now_ns) {
    struct load *load = self;
    double seconds = (double)(now_ns - load->started_ns) / 1e9;
    write_progress(load, now_ns, false);
    progress_show(load->progress, now_ns,
                  "%.0f s  %llu answered (%.0f/s)  %llu accepted  %llu rejected  %llu unknown", seconds,
                  (unsigned long long)load->answered, (double)load->answered / seconds,
                  (unsigned long long)load->outcomes[OUTCOME_ACCEPTED],
                  (unsigned long long)load->outcomes[OUTCOME_REJECTED],
                  (unsigned long long)load->outcomes[OUTCOME_UNKNOWN]);
}

void load_run(struct load *load, struct connection_pool *pool) {
    load->started_ns = uv_hrtime();
    load->ended_ns = load->started_ns;
    uint64_t limit = load->demand->options->duration_ns;
    struct pool_work work = {
        .self = load,
        .next = next_request,
        .render = render,
        .answered = answered_request,
        .tick = show_load,
        .timeout_ns = load->demand->options->timeout_ns,
        .deadline_ns = limit != 0 ? load->started_ns + limit : UINT64_MAX,
        .stop = load->stop,
    };
    connection_pool_run(pool, &work);
    write_progress(load, uv_hrtime(), true);
}

static bool next_unknown(void *self, uint64_t now_ns, uint64_t *job) {
    struct load *load = self;
    (void)now_ns;
    while (load->cursor < load->log->line_count) {
        size_t index = load->cursor++;
        enum outcome outcome = (enum outcome)load->log->lines[index].outcome;
        if (outcome == OUTCOME_UNKNOWN || (outcome == OUTCOME_NOT_SENT && load->demand->options->retries)) {
            *job = index;
            return true;
        }
    }
    return false;
}

static bool answered_unknown(void *self, const struct pool_answer *answer) {
    struct load *load = self;
    return outcome_record(load->demand, load->log, &load->log->lines[answer->job], answer);
}

static void show_resolve(void *self, uint64_t now_ns) {
    struct load *load = self;
    progress_show(load->progress, now_ns, "resolving unknown requests: line %zu of %zu", load->cursor,
                  load->log->line_count);
}

void load_resolve(struct load *load, struct connection_pool *pool, uint64_t deadline_ns) {
    struct pool_work work = {
        .self = load,
        .next = next_unknown,
        .render = render,
        .answered = answered_unknown,
        .tick = show_resolve,
        .timeout_ns = load->demand->options->timeout_ns,
        .deadline_ns = deadline_ns,
    };
    load->cursor = 0;
    connection_pool_run(pool, &work);
}
