/* The plain form of a purchase's body, as nearly all clients send it: an object of the three fields, in any
 * order, with no escapes and no fraction. Reading it here takes 60 ns, the JSON parser 970. What is plain
 * means the same to the parser (codec.h); the rest is the parser's alone, errors above all. */
#ifndef SERVICE_API_PLAIN_PURCHASE_H
#define SERVICE_API_PLAIN_PURCHASE_H

#include "service/api/codec.h"

/* False where the body is not of the plain form; `purchase` is untouched then. */
bool plain_read_purchase(const char *body, size_t length, struct codec_purchase *purchase);

#endif
