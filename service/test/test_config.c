/* Settings: flags, environment and file, which of them wins, and what is said of a bad one. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/test/program.h"
#include "service/test/shop.h"

/* A file is refused: the error begins with its name and, as `where` does, with the number of the line. */
static void refused_in_file(const char *text, const char *where, const char *right) {
    const char *file = program_write_file(text);
    program_check_refused(harness_format("--config=%s", file), harness_format("%s:%s", file, where), right);
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
        program_check_refused(unknown[i], harness_format("%.*s", (int)strcspn(unknown[i], "= "), unknown[i]),
                              "--help");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *row = &refusals[i];
        bool file = strchr(row->given, '\n');
        (file ? refused_in_file : program_check_refused)(row->given, row->where, row->right);
    }
    program_check_refused(harness_format("--redis redis://%s", harness_repeat('x', 600)), "--redis",
                          "longer than 511");
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
            program_check_refused(harness_format("--%s=%s", row->flag, value),
                                  harness_format("--%s: ", row->flag), row->right);
        if (!row->variable)
            continue;
        program_check_refused(harness_format("SECKILL_%s=x", row->variable),
                              harness_format("SECKILL_%s: \"x\"", row->variable), row->right);
        refused_in_file(harness_format("# numbers\n\n%s = x\n", row->flag),
                        harness_format("3: %s: \"x\"", row->flag), row->right);
    }
}

static void help_and_version(void) {
    const char *help = program_run("--help", 0);
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
    CHECK_STR(program_run("-h", 0), help);
    CHECK_STR(program_run("--workers 2 --help --nonsense", 0), help);
    const char *version = program_run("--version", 0);
    CHECK(strncmp(version, "seckilld ", 9) == 0 && strchr(version, '\n') == version + strlen(version) - 1);
    CHECK_STR(program_run("--version SECKILL_WORKERS=nonsense", 0), version);
}

/* ---- which wins ---- */

static void precedence(void) {
    struct program service;
    int by_file = harness_free_port(), by_variable = harness_free_port(), by_flag = harness_free_port();
    const char *file = program_write_file(
        harness_format("\n  # where\r\nlisten=127.0.0.1:%d\r\n\tworkers =\t1  \nteaching = true\n"
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
                        program_write_file("workers = 4"), by_file, by_flag),
         {"4 workers,"}},
        {by_flag, harness_format("--teaching --fencing off --listen localhost:%d", by_flag), {"NO FENCING"}},
        {by_flag, harness_format("SECKILL_FENCING=off --fencing on --listen localhost:%d", by_flag), {NULL}}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        program_start(&service, starts[i].port, starts[i].given);
        for (int k = 0; k < 3 && starts[i].says[k]; k++)
            CHECK_HAS(proc_output(&service.proc), starts[i].says[k]);
        CHECK(starts[i].port == by_file || shop_get(by_file, "/livez", NULL) == 0);
        CHECK(starts[i].port != by_flag || shop_get(by_variable, "/livez", NULL) == 0);
        CHECK(strstr(starts[i].given, "--fencing off") || !strstr(proc_output(&service.proc), "NO FENCING"));
        program_stop(&service);
    }
}

static void port_in_use(void) {
    struct shop shop;
    shop_open(&shop);
    int ports[] = {shop.port, shop.redis.port};
    for (int i = 0; i < 2; i++) {
        const char *place = harness_format("127.0.0.1:%d", ports[i]);
        const char *text = program_run(harness_format("SECKILL_ADMIN_TOKEN=x --listen %s", place), 1);
        CHECK_HAS(text, place);
        CHECK_HAS(text, "in use");
        CHECK_HAS(text, "--listen");
        CHECK(strchr(text, '\n') == text + strlen(text) - 1);
    }
    int port = harness_free_port();
    const char *text = program_run(harness_format("SECKILL_ADMIN_TOKEN=x --listen 127.0.0.1:%d "
                                                  "--operator-listen 127.0.0.1:%d",
                                                  port, port),
                                   1); /* the same twice */
    CHECK_HAS(text, "another with --operator-listen");
    CHECK_INT(shop_get(shop.port, "/readyz", NULL), 200);
    CHECK_HAS(program_run("SECKILL_ADMIN_TOKEN=x --listen 192.0.2.1:8080", 1), "192.0.2.1:8080");
}

/* ---- variables that are no settings ---- */

static void unknown_variables(void) {
    struct program service;
    int port = harness_free_port();
    program_start(&service, port,
                  program_storeless(
                      port,
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
    CHECK_INT(program_count(said, "is no setting"), 8);
    CHECK(!strstr(said, "pa55word"));
    /* An admin token that was chosen is kept nowhere. */
    CHECK_INT(program_audit(port, "test-token"), 503);
    CHECK(!strstr(said, "token"));
    program_stop(&service);
}

/* ---- the manager of services ---- */

static const char *received(int fd) {
    char *text = harness_alloc(100);
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&waiting, 1, PROGRAM_TIME_MS), 1);
    CHECK(recv(fd, text, 99, 0) > 0);
    return text;
}

/* systemd is told when it serves and when it ends. The terminal that hangs up ends it like SIGTERM, but not
 * where that is ignored. */
static void it_is_told(void) {
    struct program service;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int port = harness_free_port(), manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", harness_dir());
    CHECK(bind(manager, (struct sockaddr *)&address, sizeof address) == 0);
    const char *given =
        program_storeless(port, harness_format("NOTIFY_SOCKET=%s SECKILL_ADMIN_TOKEN=x", address.sun_path));
    for (int ignored = 0; ignored < 2; ignored++) {
        signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL); /* the tests may run under nohup */
        program_spawn(&service.proc, given);
        signal(SIGHUP, SIG_DFL);
        CHECK_STR(received(manager), "READY=1");
        CHECK_INT(shop_get(port, "/livez", NULL), 200);
        proc_kill(&service.proc, SIGHUP);
        if (ignored) {
            CHECK_INT(shop_get(port, "/livez", NULL), 200);
            proc_kill(&service.proc, SIGTERM);
        }
        CHECK_STR(received(manager), "STOPPING=1");
        program_check_end(&service.proc);
    }
    CHECK_HAS(proc_output(&service.proc), "Terminated: draining");
    close(manager);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("refusals say why", refusals_say_why);
    harness_run("bad values", bad_values_are_refused);
    harness_run("--help and --version", help_and_version);
    harness_run("flags before environment before file", precedence);
    harness_run("a port in use", port_in_use);
    harness_run("variables that are no settings are named; a chosen token is not kept", unknown_variables);
    harness_run("systemd is told, and a hang-up drains", it_is_told);
    return harness_finish();
}
