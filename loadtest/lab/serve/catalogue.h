/* The catalogue: what the lab can play, as JSON for the page. */
#ifndef LOADTEST_LAB_SERVE_CATALOGUE_H
#define LOADTEST_LAB_SERVE_CATALOGUE_H

#include <jansson.h>

/* New references. */
json_t *catalogue_scenarios(void);
json_t *catalogue_ways(void);
json_t *catalogue_locks(void);
json_t *catalogue_limits(void); /* of a sale */

#endif
