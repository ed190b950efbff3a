/* openapi.json: no linter finds fault with it, and every problem there is stands in it and in the README. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/problem.h"
#include "test/harness.h"

static const char document[] = "service/openapi.json";

/* What the linter says of the file; its exit status is the result. */
static int lint(const char *path, const char **said) {
    struct proc proc;
    int status = -1;
    proc_spawn(&proc, (const char *const[]){"node", "test/openapi/lint.js", path, NULL},
               (const char *const[]){"NODE_PATH=build/openapi/node_modules", NULL},
               harness_format("%s/lint.log", harness_dir()));
    CHECK(proc_wait(&proc, 60000, &status));
    *said = proc_output(&proc);
    return status;
}

static void linted(void) {
    const char *said;
    if (lint(document, &said) != 0)
        FAIL("%s (or it is not there: make tests installs it)", said);
    /* It does look. */
    const char *path = harness_format("%s/bad.json", harness_dir());
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fputs("{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"t\",\"version\":\"1\"},\"paths\":{}}", file);
    CHECK_INT(fclose(file), 0);
    CHECK(lint(path, &said) != 0);
    CHECK_HAS(said, "info-license");
}

static void forget(void *arg) {
    json_decref(arg);
}

static json_t *load(void) {
    json_error_t error;
    json_t *api = json_load_file(document, JSON_REJECT_DUPLICATES, &error);
    if (!api)
        FAIL("%s:%d: %s", document, error.line, error.text);
    harness_defer(forget, api);
    return api;
}

static bool in_word(char c) {
    return isalpha((unsigned char)c) || c == '-';
}

/* Behind the first place where the text has it as a word of its own; NULL where it has not. */
static const char *find_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !in_word(at[-1])) && !in_word(at[length]))
            return at + length;
    return NULL;
}

/* How many of these responses have the problem; each must have it under its status: 404 by the key, 4XX with
 * the status behind it, "not-found (404". */
static int count_in(const json_t *responses, const char *name, int status) {
    const char *key;
    json_t *response;
    int count = 0;
    json_object_foreach((json_t *)(uintptr_t)responses, key, response) {
        const char *text = json_string_value(json_object_get(response, "description"));
        const char *types = text ? strstr(text, "type: ") : NULL,
                   *behind = types ? find_word(types, name) : NULL;
        if (!behind)
            continue;
        const char *place = isdigit((unsigned char)key[0]) ? key : behind + 2;
        if (strtol(place, NULL, 10) != status)
            FAIL("%s is no %d under %s: %s", name, status, key, text);
        count++;
    }
    return count;
}

static void problems_told(void) {
    const json_t *api = load(), *components = json_object_get(api, "components");
    const json_t *types = json_object_get(components, "schemas");
    for (const char *const *name = (const char *const[]){"Problem", "properties", "type", "enum", NULL};
         *name; name++)
        types = json_object_get(types, *name);
    static char readme[1 << 17];
    FILE *file = fopen("README.md", "re");
    CHECK(file != NULL);
    readme[fread(readme, 1, sizeof readme - 1, file)] = '\0';
    fclose(file);
    CHECK_INT((long long)json_array_size(types), PROBLEMS);
    for (int i = 0; i < PROBLEMS; i++) {
        const char *name = problem_name((enum problem)i), *path;
        int status = problem_status((enum problem)i);
        CHECK_STR(json_string_value(json_array_get(types, (size_t)i)), harness_format("/problems/%s", name));
        int count = count_in(json_object_get(components, "responses"), name, status);
        json_t *item, *operation;
        json_object_foreach(json_object_get(api, "paths"), path, item) {
            const char *method;
            json_object_foreach(item, method, operation) count +=
                count_in(json_object_get(operation, "responses"), name, status);
        }
        if (count == 0)
            FAIL("%s does not name %s", document, name);
        if (!strstr(readme, harness_format("`%s`", name)))
            FAIL("the README does not name %s", name);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the linter finds nothing", linted);
    harness_run("every problem is told", problems_told);
    return harness_finish();
}
