#include "loadtest/lab/test/lab_site.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { START_MS = 20000, RUN_MS = 60000 };

int lab_site_call(const struct lab_site *site, const char *method, const char *path, const char *headers,
                  const char *body, struct web_response *response) {
    return web_call(site->port, method, path,
                    harness_format("Host: 127.0.0.1:%d\r\n%s", site->port, headers != NULL ? headers : ""),
                    body, response);
}

static bool answers(void *arg) {
    struct lab_site *site = arg;
    return lab_site_call(site, "GET", "/", NULL, NULL, NULL) == 200 || !proc_running(&site->proc);
}

static void read_token(struct lab_site *site) {
    struct web_response response;
    if (!harness_wait(answers, site, START_MS) ||
        lab_site_call(site, "GET", "/api/lab", NULL, NULL, &response) != 200)
        FAIL("seckill-lab serve does not answer: %s", proc_output(&site->proc));
    site->token = lab_site_text(&response, "token");
}

void lab_site_start(struct lab_site *site) {
    site->port = harness_free_port();
    const char *argv[] = {harness_format("%s/seckill-lab", harness_build()), "serve", "--listen",
                          harness_format("127.0.0.1:%d", site->port), NULL};
    site->directory = harness_format("%s/site-%d", harness_dir(), site->port);
    CHECK_INT(mkdir(site->directory, 0700), 0);
    const char *env[] = {harness_format("TMPDIR=%s", site->directory), NULL};
    proc_spawn(&site->proc, argv, env, harness_format("%s/site-%d.log", harness_dir(), site->port));
    read_token(site);
}

void lab_site_restart(struct lab_site *site) {
    proc_respawn(&site->proc);
    read_token(site);
}

const char *lab_site_url(const struct lab_site *site, const char *path) {
    return harness_format("http://127.0.0.1:%d/%s", site->port, path);
}

const char *lab_site_text(const struct web_response *response, const char *member) {
    json_t *json = json_loads(response->body, 0, NULL);
    const char *text = json_string_value(json_object_get(json, member));
    if (text == NULL)
        FAIL("there is no \"%s\" in %.300s", member, response->body);
    const char *kept = harness_format("%s", text);
    json_decref(json);
    return kept;
}

void lab_site_check_problem(const struct web_response *response) {
    CHECK(strlen(lab_site_text(response, "title")) > 0);
    CHECK(strlen(lab_site_text(response, "detail")) > 0);
}

const char *lab_site_file(const char *path) {
    struct stat of;
    FILE *file = fopen(path, "r");
    if (file == NULL || fstat(fileno(file), &of) != 0)
        FAIL("%s cannot be read", path);
    char *text = harness_alloc((size_t)of.st_size + 1);
    CHECK_INT(fread(text, 1, (size_t)of.st_size, file), of.st_size);
    fclose(file);
    return text;
}

int lab_site_post(const struct lab_site *site, const char *path, const char *body,
                  struct web_response *response) {
    const char *headers = harness_format("Origin: http://127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                                         "X-Lab-Token: %s\r\n",
                                         site->port, site->token);
    return lab_site_call(site, "POST", path, headers, body, response);
}

const char *lab_site_begin(const struct lab_site *site, const char *order) {
    struct web_response response;
    CHECK_INT(lab_site_post(site, "/api/runs", order, &response), 201);
    return lab_site_text(&response, "run");
}

struct awaited {
    const struct lab_site *site;
    const char *path;
};

static bool has_ended(void *arg) {
    const struct awaited *awaited = arg;
    struct web_response response;
    return lab_site_call(awaited->site, "GET", awaited->path, NULL, NULL, &response) == 200 &&
           strcmp(lab_site_text(&response, "state"), "ended") == 0;
}

void lab_site_wait(const struct lab_site *site, const char *run) {
    struct awaited awaited = {site, harness_format("/api/runs/%s", run)};
    if (!harness_wait(has_ended, &awaited, RUN_MS))
        FAIL("the run %s does not end", run);
}

/* ---- what is left behind ---- */

static bool is_number(const char *text) {
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Whether a process works in the directory, or has it in its command line. */
static bool belongs(const char *pid, const char *to) {
    char line[4096], directory[4096] = "";
    if (readlink(harness_format("/proc/%s/cwd", pid), directory, sizeof directory - 1) > 0 &&
        strstr(directory, to))
        return true;
    FILE *file = fopen(harness_format("/proc/%s/cmdline", pid), "r");
    size_t length = file ? fread(line, 1, sizeof line, file) : 0;
    if (file)
        fclose(file);
    return length > 0 && memmem(line, length, to, strlen(to));
}

static int count_processes(const char *directory) {
    DIR *processes = opendir("/proc");
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(processes));)
        count += is_number(entry->d_name) && belongs(entry->d_name, directory);
    closedir(processes);
    return count;
}

bool leftovers_none(void *directory) {
    DIR *files = opendir(directory);
    bool left = false;
    for (const struct dirent *entry; !left && (entry = readdir(files));)
        left = entry->d_name[0] != '.';
    closedir(files);
    return !left && count_processes(directory) == 0;
}

bool leftovers_play(void *directory) {
    return count_processes(directory) >= 3;
}
