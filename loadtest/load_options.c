#include "loadtest/load_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_help[] =
    "seckill-load: buys in a flash sale as fast as it can, then judges whether the sale was right.\n"
    "\n"
    "usage: seckill-load --item NAME (--requests N | --duration T) [option]...\n"
    "\n"
    "  --url URL          address of the seller (http://127.0.0.1:8080); of seckilld with --operator-listen\n"
    "                     that one, where audits are served. Repeat it for several sellers: the\n"
    "                     connections are spread over them, and a retry goes to the next one\n"
    "  --item NAME        the item to buy. Nobody else may buy, restock or transfer it meanwhile: the\n"
    "                     program would take that for a fault\n"
    "  --items N          buy NAME-0 to NAME-(N-1) instead, up to 100000; each purchase picks one at random\n"
    "  --zipf S           pick NAME-i with the weight 1/(i+1)^S, S from 0 to 5 (0: all are equally likely)\n"
    "  --basket-lines K   buy baskets of K lines, 1 to 32, instead of single items; each line picks one of\n"
    "                     --items, and two lines may pick the same one\n"
    "  --purchases P      percent of the requests that buy a single item all the same (0)\n"
    "  --transfers P      percent of the requests that move units from one of --items to another (0); needs\n"
    "                     the admin token\n"
    "  --users N          number of buyers; request i comes from buyer i modulo N (10000)\n"
    "  --quantity Q       units of each purchase, line and transfer (1)\n"
    "  --connections C    keep-alive connections, each with one request in flight (64)\n"
    "  --requests N       stop after N requests\n"
    "  --duration T       stop after this time: 500ms, 10s, 2m\n"
    "  --retries          repeat a request that is unknown or could not be sent, with its key: up to 10\n"
    "                     attempts, 5 ms to 1 s apart, and again at the end. Without it, unknown requests\n"
    "                     are only resolved at the end, and a request that cannot be sent fails the run\n"
    "  --duplicates P     percent of the requests that repeat an earlier key, half of them one that is\n"
    "                     probably still in flight (0)\n"
    "  --token T          admin token, for audits and transfers. SECKILL_ADMIN_TOKEN in the environment is\n"
    "                     safer: other users of this machine cannot read it. SECKILL_ADMIN_TOKEN_FILE\n"
    "                     names a file that has it\n"
    "  --seed S           seed of all random choices: items, lines, transfers, duplicates, backoff\n"
    "  --timeout MS       limit of one attempt (5000)\n"
    "  --settle T         at the end: limit for resolving unknown requests, and for starting the audits\n"
    "                     (30s). An audit that has started may take an hour\n"
    "  --json FILE        write the results as one JSON object; -: to standard output, and the text to\n"
    "                     standard error. With baskets or transfers, the members purchases, baskets and\n"
    "                     transfers have the attempts, accepted, rejected, unknown, rejections, latency_ms\n"
    "                     and accepted_latency_ms of each kind; the top level counts all requests\n"
    "  --progress FILE    while the load runs, write a JSON line ten times a second: seconds; accepted,\n"
    "                     rejected, unknown so far; p50_us and p99_us of the answers since the line before\n"
    "  --help, --version\n"
    "\n"
    "The request log has one line for each request, 48 bytes in memory: sent, answered, key, outcome. A\n"
    "time-out, a broken connection and a 5xx are unknown, never a failure: at the end each is resolved by a\n"
    "retry with the same key. Then the log is compared with the audit, and with every acknowledged order:\n"
    "  oversold    units sold beyond the stock\n"
    "  lost        acknowledged orders that are missing or different in the books; orders of baskets, and\n"
    "              transfers, whose answer differs from the request\n"
    "  duplicated  answers to a repeated key that tell of another order than the first, or tell another\n"
    "              item, user or quantity; more than one order for a key, or for a line of a basket\n"
    "  phantom     orders in the books that no answer acknowledged\n"
    "  undersold   units left, though buyers were told sold-out. Judged only if no units were returned, and\n"
    "              without baskets and transfers, which hold units for a moment\n"
    "  torn        acknowledged baskets of which some orders exist and some do not\n"
    "  unbalanced  units that are not where the acknowledged transfers put them\n"
    "  unresolved  requests that stayed unknown\n"
    "With --items each item is judged by its own books, and the faults are added up.\n"
    "\n"
    "Latencies are those of a closed loop: a connection sends its next request when the last one is\n"
    "answered. A slow seller gets fewer requests, and the buyers who would have come meanwhile are not\n"
    "counted (coordinated omission), so the tail of an open crowd is longer. A retried request counts from\n"
    "its first attempt to its answer. A request that was resolved only at the end counts, under all, until\n"
    "it was given up.\n"
    "\n"
    "Ctrl-C ends the load, then resolves, audits and reports; a second Ctrl-C ends the program.\n"
    "\n"
    "exit status: 0 clean, 1 a fault, 2 bad usage, 3 no verdict\n";

static bool is_token(const char *text) {
    size_t length = 0;
    while (text[length] > ' ' && text[length] <= '~')
        length++;
    return text[length] == '\0' && length >= 1 && length <= OPTIONS_TOKEN;
}

static bool read_ms(const struct flag *flag, const char *text, void *value) {
    bool good = flag_read_u64(flag, text, value);
    *(uint64_t *)value *= 1000000;
    return good;
}

/* At least `min` of its unit. */
static bool read_duration(const struct flag *flag, const char *text, void *value) {
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ms", 1000000}, {"s", 1000000000}, {"m", 60 * UINT64_C(1000000000)}};
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].unit) == 0) {
            uint64_t number = strtoull(text, NULL, 10);
            *(uint64_t *)value = number * units[i].ns;
            return digits > 0 && digits < 8 && (double)number >= flag->min;
        }
    }
    return false;
}

static bool read_item(const struct flag *flag, const char *text, void *value) {
    size_t length = strlen(text);
    return flag_read_text(flag, text, value) && length <= OPTIONS_ITEM &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static bool read_token(const struct flag *flag, const char *text, void *value) {
    return flag_read_text(flag, text, value) && is_token(text);
}

#define VALUE(member) offsetof(struct options, member)
#define DURATION      "a whole number with its unit: 500ms, 10s, 2m"
#define TOKEN         "1 to 512 visible ASCII characters"
static const struct flag flags[] = {
    {"--url", flag_read_texts, VALUE(urls), 0, 0, FLAG_TEXTS_MUST},
    {"--item", read_item, VALUE(item), 0, 0, "1 to 64 letters, digits, '.', '_' or '-'"},
    {"--items", flag_read_u32, VALUE(items), 1, 100000, NULL},
    {"--zipf", flag_read_decimal, VALUE(zipf), 0, 5, NULL},
    {"--basket-lines", flag_read_u32, VALUE(basket_lines), 1, OPTIONS_LINES, NULL},
    {"--purchases", flag_read_u32, VALUE(purchases), 0, 100, NULL},
    {"--transfers", flag_read_u32, VALUE(transfers), 0, 100, NULL},
    {"--users", flag_read_u32, VALUE(users), 1, 100000000, NULL},
    {"--quantity", flag_read_u32, VALUE(quantity), 1, 1000, NULL},
    {"--connections", flag_read_u32, VALUE(connections), 1, 60000, NULL},
    {"--requests", flag_read_u64, VALUE(requests), 1, 1000000000, NULL},
    {"--duration", read_duration, VALUE(duration_ns), 1, 0, DURATION},
    {"--retries", flag_read_switch, VALUE(retries), 0, 0, NULL},
    {"--duplicates", flag_read_u32, VALUE(duplicates), 0, 100, NULL},
    {"--token", read_token, VALUE(token), 0, 0, TOKEN},
    {"--seed", flag_read_u64, VALUE(seed), 0, 0x1p63 - 1024, "a number from 0 to 2^63 - 1024"},
    {"--timeout", read_ms, VALUE(timeout_ns), 1, 3600000, NULL},
    {"--settle", read_duration, VALUE(settle_ns), 1, 0, DURATION},
    {"--json", flag_read_text, VALUE(json), 0, 0, "the name of a file, or -"},
    {"--progress", flag_read_text, VALUE(progress), 0, 0, "the name of a file"},
};

/* Checks the rules that concern several flags, or the environment. */
static bool options_check(const struct options *o, char *error, size_t error_size) {
    bool long_item =
        o->item && o->items > 0 && snprintf(NULL, 0, "%s-%u", o->item, o->items - 1) > OPTIONS_ITEM;
    const struct {
        bool holds;
        const char *flag, *must;
    } rules[] = {
        {o->item, "--item", "given: the item to buy"},
        {!long_item, "--item", "shorter: with the numbers of --items its names exceed 64 characters"},
        {(o->requests != 0) != (o->duration_ns != 0), "one of --requests and --duration", "given"},
        {!o->token || is_token(o->token), "SECKILL_ADMIN_TOKEN", TOKEN},
        {o->items > 0 || o->zipf == 0, "--zipf", "given with --items: it weights the items"},
        {o->items > 0 || o->basket_lines == 0, "--basket-lines",
         "given with --items: the lines pick from them"},
        {o->basket_lines > 0 || o->purchases == 0, "--purchases",
         "given with --basket-lines: without it all requests are purchases"},
        {o->purchases + o->transfers <= 100, "--purchases", "no more, with --transfers, than 100 percent"},
        {o->items > 1 || o->transfers == 0, "--transfers",
         "given with --items 2 or more: from one item to another"},
        {o->token || o->transfers == 0, "--transfers",
         "given with --token, SECKILL_ADMIN_TOKEN or SECKILL_ADMIN_TOKEN_FILE: they need the admin token"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!rules[i].holds) {
            snprintf(error, error_size, "%s must be %s", rules[i].flag, rules[i].must);
            return false;
        }
    }
    return true;
}

/* Reads the token from the environment, or from the file that the environment names. False: `error` says what
 * is wrong; it does not tell what is in the file. */
static bool options_read_token(const char **token, char *error, size_t error_size) {
    static char read[OPTIONS_TOKEN + 2]; /* with a line end, and a NUL */
    const char *file = getenv("SECKILL_ADMIN_TOKEN_FILE");
    *token = getenv("SECKILL_ADMIN_TOKEN");
    if (file && *token) {
        snprintf(error, error_size, "SECKILL_ADMIN_TOKEN and SECKILL_ADMIN_TOKEN_FILE: unset one of them");
        return false;
    }
    if (*token && !**token)
        *token = NULL;
    if (!file)
        return true;
    FILE *stream = fopen(file, "re");
    size_t length = stream ? fread(read, 1, sizeof read - 1, stream) : 0;
    bool failed = !stream || ferror(stream);
    if (failed)
        snprintf(error, error_size, "SECKILL_ADMIN_TOKEN_FILE: cannot read %.100s: %s", file,
                 strerror(errno));
    if (stream)
        fclose(stream);
    if (failed)
        return false;
    if (length && read[length - 1] == '\n')
        length--;
    read[length] = '\0';
    *token = read;
    if (strlen(read) == length && is_token(read))
        return true;
    snprintf(error, error_size, "SECKILL_ADMIN_TOKEN_FILE: %.100s must have one line of " TOKEN, file);
    return false;
}

enum flags_status options_read(char *const *argv, uint64_t seed, struct options *options, char *error,
                               size_t error_size) {
    struct options read = {
        .users = 10000,
        .quantity = 1,
        .connections = 64,
        .seed = seed,
        .timeout_ns = UINT64_C(5000000000),
        .settle_ns = UINT64_C(30000000000),
    };
    char environment_error[256] = "";
    bool good = options_read_token(&read.token, environment_error, sizeof environment_error);
    enum flags_status status =
        flags_read(flags, sizeof flags / sizeof flags[0], argv, &read, error, error_size);
    if (status == FLAGS_RUN && !good) {
        snprintf(error, error_size, "%s", environment_error);
        return FLAGS_WRONG;
    }
    if (status == FLAGS_RUN && !options_check(&read, error, error_size))
        status = FLAGS_WRONG;
    if (read.urls.count == 0)
        read.urls.texts[read.urls.count++] = "http://127.0.0.1:8080";
    if (status == FLAGS_RUN)
        *options = read;
    return status;
}
