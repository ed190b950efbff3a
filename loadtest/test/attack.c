#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "loadtest/test/attack.h"
#include "test/harness.h"

static int runs;

static const char *file_name(const char *suffix) {
    return harness_format("%s/run-%d.%s", harness_dir(), runs, suffix);
}

const char *attack_read_file(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file)
        return "";
    char *text = harness_alloc(65536);
    size_t length = fread(text, 1, 65535, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

void attack_start(struct proc *proc, const char *line) {
    runs++;
    const char *argv[48] = {harness_format("%s/seckill-load", harness_build()), "--json", file_name("json")};
    int argc = 3;
    char *rest = harness_format("%s", line);
    for (char *word; (word = strsep(&rest, " "));)
        argv[argc++] = word;
    proc_spawn(proc, argv, NULL, file_name("log"));
}

struct attack_result attack_finish(struct proc *proc) {
    struct attack_result outcome = {.code = 0};
    int status = 0;
    if (!proc_wait(proc, TIME_MS, &status))
        FAIL("still running after %d ms: %s", TIME_MS, proc_output(proc));
    outcome.text = proc_output(proc);
    outcome.json = attack_read_file(file_name("json"));
    if (!WIFEXITED(status))
        FAIL("ended by signal %d: %s", WTERMSIG(status), outcome.text);
    outcome.code = WEXITSTATUS(status);
    return outcome;
}

struct attack_result attack_run(const char *line) {
    struct proc proc;
    attack_start(&proc, line);
    return attack_finish(&proc);
}

const char *attack_urls(const struct seckilld services[], int count) {
    const char *urls = "";
    for (int i = 0; i < count; i++)
        urls = harness_format("%s%s--url http://127.0.0.1:%d", urls, i ? " " : "", services[i].port);
    return urls;
}

void attack_put(const struct seckilld *service, const char *item, const char *terms) {
    CHECK_INT(
        web_call(service->port, "PUT", harness_format("/v1/items/%s", item), SECKILLD_ADMIN, terms, NULL),
        201);
}

struct attack_result attack_sale(const struct seller *seller, const char *more) {
    return attack_run(harness_format("--url http://127.0.0.1:%d --item demo --token test-token --users 500 "
                                     "--connections 16 --requests 500 --seed %llu%s%s",
                                     seller->port, (unsigned long long)(harness_seed() >> 1),
                                     *more ? " " : "", more));
}

static long long number_after(const char *text, const char *name) {
    const char *at = strstr(text, harness_format("\"%s\": ", name));
    if (!at)
        FAIL("no %s in %s", name, text);
    return strtoll(at + strlen(name) + 4, NULL, 10);
}

long long attack_number_of(const struct attack_result *outcome, const char *name) {
    return number_after(outcome->json, name);
}

long long attack_verdict_of(const struct attack_result *outcome, const char *name) {
    const char *verdict = strstr(outcome->json, "\"verdict\": {");
    CHECK(verdict);
    return number_after(verdict, name);
}

void attack_check_code(const struct attack_result *outcome, int code) {
    if (outcome->code != code)
        FAIL("exit status %d, not %d: %s", outcome->code, code, outcome->text);
}
