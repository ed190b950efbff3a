#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/options.h"

const char options_help[] =
    "seckill-load: buys in a flash sale as fast as it can, then judges whether the sale was right.\n"
    "\n"
    "usage: seckill-load --item NAME (--requests N | --duration T) [option]...\n"
    "\n"
    "  --url URL          address of the seller (http://127.0.0.1:8080). Repeat it for several sellers: the\n"
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
    "                     safer: other users of this machine cannot read it\n"
    "  --seed S           seed of all random choices: items, lines, transfers, duplicates, backoff\n"
    "  --timeout MS       limit of one attempt (5000)\n"
    "  --settle T         at the end: limit for resolving unknown requests, and for starting the audits\n"
    "                     (30s). An audit that has started may take an hour\n"
    "  --json FILE        write the results as one JSON object; -: to standard output, and the text to\n"
    "                     standard error. With baskets or transfers, the members purchases, baskets and\n"
    "                     transfers have the attempts, accepted, rejected, unknown, rejections, latency_ms\n"
    "                     and accepted_latency_ms of each kind; the top level counts all requests\n"
    "  --help, --version\n"
    "\n"
    "The request log has one line for each request, 48 bytes in memory: sent, answered, key, outcome. A\n"
    "time-out, a broken connection and a 5xx are unknown, never a failure: at the end each is resolved by a\n"
    "retry with the same key. Then the log is compared with the audit, and with every acknowledged order:\n"
    "  oversold    units sold beyond the stock\n"
    "  lost        acknowledged orders that are missing or different in the books; orders of baskets, and\n"
    "              transfers, whose answer differs from the request\n"
    "  duplicated  answers to a repeated key that differ from the first; more than one order for a key, or\n"
    "              for a line of a basket\n"
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

static bool is_number(const char *text, uint64_t min, uint64_t max, uint64_t *number) {
    char *end = NULL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return isdigit((unsigned char)text[0]) && *end == '\0' && errno == 0 && *number >= min && *number <= max;
}

static bool is_token(const char *text) {
    size_t length = 0;
    while (text[length] > ' ' && text[length] <= '~')
        length++;
    return text[length] == '\0' && length >= 1 && length <= 512;
}

/* ---- flags: a table, and a function for each type ---- */

struct flag {
    const char *name; /* with -- */
    /* False: the text is wrong. */
    bool (*read)(const struct flag *flag, const char *text, void *value);
    size_t offset; /* of the value in struct options */
    uint64_t min, max;
    const char *must; /* what the text must be; NULL: a number from min to max */
};

static bool read_64(const struct flag *flag, const char *text, void *value) {
    return is_number(text, flag->min, flag->max, value);
}

static bool read_32(const struct flag *flag, const char *text, void *value) {
    uint64_t number = 0;
    bool good = read_64(flag, text, &number);
    *(uint32_t *)value = (uint32_t)number;
    return good;
}

static bool read_ms(const struct flag *flag, const char *text, void *value) {
    bool good = read_64(flag, text, value);
    *(uint64_t *)value *= 1000000;
    return good;
}

static bool read_duration(const struct flag *flag, const char *text, void *value) {
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ms", 1000000}, {"s", 1000000000}, {"m", 60 * UINT64_C(1000000000)}};
    char digits[8] = "";
    size_t length = strspn(text, "0123456789");
    uint64_t number = 0;
    (void)flag;
    if (length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + length, units[i].unit) == 0) {
            bool good = is_number(digits, 1, 9999999, &number);
            *(uint64_t *)value = number * units[i].ns;
            return good;
        }
    }
    return false;
}

static bool read_url(const struct flag *flag, const char *text, void *value) {
    struct options *o = value;
    (void)flag;
    if (o->url_count == OPTIONS_URLS)
        return false;
    o->urls[o->url_count++] = text;
    return true;
}

static bool read_item(const struct flag *flag, const char *text, void *value) {
    size_t length = strlen(text);
    (void)flag;
    *(const char **)value = text;
    return length >= 1 && length <= OPTIONS_ITEM &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

/* Only digits and a point: strtod() takes more. */
static bool read_zipf(const struct flag *flag, const char *text, void *value) {
    char *end = NULL;
    double exponent = strtod(text, &end);
    (void)flag;
    *(double *)value = exponent;
    return text[0] != '\0' && strspn(text, "0123456789.") == strlen(text) && *end == '\0' && exponent <= 5;
}

static bool read_retries(const struct flag *flag, const char *text, void *value) {
    (void)flag;
    (void)text;
    *(bool *)value = true;
    return true;
}

static bool read_token(const struct flag *flag, const char *text, void *value) {
    (void)flag;
    *(const char **)value = text;
    return is_token(text);
}

static bool read_file(const struct flag *flag, const char *text, void *value) {
    (void)flag;
    *(const char **)value = text;
    return text[0] != '\0';
}

#define VALUE(member) offsetof(struct options, member)
#define DURATION      "a whole number with its unit: 500ms, 10s, 2m"
#define TOKEN         "1 to 512 visible ASCII characters"
static const struct flag flags[] = {
    {"--url", read_url, 0, 0, 0, "given at most 16 times"},
    {"--item", read_item, VALUE(item), 0, 0, "1 to 64 letters, digits, '.', '_' or '-'"},
    {"--items", read_32, VALUE(items), 1, 100000, NULL},
    {"--zipf", read_zipf, VALUE(zipf), 0, 0, "a number from 0 to 5"},
    {"--basket-lines", read_32, VALUE(basket_lines), 1, OPTIONS_LINES, NULL},
    {"--purchases", read_32, VALUE(purchases), 0, 100, NULL},
    {"--transfers", read_32, VALUE(transfers), 0, 100, NULL},
    {"--users", read_32, VALUE(users), 1, 100000000, NULL},
    {"--quantity", read_32, VALUE(quantity), 1, 1000, NULL},
    {"--connections", read_32, VALUE(connections), 1, 60000, NULL},
    {"--requests", read_64, VALUE(requests), 1, 1000000000, NULL},
    {"--duration", read_duration, VALUE(duration_ns), 0, 0, DURATION},
    {"--retries", read_retries, VALUE(retries), 0, 0, NULL},
    {"--duplicates", read_32, VALUE(duplicates), 0, 100, NULL},
    {"--token", read_token, VALUE(token), 0, 0, TOKEN},
    {"--seed", read_64, VALUE(seed), 0, INT64_MAX, NULL},
    {"--timeout", read_ms, VALUE(timeout_ns), 1, 3600000, NULL},
    {"--settle", read_duration, VALUE(settle_ns), 0, 0, DURATION},
    {"--json", read_file, VALUE(json), 0, 0, "the name of a file, or -"},
};
enum {
    FLAGS = sizeof flags / sizeof flags[0],
    FLAG_FIRST = 256,
    FLAG_HELP = FLAG_FIRST + FLAGS,
    FLAG_VERSION
};

/* What depends on several flags. */
static bool check(const struct options *o, char *error, size_t error_size) {
    bool long_item =
        o->item && o->items > 0 && snprintf(NULL, 0, "%s-%u", o->item, o->items - 1) > OPTIONS_ITEM;
    const struct {
        bool holds;
        const char *flag, *must;
    } rules[] = {
        {o->item != NULL, "--item", "given: the item to buy"},
        {!long_item, "--item", "shorter: with the numbers of --items its names exceed 64 characters"},
        {(o->requests != 0) != (o->duration_ns != 0), "one of --requests and --duration", "given"},
        {o->token == NULL || is_token(o->token), "SECKILL_ADMIN_TOKEN", TOKEN},
        {o->items > 0 || o->zipf == 0, "--zipf", "given with --items: it weights the items"},
        {o->items > 0 || o->basket_lines == 0, "--basket-lines",
         "given with --items: the lines pick from them"},
        {o->basket_lines > 0 || o->purchases == 0, "--purchases",
         "given with --basket-lines: without it all requests are purchases"},
        {o->purchases + o->transfers <= 100, "--purchases", "no more, with --transfers, than 100 percent"},
        {o->items > 1 || o->transfers == 0, "--transfers",
         "given with --items 2 or more: from one item to another"},
        {o->token != NULL || o->transfers == 0, "--transfers",
         "given with --token or SECKILL_ADMIN_TOKEN: they need the admin token"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!rules[i].holds) {
            snprintf(error, error_size, "%s must be %s", rules[i].flag, rules[i].must);
            return false;
        }
    }
    return true;
}

static bool read_flag(const struct flag *flag, struct options *options, char *error, size_t error_size) {
    if (flag->read(flag, optarg, (char *)options + flag->offset))
        return true;
    if (flag->must != NULL)
        snprintf(error, error_size, "%s must be %s", flag->name, flag->must);
    else
        snprintf(error, error_size, "%s must be a number from %" PRIu64 " to %" PRIu64, flag->name, flag->min,
                 flag->max);
    return false;
}

enum options_status options_parse(int argc, char **argv, uint64_t seed, struct options *options, char *error,
                                  size_t error_size) {
    struct options parsed = {
        .users = 10000,
        .quantity = 1,
        .connections = 64,
        .seed = seed,
        .timeout_ns = UINT64_C(5000000000),
        .settle_ns = UINT64_C(30000000000),
        .token = getenv("SECKILL_ADMIN_TOKEN"),
    };
    int flag = 0;
    if (parsed.token != NULL && parsed.token[0] == '\0')
        parsed.token = NULL;
    struct option longs[FLAGS + 3] = {{"help", no_argument, NULL, FLAG_HELP},
                                      {"version", no_argument, NULL, FLAG_VERSION}};
    for (int i = 0; i < FLAGS; i++) {
        int argument = flags[i].read == read_retries ? no_argument : required_argument;
        longs[i + 2] = (struct option){flags[i].name + strlen("--"), argument, NULL, FLAG_FIRST + i};
    }
    opterr = 0;
    optind = 0;
    while ((flag = getopt_long(argc, argv, "+:", longs, NULL)) != -1) {
        if (flag == FLAG_HELP || flag == FLAG_VERSION)
            return flag == FLAG_HELP ? OPTIONS_HELP : OPTIONS_SHOW_VERSION;
        if (flag == ':' || flag == '?') {
            snprintf(error, error_size,
                     flag == ':' ? "%s needs a value" : "%s is no option, or not with a value",
                     argv[optind - 1]);
            return OPTIONS_WRONG;
        }
        if (!read_flag(&flags[flag - FLAG_FIRST], &parsed, error, error_size))
            return OPTIONS_WRONG;
    }
    if (optind < argc) {
        snprintf(error, error_size, "'%s' is no option", argv[optind]);
        return OPTIONS_WRONG;
    }
    if (!check(&parsed, error, error_size))
        return OPTIONS_WRONG;
    if (parsed.url_count == 0)
        parsed.urls[parsed.url_count++] = "http://127.0.0.1:8080";
    *options = parsed;
    return OPTIONS_RUN;
}
