/* Did you mean: the option or the word that a misspelt one probably stands for.
 *
 * Distance is the number of letters put in, left out, changed or swapped with their neighbour
 * (optimal string alignment), without regard to case and with '_' as '-'.  A word is proposed when
 * it is a beginning of the other of three letters or more, or when at most a third of the letters
 * differ: one in 'fly' would be anything. */
#include "config/options.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 40 }; /* longer words are no option's name */

/* Names that other programs have for the same thing. */
static const struct {
    const char *theirs;
    enum wisp_opt ours;
} synonyms[] = {
    { "learning-rate", OPT_LR },
    { "rate", OPT_LR },
    { "step-size", OPT_LR },
    { "max-iter", OPT_EPOCHS },
    { "iterations", OPT_EPOCHS },
    { "bs", OPT_BATCH },
    { "minibatch", OPT_BATCH },
    { "dim", OPT_HIDDEN },
    { "width", OPT_HIDDEN },
    { "jobs", OPT_THREADS },
    { "n-jobs", OPT_THREADS },
    { "workers", OPT_THREADS },
    { "cores", OPT_THREADS },
    { "random-state", OPT_SEED },
    { "validation", OPT_VALID },
    { "dev", OPT_VALID },
    { "top-k", OPT_K },
    { "gpu", OPT_DEVICE },
    { "objective", OPT_LOSS },
    { "word-ngrams", OPT_PAIRS },
    { "wordngrams", OPT_PAIRS },
    { "bigrams", OPT_PAIRS },
    { "mincount", OPT_MIN_COUNT },
    { "silent", OPT_QUIET },
    { "continue", OPT_RESUME },
    { "pretrained", OPT_INIT },
    { "warm-start", OPT_INIT },
    { "early-stopping", OPT_PATIENCE },
    { "label-names", OPT_LABELS },
    { "vocabulary", OPT_VOCAB },
    { "feature-names", OPT_VOCAB },
    { "settings", OPT_CONFIG },
};
enum { N_SYNONYMS = sizeof synonyms / sizeof *synonyms };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Lower case, '-' for '_'; false: too long to be a name, or nothing. */
static bool fold(char to[LONGEST + 1], const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > LONGEST) return false;
    for (size_t i = 0; i <= n; i++) to[i] = s[i] == '_' ? '-' : (char)tolower((unsigned char)s[i]);
    return true;
}

static size_t distance(const char *a, const char *b)
{
    size_t d[LONGEST + 1][LONGEST + 1], n = strlen(a), m = strlen(b); /* (n + 1, m + 1) */
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            size_t change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(change, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

/* How far two words are apart, beginnings before all else; SIZE_MAX: not the same at all. */
static size_t apart(const char *word, const char *name)
{
    char a[LONGEST + 1], b[LONGEST + 1];
    if (!fold(a, word) || !fold(b, name)) return SIZE_MAX;
    size_t n = strlen(a), m = strlen(b), short_one = least(n, m);
    size_t far = distance(a, b);
    if (short_one >= 3 && strncmp(a, b, short_one) == 0) return least(far, 1);
    return 3 * far <= (n > m ? n : m) ? far : SIZE_MAX;
}

int wisp_nearest(const char *word, const char *const *words, size_t n)
{
    int best = -1;
    size_t nearest = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t far = apart(word, words[i]);
        if (far < nearest) {
            nearest = far;
            best = (int)i;
        }
    }
    return best;
}

/* The row of a key as the command has it; NULL: the command has none. */
static const wisp_option *row_of(const char *command, const char *key)
{
    const wisp_option *o;
    for (size_t i = 0; (o = command ? wisp_option_of(command, i) : wisp_option_row(i)); i++)
        if (strcmp(o->key, key) == 0) return o;
    return NULL;
}

const wisp_option *wisp_option_like(const char *key, const char *command)
{
    const char *keys[N_OPTS + N_SYNONYMS], *theirs[N_OPTS + N_SYNONYMS];
    size_t n = 0;
    const wisp_option *o;
    for (size_t i = 0; (o = command ? wisp_option_of(command, i) : wisp_option_row(i)); i++, n++)
        keys[n] = theirs[n] = o->key;
    for (size_t i = 0; i < N_SYNONYMS; i++) {
        const char *ours = wisp_option_row(synonyms[i].ours)->key;
        if (!row_of(command, ours)) continue;
        keys[n] = ours;
        theirs[n++] = synonyms[i].theirs;
    }
    int found = wisp_nearest(key, theirs, n);
    return found < 0 ? NULL : row_of(command, keys[found]);
}
