/* Names of phases, as reports have them. */
#include "layer/phase.h"

const char *wisp_phase_name(int phase)
{
    static const char *const names[WISP_PHASES] = {
        [WISP_PHASE_OTHER] = "other",   [WISP_PHASE_LAYOUT] = "layout",
        [WISP_PHASE_INPUT] = "input",   [WISP_PHASE_QUERY] = "query",
        [WISP_PHASE_GATHER] = "gather", [WISP_PHASE_PRODUCTS] = "products",
        [WISP_PHASE_LOSS] = "loss",     [WISP_PHASE_UPDATE] = "update",
        [WISP_PHASE_BACK] = "back",     [WISP_PHASE_UPKEEP] = "upkeep",
        [WISP_PHASE_WAIT] = "wait",
    };
    return names[phase];
}
