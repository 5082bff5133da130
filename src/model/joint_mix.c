/* The weights of a joint model's members, chosen on held-out rows.
 *
 * What is to be good is the ranking, so that is what is measured: the mean of P@1, P@3 and P@5 of the rows,
 * for every share of the first group of members from 0 to 1 in steps of 1/20.  Neighbouring shares
 * rank nearly alike, so each is judged together with its neighbours, of which there are more where rows are
 * few; and the share is the mean of those that halves of the rows, drawn many times, would choose: the best
 * single one of 21 would be a lucky one.  With three groups and more the same is done for one group after the
 * other. */
#include "base/mem.h"
#include "base/rand.h"
#include "model/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, CUTS = 3, BEST = 5, ROUNDS = 2, DRAWS = 64 };
/* Neighbours on each side, with fewer rows and with more. */
enum { FEW_ROWS = 200, FAR = 6, NEAR = 1 };
/* A group that by itself is so much worse than the others has no weight, where rows are too few to tell a small
 * weight from none: cooking, 1,000 rows, 3 seeds, P@1 of a net 40.7, linear 56.5, of both without this 56.0. */
static const double FAR_BEHIND = 0.85;
static const size_t cuts[CUTS] = { 1, 3, 5 };

wisp_status wisp_mix_init(struct wisp_mix_seen *m, size_t n_members, size_t room, size_t rows,
                          wisp_error *err)
{
    *m = (struct wisp_mix_seen){ .n_members = n_members, .room = room, .rows_room = rows };
    m->p = wisp_alloc(rows * n_members * room, sizeof *m->p);
    m->hit = wisp_alloc(rows * room, sizeof *m->hit);
    m->n_candidates = wisp_alloc(rows, sizeof *m->n_candidates);
    if (m->p && m->hit && m->n_candidates) return WISP_OK;
    wisp_mix_clear(m);
    return wisp_fail_mem(err, rows * room * (4 * n_members + 1), "the weights of members");
}

void wisp_mix_clear(struct wisp_mix_seen *m)
{
    wisp_free(m->p);
    wisp_free(m->hit);
    wisp_free(m->n_candidates);
    *m = (struct wisp_mix_seen){ 0 };
}

/* Of a row: hits among the first places by a list kept in order; equal scores keep their order, which is
 * that of labels. */
static void add_row(double hits[CUTS], const struct wisp_mix_seen *m, size_t row, const float *mix)
{
    const float *p = m->p + row * m->n_members * m->room;
    float best[BEST];
    uint8_t hit[BEST];
    size_t n = 0;
    for (size_t c = 0; c < m->n_candidates[row]; c++) {
        float sum = 0;
        for (size_t i = 0; i < m->n_members; i++) sum += mix[i] * p[i * m->room + c];
        if (n == BEST && sum <= best[BEST - 1]) continue;
        size_t at = n < BEST ? n++ : BEST - 1;
        for (; at > 0 && best[at - 1] < sum; at--) best[at] = best[at - 1], hit[at] = hit[at - 1];
        best[at] = sum, hit[at] = m->hit[row * m->room + c];
    }
    for (int k = 0; k < CUTS; k++)
        for (size_t c = 0; c < n && c < cuts[k]; c++) hits[k] += hit[c];
}

void wisp_mix_judge(double p[3], const struct wisp_mix_seen *m, const float *mix)
{
    double hits[CUTS] = { 0 };
    for (size_t row = 0; row < m->n_rows; row++) add_row(hits, m, row, mix);
    for (int k = 0; k < CUTS; k++)
        p[k] = m->n_rows ? 100 * hits[k] / (double)(cuts[k] * m->n_rows) : 0;
}

/* From the weights of groups to those of members. */
static void spread(float *mix, const float *weight, const int *group, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int of_group = 0;
        for (size_t k = 0; k < n; k++) of_group += group[k] == group[i];
        mix[i] = weight[group[i]] / (float)of_group;
    }
}

/* The weights of groups with a share for one of them, the others in the proportions that they have. */
static void give(float *to, const float *weight, int n_groups, int g, float share)
{
    float others = 0;
    for (int k = 0; k < n_groups; k++) others += k == g ? 0 : weight[k];
    for (int k = 0; k < n_groups; k++)
        to[k] = k == g       ? share
                : others > 0 ? weight[k] / others * (1 - share)
                             : (1 - share) / (float)(n_groups - 1);
}

/* The mean of a share and its neighbours, which count for less and less; beyond the last share are more of it. */
static double smoothed(const double score[STEPS + 1], int s, int reach)
{
    double sum = 0, all = 0;
    for (int k = -reach; k <= reach; k++) {
        const int at = s + k < 0 ? 0 : s + k > STEPS ? STEPS : s + k, weight = reach + 1 - abs(k);
        sum += weight * score[at];
        all += weight;
    }
    return sum / all;
}

/* The share of one group that ranks best, by the sums of all shares. */
static int best_of(const double score[STEPS + 1], int reach)
{
    /* Of equal shares the one nearest to the better group alone; both at once where they are equal, too. */
    const double ahead = score[STEPS] - score[0];
    const int middle = ahead > 1e-9 ? STEPS : ahead < -1e-9 ? 0 : STEPS / 2;
    double most = -1;
    int best = STEPS / 2;
    for (int s = 0; s <= STEPS; s++) {
        const double mean = smoothed(score, s, reach);
        const bool nearer = abs(s - middle) < abs(best - middle);
        if (mean > most + 1e-9 || (mean > most - 1e-9 && nearer)) most = mean, best = s;
    }
    return best;
}

/* score: of all rows; half: of those of each draw. */
static void score_shares(double score[STEPS + 1], double half[DRAWS][STEPS + 1],
                         const struct wisp_mix_seen *m, const float *weight, const int *group,
                         int n_groups, int g)
{
    float mix[WISP_JOINT_MOST], to[WISP_JOINT_MOST];
    memset(score, 0, (STEPS + 1) * sizeof *score);
    memset(half, 0, DRAWS * sizeof *half);
    for (int s = 0; s <= STEPS; s++) {
        give(to, weight, n_groups, g, (float)s / STEPS);
        spread(mix, to, group, m->n_members);
        for (size_t row = 0; row < m->n_rows; row++) {
            const uint64_t drawn = wisp_mix(row + 1); /* one bit for each draw */
            double hits[CUTS] = { 0 }, sum = 0;
            add_row(hits, m, row, mix);
            for (int k = 0; k < CUTS; k++) sum += hits[k] / (double)cuts[k];
            score[s] += sum;
            for (int d = 0; d < DRAWS; d++) half[d][s] += drawn >> d & 1 ? sum : 0;
        }
    }
}

static float best_share(const struct wisp_mix_seen *m, const float *weight, const int *group,
                        int n_groups, int g)
{
    double score[STEPS + 1], half[DRAWS][STEPS + 1], sum = 0;
    score_shares(score, half, m, weight, group, n_groups, g);
    const bool few = m->n_rows < FEW_ROWS;
    if (few && score[0] < FAR_BEHIND * score[STEPS]) return 1;
    if (few && score[STEPS] < FAR_BEHIND * score[0]) return 0;
    if (few) return (float)best_of(score, FAR) / STEPS; /* halves of them would say nothing */
    for (int d = 0; d < DRAWS; d++) sum += best_of(half[d], NEAR);
    return (float)(round(sum / DRAWS) / STEPS);
}

void wisp_mix_choose(float *mix, const struct wisp_mix_seen *m, const int *group, int n_groups)
{
    float weight[WISP_JOINT_MOST], next[WISP_JOINT_MOST];
    for (int g = 0; g < n_groups; g++) weight[g] = 1 / (float)n_groups;
    for (int round = 0; round < (n_groups > 2 ? ROUNDS : 1) && m->n_rows > 0; round++)
        for (int g = 0; g < (n_groups > 2 ? n_groups : n_groups - 1); g++) {
            give(next, weight, n_groups, g, best_share(m, weight, group, n_groups, g));
            memcpy(weight, next, sizeof weight);
        }
    spread(mix, weight, group, m->n_members);
    /* exactly 1 in floats, so that the file's check holds for any number of members */
    float sum = 0;
    for (size_t i = 0; i < m->n_members; i++) sum += mix[i];
    for (size_t i = 0; i < m->n_members; i++) mix[i] /= sum;
}

static double sum_of(const struct wisp_mix_seen *m, const float *mix)
{
    double p[CUTS];
    wisp_mix_judge(p, m, mix);
    return p[0] + p[1] + p[2];
}

void wisp_mix_simplify(float *mix, const struct wisp_mix_seen *m, const int *group, int n_groups,
                       double least_gain)
{
    float alone[WISP_JOINT_MOST], best[WISP_JOINT_MOST];
    double most = -1;
    for (int g = 0; g < n_groups; g++) {
        float weight[WISP_JOINT_MOST] = { 0 };
        weight[g] = 1;
        spread(alone, weight, group, m->n_members);
        const double sum = sum_of(m, alone);
        if (sum <= most) continue;
        most = sum;
        memcpy(best, alone, sizeof best);
    }
    if (sum_of(m, mix) <= most * (1 + least_gain)) memcpy(mix, best, m->n_members * sizeof *mix);
}
