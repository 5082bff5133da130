/* Numbers that parts which do not know each other must agree on. */
#ifndef WISP_BASE_BOUNDS_H
#define WISP_BASE_BOUNDS_H

/* The clock of a row (wisp_param.count) stops here: from there on 1 - beta2^t is 1 to float's
 * precision.  Tables of such factors have WISP_CLOCK_FACTORS entries, t = 0 .. WISP_CLOCK_MAX. */
enum { WISP_CLOCK_MAX = 20000, WISP_CLOCK_FACTORS = WISP_CLOCK_MAX + 1 };

/* Adam's, on either device. */
#define WISP_ADAM_BETA1 0.9f
#define WISP_ADAM_BETA2 0.999f
#define WISP_ADAM_EPS   1e-8f

#endif
