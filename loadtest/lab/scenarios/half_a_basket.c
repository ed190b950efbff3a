/* seckilld, baskets: the service dies between the two writes of a basket. */
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/stage_sale.h"
#include "loadtest/lab/stage/stage_servers.h"

enum { LINES = 2, STOCK = 10, SETTLE_MS = 4000, BASKET_OP = 1 };

static const char killed[] = "killed between the two writes of a basket";
static const char *const items[LINES] = {"lamp", "shade"};

static void record_write(struct stage *stage, enum event_kind kind, const char *item) {
    if (!stage_failed(stage))
        stage_record(stage, &(struct event){
                                .kind = kind, .who = "buyer", .op = BASKET_OP, .item = item, .quantity = 1});
}

static bool audit_both(const struct server *service, struct seckilld_audit audits[LINES]) {
    bool good = true;
    for (int i = 0; i < LINES; i++)
        good = server_read_audit(service, items[i], &audits[i]) && good;
    return good;
}

/* Nothing is in between any more, and both lines were sold, or neither. */
static bool is_whole(const struct server *service, struct seckilld_audit audits[LINES]) {
    return audit_both(service, audits) && audits[0].available + audits[0].sold == STOCK &&
           audits[1].available + audits[1].sold == STOCK && audits[0].sold == audits[1].sold;
}

/* Records the books. A line is sold as soon as they say so. */
static void record_books(struct stage *stage, const struct seckilld_audit audits[LINES], bool known[LINES]) {
    for (int i = 0; i < LINES; i++) {
        if (audits[i].sold > 0 && !known[i]) {
            record_write(stage, EVENT_WRITE_ACCEPTED, items[i]);
            known[i] = true;
        }
        stage_record_stock(stage, items[i], audits[i].stock, audits[i].available, audits[i].sold);
    }
}

/* What has become of the basket: right after the restart, and when it is whole, or nobody has made it whole
 * for a while. */
static void record_outcome(struct stage *stage, const struct server *service) {
    struct seckilld_audit audits[LINES] = {{.stock = 0}};
    bool known[LINES] = {false};
    int64_t deadline_ns = stage_in_ms(SETTLE_MS);
    while (!audit_both(service, audits) && stage_patience(stage, deadline_ns)) {
    }
    record_books(stage, audits, known);
    while (!is_whole(service, audits) && stage_patience(stage, deadline_ns)) {
    }
    record_books(stage, audits, known);
    for (int i = 0; i < LINES; i++) {
        if (!known[i])
            record_write(stage, EVENT_WRITE_UNKNOWN, items[i]);
    }
}

/* The service talks to its Redis through a link, which is cut behind the write of the first line. The lock
 * is perfect: one process, one lock, and nobody else asks for it. */
static void play(struct stage *stage, bool broken) {
    static const char body[] = "{\"user\":\"ann\",\"lines\":[{\"item\":\"lamp\",\"quantity\":1},{\"item\":"
                               "\"shade\",\"quantity\":1}]}";
    struct server *redis = stage_start_redis(stage, "redis", NULL);
    struct proxy *link = stage_start_link(stage, redis->port);
    char lock[64];
    snprintf(lock, sizeof lock, "redis://127.0.0.1:%d?ttl=%lld", redis->port, (long long)stage_ttl_ms(stage));
    struct server *service =
        stage_start_seckilld(stage, "seckilld", proxy_port(link), "--teaching", "--lock", lock, "--basket",
                             broken ? "naive" : "locked", "--fencing", broken ? "off" : "on", NULL);
    for (int i = 0; i < LINES; i++)
        server_put_item(service, items[i], "{\"stock\":10}");
    stage_begin(stage);
    for (int i = 0; i < LINES; i++)
        stage_record_stock(stage, items[i], STOCK, STOCK, 0);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    for (int i = 0; i < LINES; i++)
        record_write(stage, EVENT_WRITE_SENT, items[i]);
    /* The command is a word of its own. */
    proxy_silence_between(link, broken ? "\r\nHINCRBY\r\n" : "\r\ndebit\r\n", "{shade}");
    server_call(service, "POST", "/v1/baskets", "basket-1", body, NULL, 0);
    if (!stage_failed(stage) && !proxy_is_silent(link))
        stage_fail(stage, "the service did not come to the second write");
    stage_fault(stage, "seckilld", killed);
    server_kill(service);
    proxy_heal(link);
    server_restart(service);
    stage_fault_over(stage, "seckilld", killed);
    record_outcome(stage, service);
}

const struct scenario scenario_half_a_basket = {
    .name = "half-a-basket",
    .ttl_ms = 1000,
    .text =
        {
            .title = "A lock keeps others out, but does not finish what a dead holder began: half a basket "
                     "is sold.",
            .question = "A basket has a lamp and a shade, all or nothing. The lock is perfect: nobody else "
                        "touches the two. The service dies after the first write. What is sold?",
            .answers = {"Nothing: the lock undoes the first write when its holder dies.",
                        "Both: whoever gets the lock next finishes the basket.",
                        "The lamp alone: the lock keeps others out, and finishes nothing."},
            .right = 2,
            .story = "The two items are in different slots, so no script can write both. A lock makes sure "
                     "that nobody else writes in between.\n\n"
                     "The service takes the lock, reads both items, and writes the lamp. Then it is "
                     "killed.\n\n"
                     "The lock expires, as it should. But the lamp is sold and the shade is not. Nobody "
                     "knows that the two belonged together, so nobody ever puts it right.\n\n"
                     "A lock gives isolation: others are kept out. It does not give atomicity: all or "
                     "nothing.\n\n"
                     "The fix is a journal. Before the first write the service writes down what it is "
                     "about to do; each write is idempotent, by the basket's id; when all is written, it "
                     "notes that. After a restart, or on another instance, recovery reads the journal, "
                     "takes the same locks, and finishes what was begun: forward if it was decided, back "
                     "if it was not.",
            .broken_code = "acquire(lamp), acquire(shade)\n"
                           "write(lamp, sold)\n"
                           "# dies here\n"
                           "write(shade, sold)\n"
                           "release both",
            .fixed_code = "journal: basket-1 intends lamp 1, shade 1\n"
                          "acquire(lamp), acquire(shade)\n"
                          "write(lamp, sold, by basket-1)\n"
                          "# dies here; whoever reads the journal goes on\n"
                          "write(shade, sold, by basket-1)\n"
                          "journal: basket-1 is decided\n"
                          "release both",
            .broken_lines = {2, 4},
            .fixed_lines = {1},
        },
    .play = play,
};
