#include "loadtest/generator.h"

#include <uv.h>

#include "base/random.h"
#include "loadtest/http/retry_backoff.h"

void generator_init(struct generator *g, const struct plan *plan, const struct target *targets,
                    const char *run, struct request_log *log, struct progress *progress,
                    const volatile sig_atomic_t *stop) {
    const struct options *options = plan->options;
    g->plan = plan;
    g->targets = targets;
    g->log = log;
    g->progress = progress;
    g->stop = stop;
    g->random = options->seed;
    for (unsigned i = 0; i < options->urls.count; i++) {
        for (int kind = 0; kind < REQUEST_KINDS; kind++)
            request_template_init(&g->templates[i][kind], (enum request_kind)kind, targets[i].host, options,
                                  run);
    }
}

/* Half of the duplicates repeat one of the latest requests, most of which are still in flight. */
static const struct log_line *generator_pick_earlier(struct generator *g) {
    size_t count = g->log->line_count;
    size_t span = random_next(&g->random) % 2 == 0 ? g->plan->options->connections : count;
    if (span > count)
        span = count;
    return &g->log->lines[count - 1 - random_next(&g->random) % span];
}

static bool generator_next(void *self, uint64_t now_ns, uint64_t *job) {
    struct generator *g = self;
    struct request_log *log = g->log;
    uint64_t count = log->line_count;
    if (g->plan->options->requests != 0 && count >= g->plan->options->requests)
        return false;
    uint32_t key = log->key_count;
    bool duplicate = count > 0 && random_next(&g->random) % 100 < g->plan->options->duplicates;
    if (duplicate)
        key = generator_pick_earlier(g)->key;
    struct log_line *line = request_log_add(log);
    if (!line) {
        g->out_of_memory = true;
        return false;
    }
    log->key_count += !duplicate;
    line->key = key;
    line->user = key % g->plan->options->users;
    line->duplicate = duplicate;
    line->intended_ns = now_ns;
    *job = count;
    return true;
}

static size_t generator_render(void *self, uint64_t job, const struct target *target, char *request) {
    const struct generator *g = self;
    const struct log_line *line = &g->log->lines[job];
    struct planned_request planned;
    plan_of_key(g->plan, line->key, &planned);
    return request_render(&g->templates[target - g->targets][planned.kind], line->key, line->user, &planned,
                          request);
}

static bool generator_answered(void *self, const struct pool_answer *answer) {
    struct generator *g = self;
    struct log_line *line = &g->log->lines[answer->job];
    if (request_log_record(g->log, line, g->plan, answer))
        g->ended_ns = answer->answered_ns;
    else if (g->plan->options->retries && answer->tries < RETRY_ATTEMPTS)
        return false;
    g->answered++;
    g->outcomes[line->outcome]++;
    progress_answered(g->progress, answer->answered_ns - line->intended_ns);
    return true;
}

static void generator_write_progress(const struct generator *g, uint64_t now_ns, bool last) {
    const struct progress_counts counts = {.accepted = g->outcomes[OUTCOME_ACCEPTED],
                                           .rejected = g->outcomes[OUTCOME_REJECTED],
                                           .unknown = g->outcomes[OUTCOME_UNKNOWN]};
    progress_write(g->progress, now_ns, now_ns - g->started_ns, &counts, last);
}

static void generator_show(void *self, uint64_t now_ns) {
    struct generator *g = self;
    double seconds = (double)(now_ns - g->started_ns) / 1e9;
    generator_write_progress(g, now_ns, false);
    progress_show(
        g->progress, now_ns, "%.0f s  %llu answered (%.0f/s)  %llu accepted  %llu rejected  %llu unknown",
        seconds, (unsigned long long)g->answered, (double)g->answered / seconds,
        (unsigned long long)g->outcomes[OUTCOME_ACCEPTED], (unsigned long long)g->outcomes[OUTCOME_REJECTED],
        (unsigned long long)g->outcomes[OUTCOME_UNKNOWN]);
}

void generator_run(struct generator *g, struct connection_pool *pool) {
    g->started_ns = uv_hrtime();
    g->ended_ns = g->started_ns;
    uint64_t limit = g->plan->options->duration_ns;
    struct pool_work work = {
        .self = g,
        .next = generator_next,
        .render = generator_render,
        .answered = generator_answered,
        .tick = generator_show,
        .timeout_ns = g->plan->options->timeout_ns,
        .deadline_ns = limit != 0 ? g->started_ns + limit : UINT64_MAX,
        .stop = g->stop,
    };
    connection_pool_run(pool, &work);
    generator_write_progress(g, uv_hrtime(), true);
}

static bool resolve_next(void *self, uint64_t now_ns, uint64_t *job) {
    struct generator *g = self;
    (void)now_ns;
    while (g->cursor < g->log->line_count) {
        size_t index = g->cursor++;
        enum outcome outcome = (enum outcome)g->log->lines[index].outcome;
        if (outcome == OUTCOME_UNKNOWN || (outcome == OUTCOME_NOT_SENT && g->plan->options->retries)) {
            *job = index;
            return true;
        }
    }
    return false;
}

static bool resolve_answered(void *self, const struct pool_answer *answer) {
    struct generator *g = self;
    return request_log_record(g->log, &g->log->lines[answer->job], g->plan, answer);
}

static void resolve_show(void *self, uint64_t now_ns) {
    struct generator *g = self;
    progress_show(g->progress, now_ns, "resolving unknown requests: line %zu of %zu", g->cursor,
                  g->log->line_count);
}

void generator_resolve(struct generator *g, struct connection_pool *pool, uint64_t deadline_ns) {
    struct pool_work work = {
        .self = g,
        .next = resolve_next,
        .render = generator_render,
        .answered = resolve_answered,
        .tick = resolve_show,
        .timeout_ns = g->plan->options->timeout_ns,
        .deadline_ns = deadline_ns,
    };
    g->cursor = 0;
    connection_pool_run(pool, &work);
}
