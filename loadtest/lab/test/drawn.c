#include "loadtest/lab/test/drawn.h"

#include <stdlib.h>
#include <string.h>

#include "test/harness.h"

struct judged_play drawn_plays[2];

void drawn_plays_read(void) {
    static const char *const names[] = {"broken", "fixed"};
    char error[300];
    for (int i = 0; i < 2; i++) {
        FILE *in = fopen(harness_format("loadtest/lab/test/plays/maotai.%s.jsonl", names[i]), "re");
        CHECK(in != NULL);
        if (!judged_play_read(in, &drawn_plays[i], error, sizeof error))
            FAIL("%s", error);
        fclose(in);
    }
}

void drawn_plays_free(void) {
    judged_play_free(&drawn_plays[0]);
    judged_play_free(&drawn_plays[1]);
}

const char *drawn_text(bool (*draw)(FILE *, const struct judged_play[], int), const struct judged_play of[],
                       int count) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CHECK(out != NULL && draw(out, of, count));
    fclose(out);
    char *kept = harness_format("%s", text);
    free(text);
    return kept;
}

bool drawn_report(FILE *out, const struct judged_play of[], int count) {
    return html_draw(out, of, count, NULL);
}

int drawn_count(const char *text, const char *what) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}
