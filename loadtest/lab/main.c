#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "loadtest/lab/commands.h"
#include "loadtest/lab/stage/lab_client_wire.h"

static const char help[] =
    "seckill-lab: shows how a sale goes wrong under a wrong lock, with real servers, and what fixes it.\n"
    "\n"
    "usage: seckill-lab COMMAND ...\n"
    "\n"
    "  list              the scenarios, and what each teaches\n"
    "  run NAME... | all plays scenarios, broken and fixed, and judges, draws and reports\n"
    "  render EVENTS...  draws the events of a play: picture, report, trace, table\n"
    "  serve             a page to break a lock, to watch the sale oversell, and to run the fix\n"
    "\n"
    "seckill-lab COMMAND --help says more.\n";

/* `client` is for the lab itself, which starts its clients by this command. */
static const struct {
    const char *name;
    int (*run)(char *const *argv);
} commands[] = {{"list", list_command},
                {"run", run_command},
                {"render", render_command},
                {"serve", serve_command},
                {"client", client_process_main}};

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].run(argv + 1);
    }
    if (strcmp(command, "--version") == 0)
        return printf("seckill-lab %s\n", SECKILL_VERSION) < 0;
    if (strcmp(command, "--help") == 0)
        return fputs(help, stdout) < 0;
    fprintf(stderr, "seckill-lab: there is no command \"%s\"\nseckill-lab --help says more.\n", command);
    return 2;
}
