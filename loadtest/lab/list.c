#include "loadtest/lab/list.h"

#include <jansson.h>

#include "base/flags.h"
#include "loadtest/lab/scenarios/scenario.h"

static const char help[] = "seckill-lab list: the scenarios, and what each teaches.\n"
                           "\n"
                           "usage: seckill-lab list [--json]\n"
                           "\n"
                           "  --json  an array of objects with name and sentence\n"
                           "  --help, --version\n";

struct options {
    bool json;
};

static const struct flag flags[] = {
    {"--json", flag_read_switch, offsetof(struct options, json), 0, 0, ""},
};

static int list_json(void) {
    json_t *list = json_array();
    for (int i = 0; scenarios[i] != NULL; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "name", scenarios[i]->name, "sentence", scenarios[i]->text.title));
    int failed = json_dumpf(list, stdout, JSON_INDENT(2));
    json_decref(list);
    return failed != 0 || putchar('\n') == EOF;
}

int list_main(char *const *argv) {
    struct options o = {.json = false};
    char error[200];
    enum flags_status status =
        flags_read(flags, sizeof flags / sizeof flags[0], argv, &o, error, sizeof error);
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-lab", help, error);
    if (o.json)
        return list_json();
    for (int i = 0; scenarios[i] != NULL; i++)
        printf("%-20s %s\n", scenarios[i]->name, scenarios[i]->text.title);
    return 0;
}
