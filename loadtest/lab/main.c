#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "loadtest/lab/render.h"

static const char help[] = "seckill-lab: shows how locks fail, from events that were recorded.\n"
                           "\n"
                           "usage: seckill-lab COMMAND ...\n"
                           "\n"
                           "  render EVENTS...  draws the events of a play: picture, report, trace, table\n"
                           "\n"
                           "seckill-lab COMMAND --help says more.\n";

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "render") == 0)
        return render_main(argv + 1);
    if (strcmp(command, "--version") == 0)
        return printf("seckill-lab %s\n", SECKILL_VERSION) < 0;
    if (strcmp(command, "--help") == 0)
        return fputs(help, stdout) < 0;
    fprintf(stderr, "seckill-lab: there is no command \"%s\"\nseckill-lab --help says more.\n", command);
    return 2;
}
