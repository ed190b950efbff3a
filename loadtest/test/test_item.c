#include "loadtest/request_plan.h"
#include "test/harness.h"

static void test_one(void) {
    struct options options = {.item = "demo"};
    char name[ITEM_NAME_SIZE];
    CHECK_INT(item_count(&options), 1);
    item_name(&options, 0, name);
    CHECK_STR(name, "demo");
    CHECK(item_is(&options, 0, "demo", 4));
}

static void test_names(void) {
    struct options options = {.item = "demo", .items = 100000};
    char name[ITEM_NAME_SIZE];
    CHECK_INT(item_count(&options), 100000);
    item_name(&options, 0, name);
    CHECK_STR(name, "demo-0");
    item_name(&options, 99999, name);
    CHECK_STR(name, "demo-99999");
    CHECK(item_is(&options, 12, "demo-12", 7));
    CHECK(!item_is(&options, 12, "demo-123", 8));
    CHECK(!item_is(&options, 12, "demo-12", 6));
    CHECK(!item_is(&options, 12, NULL, 0));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("item: one without --items", test_one);
    harness_run("item: names", test_names);
    return harness_finish();
}
