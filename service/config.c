/* The settings: their table, and where each value comes from. */
#include "service/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/redis/url.h"
#include "base/version.h"
#include "service/log.h"

enum { NAME_SIZE = 64 };

/* Behind the name of a variable: it names a file that has the value. */
#define FILE_END "_FILE"

enum kind {
    TEXT,
    SECRET /* a text that may have a secret */,
    NUMBER,
    SWITCH /* as a flag it stands alone, unless it has an argument */
};

/* One entry for each setting. Its flag, its variable in the environment (SECKILL_ and the flag in capitals)
 * and its name in the file all follow from `name`. */
static const struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *initial; /* the default, as text */
    long low, high;
    const char *argument, *help;
} settings[] = {
    {"listen", TEXT, offsetof(struct config, listen), "127.0.0.1:8080", 0, 0, "HOST:PORT",
     "serve HTTP at this address"},
    {"operator-listen", TEXT, offsetof(struct config, operator_listen), "", 0, 0, "HOST:PORT",
     "serve everything at this address, too, and at --listen only what buyers call; all else is 404 there"},
    {"redis", SECRET, offsetof(struct config, redis), "redis://127.0.0.1:6379", 0, 0, "URL",
     "the store: redis://[[user]:password@]host[:port][/db], unix://[:password@]/path, "
     "redis-sentinel://[[user]:password@]host[:port],…/MASTER or "
     "redis-cluster://[[user]:password@]host[:port],…"},
    {"replicas", NUMBER, offsetof(struct config, replicas), "0", 0, 16, "N",
     "answer once N replicas of the store have the order; with fewer replicas nothing is sold"},
    {"lock", SECRET, offsetof(struct config, lock), "local:", 0, 0, "URL",
     "the lock of baskets, transfers and strategy locked: local:, etcd://HOST:PORT,…, zookeeper://…, "
     "redis://…, redis-sentinel://…, redis-cluster://…, redlock://…"},
    {"lock-ttl", NUMBER, offsetof(struct config, lock_ttl_ms), "10000", 100, 600000, "MS",
     "the time to live of a lock, and how long callers wait for it at most"},
    {"fencing", SWITCH, offsetof(struct config, fencing), "on", 0, 0, "on|off",
     "refuse the write of a lock's holder once a newer holder has reached the item; off needs --teaching"},
    {"strategy", TEXT, offsetof(struct config, strategy_name), "batch", 0, 0, "NAME",
     "how items are sold that name no strategy: batch, lua, decr, optimistic; naive and locked need "
     "--teaching"},
    {"basket", TEXT, offsetof(struct config, basket_name), "locked", 0, 0, "HOW",
     "how baskets are made: locked, in steps under the lock; script, by one script, if one Redis has all "
     "items; "
     "naive needs --teaching"},
    {"work-delay", NUMBER, offsetof(struct config, work_delay_ms), "0", 0, 60000, "MS",
     "pause between read and write of strategies naive and locked and of naive baskets; needs --teaching"},
    {"teaching", SWITCH, offsetof(struct config, teaching), "off", 0, 0, NULL,
     "allow the unsafe settings that need it: for lessons, never for a sale"},
    {"events", SWITCH, offsetof(struct config, events), "off", 0, 0, "on|off",
     "write each change of an order, and each restock, to the item's event stream; this costs memory and "
     "speed"},
    {"workers", NUMBER, offsetof(struct config, workers), "0", 0, 256, "N",
     "number of worker threads, each with an event loop; 0: one for each core"},
    {"store-timeout", NUMBER, offsetof(struct config, store_timeout_ms), "2000", 10, 60000, "MS",
     "give up a store call as unknown if it has no reply for so long"},
    {"connections", NUMBER, offsetof(struct config, connections_max), "16384", 1, 1000000, "N",
     "number of clients that may be connected at once at --listen; more wait to be accepted"},
    {"drain", NUMBER, offsetof(struct config, drain_ms), "10000", 0, 600000, "MS",
     "at SIGTERM, give requests in flight so long to end"},
    {"admin-token", SECRET, offsetof(struct config, admin_token), "", 0, 0, "TOKEN",
     "the token that may make all calls; without it one is made up and kept in a file that the log names "
     "(prefer the environment, since ps shows flags)"},
    {"tokens", TEXT, offsetof(struct config, tokens), "", 0, 0, "FILE",
     "more tokens, each of a role: lines NAME shop|ops|read SHA256 [NOT-AFTER]; mode 0600, read again when "
     "it changes"},
    {"buyer-keys", TEXT, offsetof(struct config, buyer_keys), "", 0, 0, "FILE",
     "buyers need a ticket, a JSON Web Token, by one of these keys: lines KID HS256 SECRET or KID "
     "ES256|RS256 FILE.pem; mode 0600, read again when it changes; without it, callers without credentials "
     "are the shop"},
    {"log", TEXT, offsetof(struct config, log), "text", 0, 0, "text|json",
     "lines of text, or of JSON objects; with json each call of operators and the shop has a line, too"},
};
_Static_assert(sizeof settings / sizeof *settings == CONFIG_SETTINGS, "each setting has an origin");

/* Writes why the settings are wrong, and returns false. */
__attribute__((format(printf, 3, 4))) static bool config_complain(char *error, size_t size,
                                                                  const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error, size, format, list);
    va_end(list);
    return false;
}

static void config_environment_name(const struct setting *setting, char out[NAME_SIZE]) {
    int length = snprintf(out, NAME_SIZE, "SECKILL_%s", setting->name);
    for (int i = 8; i < length; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static void config_print_help(FILE *out) {
    fprintf(out, "usage: seckilld [--FLAG VALUE] ...\n\n"
                 "Sells items over HTTP, exactly as many as there are, from a stock kept in Redis.\n\n");
    for (const struct setting *s = settings; s < settings + CONFIG_SETTINGS; s++) {
        char flag[64];
        snprintf(flag, sizeof flag, "--%s %s", s->name, s->argument ? s->argument : "");
        fprintf(out, "  %-30s %s", flag, s->help);
        fprintf(out, *s->initial ? " [%s]\n" : "\n", s->initial);
    }
    fprintf(out, "  %-30s %s\n  %-30s %s\n  %-30s %s\n\n", "--config FILE",
            "lines of NAME = VALUE, named as the flags; # begins a comment", "--version", "print the version",
            "--help", "print this");
    fprintf(
        out,
        "Each flag can also be set by the environment: SECKILL_LISTEN for --listen, SECKILL_LOCK_TTL for "
        "--lock-ttl,\n"
        "SECKILL_CONFIG for --config. Flags win over the environment, and that over the file. Instead of\n"
        "SECKILL_ADMIN_TOKEN, SECKILL_REDIS and SECKILL_LOCK, the same with _FILE names a file with the "
        "value.\n\n"
        "  seckilld --redis redis://127.0.0.1:6379          # sell from there, on http://127.0.0.1:8080\n"
        "  curl http://127.0.0.1:8080/openapi.json          # every call and answer\n"
        "  curl http://127.0.0.1:8080/readyz                # is the store there, and how durable is it?\n\n"
        "SIGTERM, SIGINT and SIGHUP drain: no new connections, what is in flight ends. Exit status: 0 after\n"
        "a clean shutdown, 1 on a failure at start, 2 on bad usage.\n");
}

static const struct setting *setting_find(const char *name, size_t length) {
    for (const struct setting *s = settings; s < settings + CONFIG_SETTINGS; s++) {
        if (strlen(s->name) == length && memcmp(s->name, name, length) == 0)
            return s;
    }
    return NULL;
}

const char *config_origin(const struct config *config, const char *name) {
    return config->origins[setting_find(name, strlen(name)) - settings];
}

/* Whether at most so many letters must be added, removed, changed, or swapped with their neighbour to turn
 * `typed` into `name`. */
static bool spelling_is_near(const char *typed, const char *name, int changes) {
    while (*typed && *typed == *name)
        typed++, name++;
    if (!*typed && !*name)
        return true;
    return changes > 0 && ((*typed && spelling_is_near(typed + 1, name, changes - 1)) ||
                           (*name && spelling_is_near(typed, name + 1, changes - 1)) ||
                           (*typed && *name && spelling_is_near(typed + 1, name + 1, changes - 1)) ||
                           (*typed && *name && typed[0] == name[1] && typed[1] == name[0] &&
                            spelling_is_near(typed + 2, name + 2, changes - 1)));
}

/* Returns the setting that a misspelt `name`, written as a flag, may mean: the nearest one, with less than
 * half of its letters changed; NULL: none is that similar. */
static const struct setting *setting_nearest(const char *name) {
    for (int changes = 0; changes < 3; changes++)
        for (const struct setting *s = settings; s < settings + CONFIG_SETTINGS; s++)
            if ((size_t)changes * 2 < strlen(s->name) && spelling_is_near(name, s->name, changes))
                return s;
    return NULL;
}

/* Place and name together say where the value comes from, e.g. "--" and "listen", or "seckilld.conf:3: " and
 * "listen". */
static bool setting_set(struct config *config, const struct setting *s, const char *value, const char *place,
                        const char *name, char *error, size_t size) {
    char *at = (char *)config + s->offset, *end, *where = config->origins[s - settings];
    snprintf(where, CONFIG_ORIGIN_SIZE, "%s%s", place, name);
    if (s->kind == TEXT || s->kind == SECRET) {
        if (strlen(value) >= CONFIG_TEXT)
            return config_complain(error, size, "%s: longer than %d characters", where, CONFIG_TEXT - 1);
        memcpy(at, value, strlen(value) + 1);
        return true;
    }
    if (s->kind == SWITCH) {
        static const char *const words[] = {"off", "on", "0", "1", "false", "true"};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strcmp(value, words[i]) == 0) {
                *(bool *)at = i % 2;
                return true;
            }
        return config_complain(error, size, "%s: \"%s\" is neither on nor off", where, value);
    }
    errno = 0;
    long number = strtol(value, &end, 10);
    if (errno || end == value || *end || number < s->low || number > s->high)
        return config_complain(error, size, "%s: \"%s\" is not a whole number from %ld to %ld", where, value,
                               s->low, s->high);
    *(int *)(void *)at = (int)number;
    return true;
}

static bool config_set_defaults(struct config *config, char *error, size_t size) {
    for (const struct setting *s = settings; s < settings + CONFIG_SETTINGS; s++)
        if (!setting_set(config, s, s->initial, "--", s->name, error, size))
            return false;
    return true;
}

/* Reads a value from the file that `variable` names: one line, whose end may be there or not. The error must
 * not tell what is in the file. */
static bool secret_read(const char *variable, const char *path, char value[CONFIG_TEXT + 2], char *error,
                        size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = -1;
    while (fd >= 0 && length < CONFIG_TEXT + 1 &&
           (got = read(fd, value + length, CONFIG_TEXT + 1 - length)) > 0)
        length += (size_t)got;
    int failed = got < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (failed)
        return config_complain(error, size,
                               "%s: cannot read %.250s: %s; let it name a file that this user may read",
                               variable, path, strerror(failed));
    if (length && value[length - 1] == '\n')
        length--;
    value[length] = '\0';
    if (length == 0)
        return config_complain(error, size, "%s: %.250s is empty; write the value into it, as one line",
                               variable, path);
    if (length >= CONFIG_TEXT)
        return config_complain(error, size, "%s: %.250s is longer than %d characters; is it the right file?",
                               variable, path, CONFIG_TEXT - 1);
    if (strcspn(value, "\r\n") < length)
        return config_complain(error, size, "%s: %.250s is not one line of text; is it the right file?",
                               variable, path);
    return true;
}

/* Sets it to its variable in the environment, or to what is in the file that its other variable names. */
static bool config_read_variable(struct config *config, const struct setting *s, char *error, size_t size) {
    char name[NAME_SIZE], file_name[NAME_SIZE + 8], secret[CONFIG_TEXT + 2];
    config_environment_name(s, name);
    snprintf(file_name, sizeof file_name, "%s%s", name, FILE_END);
    const char *value = getenv(name), *path = s->kind == SECRET ? getenv(file_name) : NULL;
    if (!path)
        return !value || setting_set(config, s, value, "", name, error, size);
    if (value)
        return config_complain(error, size, "%s and %s: both are set; unset one of them", name, file_name);
    bool good = secret_read(file_name, path, secret, error, size) &&
                setting_set(config, s, secret, "", file_name, error, size);
    explicit_bzero(secret, sizeof secret);
    return good;
}

static bool config_read_environment(struct config *config, char *error, size_t size) {
    for (const struct setting *s = settings; s < settings + CONFIG_SETTINGS; s++)
        if (!config_read_variable(config, s, error, size))
            return false;
    return true;
}

static char *config_trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static bool config_read_line(struct config *config, char *line, const char *where, char *error, size_t size) {
    char *text = config_trim(line);
    if (*text == '\0' || *text == '#')
        return true;
    char *equals = strchr(text, '=');
    if (!equals)
        return config_complain(error, size, "%snot of the form NAME = VALUE", where);
    *equals = '\0';
    char *name = config_trim(text);
    const struct setting *s = setting_find(name, strlen(name));
    const struct setting *meant = s ? NULL : setting_nearest(name);
    if (!s)
        return config_complain(
            error, size, "%sthere is no setting \"%.60s\"%s%s (the names are those of the flags, see --help)",
            where, name, meant ? ", perhaps " : "", meant ? meant->name : "");
    return setting_set(config, s, config_trim(equals + 1), where, s->name, error, size);
}

static bool config_read_file(struct config *config, const char *path, char *error, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file)
        return config_complain(error, size, "--config: cannot read %s: %s", path, strerror(errno));
    char line[1024], where[300];
    bool good = true;
    for (int number = 1; good && fgets(line, sizeof line, file); number++) {
        snprintf(where, sizeof where, "%.250s:%d: ", path, number);
        if (!strchr(line, '\n') && !feof(file))
            good = config_complain(error, size, "%sthe line is too long", where);
        else
            good = config_read_line(config, line, where, error, size);
    }
    if (good && ferror(file))
        good = config_complain(error, size, "--config: cannot read %s: %s", path, strerror(errno));
    fclose(file);
    return good;
}

/* The error leaves out the value, which may be a URL with a password. */
static bool config_complain_of_flag(const char *flag, char *error, size_t size) {
    int length = (int)strcspn(flag, "=:");
    char name[64];
    snprintf(name, sizeof name, "%.*s", length > 2 ? length - 2 : 0, flag + (length > 2 ? 2 : 0));
    const struct setting *meant = strncmp(flag, "--", 2) == 0 ? setting_nearest(name) : NULL;
    return config_complain(error, size, "%.*s: no such flag%s%s; see --help", length, flag,
                           meant ? ", perhaps --" : "", meant ? meant->name : "");
}

/* Reads one flag at argv[*i], "--name value" or "--name=value". `config` NULL: only skips it. */
static bool config_read_flag(struct config *config, char **argv, int *i, const char **file, char *error,
                             size_t size) {
    const char *flag = argv[*i];
    bool dashes = strncmp(flag, "--", 2) == 0;
    const char *name = dashes ? flag + 2 : "", *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    bool is_file = length == 6 && memcmp(name, "config", 6) == 0;
    const struct setting *s = setting_find(name, length);
    if (!s && !is_file)
        return config_complain_of_flag(flag, error, size);
    const char *value = equals ? equals + 1 : NULL;
    if (!value && s && s->kind == SWITCH && !s->argument)
        value = "on";
    if (!value && !(value = argv[++*i]))
        return config_complain(error, size, "%s: a value must follow", flag);
    if (is_file) {
        *file = value;
        return true;
    }
    return !config || setting_set(config, s, value, "--", s->name, error, size);
}

/* Checks only the form; whether the host exists shows when the socket is opened. */
static bool config_check_listen(const struct config *config, const char *name, const char *listen,
                                char *error, size_t size) {
    const char *colon = strrchr(listen, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    long port = digits >= 1 && digits <= 5 && !colon[1 + digits] ? strtol(colon + 1, NULL, 10) : 0;
    if (port >= 1 && port <= 65535)
        return true;
    return config_complain(error, size, "%s: \"%s\" is not HOST:PORT, with a port from 1 to 65535",
                           config_origin(config, name), listen);
}

/* Returns a setting that needs --teaching, and why; NULL: none does. */
static const char *config_find_unsafe(const struct config *config, const char **why) {
    const struct {
        bool unsafe;
        const char *name, *why;
    } risks[] = {
        {inventory_strategy_teaches(config->strategy), "strategy", "naive and locked oversell"},
        {config->basket == CONFIG_BASKET_NAIVE, "basket", "naive is as good as its lock"},
        {config->work_delay_ms, "work-delay", "it is for lessons"},
        {!config->fencing, "fencing", "off lets a holder write after its lock was lost"},
    };
    for (size_t i = 0; i < sizeof risks / sizeof *risks; i++)
        if (risks[i].unsafe) {
            *why = risks[i].why;
            return risks[i].name;
        }
    return NULL;
}

static bool config_check(struct config *config, char *error, size_t size) {
    struct redis_url url;
    char why[256];
    const char *risk;
    if (!config_check_listen(config, "listen", config->listen, error, size) ||
        (*config->operator_listen &&
         !config_check_listen(config, "operator-listen", config->operator_listen, error, size)))
        return false;
    if (!redis_url_parse(&url, config->redis, why, sizeof why))
        return config_complain(error, size, "%s: %s", config_origin(config, "redis"), why);
    redis_url_print(&url, config->store, sizeof config->store);
    if (!inventory_strategy_find(config->strategy_name, &config->strategy))
        return config_complain(error, size,
                               "%s: \"%s\" is none of batch, lua, decr, optimistic, naive, locked",
                               config_origin(config, "strategy"), config->strategy_name);
    static const char *const baskets[] = {"locked", "script", "naive"};
    int basket = 0;
    while (basket < 3 && strcmp(baskets[basket], config->basket_name) != 0)
        basket++;
    if (basket == 3)
        return config_complain(error, size, "%s: \"%s\" is none of locked, script, naive",
                               config_origin(config, "basket"), config->basket_name);
    config->basket = (enum config_basket)basket;
    config->log_json = strcmp(config->log, "json") == 0;
    if (!config->log_json && strcmp(config->log, "text") != 0)
        return config_complain(error, size, "%s: \"%s\" is neither text nor json",
                               config_origin(config, "log"), config->log);
    const char *unsafe = config->teaching ? NULL : config_find_unsafe(config, &risk);
    if (unsafe)
        return config_complain(error, size, "%s: %s: it needs --teaching", config_origin(config, unsafe),
                               risk);
    if (config->workers == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        config->workers = cores < 1 ? 1 : cores > 256 ? 256 : (int)cores;
    }
    return true;
}

/* Prints the variable that `name`, written as a flag, means or may mean; "": none is similar. */
static void variable_find(char name[NAME_SIZE], char own[NAME_SIZE]) {
    static const char end[] = "-file";
    size_t length = strlen(name), before = length - (sizeof end - 1);
    const struct setting *meant = setting_find(name, length);
    bool file = !meant && length >= sizeof end && strcmp(name + before, end) == 0;
    if (file) {
        name[before] = '\0';
        meant = setting_find(name, before);
    }
    if (!meant)
        meant = setting_nearest(name);
    if (!meant)
        return;
    config_environment_name(meant, own);
    if (file && meant->kind == SECRET)
        snprintf(own + strlen(own), NAME_SIZE - strlen(own), FILE_END);
}

void config_warn_of_variables(void) {
    for (char **variable = environ; *variable; variable++) {
        char name[NAME_SIZE] = "", own[NAME_SIZE] = "";
        size_t length = strcspn(*variable, "=");
        if (strncmp(*variable, "SECKILL_", 8) != 0 || length == 8)
            continue;
        /* as the flag would be written */
        for (size_t i = 8; i < length && i < 8 + sizeof name - 1; i++)
            name[i - 8] = (*variable)[i] == '_' ? '-' : (char)tolower((unsigned char)(*variable)[i]);
        variable_find(name, own);
        if (strcmp(name, "config") != 0 && (strlen(own) != length || memcmp(own, *variable, length) != 0))
            log_warning("the environment's %.*s is no setting, and is ignored%s%s", (int)length, *variable,
                        *own ? ": perhaps " : " (see --help)", own);
    }
}

enum config_result config_read(struct config *config, int argc, char **argv, FILE *out, char *error,
                               size_t error_size) {
    const char *file = getenv("SECKILL_CONFIG");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            config_print_help(out);
            return CONFIG_EXIT;
        }
        if (strcmp(argv[i], "--version") == 0) {
            fprintf(out, "seckilld %s\n", SECKILL_VERSION);
            return CONFIG_EXIT;
        }
        if (!config_read_flag(NULL, argv, &i, &file, error, error_size))
            return CONFIG_BAD;
    }
    memset(config, 0, sizeof *config);
    bool good = config_set_defaults(config, error, error_size) &&
                (!file || config_read_file(config, file, error, error_size)) &&
                config_read_environment(config, error, error_size);
    for (int i = 1; good && i < argc; i++)
        good = config_read_flag(config, argv, &i, &file, error, error_size);
    return good && config_check(config, error, error_size) ? CONFIG_RUN : CONFIG_BAD;
}
