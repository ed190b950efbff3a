/* Settings: flags, environment and file, which of them wins, and what is said of a bad one. */
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/test/shop.h"

enum { TIME_MS = 10000, MAX_ARGS = 16 };

static const char *write_file(const char *text) {
    static int files;
    char *path = harness_format("%s/seckilld-%d.conf", harness_dir(), files++);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

/* `given` has flags, and variables for the environment (NAME=VALUE in capitals), with blanks between them. */
static void spawn(struct proc *proc, const char *given) {
    static int logs;
    const char *argv[MAX_ARGS] = {harness_format("%s/seckilld", harness_build())}, *env[MAX_ARGS] = {NULL};
    char *words = harness_format("%s", given), *rest = NULL;
    int argc = 1, variables = 0;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        CHECK(argc < MAX_ARGS - 1 && variables < MAX_ARGS - 1);
        *(isupper((unsigned char)*word) ? &env[variables++] : &argv[argc++]) = word;
    }
    proc_spawn(proc, argv, env, harness_format("%s/seckilld-config-%d.log", harness_dir(), logs++));
}

static const char *run(const char *given, int want) {
    struct proc proc;
    int status;
    spawn(&proc, given);
    if (!proc_wait(&proc, TIME_MS, &status))
        FAIL("seckilld %s runs", given);
    const char *text = proc_output(&proc);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
        FAIL("seckilld %s: wait status %#x, not exit status %d: %s", given, (unsigned)status, want, text);
    return text;
}

/* Status 2, and one line that says where it is wrong, what was given, and what would be right. */
static void refused(const char *given, const char *where, const char *right) {
    const char *text = run(given, 2);
    if (strncmp(text, "seckilld: ", 10) != 0 || strchr(text, '\n') != text + strlen(text) - 1)
        FAIL("seckilld %s says, not in one line: %s", given, text);
    CHECK_HAS(text, where);
    CHECK_HAS(text, right);
}

/* The same of a file: the error begins with its name and, as `where` does, with the number of the line. */
static void refused_in_file(const char *text, const char *where, const char *right) {
    const char *file = write_file(text);
    refused(harness_format("--config=%s", file), harness_format("%s:%s", file, where), right);
}

/* What is given with a line end in it is a file. */
static const struct refusal {
    const char *given, *where, *right;
} refusals[] = {
    {"--workers", "--workers", "value"},
    {"--config", "--config", "value"},
    {"--listne=127.0.0.1:1", "--listne", "perhaps --listen;"},
    {"--worker 2", "--worker:", "perhaps --workers;"},
    {"--strategy best", "--strategy: \"best\"", "batch, lua, decr, optimistic"},
    {"--lock consul://h",
     "--lock: no such lock; there are none:, local:, redis:", "; docs/locks.md lists all"},
    {"--lock redis://h?variant=x", "--lock: no such lock; its variants are owner", "set-del, timestamp;"},
    {"--lock zookeeper:", "--lock", "want zookeeper://"},
    {"--lock redis://h?ttl=500&renew=on", "--lock: renew is not for a service", "docs/locks.md"},
    {"--teaching=perhaps", "--teaching: \"perhaps\"", "on"},
    {"--fencing perhaps", "--fencing: \"perhaps\"", "off"},
    {"SECKILL_STRATEGY=", "SECKILL_STRATEGY: \"\"", "batch"},
    {"SECKILL_LOCK=mutex", "SECKILL_LOCK: ", "SCHEME:"},
    {"SECKILL_LISTEN=here", "SECKILL_LISTEN: \"here\"", "HOST:PORT"},
    {"SECKILL_REDIS=here", "SECKILL_REDIS: ", "redis://"},
    {"--log yaml", "--log: \"yaml\"", "neither text nor json"},
    {"SECKILL_LOG=JSON", "SECKILL_LOG: \"JSON\"", "neither text nor json"},
    {"log =\n", "1: log: \"\"", "neither text nor json"},
    {"SECKILL_BASKET=wicker", "SECKILL_BASKET: \"wicker\"", "script"},
    {"SECKILL_TEACHING=2", "SECKILL_TEACHING: \"2\"", "on"},
    {"SECKILL_BASKET=naive --basket script --basket=wicker", "--basket: \"wicker\"", "script"},
    /* Files. */
    {"--config /no/such/file", "/no/such/file", "No such file"},
    {"--config /tmp", "/tmp", "directory"},
    {"SECKILL_CONFIG=/no/such/file", "/no/such/file", "No such file"},
    {"--tokens /no/such/file", "/no/such/file", "No such file"},
    {"SECKILL_TOKENS=/tmp", "/tmp", "is no file"},
    {"--buyer-keys=/no/such/file", "/no/such/file", "No such file"},
    {"SECKILL_BUYER_KEYS=/tmp", "/tmp", "is no file"},
    {"listen = 127.0.0.1:1\nworkers 2\n", "2", "NAME = VALUE"},
    {"worker = 2\n", "1", "\"worker\", perhaps workers"},
    {"\nlock = mutex\n", "2: lock: ", "SCHEME:"},
    {"config = other.conf\n", "1", "\"config\""},
    {"--workers = 2\n", "1", "--workers"},
    /* Unsafe choices need --teaching. */
    {"--strategy naive", "--strategy: naive", "--teaching"},
    {"--strategy locked", "--strategy: ", "--teaching"},
    {"--lock none:", "--lock: ", "--teaching"},
    {"--work-delay 5", "--work-delay: ", "--teaching"},
    {"--fencing off", "--fencing: off", "--teaching"},
    {"--lock redis://h?variant=set-del", "deletes another's lock", "--teaching"},
    {"SECKILL_STRATEGY=naive", "SECKILL_STRATEGY: naive", "--teaching"},
    {"SECKILL_LOCK=none:", "SECKILL_LOCK: ", "--teaching"},
    {"SECKILL_WORK_DELAY=5", "SECKILL_WORK_DELAY: ", "--teaching"},
    {"SECKILL_FENCING=off", "SECKILL_FENCING: off", "--teaching"},
    {"fencing = off\n", "1: fencing: off", "--teaching"},
    /* A flag that takes back what the environment allowed. */
    {"SECKILL_TEACHING=on --teaching=off --strategy naive", "--strategy: ", "--teaching"},
};

static void refusals_say_why(void) {
    static const char *const unknown[] = {"--nonsense", "--nonsense=5", "-listen 127.0.0.1:1", "buy", "-",
                                          "--",         "--=5",         "--LISTEN 127.0.0.1:1"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        refused(unknown[i], harness_format("%.*s", (int)strcspn(unknown[i], "= "), unknown[i]), "--help");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *row = &refusals[i];
        bool file = strchr(row->given, '\n');
        (file ? refused_in_file : refused)(row->given, row->where, row->right);
    }
    refused(harness_format("--redis redis://%s", harness_repeat('x', 600)), "--redis", "longer than 511");
    refused_in_file(harness_format("workers = %s 2\n", harness_repeat(' ', 3000)), "1", "too long");
}

/* Wrong values of a setting, with | between them. `variable`: it is a number, and is tried wherever it can be
 * set. */
static const struct bad_value {
    const char *flag, *variable, *right, *bad;
} bad_values[] = {
    {"redis", NULL, "redis://[[user]:password@]host[:port]",
     "localhost:6379|http://h|redis:/h|redis://|redis://:6379|redis://h:0|redis://h:65536|"
     "redis://h:6379x|redis://h/first|redis://h/-1|redis://user@h|redis://[::1|redis://[::1]6379|"
     "unix://relative|unix:///s?db=x|redis://:%zz@h|redis://:%0@h|redis://:a%00b@h|redis://h/123456789"},
    {"listen", NULL, "HOST:PORT",
     "8080|127.0.0.1|127.0.0.1:|127.0.0.1:http|127.0.0.1:-1|127.0.0.1:65536|127.0.0.1:99999|[::1]8080|"
     "127.0.0.1:80x|"},
    {"operator-listen", NULL, "HOST:PORT", "8081|127.0.0.1|127.0.0.1:0|127.0.0.1:65536"},
    {"lock", NULL, "for lessons",
     "redis://h?variant=get-set|redis://h?variant=setnx-expire|redis://h?variant=getset|"
     "redis://h?variant=timestamp"},
    {"lock-ttl", "LOCK_TTL", "from 100 to 600000", "99|600001"},
    {"work-delay", "WORK_DELAY", "from 0 to 60000", "-1|60001"},
    {"workers", "WORKERS", "from 0 to 256", "-1|257||many|1.5|5s|99999999999999999999"},
    {"store-timeout", "STORE_TIMEOUT", "from 10 to 60000", "9|60001"},
    {"connections", "CONNECTIONS", "from 1 to 1000000", "0|1000001"},
    {"drain", "DRAIN", "from 0 to 600000", "-1|600001"},
};

static void bad_values_are_refused(void) {
    for (size_t i = 0; i < sizeof bad_values / sizeof *bad_values; i++) {
        const struct bad_value *row = &bad_values[i];
        char *rest = harness_format("%s", row->bad);
        for (char *value; (value = strsep(&rest, "|"));)
            refused(harness_format("--%s=%s", row->flag, value), harness_format("--%s: ", row->flag),
                    row->right);
        if (!row->variable)
            continue;
        refused(harness_format("SECKILL_%s=x", row->variable),
                harness_format("SECKILL_%s: \"x\"", row->variable), row->right);
        refused_in_file(harness_format("# numbers\n\n%s = x\n", row->flag),
                        harness_format("3: %s: \"x\"", row->flag), row->right);
    }
}

static void help_and_version(void) {
    const char *help = run("--help", 0);
    char *parts = harness_format(
        "%s",
        "  --listen HOST:PORT;  --redis URL;  --lock URL;  --lock-ttl MS;  --strategy NAME;  --work-delay "
        "MS;  --teaching;"
        "  --workers N;  --config FILE;  --version;  --help;  --store-timeout MS;  --connections N;  --drain "
        "MS;"
        "  --log text|json;SECKILL_ADMIN_TOKEN, SECKILL_REDIS and SECKILL_LOCK, the same with _FILE;"
        "  --admin-token TOKEN;  --tokens FILE;  --buyer-keys FILE;  --fencing on|off;  --operator-listen "
        "HOST:PORT;[127.0.0.1:8080];[redis://127.0.0.1:6379];[10000];[batch]");
    for (char *part; (part = strsep(&parts, ";"));)
        CHECK_HAS(help, part);
    CHECK_STR(run("-h", 0), help);
    CHECK_STR(run("--workers 2 --help --nonsense", 0), help);
    const char *version = run("--version", 0);
    CHECK(strncmp(version, "seckilld ", 9) == 0 && strchr(version, '\n') == version + strlen(version) - 1);
    CHECK_STR(run("--version SECKILL_WORKERS=nonsense", 0), version);
}

/* ---- which wins ---- */

struct start {
    struct proc proc;
    int port;
};

/* It answers, and has said all it says at the start. */
static bool is_live(void *arg) {
    struct start *start = arg;
    return (shop_get(start->port, "/livez", NULL) == 200 &&
            strstr(proc_output(&start->proc), " on http://")) ||
           !proc_running(&start->proc);
}

static void start(struct start *start, int port, const char *given) {
    start->port = port;
    spawn(&start->proc, given);
    if (!harness_wait(is_live, start, TIME_MS) || !proc_running(&start->proc))
        FAIL("seckilld %s does not serve port %d", given, port);
}

/* What to give besides the variables, if no store is wanted. */
static const char *storeless(int port, const char *variables) {
    return harness_format("%s --listen 127.0.0.1:%d --redis redis://127.0.0.1:1", variables, port);
}

static void ends_well(struct proc *proc) {
    int status;
    CHECK(proc_wait(proc, TIME_MS, &status));
    CHECK_INT(status, 0);
}

static void stop(struct start *start) {
    proc_kill(&start->proc, SIGTERM);
    ends_well(&start->proc);
}

static void precedence(void) {
    struct start service;
    int by_file = harness_free_port(), by_variable = harness_free_port(), by_flag = harness_free_port();
    const char *file =
        write_file(harness_format("\n  # where\r\nlisten=127.0.0.1:%d\r\n\tworkers =\t1  \nteaching = true\n"
                                  "strategy = naive",
                                  by_file));
    const char *config = harness_format("SECKILL_CONFIG=%s", file),
               *listen = harness_format("%s SECKILL_LISTEN=127.0.0.1:%d", config, by_variable);
    const struct {
        int port;
        const char *given, *says[3];
    } starts[] = {
        {by_file, harness_format("--config %s", file), {"1 worker,", "strategy naive", "TEACHING"}},
        {by_file, config, {NULL}},
        {by_variable, harness_format("%s SECKILL_STRATEGY=decr", listen), {"strategy decr"}},
        {by_flag,
         harness_format("%s SECKILL_WORKERS=2 --listen=127.0.0.1:%d --workers=3 --strategy lua", listen,
                        by_flag),
         {"3 workers,", "strategy lua"}},
        /* The flag's file instead of the environment's, and the last flag of a name. */
        {by_flag,
         harness_format("%s --config %s --listen 127.0.0.1:%d --listen 127.0.0.1:%d", config,
                        write_file("workers = 4"), by_file, by_flag),
         {"4 workers,"}},
        {by_flag, harness_format("--teaching --fencing off --listen localhost:%d", by_flag), {"NO FENCING"}},
        {by_flag, harness_format("SECKILL_FENCING=off --fencing on --listen localhost:%d", by_flag), {NULL}}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        start(&service, starts[i].port, starts[i].given);
        for (int k = 0; k < 3 && starts[i].says[k]; k++)
            CHECK_HAS(proc_output(&service.proc), starts[i].says[k]);
        CHECK(starts[i].port == by_file || shop_get(by_file, "/livez", NULL) == 0);
        CHECK(starts[i].port != by_flag || shop_get(by_variable, "/livez", NULL) == 0);
        CHECK(strstr(starts[i].given, "--fencing off") || !strstr(proc_output(&service.proc), "NO FENCING"));
        stop(&service);
    }
}

static void port_in_use(void) {
    struct shop shop;
    shop_open(&shop);
    int ports[] = {shop.port, shop.redis.port};
    for (int i = 0; i < 2; i++) {
        const char *place = harness_format("127.0.0.1:%d", ports[i]);
        const char *text = run(harness_format("SECKILL_ADMIN_TOKEN=x --listen %s", place), 1);
        CHECK_HAS(text, place);
        CHECK_HAS(text, "in use");
        CHECK_HAS(text, "--listen");
        CHECK(strchr(text, '\n') == text + strlen(text) - 1);
    }
    int port = harness_free_port();
    const char *text = run(harness_format("SECKILL_ADMIN_TOKEN=x --listen 127.0.0.1:%d "
                                          "--operator-listen 127.0.0.1:%d",
                                          port, port),
                           1); /* the same twice */
    CHECK_HAS(text, "another with --operator-listen");
    CHECK_INT(shop_get(shop.port, "/readyz", NULL), 200);
    CHECK_HAS(run("SECKILL_ADMIN_TOKEN=x --listen 192.0.2.1:8080", 1), "192.0.2.1:8080");
}

/* ---- secrets ---- */

static void keeps_secret(struct seckilld *service, const char *secret) {
    struct web_response response;
    static const char *const paths[] = {"/readyz",     "/metrics",      "/livez",
                                        "/v1/items/x", "/openapi.json", "/x"};
    for (size_t i = 0, count = sizeof paths / sizeof *paths; i <= count; i++) {
        CHECK((i < count ? shop_get(service->port, paths[i], &response)
                         : shop_buy(service->port, "x", "u", 1, "k", &response)) != 0);
        CHECK(!strstr(response.body, secret) && !strstr(response.headers, secret));
    }
    const char *output = proc_output(&service->proc);
    if (strstr(output, secret))
        FAIL("%s is printed: %s", secret, output);
}

static void the_stores_password(void) {
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, "--requirepass", "hunter2@/:", "--user", "seller", "on", ">s%cret", "~*", "&*",
                "+@all", NULL);
    const char *urls[] = {harness_format("redis://:hunter2%%40%%2F%%3a@127.0.0.1:%d", redis.port),
                          harness_format("redis://seller:s%%25cret@127.0.0.1:%d/3", redis.port)};
    for (int i = 0; i < 2; i++) {
        seckilld_start_ready(&service, 1, "--redis", urls[i], NULL);
        keeps_secret(&service, "hunter2");
        keeps_secret(&service, "cret");
        keeps_secret(&service, "test-token");
        CHECK_HAS(proc_output(&service.proc), harness_format("redis://127.0.0.1:%d/%d", redis.port, i * 3));
        shop_put(service.port, "sneaker", "\"stock\":1");
        CHECK_INT(seckilld_stop(&service), 0);
    }
}

static void a_wrong_password(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_response response;
    redis_start(&redis, "--requirepass", "right", NULL);
    seckilld_start(&service, 1, "--redis", harness_format("redis://:wr0ng-one@127.0.0.1:%d", redis.port),
                   NULL);
    shop_wait_unready(service.port, "WRONGPASS");
    keeps_secret(&service, "wr0ng-one");
    CHECK_INT(shop_buy(service.port, "x", "u", 1, "k", &response), 503);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK_INT(seckilld_stop(&service), 0);
    /* None given, none the less one is needed. */
    seckilld_start(&service, redis.port, NULL);
    shop_wait_unready(service.port, "NOAUTH");
}

static void secrets_in_mistakes(void) {
    char *lines = harness_format(
        "%s", "--rediss=redis://:hunter2@h|--redis=http://:hunter2@h|--redis redis://:hunter2@h:0|"
              "--lock redis://:hunter2@h:0|--lock redis://:hunter2@h?variant=set-del|redis://:hunter2@h");
    for (char *line; (line = strsep(&lines, "|"));) {
        const char *text = run(line, 2);
        if (strstr(text, "hunter2"))
            FAIL("seckilld %s says %s", line, text);
    }
}

/* ---- secrets in files ---- */

static const char *secret_file(const char *text, size_t size) {
    const char *path = harness_path("secret");
    FILE *file = fopen(path, "we");
    CHECK(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
    return path;
}

static const char *secret_of(const char *text) {
    return secret_file(text, strlen(text));
}

/* Error and log name the variable and the file, and say what to do; they tell nothing of what is in the file.
 */
static void refused_secret(const char *variable, const char *file, const char *right) {
    const char *given = harness_format("%s=%s", variable, file);
    refused(given, harness_format("%s: %s", variable, file), right);
    if (strstr(run(given, 2), "hunter2"))
        FAIL("%s tells the secret", given);
}

static void secret_files_that_are_refused(void) {
    static const char *const variables[] = {"SECKILL_ADMIN_TOKEN_FILE", "SECKILL_REDIS_FILE",
                                            "SECKILL_LOCK_FILE"};
    const char *closed = secret_of("hunter2");
    CHECK(chmod(closed, 0) == 0);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *variable = variables[i];
        refused(harness_format("%s=/no/such/file", variable),
                harness_format("%s: cannot read /no/such/file: No such file", variable),
                "a file that this user may read");
        refused(harness_format("%s=", variable), harness_format("%s: cannot read : No such file", variable),
                "a file that this user may read");
        refused(harness_format("%s=/tmp", variable),
                harness_format("%s: cannot read /tmp: Is a dir", variable), "a file that this user may read");
        if (geteuid() != 0)
            refused(harness_format("%s=%s", variable, closed),
                    harness_format("%s: cannot read %s: Permission denied", variable, closed),
                    "a file that this user may read");
        refused_secret(variable, secret_of(""), "is empty; write the value into it");
        refused_secret(variable, secret_of("\n"), "is empty; write the value into it");
        refused_secret(variable, secret_of(harness_format("hunter2%s", harness_repeat('x', 505))),
                       "longer than 511 characters; is it the right file?");
        refused_secret(variable, secret_of(harness_format("hunter2%s\n", harness_repeat('x', 9000))),
                       "longer than 511 characters; is it the right file?");
        refused_secret(variable, "/dev/zero", "longer than 511 characters; is it the right file?");
        refused_secret(variable, secret_of("hunter2\nhunter2\n"),
                       "not one line of text; is it the right file?");
        refused_secret(variable, secret_of("hunter2\n\n"), "not one line of text; is it the right file?");
        refused_secret(variable, secret_of("hunter2\r\n"), "not one line of text; is it the right file?");
        refused_secret(variable, secret_file("hunter2\0x", 9), "not one line of text; is it the right file?");
        /* Which of the two counts? */
        const char *plain = harness_format("%.*s", (int)(strlen(variable) - strlen("_FILE")), variable);
        refused(harness_format("%s=%s %s=hunter2", variable, secret_of("hunter2"), plain),
                harness_format("%s and %s: both are set", plain, variable), "unset one of them");
        refused(harness_format("%s=%s %s=", variable, secret_of("hunter2"), plain),
                harness_format("%s and %s: both are set", plain, variable), "unset one of them");
    }
    /* What is in it is wrong. */
    const char *wrong[] = {harness_format("SECKILL_REDIS_FILE=%s", secret_of("http://:hunter2@h")),
                           harness_format("SECKILL_LOCK_FILE=%s", secret_of("redis://:hunter2@h:0"))};
    for (int i = 0; i < 2; i++) {
        refused(wrong[i], i ? "SECKILL_LOCK_FILE: " : "SECKILL_REDIS_FILE: ", "redis");
        CHECK(!strstr(run(wrong[i], 2), "hunter2"));
    }
}

static int count(const char *text, const char *piece) {
    int n = 0;
    for (; (text = strstr(text, piece)); text += strlen(piece))
        n++;
    return n;
}

/* The line of the file that the output names; only its owner can read it. */
static char *kept_token(const char *output) {
    const char *said = strstr(output, ", is in ");
    CHECK(said != NULL);
    CHECK_INT(count(output, "admin token"), 1);
    said += strlen(", is in ");
    const char *path = harness_format("%.*s", (int)strcspn(said, "\r\n"), said);
    CHECK(strncmp(path, harness_dir(), strlen(harness_dir())) == 0);
    struct stat about;
    CHECK(stat(path, &about) == 0);
    CHECK_INT(about.st_mode & 0777, 0600);
    char *token = harness_alloc(200);
    FILE *file = fopen(path, "re");
    CHECK(file && fgets(token, 200, file) && fgetc(file) == EOF && fclose(file) == 0);
    token[strcspn(token, "\n")] = '\0';
    CHECK(strlen(token) >= 20);
    return token;
}

static int audit(int port, const char *token) {
    return web_call(port, "GET", "/v1/items/x/audit", harness_format("Authorization: Bearer %s\r\n", token),
                    NULL, NULL);
}

static void secret_files(void) {
    struct redis_server redis;
    struct start service;
    int port = harness_free_port();
    const char *longest = harness_repeat('t', 511);
    redis_start(&redis, "--requirepass", "hunter2", NULL);
    const char *url = harness_format("redis://:hunter2@127.0.0.1:%d", redis.port),
               *store = harness_format("SECKILL_REDIS_FILE=%s SECKILL_LOCK_FILE=%s", secret_of(url),
                                       secret_of(harness_format("%s/3\n", url)));
    const struct {
        const char *given, *token, *says[2];
    } starts[] = {
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s", store, secret_of("a-token\n")),
         "a-token",
         {harness_format("store redis://127.0.0.1:%d/0", redis.port),
          harness_format("lock redis://127.0.0.1:%d/3", redis.port)}},
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s", store, secret_of(longest)), longest, {NULL}},
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s", store, secret_of(" a token\n")),
         " a token",
         {NULL}},
        /* The flag wins, and the variable wins over the file of settings. */
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s --admin-token flag --lock local:", store,
                        secret_of("a-token")),
         "flag",
         {"lock local:"}},
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s --config %s", store, secret_of("a-token"),
                        write_file("admin-token = config\nlock = local:\nredis = redis://127.0.0.1:1")),
         "a-token",
         {harness_format("lock redis://127.0.0.1:%d/3", redis.port)}},
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        start(&service, port, harness_format("%s --listen 127.0.0.1:%d", starts[i].given, port));
        int status = audit(port, starts[i].token);
        if (status == 0 || status == 401)
            FAIL("the token of %s is answered %d", starts[i].given, status);
        CHECK_INT(audit(port, "another"), 401);
        const char *said = proc_output(&service.proc);
        for (int k = 0; k < 2 && starts[i].says[k]; k++)
            CHECK_HAS(said, starts[i].says[k]);
        CHECK(!strstr(said, "hunter2") && !strstr(said, starts[i].token) && !strstr(said, "is no setting"));
        stop(&service);
    }
}

static void a_made_up_admin_token(void) {
    struct start service;
    char *tokens[3];
    int port = harness_free_port();
    const char *const places[] = {"SECKILL_ADMIN_TOKEN= RUNTIME_DIRECTORY=",
                                  "RUNTIME_DIRECTORY= XDG_RUNTIME_DIR=", "XDG_RUNTIME_DIR= TMPDIR="};
    unsetenv("RUNTIME_DIRECTORY");
    for (int i = 0; i < 3; i++) {
        const char *given = storeless(port, harness_format("%s%s", places[i], harness_dir()));
        start(&service, port, given);
        tokens[i] = kept_token(proc_output(&service.proc));
        CHECK_INT(count(proc_output(&service.proc), tokens[i]), 0);
        CHECK_INT(audit(port, tokens[i]), 503);
        CHECK_INT(audit(port, "test-token"), 401);
        CHECK_INT(audit(port, ""), 401);
        /* One that cannot serve there leaves the file alone. */
        struct proc second;
        int status;
        spawn(&second, given);
        CHECK(proc_wait(&second, TIME_MS, &status));
        CHECK_INT(WEXITSTATUS(status), 1);
        CHECK_STR(kept_token(proc_output(&service.proc)), tokens[i]);
        stop(&service);
    }
    CHECK(strcmp(tokens[0], tokens[1]) != 0);
    /* A directory that others could change keeps no secret. */
    const char *open_to_all = harness_format("%s/open", harness_dir());
    CHECK(mkdir(open_to_all, 0700) == 0 && chmod(open_to_all, 0777) == 0);
    start(&service, port, storeless(port, harness_format("RUNTIME_DIRECTORY=%s", open_to_all)));
    CHECK_HAS(proc_output(&service.proc), "cannot be kept");
    stop(&service);
}

/* ---- variables that are no settings ---- */

static void unknown_variables(void) {
    struct start service;
    int port = harness_free_port();
    start(&service, port,
          storeless(port,
                    "SECKILL_LISTNE=pa55word SECKILL_drain=5 SECKILL_LOCK-TTL=500 "
                    "SECKILL_LISTEN_FILE=/x SECKILL_REDISS_FILE=/x SECKILL_lock_FILE=/x SECKILL_FILE=/x "
                    "SECKILL_PORT_8080_TCP_ADDR=10.0.0.1 "
                    "SECKILL_=1 SECKILLD_X=1 SECKILL_ADMIN_TOKEN=test-token SECKILL_CONFIG=/dev/null"));
    const char *said = proc_output(&service.proc);
    static const char *const warnings[] = {
        "warn  the environment's SECKILL_LISTNE is no setting, and is ignored: perhaps SECKILL_LISTEN\n",
        "SECKILL_drain is no setting, and is ignored: perhaps SECKILL_DRAIN\n",
        "SECKILL_LOCK-TTL is no setting, and is ignored: perhaps SECKILL_LOCK_TTL\n",
        "SECKILL_LISTEN_FILE is no setting, and is ignored: perhaps SECKILL_LISTEN\n",
        "SECKILL_REDISS_FILE is no setting, and is ignored: perhaps SECKILL_REDIS_FILE\n",
        "SECKILL_lock_FILE is no setting, and is ignored: perhaps SECKILL_LOCK_FILE\n",
        "SECKILL_FILE is no setting, and is ignored",
        "SECKILL_PORT_8080_TCP_ADDR is no setting, and is ignored (see --help)\n"};
    for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++)
        CHECK_HAS(said, warnings[i]);
    CHECK_INT(count(said, "is no setting"), 8);
    CHECK(!strstr(said, "pa55word"));
    /* An admin token that was chosen is kept nowhere. */
    CHECK_INT(audit(port, "test-token"), 503);
    CHECK(!strstr(said, "token"));
    stop(&service);
}

/* ---- the manager of services ---- */

static const char *received(int fd) {
    char *text = harness_alloc(100);
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&waiting, 1, TIME_MS), 1);
    CHECK(recv(fd, text, 99, 0) > 0);
    return text;
}

/* systemd is told when it serves and when it ends. The terminal that hangs up ends it like SIGTERM, but not
 * where that is ignored. */
static void it_is_told(void) {
    struct start service;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int port = harness_free_port(), manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", harness_dir());
    CHECK(bind(manager, (struct sockaddr *)&address, sizeof address) == 0);
    const char *given =
        storeless(port, harness_format("NOTIFY_SOCKET=%s SECKILL_ADMIN_TOKEN=x", address.sun_path));
    for (int ignored = 0; ignored < 2; ignored++) {
        signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL); /* the tests may run under nohup */
        spawn(&service.proc, given);
        signal(SIGHUP, SIG_DFL);
        CHECK_STR(received(manager), "READY=1");
        CHECK_INT(shop_get(port, "/livez", NULL), 200);
        proc_kill(&service.proc, SIGHUP);
        if (ignored) {
            CHECK_INT(shop_get(port, "/livez", NULL), 200);
            proc_kill(&service.proc, SIGTERM);
        }
        CHECK_STR(received(manager), "STOPPING=1");
        ends_well(&service.proc);
    }
    CHECK_HAS(proc_output(&service.proc), "Terminated: draining");
    close(manager);
}

static void on_a_terminal(void) {
    struct start script = {.port = harness_free_port()};
    const char *argv[] = {"script", "-qec",
                          harness_format("exec %s/seckilld --listen 127.0.0.1:%d --redis redis://127.0.0.1:1",
                                         harness_build(), script.port),
                          "/dev/null", NULL};
    const char *env[] = {harness_format("RUNTIME_DIRECTORY=%s", harness_dir()), NULL};
    proc_spawn(&script.proc, argv, env, harness_format("%s/terminal.log", harness_dir()));
    CHECK(harness_wait(is_live, &script, TIME_MS));
    const char *shown = strstr(proc_output(&script.proc), "\nadmin token: ");
    CHECK(shown != NULL);
    shown += strlen("\nadmin token: ");
    CHECK_INT(audit(script.port, harness_format("%.*s", (int)strcspn(shown, "\r\n"), shown)), 503);
    proc_kill(&script.proc, SIGKILL); /* what runs in it is hung up on */
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("refusals say why", refusals_say_why);
    harness_run("bad values", bad_values_are_refused);
    harness_run("--help and --version", help_and_version);
    harness_run("flags before environment before file", precedence);
    harness_run("a port in use", port_in_use);
    harness_run("the store's password is used and never told", the_stores_password);
    harness_run("a wrong password", a_wrong_password);
    harness_run("secrets in mistakes are not repeated", secrets_in_mistakes);
    harness_run("secrets in files", secret_files);
    harness_run("files of secrets that are refused", secret_files_that_are_refused);
    harness_run("an admin token that is made up is kept in a file", a_made_up_admin_token);
    harness_run("variables that are no settings are named; a chosen token is not kept", unknown_variables);
    harness_run("systemd is told, and a hang-up drains", it_is_told);
    harness_run("a terminal has it shown", on_a_terminal);
    return harness_finish();
}
