/* Sales with faults, one after another on one Redis: whatever is killed, paused or cut, nothing is lost,
 * duplicated or oversold, and unknown requests are resolved. SECKILL_TORTURE_ROUNDS: number of sales; a few
 * without it. The argument `round-17:` with the SECKILL_SEED of a run repeats its round 17. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loadtest/test/attack.h"
#include "loadtest/test/torture_books.h"
#include "test/harness.h"

enum {
    SERVICES = 2,
    FAULTS = 3,
    STORE_TIMEOUT_MS = 300,
    FEW_ROUNDS = 8,
    MOST_ROUNDS = 100000,
    AWAY_MS = 3500,
    PATIENCE_MS = 60000
};

/* ---- the plan of a round: one sale, and its faults; it follows from the seed and the number of the round,
 * so that a round can be repeated without those before it ---- */

enum kind {
    REDIS_KILLED,
    REDIS_AWAY,             /* killed, for longer than the service pursues an unknown purchase */
    REDIS_KILLED_REWRITING, /* in the middle of rewriting its append-only file */
    REDIS_FROZEN,           /* for longer than the store time-out */
    SCRIPTS_FLUSHED,
    CLIENTS_KILLED,
    SERVICE_KILLED,
    SERVICE_ENDED, /* SIGTERM, as in a rolling restart */
    SERVICE_FROZEN,
    ALL_KILLED,
    REPLY_CUT, /* from here on: by the proxy before Redis */
    REPLIES_LATE,
    LINK_DOWN,
    KINDS
};

static const char *const kind_names[KINDS] = {"redis killed",
                                              "redis killed and away",
                                              "redis killed while rewriting",
                                              "redis frozen",
                                              "scripts flushed",
                                              "connections killed",
                                              "service killed",
                                              "service restarted",
                                              "service frozen",
                                              "all killed",
                                              "reply cut",
                                              "replies late",
                                              "link down"};

struct fault {
    enum kind kind;
    int percent;  /* requests that are answered before the fault */
    int service;  /* the service that it hits, if it hits one */
    int pause_ms; /* until the fault ends, beyond what its kind needs */
    int bytes;    /* bytes of the reply before the cut */
};

struct plan {
    char item[32];
    const char *strategy;
    bool whole; /* an order and its units are written in one step; not so in decr, which may strand units */
    int stock, limit, hold_s;
    int services; /* services that sell: the last ones */
    int requests, users, quantity, connections, timeout_ms;
    int64_t seed; /* the generator's */
    int fault_count;
    struct fault faults[FAULTS]; /* in the order of time */
};

static uint64_t position; /* in the random numbers of the round */

static int pick(int least, int most) {
    return least + (int)(harness_random(&position) % (uint64_t)(most - least + 1));
}

static void pick_strategy(struct plan *plan) {
    /* Enough for the load to outlast the fault, since other services sell meanwhile. */
    static const struct {
        const char *name;
        int least_requests, most_requests;
    } strategies[] = {
        {"batch", 7000, 12000}, {"batch", 7000, 12000},     {"batch", 7000, 12000}, {"lua", 7000, 12000},
        {"lua", 7000, 12000},   {"optimistic", 1000, 1800}, {"decr", 3000, 6000},   {"decr", 3000, 6000},
    };
    int i = pick(0, (int)(sizeof strategies / sizeof *strategies) - 1);
    plan->strategy = strategies[i].name;
    plan->whole = strcmp(plan->strategy, "decr") != 0;
    plan->services = pick(1, SERVICES);
    plan->requests = pick(strategies[i].least_requests, strategies[i].most_requests) * plan->services;
}

static void pick_sale(struct plan *plan) {
    plan->quantity = pick(0, 2) ? 1 : pick(2, 3);
    plan->stock = plan->requests * plan->quantity / 100 * pick(2, 70);
    plan->users = plan->requests;
    plan->connections = pick(0, 3) ? pick(16, 64) : pick(64, 600);
    int limited = pick(0, 5);
    if (limited == 0) { /* many buyers with a low limit */
        plan->limit = plan->quantity * pick(1, 3);
        plan->users = plan->requests / pick(1, 6);
    } else if (limited == 1) { /* few buyers, so that a batch has several requests of one buyer */
        plan->connections = pick(64, 600);
        plan->users = pick(5, plan->connections / 4);
        plan->limit = plan->quantity * (plan->requests / plan->users / pick(1, 4));
    }
    if (pick(0, 2) == 0)
        plan->hold_s = pick(0, 1) ? 1 : 3600;
    /* A short time-out makes buyers retry while the first request is still in flight. Not if units return
     * meanwhile: then the first may rightly win after the second was told sold-out. Nor with many
     * connections, which on a slow machine would all time out. */
    bool patient = plan->hold_s == 1 || plan->connections > 64 || pick(0, 2);
    plan->timeout_ms = patient ? 5000 : 250;
    plan->seed = (int64_t)(harness_random(&position) >> 1);
}

static void add_fault(struct plan *plan) {
    struct fault fault = {.kind = (enum kind)pick(0, KINDS - 1)};
    if (fault.kind == REDIS_AWAY && pick(0, 3))
        fault.kind = REDIS_KILLED; /* takes seconds, so it is rare */
    fault.percent = pick(2, 55);
    fault.service = SERVICES - pick(1, plan->services);
    fault.pause_ms = pick(0, 1) ? pick(0, 200) : 0;
    fault.bytes = pick(0, 1) ? pick(1, 60) : 0;
    int i = plan->fault_count++;
    for (; i > 0 && plan->faults[i - 1].percent > fault.percent; i--)
        plan->faults[i] = plan->faults[i - 1];
    plan->faults[i] = fault;
}

/* Returns the plan as text. */
static const char *make_plan(struct plan *plan, int round) {
    position = harness_seed() + (uint64_t)round;
    position =
        harness_random(&position); /* else the numbers were those of the round before, shifted by one */
    *plan = (struct plan){.fault_count = 0};
    snprintf(plan->item, sizeof plan->item, "round-%d", round);
    pick_strategy(plan);
    pick_sale(plan);
    for (int left = pick(1, FAULTS); left > 0; left--)
        add_fault(plan);
    const char *text = harness_format(
        "%s: %s by %d, %d units, limit %d, hold %d s, %d x %d by %d, time-out %d ms:", plan->item,
        plan->strategy, plan->services, plan->stock, plan->limit, plan->hold_s, plan->requests,
        plan->quantity, plan->connections, plan->timeout_ms);
    for (int i = 0; i < plan->fault_count; i++)
        text = harness_format("%s%s %s at %d %%", text, i ? "," : "", kind_names[plan->faults[i].kind],
                              plan->faults[i].percent);
    return text;
}

/* ---- the servers, and what was counted ---- */

struct round {
    struct plan plan;
    long long orders;
};

static struct {
    struct redis_server redis;
    struct proxy *proxy; /* between Redis and the last of the services */
    struct seckilld services[SERVICES];
    struct round *played; /* the number of rounds that ended */
    int played_count, rounds;

    struct plan plan; /* of the current round */
    struct proc load;
    long long answered;       /* purchases, since the round began */
    long long seen[SERVICES]; /* by service: its last answer */

    /* Of all rounds: */
    int planned, struck[KINDS];
    long long attempts, acknowledged, unknown, wrong;
} torture;

/* ---- progress of the load ---- */

static void check_runs(struct proc *proc, const char *what) {
    int status;
    if (proc_running(proc))
        return;
    CHECK(proc_wait(proc, 0, &status));
    FAIL("%s ended by itself, with signal %d or status %d", what, WTERMSIG(status), WEXITSTATUS(status));
}

static void check_alive(void) {
    check_runs(&torture.redis.proc, "redis-server");
    for (int i = 0; i < SERVICES; i++)
        check_runs(&torture.services[i].proc, "seckilld");
}

/* Purchases that the service has answered since its start; -1: no answer. */
static long long ask_answered(const struct seckilld *service) {
    static const char name[] = "\nseckill_purchases_total{";
    struct web_response metrics;
    long long sum = 0;
    if (web_call(service->port, "GET", "/metrics", NULL, NULL, &metrics) != 200)
        return -1;
    for (const char *line = strstr(metrics.body, name); line; line = strstr(line + 1, name))
        sum += strtoll(strchr(line, ' '), NULL, 10);
    return sum;
}

static void count_answered(void) {
    for (int i = 0; i < SERVICES; i++) {
        long long now = ask_answered(&torture.services[i]);
        if (now < 0)
            continue;
        torture.answered += now < torture.seen[i] ? now : now - torture.seen[i];
        torture.seen[i] = now;
    }
}

static bool has_answered(void *least) {
    check_alive();
    count_answered();
    return torture.answered >= *(long long *)least || !proc_running(&torture.load);
}

/* True: so many purchases are answered. False: the load ended before. */
static bool wait_answered(long long least) {
    if (!harness_wait(has_answered, &least, PATIENCE_MS))
        FAIL("%lld purchases answered, not %lld, and no more of them", torture.answered, least);
    return torture.answered >= least;
}

static bool has_cut(void *faults) {
    check_alive();
    return proxy_faults(torture.proxy) > *(int *)faults || !proc_running(&torture.load);
}

/* ---- faults ---- */

/* Like seckilld_kill(), but checks that nothing else ended it. */
static void kill_service(struct seckilld *service) {
    int status;
    proc_kill(&service->proc, SIGKILL);
    CHECK(proc_wait(&service->proc, PATIENCE_MS, &status));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static bool is_port_free(void *port) {
    struct web_conn conn;
    bool is_open = web_open(&conn, *(int *)port);
    if (is_open)
        web_close(&conn);
    return !is_open;
}

/* A child that Redis forked to rewrite its file outlives it, and keeps the port for a moment. */
static void kill_redis(int pause_ms) {
    redis_kill(&torture.redis);
    harness_pause_ms(pause_ms);
    CHECK(harness_wait(is_port_free, &torture.redis.port, PATIENCE_MS));
    redis_restart(&torture.redis);
}

/* A half-written file stays for ever, useless: a gigabyte after many rounds. */
static void remove_rewritten(void) {
    glob_t found = {.gl_pathc = 0};
    glob(harness_format("%s/temp-rewriteaof-*", torture.redis.dir), 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

static void kill_all(int pause_ms) {
    for (int i = 0; i < SERVICES; i++)
        kill_service(&torture.services[i]);
    kill_redis(pause_ms);
    for (int i = 0; i < SERVICES; i++)
        seckilld_restart(&torture.services[i]);
}

static void freeze(struct proc *proc, int pause_ms) {
    proc_kill(proc, SIGSTOP);
    harness_pause_ms(STORE_TIMEOUT_MS + 100 + pause_ms);
    proc_kill(proc, SIGCONT);
}

static void cut_reply(const struct fault *fault) {
    int faults = proxy_faults(torture.proxy);
    proxy_set(torture.proxy, PROXY_CUT, fault->bytes, harness_format("}:%s", torture.plan.item));
    CHECK(harness_wait(has_cut, &faults, PATIENCE_MS));
    proxy_set(torture.proxy, PROXY_PASS, 0, NULL);
}

static void disturb_link(enum proxy_mode mode, int n, int pause_ms) {
    proxy_set(torture.proxy, mode, n, NULL);
    harness_pause_ms(pause_ms);
    proxy_set(torture.proxy, PROXY_PASS, 0, NULL);
}

static void strike(const struct fault *fault) {
    struct seckilld *service = &torture.services[fault->service];
    switch (fault->kind) {
    case REDIS_KILLED: kill_redis(fault->pause_ms); break;
    case REDIS_AWAY: kill_redis(AWAY_MS); break;
    case REDIS_KILLED_REWRITING:
        CHECK_HAS(redis_command(&torture.redis, "BGREWRITEAOF", NULL), "rewriting");
        kill_redis(fault->pause_ms);
        remove_rewritten();
        break;
    case REDIS_FROZEN: freeze(&torture.redis.proc, fault->pause_ms); break;
    case SCRIPTS_FLUSHED: CHECK_STR(redis_command(&torture.redis, "SCRIPT", "FLUSH", NULL), "OK"); break;
    case CLIENTS_KILLED:
        CHECK(redis_integer(&torture.redis, "CLIENT", "KILL", "TYPE", "normal", NULL) >= 0);
        break;
    case SERVICE_KILLED:
        kill_service(service);
        harness_pause_ms(fault->pause_ms);
        seckilld_restart(service);
        break;
    case SERVICE_ENDED:
        CHECK_INT(seckilld_stop(service), 0);
        harness_pause_ms(fault->pause_ms);
        seckilld_restart(service);
        break;
    case SERVICE_FROZEN: freeze(&service->proc, fault->pause_ms); break;
    case ALL_KILLED: kill_all(fault->pause_ms); break;
    case REPLY_CUT: cut_reply(fault); break;
    case REPLIES_LATE: disturb_link(PROXY_DELAY, STORE_TIMEOUT_MS + 100, STORE_TIMEOUT_MS + 200); break;
    case LINK_DOWN: disturb_link(PROXY_REFUSE, 0, 50 + fault->pause_ms); break;
    case KINDS: break;
    }
}

/* Counts the faults during a load: purchases of it were answered before and after the fault. */
static void strike_all(void) {
    const struct plan *plan = &torture.plan;
    for (int i = 0; i < plan->fault_count; i++) {
        const struct fault *fault = &plan->faults[i];
        torture.planned++;
        if (!wait_answered((long long)plan->requests * fault->percent / 100))
            continue;
        strike(fault);
        count_answered();
        torture.struck[fault->kind] += wait_answered(torture.answered + 1);
    }
}

/* ---- a round ---- */

static bool is_on_sale(void *body) {
    int status = web_call(torture.services[SERVICES - 1].port, "PUT",
                          harness_format("/v1/items/%s", torture.plan.item), SECKILLD_ADMIN, body, NULL);
    CHECK(status == 200 || status == 201 || status == 503);
    return status != 503;
}

static void put_on_sale(void) {
    const struct plan *plan = &torture.plan;
    for (int i = 0; i < SERVICES; i++)
        seckilld_wait_ready(&torture.services[i], 200);
    char *body =
        harness_format("{\"stock\":%d,\"per_user_limit\":%d,\"hold_seconds\":%d,\"strategy\":\"%s\"}",
                       plan->stock, plan->limit, plan->hold_s, plan->strategy);
    CHECK(harness_wait(is_on_sale, body, PATIENCE_MS));
}

static void start_load(void) {
    const struct plan *plan = &torture.plan;
    count_answered();
    torture.answered = 0;
    attack_start(&torture.load,
                 harness_format("%s --item %s --token test-token --users %d --quantity %d --connections %d "
                                "--requests %d --retries --duplicates 20 --timeout %d --seed %lld",
                                attack_urls(&torture.services[SERVICES - plan->services], plan->services),
                                plan->item, plan->users, plan->quantity, plan->connections, plan->requests,
                                plan->timeout_ms, (long long)plan->seed));
}

static void judge(const struct attack_result *outcome) {
    static const char *const never[] = {"lost", "duplicated", "oversold", "unresolved", "unchecked"};
    if (!*outcome->json)
        FAIL("seckill-load wrote no results: %s", outcome->text);
    torture.attempts += attack_number_of(outcome, "attempts");
    torture.acknowledged += attack_number_of(outcome, "accepted");
    torture.unknown += attack_number_of(outcome, "unknown");
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        torture.wrong += attack_verdict_of(outcome, never[i]);
    if (torture.wrong)
        FAIL("%s", outcome->text);
    if (torture.plan.whole || outcome->code != 1)
        attack_check_code(outcome, 0);
}

static bool have_expired(void *holds) {
    return redis_integer(&torture.redis, "ZCARD", (const char *)holds, NULL) == 0;
}

static void wait_expired(void) {
    const char *holds = stock_key(harness_format("%s:holds", torture.plan.item));
    if (!harness_wait(have_expired, (void *)holds, PATIENCE_MS))
        FAIL("there are holds that never expire");
}

static void play(void) {
    const struct plan *plan = &torture.plan;
    torture.rounds++;
    put_on_sale();
    start_load();
    strike_all();
    struct attack_result outcome = attack_finish(&torture.load);
    check_alive();
    judge(&outcome);
    if (plan->hold_s == 1)
        wait_expired();
    struct torture_books books = torture_books_read(&torture.redis, plan->item);
    torture_books_check(&books, plan->whole);
    long long acknowledged = attack_number_of(&outcome, "orders");
    if (plan->whole)
        CHECK_INT(books.orders, acknowledged);
    CHECK(books.orders >= acknowledged);
    torture.played[torture.played_count++] = (struct round){*plan, books.orders};
}

/* ---- all rounds ---- */

/* Books that were right after their round must still be right after all later rounds. */
static void close_books(void) {
    kill_redis(0);
    for (int i = 0; i < torture.played_count; i++) {
        const struct round *round = &torture.played[i];
        struct torture_books books = torture_books_read(&torture.redis, round->plan.item);
        torture_books_check(&books, round->plan.whole);
        CHECK_INT(books.orders, round->orders);
    }
    for (int i = 0; i < SERVICES; i++) {
        CHECK_INT(seckilld_stop(&torture.services[i]), 0);
        CHECK(!strstr(proc_output(&torture.services[i].proc), "Sanitizer"));
    }
}

static int count_struck(void) {
    int sum = 0;
    for (int i = 0; i < KINDS; i++)
        sum += torture.struck[i];
    return sum;
}

static void check_struck(void) {
    CHECK(2 * count_struck() > torture.planned);
}

static void report(void) {
    harness_evidence("a crash of Redis or of an instance loses and doubles nothing, and oversells nothing",
                     "one Redis: it or an instance is killed, stopped or cut off", torture.rounds,
                     redis_name(), "\"acknowledged\":%lld,\"lost\":%lld", torture.acknowledged,
                     torture.wrong);
    printf("     faults under load:");
    for (int i = 0; i < KINDS; i++)
        printf("%s %s %d", i ? "," : "", kind_names[i], torture.struck[i]);
    printf("; %d came too late\n", torture.planned - count_struck());
    printf("     %d seeds, %lld attempts: %lld acknowledged, %lld unknown at first, %lld wrong at the end\n",
           torture.rounds, torture.attempts, torture.acknowledged, torture.unknown, torture.wrong);
}

static void start_servers(void) {
    const char *timeout = harness_format("%d", STORE_TIMEOUT_MS);
    redis_start(&torture.redis, NULL);
    torture.proxy = proxy_start(torture.redis.port);
    for (int i = 0; i < SERVICES; i++)
        seckilld_start(&torture.services[i],
                       i == SERVICES - 1 ? proxy_port(torture.proxy) : torture.redis.port, "--store-timeout",
                       timeout, "--events", "on", NULL);
}

int main(int argc, char **argv) {
    const char *wanted = getenv("SECKILL_TORTURE_ROUNDS");
    int rounds = wanted && *wanted ? (int)strtol(wanted, NULL, 10) : FEW_ROUNDS;
    harness_begin(argc, argv);
    if (rounds < 1 || rounds > MOST_ROUNDS)
        FAIL("SECKILL_TORTURE_ROUNDS must be from 1 to %d", MOST_ROUNDS);
    bool listing = !*harness_dir();
    harness_limit(240 + 20 * (unsigned)rounds);
    torture.played = harness_alloc((size_t)rounds * sizeof *torture.played);
    if (!listing)
        start_servers();
    /* After a failure, later rounds would only repeat it. */
    for (int i = 1; i <= rounds && !harness_failed(); i++) {
        const char *plan = make_plan(&torture.plan, i);
        harness_run(plan, play);
    }
    harness_run("the books of all rounds, after one more kill", close_books);
    harness_run("most faults fell into the load", check_struck);
    if (!listing)
        report();
    return harness_finish();
}
