/* Sales with faults, one after another on one Redis: whatever is killed, paused or cut, nothing is lost,
 * duplicated or oversold, and unknown requests are resolved. SECKILL_TORTURE_ROUNDS: number of sales; a few
 * without it. The argument `round-17:` with the SECKILL_SEED of a run repeats its round 17. */
#include <glob.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loadtest/test/attack.h"
#include "loadtest/test/torture_books.h"
#include "loadtest/test/torture_plan.h"
#include "test/harness.h"

enum { FEW_ROUNDS = 8, MOST_ROUNDS = 100000, AWAY_MS = 3500, PATIENCE_MS = 60000 };

struct round {
    char item[32];
    bool whole;
    long long orders;
};

static struct {
    struct redis_server redis;
    struct proxy *proxy; /* between Redis and the last of the services */
    struct seckilld services[TORTURE_SERVICES];
    struct round *played; /* the number of rounds that ended */
    int played_count, rounds;

    struct torture_plan plan; /* of the current round */
    struct proc load;
    long long answered;               /* purchases, since the round began */
    long long seen[TORTURE_SERVICES]; /* by service: its last answer */

    /* Of all rounds: */
    int planned, struck[TORTURE_KINDS];
    long long attempts, acknowledged, lost, duplicated, oversold, unknown, unresolved;
} torture;

/* ---- progress of the load ---- */

static void check_runs(struct proc *proc, const char *what) {
    int status;
    if (proc_running(proc))
        return;
    CHECK(proc_wait(proc, 0, &status));
    if (WIFSIGNALED(status))
        FAIL("%s was ended by signal %d, by itself", what, WTERMSIG(status));
    FAIL("%s ended by itself, with status %d", what, WEXITSTATUS(status));
}

static void check_alive(void) {
    check_runs(&torture.redis.proc, "redis-server");
    for (int i = 0; i < TORTURE_SERVICES; i++)
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
    for (int i = 0; i < TORTURE_SERVICES; i++) {
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
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) * (int *)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return is_free;
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
    for (int i = 0; i < TORTURE_SERVICES; i++)
        kill_service(&torture.services[i]);
    kill_redis(pause_ms);
    for (int i = 0; i < TORTURE_SERVICES; i++)
        seckilld_restart(&torture.services[i]);
}

static void freeze(struct proc *proc, int pause_ms) {
    proc_kill(proc, SIGSTOP);
    harness_pause_ms(TORTURE_STORE_TIMEOUT_MS + 100 + pause_ms);
    proc_kill(proc, SIGCONT);
}

static void cut_reply(const struct torture_fault *fault) {
    int faults = proxy_faults(torture.proxy);
    proxy_set(torture.proxy, PROXY_CUT, fault->bytes, harness_format("{%s}:orders", torture.plan.item));
    CHECK(harness_wait(has_cut, &faults, PATIENCE_MS));
    proxy_set(torture.proxy, PROXY_PASS, 0, NULL);
}

static void disturb_link(enum proxy_mode mode, int n, int pause_ms) {
    proxy_set(torture.proxy, mode, n, NULL);
    harness_pause_ms(pause_ms);
    proxy_set(torture.proxy, PROXY_PASS, 0, NULL);
}

static void strike(const struct torture_fault *fault) {
    struct seckilld *service = &torture.services[fault->service];
    switch (fault->kind) {
    case TORTURE_REDIS_KILLED: kill_redis(fault->pause_ms); break;
    case TORTURE_REDIS_AWAY: kill_redis(AWAY_MS); break;
    case TORTURE_REDIS_KILLED_REWRITING:
        CHECK_HAS(redis_command(&torture.redis, "BGREWRITEAOF", NULL), "rewriting");
        kill_redis(fault->pause_ms);
        remove_rewritten();
        break;
    case TORTURE_REDIS_FROZEN: freeze(&torture.redis.proc, fault->pause_ms); break;
    case TORTURE_SCRIPTS_FLUSHED:
        CHECK_STR(redis_command(&torture.redis, "SCRIPT", "FLUSH", NULL), "OK");
        break;
    case TORTURE_CLIENTS_KILLED:
        CHECK(redis_integer(&torture.redis, "CLIENT", "KILL", "TYPE", "normal", NULL) >= 0);
        break;
    case TORTURE_SERVICE_KILLED:
        kill_service(service);
        harness_pause_ms(fault->pause_ms);
        seckilld_restart(service);
        break;
    case TORTURE_SERVICE_ENDED:
        CHECK_INT(seckilld_stop(service), 0);
        harness_pause_ms(fault->pause_ms);
        seckilld_restart(service);
        break;
    case TORTURE_SERVICE_FROZEN: freeze(&service->proc, fault->pause_ms); break;
    case TORTURE_ALL_KILLED: kill_all(fault->pause_ms); break;
    case TORTURE_REPLY_CUT: cut_reply(fault); break;
    case TORTURE_REPLIES_LATE:
        disturb_link(PROXY_DELAY, TORTURE_STORE_TIMEOUT_MS + 100, TORTURE_STORE_TIMEOUT_MS + 200);
        break;
    case TORTURE_LINK_DOWN: disturb_link(PROXY_REFUSE, 0, 50 + fault->pause_ms); break;
    case TORTURE_KINDS: break;
    }
}

/* Counts the faults during a load: purchases of it were answered before and after the fault. */
static void strike_all(void) {
    const struct torture_plan *plan = &torture.plan;
    for (int i = 0; i < plan->fault_count; i++) {
        const struct torture_fault *fault = &plan->faults[i];
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
    int status = web_call(torture.services[TORTURE_SERVICES - 1].port, "PUT",
                          harness_format("/v1/items/%s", torture.plan.item), SECKILLD_ADMIN, body, NULL);
    CHECK(status == 200 || status == 201 || status == 503);
    return status != 503;
}

static void put_on_sale(void) {
    const struct torture_plan *plan = &torture.plan;
    for (int i = 0; i < TORTURE_SERVICES; i++)
        seckilld_wait_ready(&torture.services[i], 200);
    char *body =
        harness_format("{\"stock\":%d,\"per_user_limit\":%d,\"hold_seconds\":%d,\"strategy\":\"%s\"}",
                       plan->stock, plan->limit, plan->hold_s, plan->strategy);
    CHECK(harness_wait(is_on_sale, body, PATIENCE_MS));
}

static void start_load(void) {
    const struct torture_plan *plan = &torture.plan;
    char *urls = harness_format("%s", "");
    for (int i = TORTURE_SERVICES - plan->services; i < TORTURE_SERVICES; i++)
        urls = harness_format("%s--url http://127.0.0.1:%d ", urls, torture.services[i].port);
    count_answered();
    torture.answered = 0;
    attack_start(&torture.load,
                 harness_format("%s--item %s --token test-token --users %d --quantity %d --connections %d "
                                "--requests %d --retries --duplicates 20 --timeout %d --seed %lld",
                                urls, plan->item, plan->users, plan->quantity, plan->connections,
                                plan->requests, plan->timeout_ms, (long long)plan->seed));
}

static void judge(const struct attack_result *outcome) {
    static const char *const never[] = {"lost", "duplicated", "oversold", "unresolved", "unchecked"};
    long long *const sums[] = {&torture.lost, &torture.duplicated, &torture.oversold, &torture.unresolved};
    if (!*outcome->json)
        FAIL("seckill-load wrote no results: %s", outcome->text);
    torture.attempts += attack_number_of(outcome, "attempts");
    torture.acknowledged += attack_number_of(outcome, "accepted");
    torture.unknown += attack_number_of(outcome, "unknown");
    for (int i = 0; i < 4; i++)
        *sums[i] += attack_verdict_of(outcome, never[i]);
    for (int i = 0; i < 5; i++)
        if (attack_verdict_of(outcome, never[i]) != 0)
            FAIL("%s: %s", never[i], outcome->text);
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
    const struct torture_plan *plan = &torture.plan;
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
    struct round *round = &torture.played[torture.played_count++];
    memcpy(round->item, plan->item, sizeof round->item);
    round->whole = plan->whole;
    round->orders = books.orders;
}

/* ---- all rounds ---- */

/* Books that were right after their round must still be right after all later rounds. */
static void close_books(void) {
    kill_redis(0);
    for (int i = 0; i < torture.played_count; i++) {
        const struct round *round = &torture.played[i];
        struct torture_books books = torture_books_read(&torture.redis, round->item);
        torture_books_check(&books, round->whole);
        CHECK_INT(books.orders, round->orders);
    }
    for (int i = 0; i < TORTURE_SERVICES; i++) {
        CHECK_INT(seckilld_stop(&torture.services[i]), 0);
        CHECK(!strstr(proc_output(&torture.services[i].proc), "Sanitizer"));
    }
}

static int count_struck(int *kinds) {
    int sum = 0;
    *kinds = 0;
    for (int i = 0; i < TORTURE_KINDS; i++) {
        sum += torture.struck[i];
        *kinds += torture.struck[i] > 0;
    }
    return sum;
}

static void check_struck(void) {
    int kinds;
    CHECK(2 * count_struck(&kinds) > torture.planned);
}

static void report(void) {
    int kinds, faults = count_struck(&kinds);
    harness_evidence("a crash of Redis or of an instance loses and doubles nothing, and oversells nothing",
                     "one Redis: it or an instance is killed, stopped or cut off", torture.rounds,
                     redis_name(), "\"acknowledged\":%lld,\"lost\":%lld", torture.acknowledged,
                     torture.lost + torture.duplicated + torture.oversold + torture.unresolved);
    printf("     faults under load:");
    for (int i = 0; i < TORTURE_KINDS; i++)
        printf("%s %s %d", i ? "," : "", torture_kind_names[i], torture.struck[i]);
    printf("; %d came too late\n", torture.planned - faults);
    printf(
        "     %d seeds, %d faults of %d kinds, %lld attempts: %lld acknowledged, %lld lost, %lld duplicated, "
        "%lld oversold, %lld unknown, ",
        torture.rounds, faults, kinds, torture.attempts, torture.acknowledged, torture.lost,
        torture.duplicated, torture.oversold, torture.unknown);
    if (torture.unresolved)
        printf("%lld unresolved\n", torture.unresolved);
    else
        printf("all resolved\n");
}

static void start_servers(void) {
    const char *timeout = harness_format("%d", TORTURE_STORE_TIMEOUT_MS);
    redis_start(&torture.redis, NULL);
    torture.proxy = proxy_start(torture.redis.port);
    for (int i = 0; i < TORTURE_SERVICES; i++)
        seckilld_start(&torture.services[i],
                       i == TORTURE_SERVICES - 1 ? proxy_port(torture.proxy) : torture.redis.port,
                       "--store-timeout", timeout, "--events", "on", NULL);
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
        torture.plan = torture_plan_make(harness_seed(), i);
        harness_run(torture.plan.name, play);
    }
    harness_run("the books of all rounds, after one more kill", close_books);
    harness_run("most faults fell into the load", check_struck);
    if (!listing)
        report();
    return harness_finish();
}
