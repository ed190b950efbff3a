#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/options.h"

const char options_help[] =
    "seckill-load: buys from a flash sale as fast as it can, then says whether the sale was right.\n"
    "\n"
    "usage: seckill-load --item NAME (--requests N | --duration T) [option]...\n"
    "\n"
    "  --url URL          where the seller listens (http://127.0.0.1:8080); several: connections are spread\n"
    "                     over them, and a retry goes to the next one\n"
    "  --item NAME        what to buy; nobody else should buy, restock or transfer it meanwhile: what others "
    "do to\n"
    "                     it cannot be told from a fault\n"
    "  --items N          buy NAME-0 to NAME-(N-1) instead, up to 100000: each purchase one of them, by "
    "chance\n"
    "  --zipf S           of --items NAME-0 is in most demand: NAME-i by the weight 1/(i+1)^S, S from 0 to "
    "5\n"
    "                     (0, all alike)\n"
    "  --basket-lines K   baskets of K lines, 1 to 32, instead of purchases: each line of one of --items, "
    "and one\n"
    "                     item may be in it twice\n"
    "  --purchases P      percent of requests that are purchases all the same (0)\n"
    "  --transfers P      percent of requests that move units from one of --items to another instead (0); "
    "for the\n"
    "                     admin, so they need the token\n"
    "  --users N          buyers, who come round after round (10000)\n"
    "  --quantity Q       units of each purchase, line and transfer (1)\n"
    "  --connections C    kept-alive connections, each with one request under way (64)\n"
    "  --requests N       stop after so many requests\n"
    "  --duration T       stop after so long: 500ms, 10s, 2m\n"
    "  --retries          try an unknown or unsent request again with its key, up to 10 times, after 5 ms to "
    "1 s,\n"
    "                     and at the end; otherwise unknown ones are only settled at the end, and one that "
    "is not\n"
    "                     sent fails the run\n"
    "  --duplicates P     percent of requests that repeat an earlier key, half of them one just under way "
    "(0)\n"
    "  --token T          for the audit and transfers (SECKILL_ADMIN_TOKEN, which other users of this "
    "machine\n"
    "                     cannot read)\n"
    "  --seed S           of the choice of items, lines, transfers and duplicates, and the jitter of "
    "retries\n"
    "  --timeout MS       for one try (5000)\n"
    "  --settle T         at the end, how long to try to settle what is unknown, and to have the audit "
    "(30s);\n"
    "                     one that has begun is waited for, up to an hour\n"
    "  --json FILE        the results as one JSON object; with - they go to standard output, and the text "
    "to\n"
    "                     standard error. With baskets or transfers its members purchases, baskets and "
    "transfers\n"
    "                     have the attempts, accepted, rejected, unknown, rejections, latency_ms and\n"
    "                     accepted_latency_ms of each; those beside them are of all requests\n"
    "  --help, --version\n"
    "\n"
    "Every request has a line in memory (48 bytes): sent, answered, key, outcome. A time-out, a broken\n"
    "connection and a 5xx are unknown, never a failure: at the end each is settled by a retry with the same\n"
    "key. Then the receipts are compared with the audit and with every acknowledged order:\n"
    "  oversold    units beyond the stock\n"
    "  lost        orders acknowledged, but not in the books, or there as something else; and orders of a "
    "basket,\n"
    "              and transfers, that the answer itself tells otherwise than they were asked for\n"
    "  duplicated  answers to a repeated key that differ from the first, and orders beyond one a key, or one "
    "a line\n"
    "  phantom     orders in the books that no answer covers\n"
    "  undersold   units left, although buyers were told sold-out (not judged if units were returned)\n"
    "  torn        acknowledged baskets of which some lines are there and some are not, in the books or the "
    "answer\n"
    "  unbalanced  units that are not where the acknowledged transfers put them: gone, made, or at another "
    "item\n"
    "  unresolved  requests that stayed unknown\n"
    "With --items each item is judged by its own books, and what is wrong is added up.\n"
    "\n"
    "Undersold is the weakest of them. A basket that fails may have held units of its other items for a "
    "moment;\n"
    "others who were told sold-out then were told the truth of that moment, and nobody can see that from "
    "here. So\n"
    "units are not counted that those who were refused could have held at once, on all connections but one, "
    "nor\n"
    "those of baskets whose outcome was unknown at any time. With many connections and few units left that "
    "is\n"
    "all of them; with --connections 1 it is none. An item that a transfer may have moved units to is not "
    "judged.\n"
    "\n"
    "Latencies are those of a closed loop: a connection sends its next request when the last one is "
    "answered.\n"
    "A slow seller is therefore asked less often, and buyers who would have come meanwhile are not counted\n"
    "(coordinated omission): the tail of an open crowd is longer. A retried request counts from its first "
    "try\n"
    "to its answer; one that was settled only at the end counts, under all, up to when it was given up.\n"
    "\n"
    "Ctrl-C stops the load, settles, audits and reports; a second one ends at once.\n"
    "\n"
    "exit status: 0 clean, 1 a violated invariant, 2 bad usage, 3 could not tell\n";

enum flag {
    FLAG_URL = 256,
    FLAG_ITEM,
    FLAG_ITEMS,
    FLAG_ZIPF,
    FLAG_BASKET_LINES,
    FLAG_PURCHASES,
    FLAG_TRANSFERS,
    FLAG_USERS,
    FLAG_QUANTITY,
    FLAG_CONNECTIONS,
    FLAG_REQUESTS,
    FLAG_DURATION,
    FLAG_RETRIES,
    FLAG_DUPLICATES,
    FLAG_TOKEN,
    FLAG_SEED,
    FLAG_TIMEOUT,
    FLAG_SETTLE,
    FLAG_JSON,
    FLAG_HELP,
    FLAG_VERSION,
};

static const struct option flags[] = {
    {"url", required_argument, NULL, FLAG_URL},
    {"item", required_argument, NULL, FLAG_ITEM},
    {"items", required_argument, NULL, FLAG_ITEMS},
    {"zipf", required_argument, NULL, FLAG_ZIPF},
    {"basket-lines", required_argument, NULL, FLAG_BASKET_LINES},
    {"purchases", required_argument, NULL, FLAG_PURCHASES},
    {"transfers", required_argument, NULL, FLAG_TRANSFERS},
    {"users", required_argument, NULL, FLAG_USERS},
    {"quantity", required_argument, NULL, FLAG_QUANTITY},
    {"connections", required_argument, NULL, FLAG_CONNECTIONS},
    {"requests", required_argument, NULL, FLAG_REQUESTS},
    {"duration", required_argument, NULL, FLAG_DURATION},
    {"retries", no_argument, NULL, FLAG_RETRIES},
    {"duplicates", required_argument, NULL, FLAG_DUPLICATES},
    {"token", required_argument, NULL, FLAG_TOKEN},
    {"seed", required_argument, NULL, FLAG_SEED},
    {"timeout", required_argument, NULL, FLAG_TIMEOUT},
    {"settle", required_argument, NULL, FLAG_SETTLE},
    {"json", required_argument, NULL, FLAG_JSON},
    {"help", no_argument, NULL, FLAG_HELP},
    {"version", no_argument, NULL, FLAG_VERSION},
    {NULL, 0, NULL, 0},
};

struct parse {
    struct options *options;
    char *error;
    size_t error_size;
};

static bool wrong(const struct parse *parse, const char *flag, const char *must) {
    snprintf(parse->error, parse->error_size, "%s must be %s", flag, must);
    return false;
}

static bool read_number(const char *text, uint64_t min, uint64_t max, uint64_t *number) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < min || value > max) {
        return false;
    }
    *number = value;
    return true;
}

static bool number_32(const struct parse *parse, const char *flag, uint32_t min, uint32_t max,
                      unsigned *number) {
    char must[64];
    uint64_t value = 0;
    if (!read_number(optarg, min, max, &value)) {
        snprintf(must, sizeof must, "a number from %u to %u", min, max);
        return wrong(parse, flag, must);
    }
    *number = (unsigned)value;
    return true;
}

/* Digits with a point or none, as 1.2. */
static bool read_zipf(const char *text, double *exponent) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (text[0] == '\0' || strspn(text, "0123456789.") != strlen(text) || *end != '\0' || value > 5) {
        return false;
    }
    *exponent = value;
    return true;
}

static bool read_duration(const char *text, uint64_t *ns) {
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ms", 1000000}, {"s", 1000000000}, {"m", 60 * UINT64_C(1000000000)}};
    char digits[8] = "";
    size_t length = strspn(text, "0123456789");
    uint64_t number = 0;
    if (length >= sizeof digits) {
        return false;
    }
    memcpy(digits, text, length);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + length, units[i].unit) == 0 && read_number(digits, 1, 9999999, &number)) {
            *ns = number * units[i].ns;
            return true;
        }
    }
    return false;
}

static bool is_name(const char *text) {
    size_t length = strlen(text);
    return length >= 1 && length <= OPTIONS_ITEM &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static bool is_token(const char *text) {
    size_t length = 0;
    for (; text[length] != '\0'; length++) {
        if (text[length] <= ' ' || text[length] > '~') {
            return false;
        }
    }
    return length >= 1 && length <= 512;
}

static bool add_url(const struct parse *parse) {
    struct options *o = parse->options;
    if (o->url_count == OPTIONS_URLS) {
        return wrong(parse, "--url", "given at most 16 times");
    }
    o->urls[o->url_count++] = optarg;
    return true;
}

static const char must_duration[] = "a whole number with its unit: 500ms, 10s, 2m";

static bool read_flag(const struct parse *parse, int flag) {
    struct options *o = parse->options;
    uint64_t number = 0;
    switch (flag) {
    case FLAG_URL: return add_url(parse);
    case FLAG_ITEM:
        o->item = optarg;
        return is_name(optarg) || wrong(parse, "--item", "1 to 64 letters, digits, '.', '_' or '-'");
    case FLAG_ITEMS: return number_32(parse, "--items", 1, 100000, &o->items);
    case FLAG_ZIPF: return read_zipf(optarg, &o->zipf) || wrong(parse, "--zipf", "a number from 0 to 5");
    case FLAG_BASKET_LINES: return number_32(parse, "--basket-lines", 1, OPTIONS_LINES, &o->basket_lines);
    case FLAG_PURCHASES: return number_32(parse, "--purchases", 0, 100, &o->purchases);
    case FLAG_TRANSFERS: return number_32(parse, "--transfers", 0, 100, &o->transfers);
    case FLAG_USERS: return number_32(parse, "--users", 1, 100000000, &o->users);
    case FLAG_QUANTITY: return number_32(parse, "--quantity", 1, 1000, &o->quantity);
    case FLAG_CONNECTIONS: return number_32(parse, "--connections", 1, 60000, &o->connections);
    case FLAG_REQUESTS:
        return read_number(optarg, 1, 1000000000, &o->requests) ||
               wrong(parse, "--requests", "a number from 1 to 1000000000");
    case FLAG_DURATION:
        return read_duration(optarg, &o->duration_ns) || wrong(parse, "--duration", must_duration);
    case FLAG_RETRIES: o->retries = true; return true;
    case FLAG_DUPLICATES: return number_32(parse, "--duplicates", 0, 100, &o->duplicates);
    case FLAG_TOKEN:
        o->token = optarg;
        return is_token(optarg) || wrong(parse, "--token", "1 to 512 visible ASCII characters");
    case FLAG_SEED:
        return read_number(optarg, 0, INT64_MAX, &o->seed) ||
               wrong(parse, "--seed", "a number of up to 63 bits");
    case FLAG_TIMEOUT:
        if (!read_number(optarg, 1, 3600000, &number)) {
            return wrong(parse, "--timeout", "milliseconds from 1 to 3600000");
        }
        o->timeout_ns = number * 1000000;
        return true;
    case FLAG_SETTLE: return read_duration(optarg, &o->settle_ns) || wrong(parse, "--settle", must_duration);
    case FLAG_JSON:
        o->json = optarg;
        return optarg[0] != '\0' || wrong(parse, "--json", "the name of a file, or -");
    default: return false;
    }
}

/* What is drawn from several items needs them. */
static bool complete_demand(const struct parse *parse) {
    const struct options *o = parse->options;
    if (o->items == 0 && o->zipf > 0) {
        return wrong(parse, "--zipf", "given with --items: it says how the items are drawn");
    }
    if (o->items == 0 && o->basket_lines > 0) {
        return wrong(parse, "--basket-lines", "given with --items: the lines are drawn from them");
    }
    if (o->basket_lines == 0 && o->purchases > 0) {
        return wrong(parse, "--purchases", "given with --basket-lines: without it all are purchases");
    }
    if (o->purchases + o->transfers > 100) {
        return wrong(parse, "--purchases", "no more, with --transfers, than 100 percent");
    }
    if (o->items < 2 && o->transfers > 0) {
        return wrong(parse, "--transfers", "given with --items 2 or more: from one item to another");
    }
    if (o->token == NULL && o->transfers > 0) {
        return wrong(parse, "--transfers", "given with --token or SECKILL_ADMIN_TOKEN: only the admin may");
    }
    return true;
}

static bool complete(const struct parse *parse) {
    struct options *o = parse->options;
    if (o->item == NULL) {
        return wrong(parse, "--item", "given: which item is to be bought?");
    }
    if (o->items > 0 && snprintf(NULL, 0, "%s-%u", o->item, o->items - 1) > OPTIONS_ITEM) {
        return wrong(parse, "--item", "shorter: its names with the numbers of --items exceed 64 characters");
    }
    if ((o->requests != 0) == (o->duration_ns != 0)) {
        return wrong(parse, "one of --requests and --duration", "given");
    }
    if (o->token != NULL && !is_token(o->token)) {
        return wrong(parse, "SECKILL_ADMIN_TOKEN", "1 to 512 visible ASCII characters");
    }
    if (!complete_demand(parse)) {
        return false;
    }
    if (o->url_count == 0) {
        o->urls[o->url_count++] = "http://127.0.0.1:8080";
    }
    return true;
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
    struct parse parse = {.options = &parsed, .error = error, .error_size = error_size};
    int flag = 0;
    if (parsed.token != NULL && parsed.token[0] == '\0') {
        parsed.token = NULL;
    }
    opterr = 0;
    optind = 0;
    while ((flag = getopt_long(argc, argv, "+:", flags, NULL)) != -1) {
        if (flag == FLAG_HELP || flag == FLAG_VERSION) {
            return flag == FLAG_HELP ? OPTIONS_HELP : OPTIONS_SHOW_VERSION;
        }
        if (flag == ':' || flag == '?') {
            snprintf(error, error_size,
                     flag == ':' ? "%s needs a value" : "%s is no option, or not with a value",
                     argv[optind - 1]);
            return OPTIONS_WRONG;
        }
        if (!read_flag(&parse, flag)) {
            return OPTIONS_WRONG;
        }
    }
    if (optind < argc) {
        snprintf(error, error_size, "'%s' is no option", argv[optind]);
        return OPTIONS_WRONG;
    }
    if (!complete(&parse)) {
        return OPTIONS_WRONG;
    }
    *options = parsed;
    return OPTIONS_RUN;
}
